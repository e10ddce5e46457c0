"""The closed-loop part of `ad2 demo`: three short routes, driven by the expert, by the model that comes with this
package, and by a baseline that ignores its camera. The model also answers the sample."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

ROUTES = "101,102,104"  # a parked obstacle, a pedestrian, a turn at lights
FAST = ("--size", "800x450", "--decision-hz", "10")  # of drivers that need no time to answer
# The task of the sample whose forms the model knows in part. It learned the questions of ad2x_world_*: of the others it
# repeats itself up to the limit of tokens, and no answer can be read.
SAMPLE, SHORT = "ad2demo_perception_base", "max_new_tokens=32"
NEEDED = ("scenic", "greenlet", "shapely", "cv2")
MODEL_NEEDED = ("decord",)  # by lmms-eval's class of the model


def drive(out: Path, evaluate: Callable[..., None]) -> list[str]:
    """Drive, and draw pictures; returns the lines that name them (none without the drive extra).

    evaluate: of `ad2 demo`, which runs a model of lmms-eval on tasks.
    """
    from closedloop_plugin.learn.shipped_model import shipped_model
    from closedloop_plugin.learn.trained_agent import DECISION_HZ, MOST_TOKENS, SIZE, agent_of

    if _lacks("closed loop", NEEDED, "drive"):
        return []
    _drive(out, "expert", "expert", *FAST)
    closing = [
        f"pictures of the drives (top views, film strips): {(out / 'drive-expert' / 'pictures').resolve()} and the "
        "neighbouring folders",
    ]
    if not _lacks("model", MODEL_NEEDED, "models"):
        model = shipped_model()
        _drive(out, model.name, agent_of(model, MOST_TOKENS), "--size", SIZE, "--decision-hz", DECISION_HZ)
        arguments = ("--model_args", f"pretrained={model},device_map=cpu", "--device", "cpu", "--gen_kwargs", SHORT)
        evaluate(out, "llava_hf", SAMPLE, *arguments, name=model.name, batch=1)
        closing.append(f"{model.name} learned in this simulator, and says nothing about real roads: {model}/README.md")
    _drive(out, "straight", "straight", *FAST)
    return closing


def _lacks(part: str, needed: Sequence[str], extra: str) -> bool:
    """Whether a module is missing; then the part is left out, and what to install is printed."""
    from lmms_eval_ad2.errors import install_command

    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"\n{part} skipped ({', '.join(missing)} missing): {install_command(extra)}")
    return bool(missing)


def _drive(out: Path, name: str, agent: str, *words: str) -> None:
    from lmms_eval_ad2.errors import Ad2Error

    folder, log = out / f"drive-{name}", out / f"drive-{name}.log"
    print(f"driving routes {ROUTES} of the demo suite with {name} (log: {log}) ...", flush=True)
    chosen = ("--suite", "demo", "--routes-ids", ROUTES, "--agent", agent, "--workers", "2", "--frames")
    # The report shows the scores of all drives together.
    with log.open("w", encoding="utf-8") as handle, contextlib.redirect_stdout(handle):
        code = _ad2("run", *chosen, *words, "--out", str(folder))
        if not code:
            for route in ROUTES.split(","):
                _ad2("show", f"{folder}:{route}", "--out", str(folder / "pictures" / f"{route}.png"))
    if code:
        raise Ad2Error(f"the demo drive with {name} ended with code {code}; see the messages above and {log}")


def _ad2(*words: str) -> int:
    from closedloop_plugin.cli.drive import register

    parser = argparse.ArgumentParser(prog="ad2")
    register(parser.add_subparsers())
    args = parser.parse_args(["drive", *words])
    return int(args.func(args) or 0)
