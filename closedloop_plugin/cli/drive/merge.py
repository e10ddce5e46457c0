"""`ad2 merge` of folders of `ad2 drive run`: joins them, and returns the text to print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from closedloop_plugin.core.record import EpisodeRecord


def merge(out: Path, folders: Sequence[Path], *, partial: bool) -> str:
    """Join folders of one run in `out`. Frames and videos are not copied. Raises Ad2Error as runner.merge.merge."""
    from closedloop_plugin.runner.merge import merge as merged

    found = merged(out, folders, partial=partial)
    duplicates = f", {found.duplicates} duplicates removed" if found.duplicates else ""
    lines = [f"{len(found.records)} episodes in {out}{duplicates}, {len(found.missing)} missing"]
    lines += [f"  missing: route {route_id} repetition {repetition}" for route_id, repetition in found.missing]
    if found.not_asked:
        lines.append(f"{len(found.not_asked)} episodes of the suite were not selected in any of the folders")
    return "\n".join([*lines, _scores(out, found.records)])


def _scores(out: Path, records: list[EpisodeRecord]) -> str:
    """The table of scores, or the command that prints it if the driven routes are not available."""
    from closedloop_plugin.cli.drive.report import report
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.core.record import PROGRAM
    from closedloop_plugin.runner.store import asked_repetitions
    from closedloop_plugin.scenarios.suites.lookup import suite
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import read_run

    run = read_run(out)
    identity, repetitions = run["identity"], asked_repetitions(out, run["selection"])
    if records and records[0].scenario == PROGRAM:
        return "\n" + report(records, (), profile(str(identity.get("profile"))), repetitions, folder=out)
    try:
        found = suite(str(identity.get("suite")))
    except Ad2Error:
        found = None
    if not records or found is None or found.sha256 != identity.get("suite_sha256"):
        what = f"the route file, or folder of programs, of suite {identity.get('suite')}"
        return f"scores: ad2 drive score {out} --routes FILE|DIR ({what})"
    return "\n" + report(records, found.routes, profile(str(identity.get("profile"))), repetitions, identity, out)
