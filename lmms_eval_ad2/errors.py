"""Exception classes. An error that the user can fix is an Ad2Error: printed as one message, without a traceback."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
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
    "scenariogeneration": install_command("threats"),
    "carla": install_command("carla"),
    "ray": install_command("ray"),
    "rosbags": install_command("robots"),
    "defusedxml": install_command("robots"),
    "pyparsing": install_command("robots"),
    "decord": install_command("models"),
    "qwen_vl_utils": install_command("models"),
    # Modules whose distribution has another name.
    "qwen_omni_utils": "pip install qwen-omni-utils",
    "google": "pip install google-genai",
    "reka": "pip install reka-api",
    "whisper": "pip install openai-whisper",
    "timeout_decorator": "pip install timeout-decorator",
}
# Modules of models' own repositories: distributions of these names are something else.
FROM_REPOSITORY = ("apps", "cambrian", "core", "llava", "lmms_engine", "ola", "oryx", "vita")


def install_hint(module: str) -> str:
    """The command that installs a module, or where to find it."""
    root = module.split(".")[0]
    if root in FROM_REPOSITORY:
        return f"{root} is part of the model's own repository: install that"
    return INSTALL.get(root, f"pip install {root}")


def install_all(modules: Iterable[str]) -> str:
    """The command that installs all of these modules, and where to find those that pip does not install."""
    hints = dict.fromkeys(install_hint(module) for module in modules)
    packages = [hint.removeprefix("pip install ") for hint in hints if hint.startswith("pip install ")]
    others = [hint for hint in hints if not hint.startswith("pip install ")]
    return "; ".join([*([f"pip install {' '.join(packages)}"] if packages else []), *others])


def yaml_fault(error: Exception) -> str:
    """The message of a YAMLError in one line: place and problem, without the quoted lines of the file."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())[:300]
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


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
        # The library is installed, but one of its own imports fails: report that import.
        if getattr(exc, "name", None) not in (None, root, module):
            raise Ad2Error(f"{root} is installed but cannot be imported: {exc}") from exc
        need = f" ({why})" if why else ""
        raise MissingExtra(f"{root} is needed{need} and not installed: {install_hint(root)}") from exc
