"""merge: combine several folders of one run (shards, machines). Removes duplicates and lists missing episodes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.runner.run import AGAIN, episodes_of
from closedloop_plugin.runner.store import EpisodeStore, by_suite, read_records
from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.printed import show
from lmms_eval_ad2.storage.identity import COMMIT, all_commits, compared, differences, read_run

_FILES = ("metric_info", "tracks")  # frames are not copied: they may be large, and scoring does not use them


@dataclass(frozen=True)
class MergedRun:
    records: list[EpisodeRecord]
    duplicates: int
    missing: list[tuple[str, int]]  # (route id, repetition) of the whole suite


def merge(out: Path, folders: Sequence[Path]) -> MergedRun:
    """Write `out` from folders with the same run identity. Raises Ad2Error if identities differ.

    Of duplicates, an episode that ran is preferred to one that failed, also against an existing `out`.
    """
    runs = [read_run(folder) for folder in folders]
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        if differ := differences(compared(runs[0]["identity"]), compared(run["identity"])):
            text = "; ".join(differ).replace(" there and ", f" in {folders[0]} and ").replace(" here", f" in {folder}")
            raise Ad2Error(f"not one run: {text}")
    if out.resolve() in {folder.resolve() for folder in folders}:
        raise Ad2Error(f"{out}: the merged run needs its own folder")
    kept, seen = _kept(folders)
    routes = runs[0]["selection"]["routes"]
    repetitions = max(run["selection"]["repetitions"] for run in runs)
    selection = {"routes": routes, "repetitions": repetitions, "merged": [str(folder) for folder in folders]}
    identity = {**runs[0]["identity"], COMMIT: all_commits(run["identity"] for run in runs)}
    if ", " in (identity[COMMIT] or ""):
        show(f"ad2: the folders are of several commits: {identity[COMMIT]}", file=sys.stderr)
    with EpisodeStore(out, identity, selection) as store:
        for record, folder in kept:
            if _replaces(record, store.has(record.route_id, record.repetition)):
                _copy_files(record, folder, out)
                store.save(EpisodeResult(record))
        records = by_suite(store.records, routes)
        store.write_results(to_official(records, episodes_of(selection, records)))
    present = {(r.route_id, r.repetition) for r in records}
    wanted = [(route, k) for route in routes for k in range(repetitions)]
    return MergedRun(records, seen - len(kept), [key for key in wanted if key not in present])


def _replaces(record: EpisodeRecord, existing: EpisodeRecord | None) -> bool:
    return existing is None or (existing.end in AGAIN and record.end not in AGAIN)


def _kept(folders: Sequence[Path]) -> tuple[list[tuple[EpisodeRecord, Path]], int]:
    """One record per episode with its folder, and the number of episodes with duplicates."""
    best: dict[tuple[str, int], tuple[EpisodeRecord, Path]] = {}
    seen = 0
    for folder in folders:
        own = {(r.route_id, r.repetition): r for r in read_records(folder)}  # within a folder the last line counts
        seen += len(own)
        for key, record in own.items():
            if _replaces(record, best[key][0] if key in best else None):
                best[key] = (record, folder)
    return list(best.values()), seen


def _copy_files(record: EpisodeRecord, folder: Path, out: Path) -> None:
    name = f"{record.route_id}_rep{record.repetition}.json"
    for kind in _FILES:
        source = folder / kind / name
        if source.is_file():
            (out / kind).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, out / kind / name)
