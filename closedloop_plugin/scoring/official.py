"""Official result files, merged or split: reading them, and writing our own episodes in the same form.

    {"_checkpoint": {"records": [see official_record.py]}, "driving score": mean, "success rate": fraction,
     "eval num": records, "ad2": {"origin": {...}, "versions": [...]}}                   "ad2" in our files only

Each of our records carries its origin, so that no part of a file can be mistaken for a CARLA result.

A file that was truncated while it was written yields its complete records and the number of lost ones. A file with
records behind the end of its list (two files in one, or a shorter file written over a longer one) is refused. A folder
stands for its episodes.jsonl if it has one (a run of ours), otherwise for all official result files directly in it,
except a merged.json that only repeats the others.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord, driver_name
from closedloop_plugin.scoring.ability import of_type
from closedloop_plugin.scoring.official_record import SCORES, OfficialRecord, numbered, parse_record
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.untrusted_json import LARGEST_FILE, lines, parse, read_bytes

EPISODES = "episodes.jsonl"
MERGED = "merged.json"
LARGEST_BYTES = LARGEST_FILE  # of an official result file; one with 220 records has about 1 MB
_log = logging.getLogger(__name__)
_DECODER = json.JSONDecoder()
_RECORD_ID = re.compile(r'"route_id"(?!\s*:\s*-)[\s:"]*([^",}\s]*)')  # not of the official global_record, which is -1


@dataclass(frozen=True)
class OfficialResults:
    """Records read from files. `lost`: (file, number of truncated records); `files`: the files that were read."""

    records: tuple[OfficialRecord, ...]
    files: tuple[str, ...]
    lost: tuple[tuple[str, int], ...] = ()


def read(paths: Sequence[Path]) -> OfficialResults:
    """All records of these files and folders, in their order. Raises Ad2Error if there is no complete record."""
    records: list[OfficialRecord] = []
    lost: list[tuple[str, int]] = []
    files = [file for path in paths for file in _files(Path(path))]
    for file in files:
        found, n_lost = read_file(file)
        records += found
        if n_lost:
            lost.append((str(file), n_lost))
    if not records:
        raise Ad2Error(f"{', '.join(map(str, paths))}: no complete record in it")
    return OfficialResults(tuple(records), tuple(map(str, files)), tuple(lost))


def read_apart(paths: Sequence[Path]) -> OfficialResults:
    """Like `read`, with each path as one repetition: official runs label all of theirs rep0."""
    parts = [read([path]) for path in paths]
    records = [replace(r, repetition=k) for k, part in enumerate(parts) for r in part.records]
    return OfficialResults(tuple(records), sum((p.files for p in parts), ()), sum((p.lost for p in parts), ()))


def read_file(file: Path) -> tuple[list[OfficialRecord], int]:
    """(records, number lost at a truncated end) of one file."""
    try:
        if file.suffix == ".jsonl":
            return _episodes(file)
        text = read_bytes(file, LARGEST_BYTES).decode("utf-8", errors="replace")
    except OSError as exc:
        raise Ad2Error(f"{file}: cannot be read ({exc.strerror})") from exc
    except ValueError as exc:
        raise Ad2Error(f"{file}: {exc}; an official result file has 1 MB") from exc
    rows, lost = _official(file, text)
    records = [parse_record(row, file, i) for i, row in enumerate(rows)]
    unnumbered = Counter(row["route_id"] for row in rows if not numbered(row["route_id"]))
    for name, times in unnumbered.items():
        if times > 1:  # repetitions of leaderboard 1, or a resumed run
            expected = f"{name}_rep0, {name}_rep1 ... for its repetitions, or one record"
            raise DataError(file, None, "route_id", expected, f"{name} {times} times")
    return records, lost


def is_official(file: Path) -> bool:
    """Whether it is a *.json file with _checkpoint; one larger than LARGEST_BYTES is not read, with a warning."""
    if file.suffix != ".json" or not file.is_file():
        return False
    if (size := file.stat().st_size) > LARGEST_BYTES:
        _log.warning("%s: left out, %s bytes are too many for an official result file", file, f"{size:,}")
        return False
    return b'"_checkpoint"' in file.read_bytes()


def official_files(folder: Path) -> list[Path]:
    """Official result files directly in a folder; without merged.json if the others have all of its episodes."""
    found = [file for file in sorted(folder.glob("*.json")) if is_official(file)]
    merged, others = folder / MERGED, [file for file in found if file.name != MERGED]
    if merged not in found or not others:
        return found
    known = {record.key for file in others for record in read_file(file)[0]}
    return others if {record.key for record in read_file(merged)[0]} <= known else found


def from_episode(record: EpisodeRecord, file: object = "episode", row: int | str = 0) -> OfficialRecord:
    """Convert one of our episodes, with the same validation as records of official files."""
    return parse_record(_official_record(record, 0), file, row)


def to_official(records: Sequence[EpisodeRecord], n_routes: int | None = None) -> dict[str, Any]:
    """Merged official result of one run's episodes; of two records of an episode the later counts.

    "driving score" and "success rate" are means over `n_routes` episodes (routes x repetitions; default: those given),
    as the official script's are over 220. "ad2" holds the origin. Raises Ad2Error for records of several runs.
    """
    kept = {r.key: r for r in records}.values()
    origins = {json.dumps(_origin(r), sort_keys=True) for r in kept}
    if len(origins) > 1:
        raise Ad2Error(f"episodes of {len(origins)} different runs cannot be in one result file: {sorted(origins)}")
    rows = [_official_record(r, i) for i, r in enumerate(kept)]
    total = n_routes or len(rows)
    return {
        "_checkpoint": {"records": rows},
        "driving score": math.fsum(r.score_composed for r in kept) / total if total else 0.0,
        "success rate": sum(r.success for r in kept) / total if total else 0.0,
        "eval num": len(rows),
        "ad2": {
            "origin": json.loads(origins.pop()) if origins else {},
            "versions": sorted({_version(r) for r in kept}),
        },
    }


def _official_record(r: EpisodeRecord, index: int) -> dict[str, Any]:
    lists = {name: list(r.infractions.get(name, ())) for name in INFRACTIONS}
    return {
        "index": index,
        "route_id": f"RouteScenario_{r.route_id}_rep{r.repetition}",
        "scenario_name": r.scenario_name,
        "weather_id": "",
        "save_name": f"{r.route_id}_rep{r.repetition}",
        "status": r.status,
        "num_infractions": sum(map(len, lists.values())),
        "infractions": lists,
        "scores": {name: getattr(r, name) for name in SCORES},
        "meta": {"route_length": r.route_length_m, "duration_game": r.game_s, "duration_system": r.system_s},
        "town_name": r.town,
        "ad2": {"origin": _origin(r), **_extras(r)},
    }


def _origin(r: EpisodeRecord) -> dict[str, Any]:
    """Facts that must be equal for scores to be averaged."""
    interpreter = r.interpreter or {}
    changed = str(r.world.get("changed", ""))
    tasks = r.agent.get("tasks") if interpreter else None
    return {
        "backend": str(r.world.get("backend", "")),
        "waiting": str(r.world.get("waiting", "")),
        "suite": r.suite,
        "profile": r.profile,
        "agent": driver_name(r.agent),
        "interpreter": str(interpreter.get("name", "")),
        "mode": str(interpreter.get("mode", "")),
        **({"tasks": ",".join(map(str, tasks))} if isinstance(tasks, list) else {}),
        **({"changed": changed} if changed else {}),
    }


def _version(r: EpisodeRecord) -> str:
    return f"world {r.world.get('version', '?')}, lmms-eval-ad2 {r.version or '?'}"


def _extras(r: EpisodeRecord) -> dict[str, Any]:
    return {
        "version": _version(r),
        "comfort": dict(r.comfort),
        "junctions_passed": r.junctions_passed,
        "experimental": r.map.get("experimental", False),
        "replaced": "program" in r.world and r.world.get("standard") != "kept" and bool(of_type(r.scenario)),
        "end": r.end,
        "fault": r.blamed,
        "reason": r.reason,
        "seed": r.seed,
        "map": {name: r.map.get(name) for name in ("source", "sha256")},
        "counts": dict(r.counts),
        **({"not_played": dict(left)} if (left := r.world.get("not_played")) else {}),
    }


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise Ad2Error(f"{path}: no such file or folder")
    if not path.is_dir():
        return [path]
    if (path / EPISODES).is_file():
        return [path / EPISODES]
    found = official_files(path)
    if not found:
        raise Ad2Error(f"{path}: neither {EPISODES} nor an official result file (*.json with _checkpoint) in it")
    if len(found) > 1 and path / MERGED in found:
        raise Ad2Error(f"{path}: {MERGED} has episodes that the other result files in it lack; name the files instead")
    return found


def _official(file: Path, text: str) -> tuple[list[Any], int]:
    """(raw records, number lost)."""
    try:
        data = parse(text, finite=False)
    except json.JSONDecodeError as exc:
        if exc.msg == "Extra data":
            raise _several(file, f"the file continues after its end (line {exc.lineno})", text[exc.pos :]) from None
        return _whole_records(file, text)
    except ValueError as exc:
        raise Ad2Error(f"{file}: not a result file: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("_checkpoint"), dict):
        raise DataError(file, None, "_checkpoint", "an object with the records of an official result file")
    rows = data["_checkpoint"].get("records")
    if not isinstance(rows, list):
        raise DataError(file, None, "_checkpoint.records", "a list", rows)
    names = (row.get("route_id") for row in rows if isinstance(row, dict))
    read_ids = {name for name in names if isinstance(name, str)}
    if others := [name for name in _route_ids(data) if name not in read_ids]:
        raise Ad2Error(f"{file}: {len(others)} record(s) outside _checkpoint.records, the first {others[0]}; "
                       "expected one list of records: give each list in a file of its own")  # fmt: skip
    return rows, 0


def _route_ids(value: Any) -> Iterator[str]:
    """The route ids of all objects in a JSON value."""
    if isinstance(value, dict) and isinstance(value.get("route_id"), str):
        yield value["route_id"]
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _route_ids(child)


def _several(file: Path, where: str, rest: str) -> Ad2Error:
    """The error for content behind the records, which would otherwise not be scored."""
    ids = _RECORD_ID.findall(rest)
    what = f"{len(ids)} further record(s), the first {ids[0]}" if ids else f"{rest.strip()[:40]!r}"
    return Ad2Error(
        f"{file}: {where}, with {what}. Two result files in one, or a shorter one written over a longer one? "
        "Give each as a file of its own"
    )


def _whole_records(file: Path, text: str) -> tuple[list[Any], int]:
    """(complete records before the truncation of a broken file, number of records that begin at or after it)."""
    start = text.find('"records"')
    at = text.find("[", start) + 1 if start >= 0 else 0
    if not at:
        raise Ad2Error(f"{file}: not a JSON file, and no list of records in it")
    rows: list[Any] = []
    while True:
        gap = re.compile(r"[\s,]*").match(text, at)
        at = gap.end() if gap else at
        if at >= len(text):
            return rows, 1 if gap and "," in gap.group() else 0
        if text[at] == "]":
            if _RECORD_ID.search(text, at):
                line = text.count("\n", 0, at) + 1
                raise _several(file, f"its list of records ends in line {line}, the file does not", text[at:])
            return rows, 0
        try:
            row, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return rows, max(1, len(_RECORD_ID.findall(text, at)))
        rows.append(row)


def _episodes(file: Path) -> tuple[list[OfficialRecord], int]:
    """Records of episodes.jsonl; an incomplete last line counts as one lost record."""
    records: list[OfficialRecord] = []
    for row, content in lines(file):
        line = content.decode("utf-8", errors="replace")
        if not line.endswith("\n"):
            return records, 1 if line.strip() else 0
        try:
            episode = EpisodeRecord.from_json(line)
        except (ValueError, TypeError) as exc:
            raise DataError(file, row, "line", "an episode record", line[:80], f"({exc})") from exc
        try:
            records.append(from_episode(episode, file, row))
        except (AttributeError, TypeError) as exc:
            raise DataError(file, row, "line", "the fields of an episode record", None, f"({exc})") from exc
    return records, 0
