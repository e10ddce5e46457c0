"""Any ground truth: no crash, monotone progress, scores in range, reproducible verdicts."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from support.closedloop.ticks import EGO, OTHER, referee
from support.tiers import examples

from closedloop_plugin.core.profiles import PROFILES
from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.state import ActorKind, DrivingSurface, EgoContact, GroundTruth, SignalState, StopLine
from closedloop_plugin.scoring.driving import penalty_of

LINES = (
    StopLine("A", 40.0, 0.0, 0.0, 7.0, "signal", True, 40.0),
    StopLine("B", 60.0, 0.0, 0.0, 3.5, "stop", True, 60.0),
    StopLine("C", 50.0, 5.0, -1.5, 0.0, "yield"),
)
metres = st.floats(-200, 300)
speeds = st.one_of(st.floats(-20, 60), st.sampled_from([0.0, 0.1, 1e-300]))
kinds = st.sampled_from(sorted(ActorKind))


@st.composite
def truths(draw: st.DrawFn) -> list[GroundTruth]:
    found, tick = [], 0
    events: tuple[tuple[float, str], ...] = ()
    for _ in range(draw(st.integers(1, 25))):
        tick += draw(st.sampled_from([1, 1, 1, 20, 500]))
        if draw(st.booleans()):
            events = (*events, (tick * 0.05, draw(st.sampled_from(["act", "yield failed", "scenario timeout", ""]))))
        ego = replace(
            EGO, x=draw(metres), y=draw(st.sampled_from([0.0, 0.0, 3.0, -9.0, 40.0])), speed=draw(speeds),
            yaw=draw(st.floats(-4, 4)),
        )  # fmt: skip
        actors = tuple(
            replace(OTHER, id=str(i), speed=v, kind=draw(kinds), role=draw(st.sampled_from(["background", "scenario"])))
            for i, v in enumerate(draw(st.lists(speeds, max_size=3)))
        )
        contacts = tuple(
            EgoContact(a, draw(kinds), draw(metres), 0.0) for a in draw(st.lists(st.text(max_size=3), max_size=2))
        )
        lights = {line.id: draw(st.sampled_from(SignalState)) for line in LINES[: draw(st.integers(0, 3))]}
        surface = draw(st.sampled_from(DrivingSurface))
        found.append(
            GroundTruth(tick, tick * 0.05, ego, actors, lights, contacts, surface, draw(st.booleans()), events)
        )
    return found


@settings(max_examples=examples(150), deadline=None)
@given(truths(), st.sampled_from(sorted(PROFILES)))
def test_any_episode_has_a_consistent_outcome(ticks: list[GroundTruth], name: str) -> None:
    judge, again = (referee(LINES, PROFILES[name], junctions=((30.0, 70.0),)) for _ in range(2))
    done, end = 0.0, None
    for truth in ticks:
        before, end = end, judge.tick(truth)
        assert before is None or end is before
        assert done <= judge.progress_m <= 100.0
        done = judge.progress_m
        again.tick(truth)
    outcome = judge.outcome()
    assert again.outcome() == outcome
    assert set(outcome.infractions) == set(INFRACTIONS)
    assert 0 <= outcome.score_composed <= outcome.score_route <= 100 and 0 <= outcome.score_penalty <= 1
    # The messages contain everything that was charged: parsing them gives the same factor.
    assert round(penalty_of(outcome.infractions, PROFILES[name].penalties), 6) == outcome.score_penalty
    drawn = {p["kind"] for p in outcome.places}
    assert drawn == {k for k, v in outcome.infractions.items() if v} - {"min_speed_infractions"}
