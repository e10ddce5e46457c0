"""The prompt texts of the pipeline: the packaged ones, overlaid by a user's YAML file, every key and slot checked."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS
from lmms_eval_ad2.prompts.flat import FlatTexts

PACKAGED = "prompts.yaml"

# key -> (placeholders it must have, placeholders it may have)
SLOTS: dict[str, tuple[str, str]] = {
    "system": ("", ""),
    "view": ("view", "i n"),
    "view_unnamed": ("", "i n"),
    "style": ("", ""),
    "propose": ("material n error", "category style"),
    **{f"error_{category}": ("", "") for category in ERRORS},
    "naive": ("material n", "style"),
    "review": ("material", "n category error"),
    "refine": ("material", "n category error style"),
    "select": ("material n", ""),
    "evaluate": ("material", "n"),
    "mend": ("material", "n style"),
    "again": ("fault", ""),
}


class Texts(FlatTexts):
    """The pipeline's texts by the keys of SLOTS."""

    @classmethod
    def load(cls, path: Path | None = None) -> Texts:
        """The packaged texts, overlaid by those of the YAML file `path`; DataError as FlatTexts.overlaid tells."""
        return cls.overlaid(resources.files(__package__).joinpath(PACKAGED), path, SLOTS)
