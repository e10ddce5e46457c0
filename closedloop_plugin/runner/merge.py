"""merge: combine several folders of one run (shards, machines). Removes duplicates and lists missing episodes."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.decision_files import decision_file, read_decisions
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.run import episodes_of
from closedloop_plugin.runner.store import EpisodeStore, asked_repetitions, by_suite, read_drive, read_records
from closedloop_plugin.scoring.driving import MOST_REPETITIONS
from closedloop_plugin.scoring.official import to_official
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.storage.identity import COMMIT, RUN, all_commits, refuse_unlike
from lmms_eval_ad2.storage.shards import RunShard, shards_text

BY_ROUTE = ("left_out", "not_played")  # keys of a selection with values by route

_FILES = ("metric_info", "tracks")  # frames are not copied: they may be large, and scoring does not use them


@dataclass(frozen=True)
class MergedRun:
    """`missing`, `not_asked`: (route id, repetition) without a record, of the runs' selections and of the other routes
    of the suite."""

    records: list[EpisodeRecord]
    duplicates: int
    missing: list[tuple[str, int]]
    not_asked: list[tuple[str, int]]


def merge(out: Path, folders: Sequence[Path], *, partial: bool = False) -> MergedRun:
    """Write `out` from folders with the same run identity.

    Of duplicates, an episode that ran is preferred to one that failed, also against an existing `out`. Raises Ad2Error
    if identities differ, or (without `partial`) if an episode of the runs' selections is missing.
    """
    runs = [read_drive(folder) for folder in folders]
    refuse_unlike(folders, [run["identity"] for run in runs])
    if out.resolve() in {folder.resolve() for folder in folders}:
        raise Ad2Error(f"{out}: the merged run needs its own folder")
    kept, seen = _kept(folders)
    _check_decisions(kept)
    before = {out: read_drive(out)} if (out / RUN).exists() else {}
    selection = _selection({**dict(zip(folders, runs, strict=True)), **before}, folders)
    routes = selection["routes"]
    present = {_key(record) for record, _ in kept} | {_key(record) for record in read_records(out, MOST_REPETITIONS)}
    missing = [key for key in _episodes(selection, selection["asked"]) if key not in present]
    if missing and not partial:
        raise Ad2Error(f"{_missing_text(runs, missing)}; to merge the others: --partial")
    identity = {**runs[0]["identity"], COMMIT: all_commits(run["identity"] for run in runs)}
    if ", " in (identity[COMMIT] or ""):
        show(f"ad2: the folders are of several commits: {identity[COMMIT]}", file=sys.stderr)
    with EpisodeStore(out, identity, selection) as store:
        for record, folder in kept:
            if _replaces(record, store.has(record.route_id, record.repetition)):
                _copy_files(record, folder, store)
                store.save(EpisodeResult(record))
        records = by_suite(store.records, routes)
        store.write_results(to_official(records, episodes_of(selection, records)))
    others = [key for key in _episodes(selection, routes) if key not in present and key not in {*missing}]
    return MergedRun(records, seen - len(kept), missing, others)


def _selection(runs: Mapping[Path, Mapping[str, Any]], folders: Sequence[Path]) -> dict[str, Any]:
    """The selection of the merged run: the routes that any run was asked to drive, in the order of the suite.

    runs: by folder, those of an earlier merge included, which is not among the merged `folders`.
    """
    routes = runs[folders[0]]["selection"]["routes"]
    asked = {route for run in runs.values() for route in run["selection"].get("asked", run["selection"]["routes"])}
    by_route = {
        name: {k: v for run in runs.values() for k, v in run["selection"].get(name, {}).items()} for name in BY_ROUTE
    }
    return {
        "routes": routes,
        "asked": [route for route in routes if route in asked],
        "repetitions": max(asked_repetitions(folder, run["selection"]) for folder, run in runs.items()),
        "merged": [str(folder) for folder in folders],
        **{name: values for name, values in by_route.items() if values},
        **_training([*runs.values()]),
    }


def _training(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The routes that the model was trained on, those of all runs together; nothing if no run has the key."""
    found = [part for run in runs if isinstance(part := run["selection"].get("training"), dict)]
    named = [part for part in found if isinstance(part.get("routes"), dict)]
    if not named:
        return {"training": found[0]} if found else {}
    return {"training": {**named[0], "routes": {k: v for part in named for k, v in part["routes"].items()}}}


def _episodes(selection: Mapping[str, Any], routes: Sequence[str]) -> list[tuple[str, int]]:
    return [(route, k) for route in routes for k in range(selection["repetitions"])]


def _key(record: EpisodeRecord) -> tuple[str, int]:
    return record.route_id, record.repetition


def _missing_text(runs: Sequence[Mapping[str, Any]], missing: Sequence[tuple[str, int]]) -> str:
    """One line: the shards that were not given, and the first missing episodes."""
    given = [RunShard.parse(text) for run in runs if (text := run["selection"].get("shard"))]
    absent = [i for i in range(1, given[0].of + 1) if i not in {s.index for s in given}] if given else []
    shards = f" ({shards_text(absent, given[0].of)})" if absent and len({s.of for s in given}) == 1 else ""
    named = ", ".join(f"route {route} repetition {k}" for route, k in missing[:3])
    return f"{len(missing)} episodes are missing{shards}: {named}{', ...' if len(missing) > 3 else ''}"


def _replaces(record: EpisodeRecord, existing: EpisodeRecord | None) -> bool:
    return existing is None or (existing.blamed != "" and not record.blamed)


def _kept(folders: Sequence[Path]) -> tuple[list[tuple[EpisodeRecord, Path]], int]:
    """One record per episode with its folder, and the number of episodes with duplicates."""
    best: dict[tuple[str, int], tuple[EpisodeRecord, Path]] = {}
    seen = 0
    for folder in folders:
        own = {_key(r): r for r in read_records(folder, MOST_REPETITIONS)}  # within a folder the last line counts
        seen += len(own)
        for key, record in own.items():
            if _replaces(record, best[key][0] if key in best else None):
                best[key] = (record, folder)
    return list(best.values()), seen


def _check_decisions(kept: Sequence[tuple[EpisodeRecord, Path]]) -> None:
    """Raise DataError for a broken decision file, before anything is written."""
    for record, folder in kept:
        if (file := decision_file(folder, f"{record.route_id}_rep{record.repetition}")).is_file():
            deque(read_decisions(file), maxlen=0)


def _copy_files(record: EpisodeRecord, folder: Path, store: EpisodeStore) -> None:
    """Copy the files of an episode; `store.save` gives the decisions their name."""
    key = f"{record.route_id}_rep{record.repetition}"
    for kind in _FILES:
        source, target = folder / kind / f"{key}.json", store.folder / kind / f"{key}.json"
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    store.decisions.begin(key)
    if (source := decision_file(folder, key)).is_file():
        store.decisions.copy(key, source)
