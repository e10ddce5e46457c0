"""Python names that users' code and files use: modules, names imported from them, and the form of each name.

Module paths are recorded on purpose: a move that breaks users shows here, and belongs in CHANGELOG.md. The names come
from the documents, configs and tasks (`mentioned`), from the installed entry points, and from IN_USE below.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from importlib import metadata
from pathlib import Path
from typing import Any

from product_files import product_files
from workspace import Workspace

COST = "seconds"
PACKAGES = r"(?:lmms_eval_ad2|closedloop_plugin)"
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/", "configs/", "tasks/")
FROM = re.compile(rf"from ({PACKAGES}[\w.]*) import ([\w*]+(?:, *\w+)*)")
RUN = re.compile(rf"-m ({PACKAGES}[\w.]*)")
DOTTED = re.compile(rf"\b({PACKAGES}(?:\.\w+)+(?::\w+)?)")


def record(work: Workspace) -> dict[str, Any]:
    texts = {name: (work.repo / name).read_bytes().decode("utf-8", "replace") for name in product_files()}
    documents = "\n".join(text for name, text in texts.items() if name.startswith(DOCUMENTS))
    imported = {f"{m[1]}:{name.strip()}" for m in FROM.finditer(documents) for name in m[2].split(",")}
    names = imported | set(IN_USE) | {point.value for point in _entry_points()}
    return {
        "entry points": {f"{point.group}: {point.name}": point.value for point in _entry_points()},
        "run with python -m": sorted(set(RUN.findall(documents))),
        "mentioned": dict.fromkeys(DOTTED.findall(documents), True),
        "names": {name: _form(name) for name in sorted(names)},
        "lmms-eval models": sorted(manifest.model_id for point in _models() for manifest in point.load()()),
    }


def _entry_points() -> list[metadata.EntryPoint]:
    return sorted(metadata.distribution("lmms-eval-ad2").entry_points)


def _models() -> list[metadata.EntryPoint]:
    return [point for point in _entry_points() if point.group == "lmms_eval.models"]


def _form(name: str) -> Any:
    """Parameters, fields and public members of MODULE:NAME."""
    module, _, attribute = name.partition(":")
    if attribute in ("", "*"):
        return _scenic(module)
    value = getattr(importlib.import_module(module), attribute)
    if inspect.isclass(value):
        fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        members = {key: _parameters(member) for key, member in inspect.getmembers(value) if not key.startswith("_")}
        members = {key: member for key, member in members.items() if key not in fields}
        return {"kind": "class", "fields": fields, "members": members, "parameters": _parameters(value)}
    return {"kind": "function" if callable(value) else "value", "parameters": _parameters(value)}


def _parameters(value: Any) -> list[str] | None:
    if not callable(value):
        return None
    try:
        return [_parameter(p) for p in inspect.signature(value).parameters.values()]
    except (TypeError, ValueError):
        return None


def _parameter(parameter: inspect.Parameter) -> str:
    return f"{parameter.name}{'' if parameter.default is parameter.empty else '='}"


def _scenic(module: str) -> dict[str, Any]:
    """A Scenic library is a file of the package, not a Python module; for its names see section scenarios_names."""
    package, _, name = module.rpartition(".")
    folders = importlib.import_module(package).__path__
    return {"kind": "scenic", "there": any((Path(folder) / f"{name}.scenic").is_file() for folder in folders)}


# Adapter: names that users' code uses, besides those in the documents.
IN_USE = (
    "closedloop_plugin.worlds.base:World",
    "closedloop_plugin.testing.fake_world:FakeWorld",
)
