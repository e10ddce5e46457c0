"""Third-party packages that are loaded for `ad2 --help` and other short commands, so that growth is noticed."""

from __future__ import annotations

import json
import sys
from typing import Any

from workspace import Workspace

COST = "seconds"
LINES = (
    "--help",
    "drive run --help",
    "tasks",
    "data list",
    "report missing",
    "drive run --suite nonsense --agent still --out d",
)
OURS = ("lmms_eval_ad2", "closedloop_plugin")
# Parts of the interpreter, of the environment, and of compiled packages, whose names contain a version.
LEFT_OUT = (
    "_distutils_hack",
    "_virtualenv",
    "_cython_",
    "_cyutility",
    "cython_runtime",
    "_sysconfigdata_",
    "__mp_main__",
)
CODE = """
import contextlib, io, json, sys
before = set(sys.modules)
from importlib import metadata
(found,) = metadata.entry_points(group="console_scripts", name="ad2")
program = found.load()
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    with contextlib.suppress(SystemExit):
        program(json.loads(sys.argv[1]))
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)))
"""


def record(work: Workspace) -> dict[str, Any]:
    return {f"ad2 {line}": _loaded(work, line.split()) for line in LINES}


def _loaded(work: Workspace, words: list[str]) -> dict[str, bool]:
    done = work.run(sys.executable, "-c", CODE, json.dumps(words))
    names = json.loads(done.stdout.splitlines()[-1])
    return {name: True for name in names if name not in OURS and not name.startswith(LEFT_OUT)}
