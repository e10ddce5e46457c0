"""The parts of lmms-eval that this package wraps, calls or follows are those that scripts/lmms_eval_api.py recorded."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.running import REPO
from support.scripts import script

api: ModuleType = script("lmms_eval_api")
RECORDED: dict[str, Any] = json.loads(api.RECORDING.read_text("utf-8"))


@pytest.mark.parametrize("name", api.USED)
def test_part_of_lmms_eval_is_unchanged(name: str) -> None:
    version = metadata.version("lmms-eval")
    assert api.fingerprint(name) == RECORDED["fingerprints"].get(name), (
        f"{name} of lmms-eval {version} differs from that of {RECORDED['version']}: compare it with {api.USED[name]}, "
        "then run scripts/lmms_eval_api.py"
    )


def test_recording_has_exactly_the_used_parts() -> None:
    assert RECORDED["fingerprints"].keys() == api.USED.keys()
    assert all((REPO / file).is_file() for file in api.USED.values())


# --- nothing of lmms-eval is used without being recorded ---


@cache
def sources() -> list[ast.Module]:
    """The files that mention lmms-eval's package."""
    files = [file for package in ("lmms_eval_ad2", "closedloop_plugin") for file in (REPO / package).rglob("*.py")]
    texts = [file.read_text("utf-8") for file in files]
    return [ast.parse(text) for text in texts if re.search(r"\blmms_eval(?!_)", text)]


def names_used(tree: ast.AST) -> Iterator[str]:
    """Names that are imported from lmms-eval, modules that `require` loads, and functions that `wrap` replaces."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lmms_eval":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "lmms_eval")
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            module = str(node.args[0].value)
            if ast.unparse(node.func) == "require" and module.split(".")[0] == "lmms_eval":
                yield module


def wrapped(tree: ast.AST) -> Iterator[str]:
    """The names of the functions that are replaced: wrap(owner, NAME, ...) of harness/plugin.py."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "wrap" and len(node.args) == 3:
            yield str(ast.literal_eval(node.args[1]))


def is_recorded(name: str) -> bool:
    """Whether a recorded part is the name, contains it or is in it."""
    return any(f"{part}.".startswith(f"{name}.") or f"{name}.".startswith(f"{part}.") for part in api.USED)


def test_every_use_is_recorded() -> None:
    used = {name for tree in sources() for name in names_used(tree)}
    assert len(used) > 15
    assert {name for name in used if not is_recorded(name)} == set()


def test_every_wrapped_function_is_recorded() -> None:
    names = {name for tree in sources() for name in wrapped(tree)}
    assert {"download", "evaluate", "cli_evaluate_single"} <= names
    assert {n for n in names if not any(p.endswith((f".{n}", f".{_owner(n)}")) for p in api.USED)} == set()


def _owner(method: str) -> str:
    """The class of a method that is recorded as a whole."""
    return {"calculate_aggregate_metric": "TaskOutput"}.get(method, method)


def test_unrecorded_use_is_found() -> None:
    tree = ast.parse("from lmms_eval.utils import other\nx = require('lmms_eval.filters')\nimport lmms_eval_ad2.x\n")
    assert list(names_used(tree)) == ["lmms_eval.utils.other", "lmms_eval.filters"]
    assert not is_recorded("lmms_eval.utils.other")
    assert list(wrapped(ast.parse("plugin.wrap(owner, 'evaluate', f)"))) == ["evaluate"]


# --- the fingerprint ---


def package(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    (folder / "__init__.py").write_text("def top(): ...\n")
    (folder / "tasks.py").write_text(text)
    return folder


def test_fingerprint_depends_on_code_only(tmp_path: Path) -> None:
    one = "class A:\n    'Old.'\n    def run(self, x):\n        return x + 1\n"
    same = "class A:\n    'New.'\n    def run(self, x):  # comment\n        'Doc.'\n        return (x + 1)\n"
    other = one.replace("x + 1", "x + 2")
    signature = one.replace("(self, x)", "(self, x=0)")
    prints = [api.fingerprint("p.tasks.A", package(tmp_path, text)) for text in (one, same, other, signature)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_missing_parts_are_named_so(tmp_path: Path) -> None:
    root = package(tmp_path, "class A:\n    def run(self): ...\n")
    names = ("p.top", "p.tasks.A.run", "p.tasks.A.walk", "p.tasks.B", "p.gone.A")
    assert [api.fingerprint(name, root) == api.MISSING for name in names] == [False, False, True, True, True]
