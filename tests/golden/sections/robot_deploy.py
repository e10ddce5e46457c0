"""What `ad2 robot deploy` sends to a vehicle: the ssh command, and names, modes and contents of the archive.

A fake program named ssh replaces the real one. Python files are recorded as syntax trees without comments and
docstrings, the generated settings in full, the random token by its length. `names` is the contract; the digest of a
client file may change if its modules are renamed by design.
"""

from __future__ import annotations

import ast
import io
import json
import tarfile
from typing import Any

from command_lines import in_workspace, programs, run_in_process
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
        "robots": {name: _description(words, content) for name, (words, content) in sent.items()},
        "names": {name: f"{mode:o}" for name, (mode, _) in first.items()},
        "the same for all": all(_constant(content) == _constant(first) for _, content in sent.values()),
        "python_files": {name: _source(data, (3, 6)) for name, data in files.items()},
        "other_python_files": {
            name: {"compiles": parsed(path.read_bytes(), version) is not None, "for": list(version)}
            for name, (version, path) in old_python_files().items()
        },
    }


def _deployed(work: Workspace, robot: str) -> tuple[list[str], dict[str, tuple[int, bytes]]]:
    """The arguments of ssh, and the archive on its standard input: name -> mode, content."""
    with in_workspace(work, PATH=f"{work.folder / 'bin'}:/usr/bin:/bin", GOLDEN_SENT=SENT):
        result = run_in_process(programs()["ad2"], ["robot", "deploy", robot, HOST])
    if result.code:
        raise RuntimeError(f"{robot}: {result.err}")
    words = (work.folder / f"{SENT}.words").read_text("utf-8").split("\0")[:-1]
    with tarfile.open(fileobj=io.BytesIO((work.folder / f"{SENT}.tar").read_bytes())) as tar:
        found = {}
        for entry in tar.getmembers():
            stream = tar.extractfile(entry)
            found[entry.name] = (entry.mode, stream.read() if stream else b"")
    return words, found


def _description(words: list[str], content: dict[str, tuple[int, bytes]]) -> dict[str, Any]:
    settings = {name: json.loads(data) for name, (_, data) in content.items() if name.endswith(".json")}
    other = {name: len(data) for name, (_, data) in content.items() if not name.endswith((".json", ".py"))}
    return {
        "ssh": words,
        "settings": settings,
        "bytes of others": other,
    }


def _constant(content: dict[str, tuple[int, bytes]]) -> dict[str, Any]:
    """The part that is equal for all robots: names, modes, and the Python files."""
    return {name: (mode, data if name.endswith(".py") else None) for name, (mode, data) in content.items()}


def _source(data: bytes, version: tuple[int, int]) -> dict[str, Any]:
    tree = parsed(data, version)
    return {"compiles": tree is not None, "tree": digest(ast.dump(tree)) if tree else None}
