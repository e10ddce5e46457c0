"""Folders of threats and runs for tests of the gallery, written without a world."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.templates.program import program
from closedloop_plugin.threats.transcript import (
    STAGES,
    FuserExchange,
    InterviewRecord,
    ScenarioVerdict,
    StageAnswer,
    ThreatAttempt,
    ThreatTranscript,
)

ROUTES = suite("demo").routes
RULES = {"name": "rules"}
MODEL = {"backend": "endpoint", "model": "qwen2.5-vl-7b"}
ANSWERS = ("A lorry is ahead.", "It goes on.", "I keep my speed.")


# Each would change the title of the page if it were executed.
ATTACKS = (
    "</script><script>document.title='owned'</script>",
    "\"'><img src=x onerror=\"document.title='owned'\">",
    "</style></title><svg onload=\"document.title='owned'\">",
    "{{ 7*7 }}{% include 'x' %}",
    "\u202egnp.x\u2066\x00\u200b",
)
EVIL = " ".join(ATTACKS)


class Reader(HTMLParser):
    """Collects tags with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.pieces: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data
        self.pieces.append(data)

    @property
    def flat(self) -> str:
        """All text with single spaces."""
        return " ".join(" ".join(self.pieces).split())


def spec(**other: Any) -> ThreatSpec:
    known = {
        "adversary": "truck", "behaviour": "brake_hard", "road": "open", "weakness": "prediction",
        "place": {"side": "ahead", "lane": "own", "ahead_m": [20, 40]}, "trigger": {"kind": "time", "value": [2, 3.5]},
        "stays_s": [3, 8], "description": "The lorry brakes where nobody expects it.", "why": "It said it goes on.",
    }  # fmt: skip
    return ThreatSpec.model_validate({**known, **other})


def site(route: Route) -> ThreatSite:
    return ThreatSite(
        suite="demo", route=route.id, scenario=route.scenario, town=route.town, map="corridor", length_m=134.0,
        trigger_s=13.0, speed_limit=13.89, lane_width=3.5, left=0, right=0, oncoming=1, topology="corridor",
    )  # fmt: skip


def transcript(
    route: Route, attempt: ThreatAttempt, answers: Sequence[str] = ANSWERS, **interview: Any
) -> ThreatTranscript:
    stages = [StageAnswer(stage=s, question=f"The {s}?", text=a) for s, a in zip(STAGES, answers, strict=True)]
    fields = {"agent": MODEL, "source": "said", "frames": [f"frames/{route.id}_0.jpg"], "answers": stages, **interview}
    return ThreatTranscript(route=route.id, site=site(route), interview=InterviewRecord(**fields), attempts=[attempt])


def attempt(proposed: ThreatSpec | None, fuser: Mapping[str, Any] = RULES, **other: Any) -> ThreatAttempt:
    return ThreatAttempt(number=0, seed=7, fuser=dict(fuser), spec=proposed, **other)


def add(folder: Path, written: ThreatTranscript, verdict: ScenarioVerdict | None = None, moment: bool = True) -> None:
    """One scenario: transcript, program, verdict in check.json, pictures."""
    latest = written.attempts[-1]
    if latest.spec is not None:
        text = program(latest.spec, written.site)
        file = folder / "scenarios" / f"{written.route}.scenic"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        latest.program_sha256 = sha256(text.encode()).hexdigest()
    written.write(folder / "transcripts" / f"{written.route}.json")
    if verdict is not None:
        file = folder / "check.json"
        verdicts = json.loads(file.read_text()) if file.is_file() else {}
        verdicts[written.route] = {**verdict.model_dump(), "program_sha256": latest.program_sha256, "judge": "expert"}
        file.write_text(json.dumps(verdicts))
    if moment:
        scene(folder / "check" / "moments", f"{written.route}_rep0")
    noise(folder / "frames" / f"{written.route}_0.jpg", (800, 450))


def passed(**sampled: float) -> ScenarioVerdict:
    return ScenarioVerdict(
        passed=True, compiles=True, runs=True, acts=True, survivable=True, tries=2, survived=1, drawn=sampled
    )  # fmt: skip


