"""Exception classes. An error that the user can fix is an Ad2Error: printed as one message, without a traceback."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from lmms_eval_ad2.printed import one_line

# Where pip finds this package: "." is a checkout. After a release: the distribution's name, here and in the docs.
PACKAGE = "."


def install_command(extra: str) -> str:
    """The command that installs this package with one of its extras."""
    return f"pip install '{PACKAGE}[{extra}]'"


# module -> the command that installs it, if that is not `pip install <module>`.
INSTALL = {
    "lmms_eval": "pip install lmms-eval==0.7.3",
    "swift": install_command("swift"),
    "sentence_transformers": install_command("embedding"),
    "gradio": install_command("annotate"),
    "scenic": install_command("drive"),
    "greenlet": install_command("drive"),
    "shapely": install_command("drive"),
    "cv2": install_command("drive"),
    "av": install_command("drive"),
    "verifai": install_command("threats"),
    "sklearn": install_command("threats"),
    "carla": install_command("carla"),
    "rosbags": install_command("robots"),
    "defusedxml": install_command("robots"),
    "pyparsing": install_command("robots"),
}


class Ad2Error(Exception):
    """An error that the user can fix; the message names the problem and the remedy."""


class DataError(Ad2Error):
    """A malformed file or row; the message has its location, the expected and the found value, and a hint."""

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
        # On one line: a field's name of several lines could look like further messages.
        return one_line(text + (f". {self.hint}" if self.hint else ""))


class MissingExtra(Ad2Error):
    """An optional library is missing."""


def require(module: str, why: str = "") -> ModuleType:
    """Import `module`, or raise MissingExtra with the exact command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        root = module.split(".")[0]
        command = INSTALL.get(root, f"pip install {root}")
        # The library is installed, but one of its own imports fails: report that import.
        if getattr(exc, "name", None) not in (None, root, module):
            raise Ad2Error(f"{root} is installed but cannot be imported: {exc}") from exc
        need = f" ({why})" if why else ""
        raise MissingExtra(f"{root} is needed{need} and not installed: {command}") from exc
