"""Whether the camera shows a hidden actor before it acts: measured pixels, and the verdict that follows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.scored import episode
from support.threats.threat_requests import valid_spec

from closedloop_plugin.core.state import Actor, ActorKind, Control, GroundTruth, Observation, RouteCommand
from closedloop_plugin.core.visibility import VisibleExtent
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.threats.snapshot import SightBeforeAct, hidden_act
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.verdicts import NearestActor, ScenarioDraw, draw_of, verdict_of

SPEC = ThreatSpec.model_validate(valid_spec())  # a child, hidden by a van
ENOUGH, TOO_LITTLE = VisibleExtent((0, 0, 4, 4), 16, 0.5), VisibleExtent((0, 0, 4, 4), 16, 0.2)
SHAPES: dict[str, Any] = {"length": 4.0, "width": 2.0, "height": 1.5, "yaw": 0.0, "speed": 0.0, "y": 0.0}


def tick(
    time_s: float, shown: Mapping[str, VisibleExtent] | None, acted: bool = False, far: float = 20.0
) -> EpisodeTick:
    """s1 is the child, s2 the van that hides it, b1 background traffic."""
    actors = [
        ("s1", ActorKind.CHILD, "scenario"),
        ("s2", ActorKind.VAN, "scenario"),
        ("b1", ActorKind.CAR, "background"),
    ]
    truth = GroundTruth(
        tick=round(20 * time_s), time_s=time_s, ego=Actor(id="ego", kind=ActorKind.CAR, x=0.0, role="ego", **SHAPES),
        actors=tuple(Actor(id=i, kind=kind, x=far, role=role, **SHAPES) for i, kind, role in actors),
        events=((time_s, "act"),) if acted else (),
    )  # fmt: skip
    seen = Observation(truth.tick, time_s, 5.0, RouteCommand.FOLLOW, (10.0, 0.0), lambda name: None)  # type: ignore[arg-type,return-value]
    return EpisodeTick(seen, truth, Control(), visible=None if shown is None else lambda name: shown)


def measured(*ticks: EpisodeTick) -> Mapping[str, object] | None:
    sight = SightBeforeAct("front", "act")
    for one in ticks:
        sight(one)
    return sight.to_json()


def test_the_first_time_at_which_enough_of_an_actor_is_shown() -> None:
    """Half a second apart; 20 % of its pixels are too little; background traffic does not count."""
    pictures: list[dict[str, VisibleExtent]] = [
        {"s2": ENOUGH, "b1": ENOUGH}, {"s1": TOO_LITTLE}, {"s1": ENOUGH}, {"s1": ENOUGH}
    ]  # fmt: skip
    ticks = [tick(0.5 * k, shown) for k, shown in enumerate(pictures)]
    assert measured(*ticks, tick(2.0, {}, acted=True)) == {"act_s": 2.0, "first": {"s2": 0.0, "s1": 1.0}}


def test_nothing_is_measured_after_the_act_or_between_two_samples() -> None:
    assert measured(tick(0.0, {}), tick(0.2, {"s1": ENOUGH}), tick(1.0, {}, acted=True), tick(2.0, {"s1": ENOUGH})) == {
        "act_s": 1.0, "first": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    "ticks",
    [
        [tick(0.0, None), tick(1.0, None, acted=True)],  # a world that cannot measure its pictures
        [tick(0.0, {"s1": ENOUGH})],  # it never acts
    ],
)
def test_what_is_not_known_is_not_measured(ticks: list[EpisodeTick]) -> None:
    assert measured(*ticks) is None


def test_far_bodies_are_not_measured() -> None:
    assert measured(tick(0.0, {"s1": ENOUGH}, far=90.0), tick(1.0, {}, acted=True)) == {"act_s": 1.0, "first": {}}


def test_only_programs_that_may_hide_an_actor_are_measured() -> None:
    """Of several actors the event of the hidden one ends the measurement; a user's program says nothing."""
    open_ = ThreatSpec.model_validate(valid_spec(occluder="none"))
    second = {**valid_spec(occluder="container"), "place": {"side": "left", "lane": "pavement", "ahead_m": 60}}
    further = {
        key: second[key] for key in ("adversary", "behaviour", "place", "trigger", "road", "speed_mps", "occluder")
    }
    two = ThreatSpec.model_validate(valid_spec(occluder="none", further=[further]))
    assert [hidden_act(spec) for spec in (SPEC, open_, two, None)] == ["act", None, "act 2", "act"]


def drawn(folder: Path, spec: ThreatSpec | None, first: Mapping[str, float]) -> ScenarioDraw:
    """A draw whose scenario acts at 4 s: s1 then walks 3 m, s2 stands nearer to the ego."""
    record = episode("7", events=[(4.0, "act")])
    bodies = {"s1": {"kind": "child", "role": "scenario"}, "s2": {"kind": "van", "role": "scenario"}}
    samples = [
        {"t": 0.0, "ego": [0, 0, 0], "actors": {"s1": [20, 3, 0], "s2": [15, 3, 0]}},
        {"t": 5.0, "ego": [10, 0, 0], "actors": {"s1": [20, 0, 0]}},
    ]
    for name, value in (
        ("tracks", {"bodies": bodies, "samples": samples}), ("moments", {"sight": {"act_s": 4.0, "first": dict(first)}})
    ):  # fmt: skip
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "7_rep0.json").write_text(json.dumps(value))
    return draw_of(record, folder, spec)


@pytest.mark.parametrize(
    ("first", "seconds", "passed"),
    [({"s2": 0.0}, 0.0, True), ({"s1": 3.5, "s2": 0.0}, 0.5, True), ({"s1": 1.5, "s2": 0.0}, 2.5, False)],
)
def test_a_hidden_actor_that_the_camera_shows_fails_the_check(
    tmp_path: Path, first: Mapping[str, float], seconds: float, passed: bool
) -> None:
    """The van that hides it is not the actor that acts. A user's program only has the figure."""
    found = verdict_of([drawn(tmp_path, SPEC, first)])
    assert (found.seen_before_act_s, found.passed, found.survivable) == (seconds, passed, True)
    assert found.reason == ("" if passed else "not hidden: the camera shows its actor 2.5 s before it acts")
    own = verdict_of([drawn(tmp_path, None, first)])
    assert (own.seen_before_act_s, own.passed) == (seconds, True)


def test_without_a_measurement_the_check_says_nothing() -> None:
    found = verdict_of([ScenarioDraw(episode(events=[(4.0, "act")]), NearestActor("child", 5.0, 2.0), hides=True)])
    assert found.passed and found.seen_before_act_s is None