def scene(folder: Path, key: str, **other: Any) -> None:
    """A moment in the format of threats/moment.py: the ego at (100, 50) drives north, a lorry 20 m ahead is at rest."""
    noise(folder / f"{key}.jpg", (400, 225))
    north = 1.5708

    def body(
        kind: str, x: float, y: float, yaw: float, role: str = "scenario", size: tuple[float, float] = (4.5, 1.9)
    ) -> Any:
        return {"kind": kind, "x": x, "y": y, "yaw": yaw, "length": size[0], "width": size[1], "role": role}

    data = {
        "format": 1, "of": "act", "time_s": 4.2, "ego": body("car", 100, 50, north, "ego"),
        "actors": [
            body("truck", 100, 70, north, size=(8, 2.5)), body("pedestrian", 105, 62, 3.1, size=(0.5, 0.5)),
            body("blocker", 104, 58, north, size=(2, 2)), body("car", 96.5, 40, -north, "background"),
        ],
        "route": [[100, y] for y in range(0, 120, 2)],
    }  # fmt: skip
    (folder / f"{key}.json").write_text(json.dumps({**data, **other}))


def noise(file: Path, size: tuple[int, int]) -> None:
    """Coarse noise, which compresses about as well as a street."""
    file.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(len(file.name)).integers(0, 255, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)


def index(folder: Path, **other: Any) -> None:
    """suite.json as after `ad2 threats generate`."""
    request = {"base": "demo", "agent": MODEL, "fuser": RULES, "seed": 11, "profile": "bench2advlm", "version": "0.1.0"}
    data = {"name": "threat demo", "asked": request, "finished": True, "left_out": {}, "failed": {}, **other}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "suite.json").write_text(json.dumps(data))


def record(route: str, *, score: float, hit: bool = False, body: str = "s1", **other: Any) -> EpisodeRecord:
    """An episode of a program on top of the standard scenario. `hit`: it collided with `body`."""
    infractions: dict[str, list[str]] = {name: [] for name in INFRACTIONS}
    places = []
    if hit:
        text = f"Agent collided against object with type=vehicle.truck and id={body} at (x=1.0, y=2.0, z=0.0)"
        infractions["collisions_vehicle"] = [text]
        infractions["outside_route_lanes"] = ["Agent went outside its route lanes for about 3 meters (2% of the route)"]
        places = [
            {"kind": "outside_route_lanes", "time_s": 12.0, "x": 0.0, "y": 0.0, "text": ""},
            {"kind": "collisions_vehicle", "time_s": 9.64, "x": 1.0, "y": 2.0, "text": text, "actor": body},
        ]
    base = EpisodeRecord(
        suite="threat demo", route_id=route, repetition=0, seed=1, scenario="T", scenario_name="T_1", town="Demo",
        end="completed", status="Completed", infractions=infractions, score_route=100.0,
        score_penalty=score / 100, score_composed=score, route_length_m=100.0, game_s=20.0, system_s=5.0, ticks=400,
        agent={"name": "x"}, interpreter=None, profile="bench2advlm",
        world={"backend": "embedded", "version": "0.1.0", "waiting": True, "program": "ab", "standard": "kept"},
        map={"source": "corridor"},
        weather={}, places=places, version="0.1.0", drawn={"ahead": 31.0, "due": 2.4, "rest": 5.0},
    )  # fmt: skip
    return replace(base, **other)


def run(folder: Path, threats: Path, agent: str, records: Sequence[EpisodeRecord], **identity: Any) -> Path:
    """A run folder of the suite in its present state."""
    played = suite(str(threats))
    base = {
        "suite": played.name, "suite_sha256": played.sha256, "agent": {"name": agent}, "profile": "bench2advlm",
        "seed": 0, "world": "closedloop_plugin.worlds.embedded.world:EmbeddedWorld", "version": "0.1.0", **identity,
    }  # fmt: skip
    folder.mkdir(parents=True)
    selection = {"routes": played.ids, "asked": played.ids, "repetitions": 1, "shard": None}
    (folder / "run.json").write_text(json.dumps({"identity": base, "selection": selection}))
    (folder / "episodes.jsonl").write_text("".join(r.to_json() + "\n" for r in records))
    return folder


def exchange(**other: Any) -> FuserExchange:
    return FuserExchange(purpose="construct", **other)
