"""How a small trained model drives: the value of --agent, and the settings of its training; and the driving model that
comes with the package, whose model card is README.md in its folder."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error

SIZE, DECISION_HZ = "160x90", "2"  # of its pictures and decisions
MOST_TOKENS = 24  # of an answer about driving


def agent_of(folder: Path, max_new_tokens: int | None = None, device: str = "cpu") -> str:
    """A trained model for --agent. lmms-eval's wrapper needs the device, which is one of PyTorch, twice."""
    limit = "" if max_new_tokens is None else f",max_new_tokens={max_new_tokens}"
    return f"lmms:llava_hf,pretrained={folder},device={device},device_map={device}{limit}"


def drive_command(folder: Path, device: str = "cpu") -> str:
    """The command that drives with a trained model, with pictures and decisions as in collections by default."""
    settings = f"--size {SIZE} --config decision_hz={DECISION_HZ} --out runs/{folder.name}"
    return f"ad2 drive run --suite embedded220 --agent {shlex.quote(agent_of(folder, device=device))} {settings}"


FOLDER = Path(__file__).parent / "shipped" / "tiny-driver"
TRANSFORMERS = 5  # least major version: earlier ones have other names for the encoder's weights, and leave them random


def shipped_model() -> Path:
    """The model's folder. Raises Ad2Error if this installation has none, or cannot load it."""
    if not (FOLDER / "model.safetensors").is_file():
        raise Ad2Error("this installation comes without the driving model; train one with scripts/learn.sh")
    found = metadata.version("transformers")
    if int(found.partition(".")[0]) < TRANSFORMERS:
        raise Ad2Error(
            f"the driving model needs transformers {TRANSFORMERS}, found {found}: pip install 'transformers>=5,<6'"
        )
    return FOLDER
