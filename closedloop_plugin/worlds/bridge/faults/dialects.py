"""Programs of other versions of Scenic and of other simulators, and programs without their map: named as such."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from closedloop_plugin.worlds.bridge.faults.names import near_of
from closedloop_plugin.worlds.bridge.faults.syntax import SCENIC_2
from lmms_eval_ad2.core.errors import Ad2Error

_MODEL = re.compile(r"^model[ \t]+([\w.]+)", re.M)
_MAP = re.compile(r"""^param\s+map\s*=\s*(?:localPath\()?\s*(["'])(?P<file>[^"'\n]+)\1\s*\)?[ \t]*(?:#.*)?$""", re.M)
_NO_ROADS = ("airsim", "gta", "webots", "xplane")  # simulators of Scenic whose worlds have no OpenDRIVE roads
MODELS = ("scenic.domains.driving.model", "scenic.simulators.carla.model")
_CLASSES = {
    "Car", "NPCCar", "Pedestrian", "Bicycle", "Motorcycle", "Truck", "Van", "Bus", "Prop", "Trash", "Cone", "Debris",
    "Barrier", "Object", "Point", "OrientedPoint", "Wheeled", "Walker", "Thing",
}  # fmt: skip
_AFTER = {
    "at", "on", "in", "ahead", "behind", "left", "right", "beyond", "following", "offset", "with", "facing", "visible",
}  # fmt: skip
WAYS = 'param route = "SUITE:ID" in the program, param map = localPath("FILE.xodr") in it, or --map FILE.xodr'


def check_dialect(program: Path, params: Mapping[str, Any]) -> None:
    """Raise Ad2Error for a program that can never be compiled here, before it is. `params`: given from outside."""
    try:
        text = program.read_text("utf-8-sig")
    except UnicodeDecodeError:
        return  # reported by the parser's reader
    if not text.strip():
        raise Ad2Error(f"{program}: the file is empty; a program to start from: ad2 scenic new NAME")
    old = re.search(r"^from\s+scenic\.simulators\.\w+\.(?:map|interface|car_models)\s+import\b", text, re.M)
    if old is not None:
        first = text.count("\n", 0, old.start()) + 1
        raise Ad2Error(
            f"{program}, line {first}: a program of Scenic 1; programs here are Scenic 3 and begin with "
            'param map = localPath("FILE.xodr"), then model scenic.domains.driving.model'
        )
    if of_scenic_2 := _scenic_2(text):
        raise Ad2Error(f"{program}, line {of_scenic_2}: a program of Scenic 2, such as those of ChatScene: {SCENIC_2}")
    _check_model(program, text)
    named = _MAP.search(text)
    if named is not None and "map" not in params:
        line = text.count("\n", 0, named.start()) + 1
        file = program.parent / named["file"] if "localPath" in named[0] else Path(named["file"])
        if not file.is_file():
            raise Ad2Error(
                f"{program}, line {line}: param map: {file}: no such file; --map FILE.xodr gives another one"
            )
        if file.suffix != ".xodr":
            raise Ad2Error(f"{program}, line {line}: param map: {file}: expected an OpenDRIVE file (.xodr)")


def _scenic_2(text: str) -> int | None:
    """The line of the first object that is created without `new`; None without one, or if the text has no tokens."""
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type != tokenize.COMMENT]
    except (tokenize.TokenError, IndentationError):
        return None
    for k, token in enumerate(tokens[:-1]):
        if token.string not in _CLASSES or token.type != tokenize.NAME:
            continue
        before, after = tokens[k - 1] if k else None, tokens[k + 1]
        assigned = before is not None and before.string == "="
        begins = before is None or before.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
        specified = after.string in _AFTER
        ends = after.type in (tokenize.NEWLINE, tokenize.ENDMARKER)
        bare = assigned and k > 1 and tokens[k - 2].string == "ego" and ends
        if (assigned or begins) and (specified or bare):
            return token.start[0]
    return None


def _check_model(program: Path, text: str) -> None:
    """The world's own model takes the place of the named one, so that a misspelt name would have no effect."""
    import scenic

    for found in _MODEL.finditer(text):
        name, line = found[1], text.count("\n", 0, found.start()) + 1
        parts = name.split(".")
        if parts[:2] == ["scenic", "simulators"] and len(parts) > 2 and parts[2] in _NO_ROADS:
            raise Ad2Error(
                f"{program}, line {line}: model {name}: a model of another simulator, whose worlds have no OpenDRIVE "
                f"roads; programs here use {' or '.join(MODELS)}"
            )
        folder = Path(scenic.__file__).parent.parent if parts[0] == "scenic" else None
        home = Path(__file__).parents[4] if parts[0] == "closedloop_plugin" else folder or program.parent
        if not any((home.joinpath(*parts).with_suffix(end)).is_file() for end in (".scenic", ".py")):
            near = difflib.get_close_matches(name, MODELS, 1, 0.7)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(MODELS)}"
            raise Ad2Error(f"{program}, line {line}: model {name}: no such model; {hint}")


def no_map(program: Path, exc: BaseException) -> str | None:
    """The message of a program without a map, with the reason if it shows; None for any other error."""
    if not isinstance(exc, RuntimeError) or "need to specify map before importing" not in str(exc):
        return None
    text = program.read_text("utf-8-sig", errors="replace")
    model = _MODEL.search(text)
    line = text.count("\n", 0, model.start()) + 1 if model else 1
    route = re.search(r"^param\s+route\s*=\s*(.*)$", text, re.M)
    if route is not None:
        line = text.count("\n", 0, route.start()) + 1
        return (
            f'{program}, line {line}: param route = {route[1].strip()}: expected "SUITE:ID" as a plain text, as in '
            '"demo:101" (a suite and a route\'s id)'
        )
    if re.search(r"^param\s+map\b", text, re.M):
        return f"{program}, line {line}: the line `param map = ...` must stand before the line `model ...`"
    for named in re.finditer(r"^param\s+(\w+)\s*=", text, re.M):
        if near := near_of(named[1], ("route", "map")):
            line = text.count("\n", 0, named.start()) + 1
            return f"{program}, line {line}: param {named[1]}: did you mean '{near}'?"
    return f"{program}, line {line}: the program has neither a route nor a map: {WAYS}"
