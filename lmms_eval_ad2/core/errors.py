"""Exception classes. An error that the user can fix is an Ad2Error: printed as one message, without a traceback."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import json
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from lmms_eval_ad2.core.printed import one_line

# Where pip finds this package: "." is a checkout. After a release: the distribution's name, here and in the docs.
PACKAGE = "."
DISTRIBUTION = "lmms-eval-ad2"


def install_command(extra: str) -> str:
    """The command that installs this package with one of its extras.

    An editable installation stays one: plain `pip install` would replace it by a copy that ignores later changes.
    """
    folder = _editable_folder()
    return f"pip install -e '{folder}[{extra}]'" if folder else f"pip install '{PACKAGE}[{extra}]'"


def _editable_folder() -> Path | None:
    """The folder of the running code if pip has installed it as editable (PEP 610)."""
    try:
        found = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        editable = found["dir_info"]["editable"]
        folder = Path(url2pathname(urlsplit(found["url"]).path))
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None
    return folder if editable is True and folder.resolve() in Path(__file__).resolve().parents else None


# module -> the extra that installs it.
EXTRAS = {
    "swift": "swift",
    "sentence_transformers": "embedding",
    "gradio": "annotate",
    "scenic": "drive",
    "greenlet": "drive",
    "shapely": "drive",
    "cv2": "drive",
    "av": "drive",
    "optuna": "threats",
    "carla": "carla",
    "ray": "ray",
    "defusedxml": "robots",
    "pyparsing": "robots",
    "decord": "models",
    "qwen_vl_utils": "models",
}
# module -> the command that installs it, if that is neither an extra nor `pip install <module>`.
INSTALL = {
    "lmms_eval": "pip install lmms-eval==0.7.3",
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
    """The command that installs a module that is absent, or where to find it."""
    root = module.split(".")[0]
    if root in FROM_REPOSITORY:
        return f"{root} is part of the model's own repository: install that"
    if root in EXTRAS:
        return install_command(EXTRAS[root])
    return INSTALL.get(root, f"pip install {root}")


def import_remedy(message: str) -> str:
    """What to do about an import that failed with this message: install what is absent, or another version of what is
    there; empty if the message names no module."""
    found = re.search(r"No module named '([\w.]+)'|cannot import name '\w+' from '([\w.]+)'", message)
    if not found:
        return ""
    module = found[1] or found[2]
    root = module.split(".")[0]
    try:
        absent = importlib.util.find_spec(root) is None
    except (ImportError, ValueError):
        absent = False
    if absent:
        return install_hint(root)
    name = next(iter(metadata.packages_distributions().get(root, ())), root)
    try:
        installed = f"{name} {metadata.version(name)} is installed"
    except metadata.PackageNotFoundError:
        installed = f"{root} is installed"
    missing = f"without {found[1]}" if found[1] else "but lacks that name"
    wanted = _own_requirement(name)
    return f"{installed} {missing}: " + (f"pip install '{wanted}'" if wanted else "another version of it is needed")


def _own_requirement(name: str) -> str:
    """This package's requirement of a distribution, with its bounds; empty if there is none without an extra."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ""
    plain = re.compile(re.escape(name) + r"[<>=!~ (][^;]*", re.IGNORECASE)
    return next((line.replace(" ", "") for line in lines if plain.fullmatch(line)), "")


def install_all(modules: Iterable[str]) -> str:
    """The command that installs all of these modules, and where to find those that pip does not install."""
    hints = dict.fromkeys(install_hint(module) for module in modules)
    packages = [hint.removeprefix("pip install ") for hint in hints if hint.startswith("pip install ")]
    others = [hint for hint in hints if not hint.startswith("pip install ")]
    return "; ".join([*([f"pip install {' '.join(packages)}"] if packages else []), *others])


def near_hint(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, and all."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, 1)
    return (f"; did you mean '{close[0]}'?" if close else "") + f" (known: {', '.join(names)})"


def yaml_fault(error: Exception) -> str:
    """The message of a YAMLError in one line: place and problem, without the quoted lines of the file."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())[:300]
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


class Ad2Error(Exception):
    """An error that the user can fix; the message names the problem and the remedy.

    exit_code: of the command that it ends.
    """

    exit_code = 2


class DataError(Ad2Error):
    """A malformed file or row; the message has its location, the expected and the found value, and a hint.

    field: "" if the file or folder as a whole is at fault.
    """

    def __init__(
        self, file: object, row: int | str | None, field: str, expected: str, found: Any = None, hint: str = ""
    ) -> None:
        self.file, self.row, self.field, self.expected, self.found, self.hint = file, row, field, expected, found, hint
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.file}" + (f", row {self.row}" if self.row is not None else "")
        text = where + (f": field '{self.field}'" if self.field else "") + f": expected {self.expected}"
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
