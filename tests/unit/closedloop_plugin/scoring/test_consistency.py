"""Inconsistent scores: found, named with what differs, and not changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.scored import raw

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.scoring import official
from closedloop_plugin.scoring.consistency import check
from closedloop_plugin.scoring.official_record import OfficialRecord, parse_record

B2D, LB20, LB21 = profile("bench2drive"), profile("leaderboard-2.0"), profile("leaderboard-2.1")
LANES = "Agent went outside its route lanes for about 3.0 meters (5.42% of the completed route)"
SLOW = "Average speed is 50.0% of the surrounding traffic's one"


def with_scores(route: float, penalty: float, composed: float, **lists: list[str]) -> OfficialRecord:
    row = raw("7", infractions=lists)
    row["scores"] = {"score_route": route, "score_penalty": penalty, "score_composed": composed}
    return parse_record(row, "file.json", 0)


def test_the_composed_score_must_be_route_times_penalty() -> None:
    found = check([with_scores(80.0, 0.6, 60.0, collisions_vehicle=["hit"])], B2D)
    assert [str(one) for one in found.inconsistent] == [
        "route 7: score_composed is 60, score_route x score_penalty = 80 x 0.6 is 48"
    ]
    assert found.routes == ("7",)


def test_the_penalty_must_be_the_product_of_the_listed_infractions() -> None:
    hits = with_scores(100.0, 0.6, 60.0, collisions_vehicle=["a", "b"], outside_route_lanes=[LANES], red_light=["r"])
    (found,) = check([hits], B2D).inconsistent
    assert (found.route, found.repetition, found.field, found.found) == ("7", 0, "score_penalty", 0.6)
    assert found.expected == pytest.approx(0.6 * 0.6 * 0.7 * (1 - 0.0542))
    assert found.basis == (
        "the penalty of its infractions (collisions_vehicle x 2, red_light x 1, outside_route_lanes 5.42 %) under "
        "profile bench2drive"
    )


def test_the_profile_decides_the_factors() -> None:
    hit: dict[str, Any] = {"collisions_vehicle": ["x"]}
    assert not check([with_scores(100.0, 0.6, 60.0, **hit)], B2D).inconsistent
    additive = with_scores(100.0, round(1 / 1.7, 6), 58.8235, **hit)
    assert not check([additive], LB21).inconsistent
    assert "under profile bench2drive" in str(check([additive], B2D).inconsistent[0])
    slow = with_scores(100.0, 0.85, 85.0, min_speed_infractions=[SLOW])
    assert not check([slow], LB20).inconsistent
    (found,) = check([slow], B2D).inconsistent
    assert "(none)" in found.basis, "no penalty for speed under this profile"
    assert "min_speed_infractions x 1" in check([with_scores(100.0, 1.0, 100.0, **{
        "min_speed_infractions": [SLOW]})], LB20).inconsistent[0].basis  # fmt: skip


def test_differences_within_the_rounding_of_the_file_are_none() -> None:
    lanes = with_scores(100.0, 0.945842, 94.584218, outside_route_lanes=[LANES])  # 5.4158 %, printed as 5.42 %
    rounded = with_scores(66.667, 0.6, 40.0, collisions_vehicle=["x"])
    assert not check([lanes], B2D).inconsistent
    assert not check([rounded], B2D).inconsistent
    coarse = with_scores(66.667, 0.6, 40.02, collisions_vehicle=["x"])
    assert not check([coarse], B2D).inconsistent, "three decimals of the penalty leave 0.033"
    assert check([coarse, lanes], B2D).routes == ("7",), "another record shows that the file has six"


def test_records_that_were_never_scored_are_not_inconsistent() -> None:
    row = raw("1", status="Failed - Agent couldn't be set up")
    row["scores"] = dict.fromkeys(("score_route", "score_penalty", "score_composed"), 0.0)
    assert not check([parse_record(row, "f", 0)], B2D).inconsistent
    hit = with_scores(0.0, 0.0, 0.0, collisions_vehicle=["x"])
    assert check([hit], B2D).unchecked == {"with infractions but three scores of 0": ("7",)}
    started = with_scores(0.0, 1.0, 0.0)
    assert not check([started], B2D).inconsistent


def test_what_cannot_be_checked_is_named() -> None:
    bare = raw("1")
    del bare["infractions"], bare["scores"]["score_composed"]
    words = with_scores(100.0, 0.9, 90.0, outside_route_lanes=["Agent went outside its route lanes"])
    found = check([parse_record(bare, "f", 0), words], B2D)
    assert found.unchecked == {
        "without score_composed": ("1",),
        "without infractions": ("1",),
        "with a lane message without a percentage": ("7",),
    }
    assert not found.inconsistent


def test_the_public_file_of_pdm_lite_is_consistent(data_dir: Path) -> None:
    records = official.read([data_dir / "bench2drive" / "pdm_lite_results.json"]).records
    found = check(records, B2D)
    unchecked = {"with infractions but three scores of 0": ("11755",)}  # Failed - TickRuntime, with speed messages
    assert (len(records), found.inconsistent, found.unchecked) == (220, (), unchecked)
    edited = [replace(r, score_composed=100.0) if (r.score or 0) < 100 else r for r in records]
    assert len(check(edited, B2D).routes) == sum(r.score < 100 for r in records) > 0
    assert check(records, LB21).routes, "the additive rule gives other penalties"
