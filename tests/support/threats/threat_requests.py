"""Sites, interviews and threat requests for tests of interviewees and fusers."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.closedloop.models import picture

from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.threats.base import InterviewScene, ThreatRequest
from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.site import ThreatSite
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import (
    STAGES,
    InterviewMoment,
    InterviewRecord,
    ScenarioVerdict,
    StageAnswer,
    ThreatAttempt,
    ThreatTranscript,
)

ROUTES = suite("demo").routes
CALM = (
    "A car drives ahead in my lane. The traffic light is green. It is sunny. There are no pedestrians.",
    "The car ahead may brake.",
    "I will keep my speed, because the road is clear.",
)


def site(**other: Any) -> ThreatSite:
    """A street with one lane each way, 134 m, no junction."""
    known = {
        "suite": "demo", "route": "101", "scenario": "ParkedObstacle", "town": "T", "map": "corridor",
        "length_m": 134.0, "trigger_s": 13.0, "speed_limit": 13.89, "lane_width": 3.5, "left": 0, "right": 0,
        "oncoming": 1, "topology": "corridor",
    }  # fmt: skip
    return ThreatSite(**{**known, **other})


def crossing(**other: Any) -> ThreatSite:
    """A site with a signalized junction at 22 to 46 m."""
    known = {"topology": "junction", "length_m": 73.0, "trigger_s": 5.0, "junction": (22.0, 46.0), "control": "signal",
             "arms": ("entry", "exit", "ahead", "right")}  # fmt: skip
    return site(**{**known, **other})


def transcript(where: ThreatSite | None = None, texts: tuple[str, str, str] = CALM, **more: Any) -> ThreatTranscript:
    answers = [StageAnswer(stage=s, question="?", text=t) for s, t in zip(STAGES, texts, strict=True)]  # type: ignore[arg-type]
    where = where or site()
    moment = InterviewMoment(answers=answers)
    interview = InterviewRecord(agent={"name": "m"}, source="said", moments=[moment], drive=more.pop("drive", None))
    return ThreatTranscript(route=where.route, site=where, interview=interview, **more)


def threat_request(
    where: ThreatSite | None = None, texts: tuple[str, str, str] = CALM, seed: int = 1, **more: Any
) -> ThreatRequest:
    return ThreatRequest(transcript(where, texts, **more), len(more.get("attempts", ())), seed)


def attempt(spec: ThreatSpec | None, verdict: ScenarioVerdict | None = None, **more: Any) -> ThreatAttempt:
    return ThreatAttempt(number=more.pop("number", 0), seed=0, fuser={"name": "x"}, spec=spec, verdict=verdict, **more)


def scene(route: str = "101", images: int = 1, moved: bool = True, **more: Any) -> InterviewScene:
    """A moment of a drive at 5 m/s, 8 s and 30 m after its begin."""
    moment = InterviewMoment(
        time_s=8.0, s=30.0, speed_limit=50 / 3.6, command="lane follow", target=(10.0, 0.0),
        **{"speed": 5.0, "frame_s": [8.0], **more},
    )  # fmt: skip
    shown: tuple[np.ndarray, ...] = tuple(picture(f"camera {k}") for k in range(images))
    return InterviewScene(route, 0, moment, moved, shown)


def drive(**other: Any) -> DriveSummary:
    """A drive at 8 m/s over 134 m, without stops or infractions."""
    known = {
        "status": "Completed", "failed": False, "score": 100.0, "robustness": 0.8, "game_s": 17.0, "driven_m": 134.0,
        "route_m": 134.0, "trigger_s": 13.0, "profile": [(float(t), 8.0 * t, 8.0) for t in range(17)],
        "min_gap_m": 4.0, "nearest": "car",
    }  # fmt: skip
    return DriveSummary(**{**known, **other})


def valid_spec(**other: Any) -> dict[str, Any]:
    """A spec for `site()`, as a model would write it."""
    return {
        "adversary": "child", "behaviour": "cross", "place": {"side": "right", "lane": "pavement", "ahead_m": [30, 45]},
        "trigger": {"kind": "time", "value": [1.5, 3.5]}, "road": "open", "speed_mps": [1.5, 3.0], "occluder": "van",
        "weakness": "perception", "description": "A child runs out from behind a van.", **other,
    }  # fmt: skip
