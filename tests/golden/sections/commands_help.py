"""Every command's flags as its --help shows them, whatever library builds the parser.

Only flags at the beginning of a line of help count; the wording is free to change.
"""

from __future__ import annotations

import re
from typing import Any

from command_lines import AD2_COMMANDS, OTHER_PROGRAMS, CommandResult, in_workspace, programs, run_in_process
from workspace import Workspace

COST = "seconds"
# "  -h, --help", "  --out DIR", and the boxes that some libraries draw around them.
LINE = re.compile(r"^[\s│|]{1,6}(?P<flags>-{1,2}[A-Za-z][\w-]*(?:[ =][^\s,]+)?(?:,\s*-{1,2}[A-Za-z][\w-]*)*)", re.M)
FLAG = re.compile(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*")


def record(work: Workspace) -> dict[str, Any]:
    with in_workspace(work):
        found = programs()
        outputs = {
            f"ad2 {line}".strip(): run_in_process(found["ad2"], [*line.split(), "--help"]) for line in AD2_COMMANDS
        }
        outputs |= {name: run_in_process(found[name], ["--help"]) for name in OTHER_PROGRAMS}
        return {name: _view(result) for name, result in outputs.items()}


def _view(result: CommandResult) -> dict[str, Any]:
    flags = {flag for line in LINE.finditer(result.out) for flag in FLAG.findall(line["flags"])}
    return {**result.recorded_form(), "flags": dict.fromkeys(flags, True)}
