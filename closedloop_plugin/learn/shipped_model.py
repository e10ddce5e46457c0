"""The driving model that comes with the package: its folder, and how it is used."""

from __future__ import annotations

from pathlib import Path

from lmms_eval_ad2.errors import Ad2Error

FOLDER = Path(__file__).parent / "shipped"
SIZE, DECISION_HZ = "160x90", "2"  # as in its training
MOST_TOKENS = 24  # of an answer about driving


def shipped_model() -> Path:
    """The model's folder. Raises Ad2Error if this installation has none."""
    if not (FOLDER / "model.safetensors").is_file():
        raise Ad2Error("this installation comes without the driving model; train one with scripts/learn.sh")
    return FOLDER


def agent_of(folder: Path, max_new_tokens: int | None = None) -> str:
    """A trained model for --agent. lmms-eval's wrapper needs the device twice."""
    limit = "" if max_new_tokens is None else f",max_new_tokens={max_new_tokens}"
    return f"lmms:llava_hf,pretrained={folder},device=cpu,device_map=cpu{limit}"
