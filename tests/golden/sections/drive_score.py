"""`ad2 drive score --json` of the official PDM-Lite file: merged, split, cut off, in repetitions, with metric_info."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workspace import Workspace

COST = "seconds"
NOT_COMPARED = ("versions", "files", "routes")
OPTIONS = {
    "bench2drive": ("--profile", "bench2drive"), "leaderboard_2_0": ("--profile", "leaderboard-2.0"),
    "leaderboard_2_1": ("--profile", "leaderboard-2.1"), "bench2advlm": ("--profile", "bench2advlm"),
    "signs_v0_0_4": ("--traffic-signs", "v0.0.4"), "two_repetitions": ("--repetitions", "2"),
}  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    real = work.data / "bench2drive"
    merged, routes = real / "pdm_lite_results.json", real / "bench2drive220.xml"
    rows = json.loads(merged.read_text("utf-8"))["_checkpoint"]["records"]
    split, cut, worse = _split(work.folder / "split", rows), _cut(work.folder / "cut.json", rows), _worse(rows)
    other = _results(work.folder / "other" / "results.json", worse)
    metrics = _metric_info(work.folder / "metrics", rows[:40])
    found = {"merged": _score(work, [merged], routes)}
    for name, words in OPTIONS.items():
        found[name] = _differing(_score(work, [merged], routes, *words), found["merged"])
    found["dev10_routes"] = _score(work, [merged], real / "bench2drive_dev10.xml")
    found["split"] = _differing(_score(work, [split], routes), found["merged"])
    found["merged_beside_split"] = _differing(
        _score(work, [_results(split / "merged.json", rows).parent], routes), found["merged"]
    )
    found["cut_off"] = _score(work, [cut], routes)
    found["given_twice"] = _score(work, [merged, other], routes)
    found["apart"] = _score(work, [merged, other], routes, "--apart")
    for mode in ("official", "corrected"):
        found[f"comfort_{mode}"] = _score(work, [merged], routes, "--metric-info", metrics, "--comfort", mode)
    found["own_run"] = _score(work, [_own_run(work.folder / "run", rows)], routes)
    return found


def _score(work: Workspace, results: Sequence[Path], routes: Path, *words: str | Path) -> dict[str, Any]:
    done = work.run("ad2", "drive", "score", *results, "--routes", routes, *words, "--json")
    found = {key: value for key, value in json.loads(done.stdout).items() if key not in NOT_COMPARED}
    numbers = [re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\d)", note) for note in found["notes"]]
    return {**found, "notes": numbers, "n_files": len(json.loads(done.stdout)["files"])}


def _differing(found: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The values of `found` that differ from `other`: none if equal records are read from another file layout."""
    return {key: value for key, value in found.items() if value != other.get(key)}


def _results(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"_checkpoint": {"records": list(rows)}}, indent=1), "utf-8")
    return path


def _split(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    for number in range(0, len(rows), 55):
        _results(folder / f"part_{number:03d}.json", rows[number : number + 55])
    return folder


def _cut(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A file whose last three records were lost while it was written."""
    text = _results(path, rows).read_text("utf-8")
    at = [i for i in range(len(text)) if text.startswith('"route_id"', i)][-3]
    path.write_text(text[: at + 40], "utf-8")
    return path


def _worse(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every third route with a collision, every seventh failed: another driver of the same routes."""
    changed = []
    for number, row in enumerate(rows):
        scores, lists, status = dict(row["scores"]), dict(row["infractions"]), row["status"]
        if number % 3 == 0:
            lists["collisions_vehicle"] = [*lists["collisions_vehicle"], "Agent collided against object"]
            scores["score_penalty"] = round(scores["score_penalty"] * 0.6, 6)
        if number % 7 == 0:
            status, scores["score_route"] = "Failed - Agent timed out", 37.5
        scores["score_composed"] = round(scores["score_route"] * scores["score_penalty"], 6)
        changed.append({**row, "status": status, "scores": scores, "infractions": lists})
    return changed


def _metric_info(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A drive along a curve for every record, each with another acceleration; some are uncomfortable."""
    for number, row in enumerate(rows):
        log = {}
        for tick in range(60):
            turn, push = 0.02 * tick, (0.1 + 0.2 * number) * math.sin(tick / (4 + number % 5))
            c, s = round(math.cos(turn), 5), round(math.sin(turn), 5)
            log[str(tick)] = {
                "acceleration": [round(push * c, 5), round(push * s, 5), 0.0],
                "angular_velocity": [0.0, 0.0, round(3.0 * number * math.sin(tick / 5), 5)],
                "forward_vector": [c, s, 0.0], "right_vector": [-s, c, 0.0],
                "location": [round(0.5 * tick * c, 5), round(0.5 * tick * s, 5), 0.0],
                "rotation": [0.0, 0.0, round(math.degrees(turn), 5)],
            }  # fmt: skip
        path = folder / row["save_name"] / "metric_info.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(log), "utf-8")
    return folder


def _own_run(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The first forty records as lines of episodes.jsonl, as `ad2 drive run` writes them."""
    lines = []
    for row in rows[:40]:
        scenario = row["scenario_name"]
        lines.append({
            "suite": "bench2drive220", "route_id": row["route_id"].split("_")[1], "repetition": 0, "seed": 7,
            "scenario": scenario.rpartition("_")[0], "scenario_name": scenario, "town": row["town_name"],
            "end": "completed", "status": row["status"], "infractions": row["infractions"], **row["scores"],
            "route_length_m": row["meta"]["route_length"], "game_s": row["meta"]["duration_game"],
            "system_s": row["meta"]["duration_system"], "ticks": 400, "agent": {"name": "expert (privileged)"},
            "interpreter": None, "profile": "bench2drive",
            "world": {"backend": "embedded", "version": "1", "waiting": "waits"},
            "map": {"source": "corridor", "sha256": "ab", "experimental": False},
            "comfort": {"official": 0.5, "corrected": 0.75, "segments": 20}, "version": "1",
        })  # fmt: skip
    folder.mkdir()
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return folder
