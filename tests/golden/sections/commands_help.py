"""Every command's flags as its --help shows them, whatever library builds the parser.

Only flags at the beginning of a line of help count; the wording is free to change.
"""

from __future__ import annotations

import re
from typing import Any

from command_lines import AD2_COMMANDS, OTHER_PROGRAMS, Ended, inside, programs, run_here
from workspace import Workspace

COST = "seconds"
# "  -h, --help", "  --out DIR", and the boxes that some libraries draw around them.
LINE = re.compile(r"^[\s│|]{1,6}(?P<flags>-{1,2}[A-Za-z][\w-]*(?:[ =][^\s,]+)?(?:,\s*-{1,2}[A-Za-z][\w-]*)*)", re.M)
FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")


def record(work: Workspace) -> dict[str, Any]:
    with inside(work):
        found = programs()
        helped = {f"ad2 {line}".strip(): run_here(found["ad2"], [*line.split(), "--help"]) for line in AD2_COMMANDS}
        helped |= {name: run_here(found[name], ["--help"]) for name in OTHER_PROGRAMS}
        return {name: _view(ended) for name, ended in helped.items()}


def _view(ended: Ended) -> dict[str, Any]:
    flags = {flag for line in LINE.finditer(ended.out) for flag in FLAG.findall(line["flags"])}
    return {**ended.shape(), "flags": dict.fromkeys(flags, True)}
