"""How a small trained model drives: the value of --agent, and the settings of its training."""

from __future__ import annotations

import shlex
from pathlib import Path

SIZE, DECISION_HZ = "160x90", "2"  # of its pictures and decisions
MOST_TOKENS = 24  # of an answer about driving


def agent_of(folder: Path, max_new_tokens: int | None = None, device: str = "cpu") -> str:
    """A trained model for --agent. lmms-eval's wrapper needs the device, which is one of PyTorch, twice."""
    limit = "" if max_new_tokens is None else f",max_new_tokens={max_new_tokens}"
    return f"lmms:llava_hf,pretrained={folder},device={device},device_map={device}{limit}"


def drive_command(folder: Path, device: str = "cpu") -> str:
    """The command that drives with a trained model, with pictures and decisions as in collections by default."""
    settings = f"--size {SIZE} --decision-hz {DECISION_HZ} --out runs/{folder.name}"
    return f"ad2 drive run --suite embedded220 --agent {shlex.quote(agent_of(folder, device=device))} {settings}"
