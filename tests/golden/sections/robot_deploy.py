"""What `ad2 robot deploy` sends to a vehicle: the ssh command, and names, modes and contents of the archive.

A program named ssh stands in for the real one. Of Python files the syntax tree is recorded, without comments and
docstrings; the generated settings are recorded whole, the token (random) by its length. `names` is the contract; a
digest of a client file may change where its modules are renamed by design.
"""

from __future__ import annotations

import ast
import io
import json
import tarfile
from typing import Any

from command_lines import inside, programs, run_here
from product_files import old_python_files, parsed
from workspace import Workspace, digest

COST = "seconds"
HOST = "someone@vehicle.example"
SSH = """#!/bin/sh
printf '%s\\0' "$@" > "$GOLDEN_SENT.words"
cat > "$GOLDEN_SENT.tar"
echo installed
"""
SENT = "sent"


def record(work: Workspace) -> dict[str, Any]:
    program = work.folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH, "utf-8")
    program.chmod(0o755)
    robots = sorted(path.stem for path in (work.repo / "configs" / "robots").glob("*.yaml"))
    sent = {name: _deployed(work, name) for name in robots}
    first = sent[robots[0]][1]
    files = {name: data for name, (_, data) in first.items() if name.endswith(".py")}
    return {
        "robots": {name: _about(words, content) for name, (words, content) in sent.items()},
        "names": {name: f"{mode:o}" for name, (mode, _) in first.items()},
        "the same for all": all(_constant(content) == _constant(first) for _, content in sent.values()),
        "python_files": {name: _source(data, (3, 6)) for name, data in files.items()},
        "other_python_files": {
            name: {"compiles": parsed(path.read_bytes(), version) is not None, "for": list(version)}
            for name, (version, path) in old_python_files().items()
        },
    }


def _deployed(work: Workspace, robot: str) -> tuple[list[str], dict[str, tuple[int, bytes]]]:
    """The words that ssh was given, and the archive on its standard input: name -> mode, content."""
    with inside(work, PATH=f"{work.folder / 'bin'}:/usr/bin:/bin", GOLDEN_SENT=SENT):
        ended = run_here(programs()["ad2"], ["robot", "deploy", robot, HOST])
    if ended.code:
        raise RuntimeError(f"{robot}: {ended.err}")
    words = (work.folder / f"{SENT}.words").read_text("utf-8").split("\0")[:-1]
    with tarfile.open(fileobj=io.BytesIO((work.folder / f"{SENT}.tar").read_bytes())) as tar:
        found = {}
        for entry in tar.getmembers():
            stream = tar.extractfile(entry)
            found[entry.name] = (entry.mode, stream.read() if stream else b"")
    return words, found


def _about(words: list[str], content: dict[str, tuple[int, bytes]]) -> dict[str, Any]:
    settings = {name: json.loads(data) for name, (_, data) in content.items() if name.endswith(".json")}
    other = {name: len(data) for name, (_, data) in content.items() if not name.endswith((".json", ".py"))}
    return {
        "ssh": words,
        "settings": settings,
        "bytes of others": other,
    }


def _constant(content: dict[str, tuple[int, bytes]]) -> dict[str, Any]:
    """What is no robot's own: all names and modes, and the Python files."""
    return {name: (mode, data if name.endswith(".py") else None) for name, (mode, data) in content.items()}


def _source(data: bytes, version: tuple[int, int]) -> dict[str, Any]:
    tree = parsed(data, version)
    return {"compiles": tree is not None, "tree": digest(ast.dump(tree)) if tree else None}
