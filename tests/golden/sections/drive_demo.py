"""The demo suite: six drivers, shards and merge, latency, policies, profiles, custom programs, pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from closed_loop_runs import drive, episodes, files, pixels, run_content, score
from workspace import Workspace

COST = "minutes"
AGENTS = ("expert", "straight", "steer-only", "speed-only", "random", "still")
FULL = ("expert", "steer-only")  # agents whose records are recorded as values
DEMO = ("--suite", "demo", "--workers", "2")
SMALL = ("--size", "96x54")
UNREADABLE, READABLE = "Blorp.", "Go straight at a moderate speed."


def record(work: Workspace) -> dict[str, Any]:
    found: dict[str, Any] = {"drivers": _drivers(work)}
    found["shards merged"] = _shards(work)
    found["variants"] = _variants(work)
    found["programs"] = _programs(work)
    found["shown"] = _shown(work)
    return found


def _drivers(work: Workspace) -> dict[str, Any]:
    found = {}
    for agent in AGENTS:
        folder = drive(work, agent, *DEMO, "--agent", agent, "--seed", "0")
        found[agent] = run_content(work, folder, full=agent in FULL)
        found[agent]["score"] = score(work, agent, "--routes", "demo")
    return found


def _shards(work: Workspace) -> dict[str, Any]:
    """Two merged shards of steer-only have the episodes of one run. One shard alone is a partial merge."""
    for k in ("1", "2"):
        drive(work, f"shard{k}", "--suite", "demo", "--agent", "steer-only", "--shard", f"{k}/2")
    work.run("ad2", "merge", "half", "shard1", "--partial")
    work.run("ad2", "merge", "merged", "shard1", "shard2")
    return {"half": run_content(work, work.folder / "half"), "merged": run_content(work, work.folder / "merged")}


def _variants(work: Workspace) -> dict[str, Any]:
    (work.folder / "latencies").write_text("0.2\n0.5\n0.1\n", "utf-8")
    three = ("--routes-ids", "101,102,106", "--agent", "steer-only")
    lmms = ("--routes-ids", "101", *SMALL, "--agent")
    variants: dict[str, tuple[str, ...]] = {
        "latency": ("--routes-ids", "101,104", "--agent", "expert", "--latency", "0.5"),
        "latencies of a file": ("--routes-ids", "101", "--agent", "expert", "--latency", "latencies"),
        "bench2drive": (*three, "--profile", "bench2drive"),
        "leaderboard-2.0": (*three, "--profile", "leaderboard-2.0"),
        "leaderboard-2.1": (*three, "--profile", "leaderboard-2.1"),
        "decisions at 2 Hz": ("--routes-ids", "104", "--agent", "expert", "--decision-hz", "2"),
        "no traffic": ("--routes-ids", "103", "--agent", "expert", "--no-traffic"),
        "repetitions": ("--routes-ids", "102", "--agent", "random", "--repetitions", "2", "--seed", "7"),
        "words read": (*lmms, f"lmms:dummy,response={READABLE}"),
        "words unread, official": (*lmms, f"lmms:dummy,response={UNREADABLE}", "--stop-after-unread", "0"),
        "words unread, strict": (*lmms, f"lmms:dummy,response={UNREADABLE}", "--policy", "strict"),
    }
    found = {}
    for n, (name, words) in enumerate(variants.items()):
        folder = drive(work, f"variant{n}", *DEMO, *words)
        found[name] = run_content(work, folder)
        found[name]["score"] = score(work, folder.name, "--routes", "demo")
    return found


def _programs(work: Workspace) -> dict[str, Any]:
    """The examples of configs/scenarios on their routes, and that of docs/scenarios.md on another map."""
    found: dict[str, Any] = {}
    examples = work.repo / "configs" / "scenarios"
    cases: dict[str, tuple[Any, ...]] = {
        "child": (examples / "child_behind_van.scenic", "--set", "pace=2", "--set", "due=1.6"),
        "load": (examples / "lost_load.scenic", "--set", "ahead=30", "--repetitions", "2"),
        "cut_in": (examples / "parking_cut_in.scenic", "--set", "due=2.2"),
        "cut_in elsewhere": (examples / "parking_cut_in.scenic", "--route", "demo:101"),
        "crossing": (_program_of_docs(work), "--map", _street(work), "--repetitions", "2"),
    }
    for n, (name, words) in enumerate(cases.items()):
        for agent in ("expert", "steer-only"):
            folder = drive(work, f"program{n}_{agent}", "--scenario", *words, "--agent", agent, "--seed", "3")
            found[f"{name}, {agent}"] = {"episodes": episodes(work, folder, full=True), "files": files(folder)}
    return found


def _program_of_docs(work: Workspace) -> Path:
    text = (work.repo / "docs" / "scenarios.md").read_text("utf-8")
    example = re.search(r"```\n(\"\"\"A van.*?)```", text, re.DOTALL)
    assert example, "docs/scenarios.md has an example"
    path = work.folder / "crossing.scenic"
    path.write_text(example.group(1), "utf-8")
    return path


def _street(work: Workspace) -> Path:
    """The corridor map of demo route 101."""
    drive(work, "street", "--suite", "demo", "--routes-ids", "101", "--agent", "expert")
    sha256 = next(iter(episodes(work, work.folder / "street", full=True).values()))["whole"]["map"]["sha256"]
    (path,) = (p for p in work.home.rglob("*.xodr") if p.stem.endswith(sha256[:SHA_IN_NAME]))
    return path


SHA_IN_NAME = 16  # hex digits of the map's sha256 in its file's name


def _shown(work: Workspace) -> dict[str, Any]:
    """`ad2 drive show`: top view and film strip."""
    words = ("--suite", "demo", "--routes-ids", "101,105", "--agent", "expert")
    drive(work, "filmed", *words, "--frames", "--video", "--size", "200x112")
    found: dict[str, Any] = {"files": files(work.folder / "filmed")}
    cases: dict[str, tuple[str, ...]] = {
        "with frames": ("filmed:101",),
        "four frames": ("filmed:105:0", "--frames", "4"),
        "without frames": ("steer-only:104",),
        "by file": ("random/tracks/103_rep0.json",),
    }
    for n, (name, words) in enumerate(cases.items()):
        work.run("ad2", "drive", "show", *words, "--out", f"shown{n}.png")
        found[name] = {path.name: pixels(path) for path in sorted(work.folder.glob(f"shown{n}*.png"))}
    return found
