"""`ad2 learn shipped`: where the driving model of this package lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

EXAMPLES = """examples:
  ad2 drive run --suite demo --agent "$(ad2 learn shipped --agent)" --size 160x90 --config decision_hz=2 \\
      --out runs/drive
  ad2 eval --tasks 'ad2x_world_*' --model llava_hf \\
      --model-args "pretrained=$(ad2 learn shipped),device_map=cpu" --device cpu --out runs/questions

It was trained in the embedded world and shows that a model can learn to see and drive there. It says nothing about real
roads. README.md in its folder has its figures, limits and training data."""


@dataclass(frozen=True, kw_only=True)
class LearnShippedOptions:
    """`ad2 learn shipped`."""

    agent: bool = option("print it as the value of --agent", default=False)


def register(parts: Any) -> None:
    add_command(
        parts, "shipped", run, LearnShippedOptions, help="print the folder of the model that comes with this package",
        epilog=EXAMPLES,
    )  # fmt: skip


def run(options: LearnShippedOptions) -> int:
    from closedloop_plugin.learn.trained_agent import MOST_TOKENS, agent_of, shipped_model

    folder = shipped_model()
    show(agent_of(folder, MOST_TOKENS) if options.agent else str(folder))
    return 0
