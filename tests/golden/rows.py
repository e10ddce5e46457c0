"""The table of goldens: tests/golden/table/GROUP.yaml, and how a row is run and recorded.

    about: one sentence
    cpu_s: 30                 # about so many CPU-seconds; long groups start first
    tier: verify              # or soak
    files: {NAME: TEXT}       # written into the group's folder first; {url} and similar are filled in
    inputs: releases          # function of inputs.py that writes further files
    replies: driving          # function of replies.py: a model endpoint at {url} that answers so
    rows:
      NAME: ad2 drive run --suite demo --agent expert --out expert
      NAME: {run: ad2 drive score expert --json, keep: stdout}
      NAME: {call: "functions:parsers", with: {...}}

Rows run in order in one folder. Of a command the exit code and what it has written to --out are recorded, else its
output. `keep`: stdout, nothing, or files and folders (patterns). `depth`: levels of JSON that are kept as values.
`code`: the expected exit code, else 0 or 1 (done, but not all). `env`: variables. Requests to the endpoint are recorded
with the row that caused them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).resolve().parent
KEYS = {"run", "call", "with", "keep", "depth", "code", "env", "requests"}


@dataclass(frozen=True)
class Group:
    """One file of the table."""

    name: str
    about: str
    rows: dict[str, dict[str, Any]]
    cpu_s: int = 10
    tier: str = "verify"
    inputs: str = ""
    replies: str = ""
    in_process: bool = False
    data: bool = False
    files: dict[str, str] = field(default_factory=dict)


def groups() -> dict[str, Group]:
    """The table by group."""
    return {path.stem: _read(path) for path in sorted((GOLDEN / "table").glob("*.yaml"))}


def _read(path: Path) -> Group:
    content = yaml.safe_load(path.read_text("utf-8"))
    rows = {str(k): {"run": v} if isinstance(v, str) else v for k, v in content.pop("rows").items()}
    for name, row in rows.items():
        if row.keys() - KEYS or ("run" in row) == ("call" in row):
            raise ValueError(f"{path.name}: {name}: expected run or call, and of {sorted(KEYS)}; found {sorted(row)}")
    return Group(path.stem, rows=rows, **content)


def test_data() -> Path:
    return Path(os.environ.get("AD2_TEST_DATA") or GOLDEN.parents[2] / "shared" / "data")


def needs_data(group: Group) -> bool:
    return group.data or "{data}" in json.dumps(group.rows)


def recorded_rows(group: Group, folder: Path) -> tuple[dict[str, Any], dict[str, str], dict[str, float]]:
    """The recorded form of each row, the errors of those that have none, and CPU-seconds of the commands."""
    from endpoint import serve
    from workspace import Workspace

    rows: dict[str, Any] = {}
    errors: dict[str, str] = {}
    cpu_s: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        work = Workspace(folder)
        if group.replies:
            work.endpoint = stack.enter_context(serve(getattr(importlib.import_module("replies"), group.replies)))
        for name, text in group.files.items():
            work.write(name, work.filled(text))
        if group.inputs:
            getattr(importlib.import_module("inputs"), group.inputs)(work)
        for name, row in group.rows.items():
            before = sum(os.times()[:4])
            try:
                rows[name] = _recorded(work, row)
            except Exception as exc:
                errors[name] = f"{type(exc).__name__}: {exc}"
            cpu_s[name] = round(sum(os.times()[:4]) - before, 1)
    return rows, errors, cpu_s


def _recorded(work: Any, row: Mapping[str, Any]) -> Any:
    from content import blocked
    from endpoint import described

    if "call" in row:
        module, _, function = row["call"].partition(":")
        value = getattr(importlib.import_module(module), function)(work, **row.get("with", {}))
        return json.loads(json.dumps(value))
    words = shlex.split(work.filled(row["run"]))
    env = {key: work.filled(str(value)) for key, value in row.get("env", {}).items()}
    expected = [row["code"]] if "code" in row else [0, 1]
    done = work.run(*words, code=None, **env)
    if done.returncode not in expected or "Traceback (most recent call last)" in done.stderr:
        ends = f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        raise RuntimeError(f"exit code {done.returncode}, expected {expected}: {ends}")
    value = {"code": done.returncode, **_kept(work, row, words, done)}
    if work.endpoint and (requests := work.endpoint.take()) and row.get("requests", True):
        value["requests"] = described(requests)
    return blocked(json.loads(json.dumps(value)))


def _kept(work: Any, row: Mapping[str, Any], words: list[str], done: Any) -> dict[str, Any]:
    from content import Reader

    reader = Reader(work, row.get("depth", 3))
    out = words[words.index("--out") + 1] if "--out" in words else "stdout"
    keep = row.get("keep", out)
    kept: dict[str, Any] = {}
    for name in [keep] if isinstance(keep, str) else keep:
        if name == "stdout":
            kept["stdout"] = reader.output(done.stdout)
        elif name == "stderr":
            kept["stderr"] = reader.text(done.stderr)
        elif name != "nothing":
            paths = sorted(work.folder.glob(name)) if not Path(name).is_absolute() else [Path(name)]
            kept |= {work.scrub(str(path)).removeprefix("<work>/"): reader.path(path) for path in paths}
    return kept
