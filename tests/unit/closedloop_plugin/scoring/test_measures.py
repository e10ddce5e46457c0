"""The rule "whole": every route that both runs were to drive, missing episodes as 0."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.closedloop.scored import episode, record

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.scoring.compare import compare
from closedloop_plugin.scoring.measures import ComparedEpisode, ComparedRun, pair_routes
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error


def run_of(
    name: str, routes: Sequence[str], records: Sequence[OfficialRecord | EpisodeRecord], repetitions: int = 1
) -> ComparedRun:
    return ComparedRun(name, routes, [ComparedEpisode.of(r) for r in records], repetitions)


def figure(a: ComparedRun, b: ComparedRun, name: str) -> tuple[float | None, float | None, int]:
    row = next(r for r in compare(a, b, rule="whole").rows if r.name == name)
    return row.a, row.b, row.n


def test_a_missing_episode_is_0_in_two_figures_and_absent_from_the_others() -> None:
    speed = {"min_speed_infractions": ["Average speed is 80% of the surrounding traffic's one"]}
    a = run_of("a", ["1", "2", "3"], [record("1", infractions=speed), record("2", infractions=speed)])
    b = run_of("b", ["1", "2", "3"], [record("1", infractions=speed)])
    assert figure(a, b, "driving_score") == (pytest.approx(200 / 3), pytest.approx(100 / 3), 3)
    assert figure(a, b, "success_rate") == (pytest.approx(200 / 3), pytest.approx(100 / 3), 3)
    assert figure(a, b, "efficiency") == (80.0, 80.0, 1)
    found = compare(a, b, rule="whole")
    assert found.missing == ([("3", 0)], [("2", 0), ("3", 0)])
    assert (found.n_common, found.left_out) == (1, {})
    assert [(r.route, r.a, r.b) for r in found.by_route] == [("1", 100.0, 100.0), ("2", 100.0, 0.0), ("3", 0.0, 0.0)]
    common = compare(a, b)
    assert (common.rule, list(common.routes), common.missing) == ("common", ["1"], ((), ()))


def test_a_missing_repetition_counts_0_too() -> None:
    a = run_of("a", ["1"], [record("1", 0), record("1", 1)], repetitions=2)
    b = run_of("b", ["1"], [record("1", 1)], repetitions=2)
    assert figure(a, b, "driving_score") == (100.0, 50.0, 1)
    found = compare(a, b, rule="whole")
    assert found.missing[1] == [("1", 0)]
    spread = next(r for r in found.rows if r.name == "driving_score").spread_b
    assert spread is None, "only one repetition has a record"


def test_a_fault_of_the_world_is_no_drive_of_its_driver() -> None:
    crash = episode("1", end=EndReason.WORLD_FAILED, status="Failed - Simulation crashed", score_composed=0.0)
    a = run_of("a", ["1", "2"], [crash, episode("2")], repetitions=1)
    b = run_of("b", ["1", "2"], [episode("1"), episode("2")])
    found = pair_routes(a, b, "whole")
    assert (list(found.routes), found.left_out) == (["2"], {"fault of the world in a": ["1"]})
    again = episode("1", repetition=1)
    both = run_of("a", ["1"], [crash, again], repetitions=2)
    assert pair_routes(both, run_of("b", ["1"], [episode("1")]), "whole").missing[0] == []


def test_crashed_records_of_official_files_count_as_they_stand() -> None:
    crash = record("1", status="Failed - Simulation crashed", score=0.0)
    a, b = run_of("a", ["1"], [crash]), run_of("b", ["1"], [record("1")])
    assert figure(a, b, "driving_score") == (0.0, 100.0, 1)
    assert any("1 record(s) of a crash count as they are: 1" in note for note in compare(a, b, rule="whole").notes)


def test_only_routes_that_both_were_to_drive_are_paired() -> None:
    a = run_of("a", ["1", "2"], [record("1"), record("2")])
    b = run_of("b", ["2", "3"], [record("2", town="", score=40.0), record("3")])
    found = pair_routes(a, b, "whole")
    assert list(found.routes) == ["2"], "a record without its town is not of another route"
    assert found.left_out == {"only in a": ["1"], "only in b": ["3"]}
    uncertain = episode("2", map={"experimental": True})
    with pytest.raises(Ad2Error, match="1 experimental map in c"):
        pair_routes(a, run_of("c", ["2"], [uncertain]), "whole")
    with pytest.raises(Ad2Error, match="on another route under the same id"):
        pair_routes(a, run_of("d", ["1"], [record("1", town="Town01")]), "whole")
