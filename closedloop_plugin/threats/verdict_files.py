"""Results of a check in a folder of scenarios: check.json, and "left_out" of suite.json.

DIR/check.json    scenario -> fields of ScenarioVerdict, program_sha256, judge, world, seed, profile, alone, version

`ad2 drive run` plays the draws in it (suites/played_draws.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from closedloop_plugin.scenarios.suites.played_draws import VERDICTS
from closedloop_plugin.scenarios.suites.played_draws import read_verdicts as read_verdicts
from closedloop_plugin.scenarios.suites.programs import INDEX, index_of, programs_in
from closedloop_plugin.threats.transcript import ScenarioVerdict
from lmms_eval_ad2.storage.code_state import code_label
from lmms_eval_ad2.storage.files import atomic_write_json, file_sha256
from lmms_eval_ad2.storage.identity import read_run


def write_verdicts(
    folder: Path, verdicts: Mapping[str, ScenarioVerdict], out: Path | None = None, files: Sequence[Path] | None = None
) -> None:
    """Update folder/check.json. Earlier verdicts of unchanged programs are kept.

    `out`: the run folder of the check (default: folder/check); `files`: the programs (default: the folder's).
    """
    out = out or folder / "check"
    identity = read_run(out)["identity"] if (out / "run.json").is_file() else {}
    agent = identity.get("agent") or {}
    facts = {
        "judge": agent.get("name"),
        "world": identity.get("world"),
        "seed": identity.get("seed"),
        "profile": identity.get("profile"),
        "alone": identity.get("alone"),
        "version": code_label(),
    }
    shas = {file.stem: file_sha256(file) for file in (programs_in(folder) if files is None else files)}
    before = {n: v for n, v in read_verdicts(folder).items() if n in shas and v.get("program_sha256") == shas[n]}
    now = {n: {**v.model_dump(), "program_sha256": shas.get(n, ""), **facts} for n, v in verdicts.items()}
    atomic_write_json(folder / VERDICTS, {**before, **now})


def update_left_out(folder: Path, verdicts: Mapping[str, ScenarioVerdict]) -> None:
    """Update "left_out" of suite.json: add failed scenarios, remove passed ones. Does nothing without suite.json."""
    index = index_of(folder)
    if not index:
        return
    left_out = {n: why for n, why in index.get("left_out", {}).items() if n not in verdicts}
    left_out |= {n: v.reason for n, v in verdicts.items() if not v.passed}
    atomic_write_json(folder / INDEX, {**index, "left_out": left_out})
