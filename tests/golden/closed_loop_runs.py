"""Files of the closed loop for recordings: run folders without times and versions, pictures as pixels.

Of a run folder: a row for each episode (headline values, digests of record, track, metric_info and official record),
run.json, the official results, and the number of files of each kind.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image
from workspace import Workspace, digest, json_digest, read_jsonl

Json = dict[str, Any]
SHORT = 16  # hex digits of a digest in long lists
VALUES = ("end", "status", "score_composed", "score_route", "score_penalty", "ticks", "seed")


def drive(work: Workspace, out: str, *words: str | Path, code: int = 0, **env: str) -> Path:
    """`ad2 drive run` into a folder of the section."""
    work.run("ad2", "drive", "run", *words, "--out", out, code=code, **env)
    return work.folder / out


def routes_file(work: Workspace) -> Path:
    """Bench2Drive's 220 routes."""
    return work.data / "bench2drive" / "bench2drive220.xml"


def run_content(work: Workspace, folder: Path, *, full: bool = False) -> Json:
    """The content of a run folder. `full`: also all records as values."""
    return {
        "episodes": episodes(work, folder, full=full),
        "official": official(work, folder),
        "run": run_json(work, folder),
        "files": files(folder),
    }


# Episodes


def episodes(work: Workspace, folder: Path, *, full: bool = False) -> Json:
    """The episodes by route and repetition."""
    official_rows = {row["save_name"]: row for row in _official_records(folder)}
    found = {}
    for line in read_jsonl(folder / "episodes.jsonl"):
        name = f"{line['route_id']}_rep{line['repetition']}"
        row = {key: line[key] for key in VALUES}
        row["map"] = line["map"].get("sha256", "")[:SHORT]
        row["infractions"] = {kind: len(list_) for kind, list_ in line["infractions"].items() if list_}
        row["record"] = short(json_digest(record(work, line)))
        for kind in ("tracks", "metric_info"):
            row[kind] = _file_digest(work, folder / kind / f"{name}.json")
        if name in official_rows:
            row["official"] = short(json_digest(work.scrub(official_rows[name])))
        if full:
            row["whole"] = record(work, line)
        found[name] = row
    return found


def record(work: Workspace, line: Json) -> Json:
    """One line of episodes.jsonl without clocks, versions and the wording of a failure."""
    row = {key: value for key, value in line.items() if key not in ("system_s", "version")}
    row["world"] = {**line["world"], "version": unversioned(line["world"]["version"])}
    row["reason"] = bool(line["reason"])
    for driver in (row["agent"], row["interpreter"] or {}):
        driver.pop("lmms_eval", None)  # the library's version
    return dict(work.scrub(row))


def unversioned(text: str) -> str:
    """Keep the version of the world; drop those of Scenic and of the package."""
    return re.sub(r" ?\(scenic [^)]*\)|, lmms-eval-ad2 \S+", "", text)


def _file_digest(work: Workspace, path: Path) -> str | None:
    if not path.is_file():
        return None
    value = json.loads(path.read_text("utf-8"))
    if isinstance(value.get("result"), dict) and "reason" in value["result"]:
        value["result"]["reason"] = bool(value["result"]["reason"])
    return short(json_digest(work.scrub(value)))


# The rest of the folder


def official(work: Workspace, folder: Path) -> Json | None:
    """results.json without its records (see `episodes`): values, and the order of the records."""
    path = folder / "results.json"
    if not path.is_file():
        return None
    value = json.loads(path.read_text("utf-8"))
    value["ad2"].pop("versions", None)
    rows = value["_checkpoint"].pop("records")
    value["_checkpoint"]["records in order"] = json_digest([row["save_name"] for row in rows])[:SHORT]
    return dict(work.scrub(value))


def _official_records(folder: Path) -> list[Json]:
    path = folder / "results.json"
    if not path.is_file():
        return []
    rows: list[Json] = json.loads(path.read_text("utf-8"))["_checkpoint"]["records"]
    for row in rows:
        row["meta"].pop("duration_system")
        row["ad2"]["version"] = unversioned(row["ad2"]["version"])
        row["ad2"]["reason"] = bool(row["ad2"]["reason"])
    return rows


def run_json(work: Workspace, folder: Path) -> Json:
    """run.json without our version and commit, and the world's module path. Lists of many routes are digests."""
    value = json.loads((folder / "run.json").read_text("utf-8"))
    value["identity"].pop("version", None)
    value["identity"].pop("commit", None)
    value["identity"].pop("world", None)
    for driver in (value["identity"]["agent"], value["identity"]["interpreter"] or {}):
        driver.pop("lmms_eval", None)
    for key, found in value["selection"].items():
        if isinstance(found, list) and len(found) > 12:
            value["selection"][key] = short(json_digest(found))
    return dict(work.scrub(value))


def files(folder: Path) -> dict[str, int]:
    """Number of files of each kind; routes, frame numbers and hashes are ignored."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return dict(sorted(Counter(_kind(name) for name in names).items()))


def _kind(name: str) -> str:
    name = re.sub(r"[0-9a-f]{12,}", "<hash>", name)
    name = re.sub(r"(?<=/)\w+_rep(?=\d)", "<route>_rep", name)
    return re.sub(r"_\d{5}(?=\.jpg)", "_<number>", name)


def score(work: Workspace, *words: str | Path, code: int = 0) -> Json:
    """`ad2 drive score --json` without versions; notes by their number; many routes as a digest."""
    value = json.loads(work.run("ad2", "drive", "score", *words, "--json", code=code).stdout)
    value.pop("versions", None)
    value["notes"] = len(value["notes"])
    for key in ("missing", "files"):
        if len(value.get(key) or ()) > 12:
            value[key] = {"n": len(value[key]), "digest": json_digest(work.scrub(value[key]))[:SHORT]}
    return dict(work.scrub(value, replace={str(work.data): "<data>"}))


# Pictures


def pixels(picture: Path | bytes) -> str:
    """Size and digest of the pixels of a picture file, independent of its encoding."""
    with Image.open(io.BytesIO(picture) if isinstance(picture, bytes) else picture) as image:
        rgb = image.convert("RGB")
        return f"{rgb.width}x{rgb.height} {short(digest(rgb.tobytes()))}"


def box_pixels(picture: Path, box: tuple[int, int, int, int]) -> str:
    """Like `pixels`, for a box (left, upper, right, lower)."""
    with Image.open(picture) as image:
        rgb = image.convert("RGB").crop(box)
    return f"{rgb.width}x{rgb.height} {short(digest(rgb.tobytes()))}"


def short(digest_: str) -> str:
    return digest_[:SHORT]


def joint_digest(values: Iterable[str]) -> str:
    """One digest of many digests, in order."""
    return short(digest("\n".join(values)))
