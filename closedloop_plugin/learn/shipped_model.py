"""The driving model that comes with the package. README.md in its folder is the model card."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error

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
