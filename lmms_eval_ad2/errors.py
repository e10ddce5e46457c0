"""The error family. What is the user's to mend is an Ad2Error: printed as one message, no traceback."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

# module -> what a user types to get it, where that is not `pip install <module>`.
INSTALL: dict[str, str] = {
    "swift": "pip install 'lmms-eval-ad2[swift]'",
    "sentence_transformers": "pip install 'lmms-eval-ad2[embedding]'",
    "gradio": "pip install 'lmms-eval-ad2[annotate]'",
    "lmms_eval": "pip install lmms-eval==0.7.3",
    "scenic": "pip install 'lmms-eval-ad2[drive]'",
    "greenlet": "pip install 'lmms-eval-ad2[drive]'",
    "shapely": "pip install 'lmms-eval-ad2[drive]'",
    "cv2": "pip install 'lmms-eval-ad2[drive]'",
    "av": "pip install 'lmms-eval-ad2[drive]'",
    "verifai": "pip install 'lmms-eval-ad2[threats]'",
    "sklearn": "pip install 'lmms-eval-ad2[threats]'",
    "carla": "pip install 'lmms-eval-ad2[carla]'",
    "rosbags": "pip install 'lmms-eval-ad2[robots]'",
    "defusedxml": "pip install 'lmms-eval-ad2[robots]'",
    "pyparsing": "pip install 'lmms-eval-ad2[robots]'",
}


class Ad2Error(Exception):
    """Something the user can mend; the message says what and how."""


class DataError(Ad2Error):
    """A malformed file or row: where it is, what was expected, what was found, what to do."""

    def __init__(
        self, file: object, row: int | str | None, field: str, expected: str, found: Any = None, hint: str = ""
    ) -> None:
        self.file, self.row, self.field, self.expected, self.found, self.hint = file, row, field, expected, found, hint
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.file}" + (f", row {self.row}" if self.row is not None else "")
        text = f"{where}: field '{self.field}': expected {self.expected}"
        if self.found is not None:
            shown = repr(self.found)
            text += f", found {shown if len(shown) <= 120 else shown[:117] + '...'}"
        return text + (f". {self.hint}" if self.hint else "")


class MissingExtra(Ad2Error):
    """An optional library is not installed."""


def require(module: str, why: str = "") -> ModuleType:
    """Import `module`, or raise MissingExtra with the exact command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        root = module.split(".")[0]
        command = INSTALL.get(root, f"pip install {root}")
        # An installed library whose own import fails is another fault: show it.
        if getattr(exc, "name", None) not in (None, root, module):
            raise Ad2Error(f"{root} is installed but does not import: {exc}") from exc
        need = f" ({why})" if why else ""
        raise MissingExtra(f"{root} is needed{need} and not installed: {command}") from exc
