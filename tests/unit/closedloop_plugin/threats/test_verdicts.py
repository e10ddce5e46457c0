"""Draws and verdicts: the nearest actor since the act, the conditions, and the reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.episode_record import blank_record
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.verdicts import (
    NearestActor,
    ScenarioDraw,
    draw_of,
    nearest_since,
    verdict_of,
)
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.core.errors import DataError

RULES = profile("bench2advlm")


def record(**known: Any) -> EpisodeRecord:
    blank = blank_record(
        EpisodeTask("check", "x", 0, EpisodeSetup(None, 1)),
        EvaluationConditions(RULES),
        EndReason.COMPLETED,
        "",
        "fake",
        "1",
    )
    given = {"map": {"source": "corridor"}, "score_route": 100.0, "events": [(1.0, "trigger"), (2.0, "act")], **known}
    return replace(blank, **given)


def track(*poses: tuple[float, float], kind: str = "child", role: str = "scenario") -> dict[str, Any]:
    """A track of one body from (t, x) pairs, stored only on change, with a stationary ego at 0."""
    at = dict(poses)
    samples = [
        {"t": t / 2, "ego": [0.0, 0.0, 0.0, 0.0], "actors": {"a": [at[t / 2], 0.0, 0.0]} if t / 2 in at else {}}
        for t in range(9)
    ]
    return {"bodies": {"a": {"kind": kind, "role": role}}, "samples": samples}


@pytest.mark.parametrize(
    ("seen", "nearest"),
    [
        (track((0.0, 20.0)), NearestActor("child", 20.0, 0.0)),  # stationary, stored once, before it acts
        (track((0.0, 5.0), (1.5, 40.0)), NearestActor("child", 40.0, 0.0)),  # was near before
        (track((0.0, 50.0), (2.5, 45.0), (3.0, 30.0)), NearestActor("child", 30.0, 20.0)),
        (track((3.0, 12.0)), NearestActor("child", 12.0, 0.0)),  # appears later
        (track((0.0, 9.0), role="background"), None),
        (track((0.0, 9.0), role="standard"), None),
        (track((0.0, 9.0), kind="van"), None),  # an occluder is not the adversary
    ],
)
def test_nearest_actor_since_it_acts(seen: dict[str, Any], nearest: NearestActor | None) -> None:
    assert nearest_since(seen, 2.0, "child") == nearest


def test_a_programs_car_with_the_background_role_counts() -> None:
    """On a road without a lane for background traffic the world gives that role to the program's cars."""
    seen = track((0.0, 9.0), kind="van", role="background")
    for part in (seen["bodies"], *(sample["actors"] for sample in seen["samples"] if sample["actors"])):
        part["s1"] = part.pop("a")
    assert nearest_since(seen, 2.0, "van") == NearestActor("van", 9.0, 0.0)


def test_a_moving_actor_takes_precedence_over_a_nearer_stationary_one() -> None:
    both = track((0.0, 5.0))
    both["bodies"]["b"] = {"kind": "child", "role": "scenario"}
    for i, sample in enumerate(both["samples"]):
        sample["actors"]["b"] = [20.0 - i, 3.0, 0.0]
    assert nearest_since(both, 2.0, "child").gap_m == 5.0  # type: ignore[union-attr]
    found = nearest_since(both, 2.0, "child", must_move=True)
    assert found is not None
    assert (found.gap_m, found.moved_m) == (12.4, 5.0)


def spec(behaviour: str) -> ThreatSpec:
    crossing = {
        "adversary": "child", "behaviour": "cross", "place": {"side": "right", "lane": "pavement", "ahead_m": [20, 30]},
        "trigger": {"value": [2, 3]}, "road": "open", "speed_mps": [2, 3], "weakness": "prediction", "description": "x",
    }  # fmt: skip
    blocking = {
        **crossing, "adversary": "cones", "behaviour": "block", "speed_mps": None, "stays_s": 5,
        "place": {"side": "ahead", "lane": "own", "ahead_m": [20, 30]},
    }  # fmt: skip
    return ThreatSpec.model_validate({"cross": crossing, "block": blocking}[behaviour])


def test_a_generated_threat_acts_only_with_its_own_adversary_and_movement(tmp_path: Path) -> None:
    (tmp_path / "tracks").mkdir()
    file = tmp_path / "tracks" / "x_rep0.json"
    file.write_text(json.dumps(track((0.0, 9.0))))
    assert draw_of(record(), tmp_path).acts
    stationary = draw_of(record(), tmp_path, spec("cross"))
    assert not stationary.acts
    assert verdict_of([stationary]).reason == 'says "act", but its child does not move after that (at 2.0 s)'
    file.write_text(json.dumps(track((0.0, 9.0), (2.5, 7.0))))
    assert draw_of(record(), tmp_path, spec("cross")).acts
    assert not draw_of(record(), tmp_path, spec("block")).acts, "a child is no cone"
    file.write_text(json.dumps(track((0.0, 9.0), kind="cone")))
    assert draw_of(record(), tmp_path, spec("block")).acts, "what blocks need not move"
    file.write_text(json.dumps(track((0.0, 44.0), kind="cone")))
    far = verdict_of([draw_of(record(), tmp_path, spec("block"))])
    assert (far.acts, far.passed) == (False, False)
    assert far.reason.endswith("within 30 m of the ego after that (at 2.0 s; nearest: cone at 44 m)")


