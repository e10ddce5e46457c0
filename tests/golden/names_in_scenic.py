"""Names in a Scenic program after `from MODULE import *`, written to NAMES_OUT by the program of functions.py.

Imported by that program, so it runs where users' programs run.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OF_THE_WORLD = ("EmbeddedSimulator", "size_of")  # used by its model, not by programs


def write(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    names = {n: v for n, v in after.items() if n[0] != "_" and n != "names_in_scenic" and is_ours(n, v, before)}
    found = {"names": {n: describe(v) for n, v in names.items()}}
    for n in ("stage", "road", "route"):
        found["names"][n + " has"] = members(after[n])
    types = after.get("CATALOGUE", {})
    found["types"] = {n: {f.name: plain(getattr(t, f.name)) for f in dataclasses.fields(t)} for n, t in types.items()}
    Path(os.environ["NAMES_OUT"]).write_text(json.dumps(found), "utf-8")


def is_ours(name: str, value: Any, before: Mapping[str, Any]) -> bool:
    """Whether a name is ours: names of Scenic's model are not, those that the world's model adds are."""
    if name in OF_THE_WORLD:
        return False
    return name not in before or value is not before[name] or str(module_of(value)).startswith("closedloop_plugin")


def module_of(value: Any) -> str | None:
    return getattr(value, "__module__", None)


def describe(value: Any) -> Any:
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        kinds = [base.__name__ for base in value.__mro__[1:]]
        kind = next((k for k in ("Behavior", "Monitor", "Object") if k in kinds), "class")
        if kind == "Object":
            return {"is": kind, "properties": sorted(vars(value).get("_scenic_properties", ()))}
        found = {"is": kind, "takes": parameters(value)}
        return found if kind != "class" else {**found, "has": members(value)}
    if callable(value):
        return {"is": "function", "takes": parameters(value)}
    return {"is": "value", "value": value} if isinstance(value, (str, int, float)) else {"is": "value"}


def parameters(value: Any) -> list[str] | None:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [p.name if p.default is p.empty else f"{p.name}={plain(p.default)}" for p in signature.parameters.values()]


def members(value: Any) -> dict[str, Any]:
    return {n: parameters(m) if callable(m := getattr(value, n)) else "value" for n in dir(value) if n[0] != "_"}


def plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return Path(value).name
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (str, int, float, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if hasattr(value, "items") else type(value).__name__
