"""Names that Scenic programs of users may import, with their parameters; the 44 types; and that the examples compile.

Module names are recorded on purpose: users' programs contain them. The names are listed from inside a Scenic program,
as a user would write it.
"""

from __future__ import annotations

import io
import json
import tokenize
from pathlib import Path
from typing import Any

from closed_loop_runs import drive, short
from workspace import Workspace, digest

COST = "seconds"
GOLDEN = Path(__file__).resolve().parents[1]
SCENARIOS = "closedloop_plugin.scenarios"
MODULES = tuple(f"{SCENARIOS}.{name}" for name in ("actions", "library"))  # for `from MODULE import *`, as docs/ say
PARTS = tuple(f"{SCENARIOS}.{name}" for name in ("places", "actions_traffic", "actions_crossing"))  # of "actions"
PYTHON = tuple(f"{SCENARIOS}.{name}" for name in ("catalogue", "flows", "geometry", "looks"))
RENAMED = {"ScenarioType": "TypeInfo"}  # classes that no program needs, and their names in 0.1.0
PROBE = """
param route = "demo:101"
model scenic.domains.driving.model
_before = dict(globals())
from {module} import *
import names_in_scenic
names_in_scenic.write(_before, globals())
ego = new Car at place(0), facing stage.heading(0)
terminate after 1 steps
"""


def record(work: Workspace) -> dict[str, Any]:
    found = {module: _names_inside(work, module) for module in MODULES}
    answer = found[MODULES[0]]
    types = answer["types"]
    return {
        "scenic": {module: names["names"] for module, names in found.items()},
        "parts of actions": {module: answer[module] for module in PARTS},
        "python": {module: _named_as_recorded(names) for module, names in answer["python"].items()},
        "types": {name: _type(type_) for name, type_ in types.items()},
        "examples": _examples(work),
    }


def _named_as_recorded(names: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(name, name): value for name, value in names.items()}


def _names_inside(work: Workspace, module: str) -> dict[str, Any]:
    name = module.rpartition(".")[2]
    program, out = work.folder / f"{name}.scenic", work.folder / f"{name}.json"
    program.write_text(PROBE.format(module=module), "utf-8")
    parts = PARTS if module == MODULES[0] else ()
    env = {"NAMES_OUT": str(out), "NAMES_PYTHON": " ".join(PYTHON), "NAMES_PARTS": " ".join(parts)}
    drive(work, f"run_{name}", "--scenario", program, "--agent", "still", PYTHONPATH=str(GOLDEN), **env)
    return dict(json.loads(out.read_text("utf-8")))


def _type(type_: dict[str, Any]) -> dict[str, Any]:
    """One of the 44: program, layout, abilities, options; without its summary."""
    path = Path(type_["program"])
    kept = {key: value for key, value in type_.items() if key not in ("program", "summary")}
    return {**kept, "program": path.name, "program's text": _text(path)}


def _text(path: Path) -> str:
    """Digest of a program without comments, docstrings and layout."""
    text = path.read_text("utf-8")
    found, statement = [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        docstring = statement and token.type == tokenize.STRING and token.line.lstrip().startswith('"""')
        statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if not docstring:
            found.append(tokenize.tok_name[token.type] if statement else token.string)
    return short(digest("\n".join(found)))


def _examples(work: Workspace) -> dict[str, Any]:
    """`ad2 threats check` of the programs in configs/scenarios."""
    programs = sorted((work.repo / "configs" / "scenarios").glob("*.scenic"))
    done = work.run("ad2", "threats", "check", *programs, "--workers", "2", "--out", "check", "--json")
    return dict(json.loads(done.stdout))