def test_of_a_spec_with_two_actors_both_must_act(tmp_path: Path) -> None:
    """The second actor never acts, acts far away, and acts near the ego."""
    further = {
        "adversary": "animal", "behaviour": "cross", "trigger": {"value": [2, 3]}, "road": "open", "speed_mps": [2, 3],
        "place": {"side": "right", "lane": "pavement", "ahead_m": [40, 50]},
    }  # fmt: skip
    both = ThreatSpec.model_validate({**spec("cross").model_dump(mode="json"), "further": [further]})
    (tmp_path / "tracks").mkdir()
    seen = track((0.0, 9.0), (2.5, 7.0))
    seen["bodies"]["b"] = {"kind": "animal", "role": "scenario"}
    events = [(1.0, "trigger"), (2.0, "act"), (2.0, "act 1")]

    def draw(*poses: float, acts: bool = True) -> ScenarioDraw:
        for sample, x in zip(seen["samples"][-len(poses) :], poses, strict=True):
            sample["actors"]["b"] = [x, 0.0, 0.0]
        (tmp_path / "tracks" / "x_rep0.json").write_text(json.dumps(seen))
        return draw_of(record(events=[*events, (3.0, "act 2")] if acts else events), tmp_path, both)

    never = draw(20.0, 18.0, acts=False)
    assert (never.acts, never.idle) == (False, ("2. animal",))
    assert verdict_of([never]).reason == 'says "act", but of its actors 2. animal does not act near the ego'
    assert not draw(90.0, 80.0).acts
    assert draw(20.0, 18.0).acts


@pytest.mark.parametrize("text", ["", "[]", '{"bodies": 3}', '{"bodies": {}, "samples": [3]}'])
def test_a_malformed_track_is_a_one_line_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "tracks").mkdir()
    (tmp_path / "tracks" / "x_rep0.json").write_text(text)
    with pytest.raises(DataError, match=r"x_rep0\.json.*Remove .*; everything is then driven again"):
        draw_of(record(), tmp_path)


NEAR = NearestActor("car", 5.0, 1.0)


def test_a_draw_without_a_threat_is_not_survived() -> None:
    idle, hit = (
        ScenarioDraw(record(events=[])),
        ScenarioDraw(record(infractions={"collisions_vehicle": ["bump"]}), NEAR),
    )
    found = verdict_of([idle, hit])
    assert (found.acts, found.survivable, found.survived, found.tries) == (True, False, 0, 2)
    assert (
        found.reason
        == "the expert does not survive it in 2 of 2 draws: nothing acts in 1; collisions vehicle in 1 (bump)"
    )
    assert verdict_of([idle, hit, ScenarioDraw(record(), NEAR)]).survived == 1


def test_a_program_that_ends_itself_is_survived_only_without_infractions() -> None:
    ended = record(status=PROGRAM_ENDED, score_route=40.0)
    assert verdict_of([ScenarioDraw(ended, NEAR)]).passed
    assert not verdict_of([ScenarioDraw(replace(ended, infractions={"red_light": ["x"]}), NEAR)]).passed


def test_a_failed_world_is_no_compile_error() -> None:
    found = verdict_of([ScenarioDraw(record(end="world failed", map={}, events=[], reason="hung: no sign of life"))])
    assert (found.compiles, found.runs) == (True, False)
    assert found.reason == "does not run: hung: no sign of life"
    found = verdict_of([ScenarioDraw(record(end="invalid episode", map={}, events=[], reason="f.scenic, line 3: no"))])
    assert (found.compiles, found.reason) == (False, "f.scenic, line 3: no")


def test_draws_of_a_failed_world_are_counted_apart() -> None:
    draw = ScenarioDraw(record(), NearestActor("child", 10.0, 2.0))
    hit = ScenarioDraw(record(infractions={"collisions_vehicle": ["hit"]}), draw.nearest)
    lost = ScenarioDraw(record(end=EndReason.WORLD_FAILED))
    found = verdict_of([draw], others=[draw, hit, lost], needed=2)
    assert (found.others, found.others_survived, found.others_failed, found.passed) == (2, 1, 1, False)
    assert found.reason.startswith(
        "survives 1 of 2 other draws, 2 needed; 1 could not be scored: the world failed; collisions vehicle in 1"
    )
