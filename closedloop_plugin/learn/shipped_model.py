"""The driving model that comes with the package. README.md in its folder is the model card."""

from __future__ import annotations

from pathlib import Path

from lmms_eval_ad2.errors import Ad2Error

FOLDER = Path(__file__).parent / "shipped" / "tiny-driver"


def shipped_model() -> Path:
    """The model's folder. Raises Ad2Error if this installation has none."""
    if not (FOLDER / "model.safetensors").is_file():
        raise Ad2Error("this installation comes without the driving model; train one with scripts/learn.sh")
    return FOLDER
