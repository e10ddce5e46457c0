"""`ad2 drive merge`: join the shards of a run into one folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.options import add_command, option
from lmms_eval_ad2.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.record import EpisodeRecord


@dataclass(frozen=True, kw_only=True)
class DriveMergeOptions:
    """`ad2 drive merge`."""

    out: Path = option(metavar="OUT", positional=True)
    folders: tuple[Path, ...] = option(metavar="DIR", positional=True)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "merge",
        run,
        DriveMergeOptions,
        help="join the folders of one run, remove duplicates, list missing episodes",
        description="Join folders of `ad2 drive run` with the same arguments (shards, machines) into OUT. Frames and "
        "videos are not copied.",
    )


def run(options: DriveMergeOptions) -> int:
    """Return 0 if the suite is complete, 1 if episodes are missing."""
    from closedloop_plugin.runner.merge import merge

    found = merge(options.out, options.folders)
    duplicates = f", {found.duplicates} duplicates removed" if found.duplicates else ""
    show(f"{len(found.records)} episodes in {options.out}{duplicates}, {len(found.missing)} missing")
    for route_id, repetition in found.missing:
        show(f"  missing: route {route_id} repetition {repetition}")
    show(_scores(options.out, found.records))
    return 1 if found.missing else 0


def _scores(out: Path, records: list[EpisodeRecord]) -> str:
    """The table of scores, or the command that prints it if the driven routes are not available."""
    from closedloop_plugin.cli.drive.report import report
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.runner.episode import PROGRAM
    from closedloop_plugin.suites.lookup import suite
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import read_run

    run = read_run(out)
    identity, repetitions = run["identity"], run["selection"]["repetitions"]
    if records and records[0].scenario == PROGRAM:
        return "\n" + report(records, (), profile(identity["profile"]), repetitions)
    try:
        found = suite(identity["suite"])
    except Ad2Error:
        found = None
    if not records or found is None or found.sha256 != identity["suite_sha256"]:
        what = f"the route file, or folder of programs, of suite {identity['suite']}"
        return f"scores: ad2 drive score {out} --routes FILE|DIR ({what})"
    return "\n" + report(records, found.routes, profile(identity["profile"]), repetitions, identity)
