"""Threat scenarios by the rules' fuser: specs, programs, verdicts, runs, gallery, and a search with each sampler."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import closed_loop_runs
from closed_loop_runs import drive, files, pixels, routes_file, run_content, score, short
from embedded_drives import one_of_each
from workspace import Workspace, digest, json_digest, read_jsonl

COST = "minutes"
TYPES = (
    "ParkedObstacle", "Accident", "ParkingCutIn", "PedestrianCrossing", "HighwayCutIn", "HighwayExit",
    "SignalizedJunctionLeftTurn", "NonSignalizedJunctionRightTurn", "CrossingBicycleFlow", "YieldToEmergencyVehicle",
    "InvadingTurn", "T_Junction",
)  # fmt: skip
SAMPLERS = ("ce", "bo", "halton", "random")
FEW = ("--agent", "steer-only", "--budget", "4")
LEARNING = ("ce", "bo")  # from their ninth run on
MANY = ("--agent", "expert", "--budget", "12", "--no-expert")  # a driver that rarely fails, so that near misses decide
NOT_SCORED = {"random": 1}  # exit code: 1 if a run could not be scored, e.g. its scene could not be sampled
BY_RULES = ("--agent", "steer-only", "--fuser", "rules", "--seed", "0", "--workers", "2")


def record(work: Workspace) -> dict[str, Any]:
    work.run("ad2", "drive", "routes", "add", routes_file(work))
    first = one_of_each(routes_file(work))
    routes = ",".join(first[type_] for type_ in TYPES)
    work.run("ad2", "threats", "generate", "--suite", "demo", *BY_RULES, "--out", "demo_threats")
    words = ("--suite", "embedded220", "--routes-ids", routes, "--size", "96x54")
    work.run("ad2", "threats", "generate", *words, *BY_RULES, "--out", "more_threats")
    return {
        "demo": _suite(work, "demo_threats", full=True),
        "embedded220": _suite(work, "more_threats"),
        "driven": _driven(work),
        "gallery": _gallery(work),
        "checked again": _checked(work),
        "search": {sampler: _search(work, sampler, *FEW, code=NOT_SCORED.get(sampler, 0)) for sampler in SAMPLERS},
        "search that learns": {sampler: _search(work, sampler, *MANY, code=0) for sampler in LEARNING},
    }


def _suite(work: Workspace, name: str, *, full: bool = False) -> dict[str, Any]:
    """A folder of `ad2 threats generate`. `full`: programs as texts."""
    folder = work.folder / name
    about = json.loads((folder / "suite.json").read_text("utf-8"))
    about["asked"] = {key: value for key, value in about["asked"].items() if key not in ("version", "commit", "world")}
    verdicts = json.loads((folder / "check.json").read_text("utf-8"))
    scenarios = {}
    for path in sorted((folder / "scenarios").glob("*.scenic")):
        text = path.read_text("utf-8")
        scenarios[path.stem] = {
            "program": text if full else short(digest(text)),
            "verdict": work.scrub(verdicts[path.stem], drop=("version", "world")),
            "picture": pixels(folder / "frames" / f"{path.stem}_0.jpg"),
            "moment": short(json_digest(json.loads((folder / "check/moments" / f"{path.stem}_rep0.json").read_text()))),
            **_transcript(json.loads((folder / "transcripts" / f"{path.stem}.json").read_text("utf-8"))),
        }
    drives = {f"{row['route_id']}_{row['repetition']}": row for row in read_jsonl(folder / "check" / "episodes.jsonl")}
    return {
        "suite.json": about,
        "scenarios": scenarios,
        "check's episodes": {
            key: short(json_digest(closed_loop_runs.record(work, row))) for key, row in sorted(drives.items())
        },
        "files": files(folder),
    }


def _transcript(value: dict[str, Any]) -> dict[str, Any]:
    """Site, what was observed, and each attempt's spec and verdict; questions and answers of the probes as digests."""
    interview, attempts = value["interview"], value["attempts"]
    return {
        "site": value["site"],
        "interview": short(json_digest(_untimed(interview))),
        "attempts": [
            {
                **{key: attempt[key] for key in ("number", "seed", "fuser", "spec", "program_sha256")},
                "refused": bool(attempt["refused"]),
                "exchanges": short(json_digest(_untimed(attempt["exchanges"]))),
            }
            for attempt in attempts
        ],
    }


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untimed(item) for key, item in value.items() if key != "seconds"}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def _checked(work: Workspace) -> dict[str, Any]:
    """`ad2 threats check --json`: the demo's with a driver that fails, and with another seed; a custom program."""
    cases: dict[str, tuple[tuple[str | Path, ...], int]] = {
        "by the target": (("demo_threats", "--agent", "steer-only", "--tries", "2", "--seed", "5"), 1),
        "other draws": (("demo_threats", "--seed", "9"), 0),
        "lost load": ((work.repo / "configs" / "scenarios" / "lost_load.scenic",), 0),
    }
    found = {}
    for n, (name, (words, code)) in enumerate(cases.items()):
        out = ("--out", f"check{n}", "--workers", "2", "--json")
        verdicts = json.loads(work.run("ad2", "threats", "check", *words, *out, code=code).stdout)
        found[name] = {k: {**verdict, "reason": bool(verdict["reason"])} for k, verdict in verdicts.items()}
    return found


def _driven(work: Workspace) -> dict[str, Any]:
    """The demo's threats as a suite, and the drop from the standard routes."""
    common = ("--agent", "steer-only", "--workers", "2")
    folder = drive(work, "run_threats", "--suite", "demo_threats", *common)
    drive(work, "run_standard", "--suite", "demo", *common)
    compared = json.loads(work.run("ad2", "report", "compare", "run_standard", "run_threats", "--json").stdout)
    return {
        "held": run_content(work, folder),
        "score": score(work, folder.name, "--routes", "demo_threats"),
        "compared": short(json_digest(work.scrub(compared, drop=("versions", "version", "notes", "attention")))),
    }


def _gallery(work: Workspace) -> dict[str, Any]:
    """Name of the page, number of external links, and its pictures."""
    work.run("ad2", "threats", "gallery", "demo_threats", "--runs", "run_threats")
    work.run("ad2", "threats", "gallery", "more_threats", "--out", "more.html")
    found = {}
    for path in (work.folder / "demo_threats" / "gallery.html", work.folder / "more.html"):
        text = path.read_text("utf-8")
        pictures = re.findall(r"data:image/(?:jpeg|png|webp);base64,([A-Za-z0-9+/=]+)", text)
        found[path.name] = {
            "fetches": len(re.findall(r"(?:src|href)=\"https?:", text)),
            "pictures": [pixels(base64.b64decode(picture)) for picture in pictures],
            "drawings": text.count("<svg"),
            "scenarios": sorted(set(re.findall(r"\bid=\"(s-[^\"]+)\"", text))),
        }
    return found


def _search(work: Workspace, sampler: str, *words: str, code: int) -> dict[str, Any]:
    program = work.repo / "configs" / "scenarios" / "child_behind_van.scenic"
    out = f"search_{sampler}{len(words)}"
    work.run("ad2", "threats", "search", program, *words, "--sampler", sampler, "--seed", "0", "--out", out, code=code)
    folder = work.folder / out
    report = json.loads((folder / "report.json").read_text("utf-8"))
    report["not_scored"] = len(report["not_scored"])
    runs = [{**row, "reason": bool(row["reason"])} for row in read_jsonl(folder / "runs.jsonl")]
    return {
        "report": report,
        "runs": runs,
        "search.json": json.loads((folder / "search.json").read_text("utf-8")),
        "files": files(folder),
    }
