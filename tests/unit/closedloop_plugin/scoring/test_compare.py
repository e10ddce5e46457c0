"""Paired comparison of two runs: figures computed by hand, routes left out, and the paper's tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.scored import episode

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.scoring.ability import ShareBelow
from closedloop_plugin.scoring.compare import DrivingComparison, DrivingComparisonRow, compare
from closedloop_plugin.scoring.measures import MEASURES, ComparedEpisode, ComparedRun, signs_tested
from closedloop_plugin.scoring.official_record import OfficialRecord
from closedloop_plugin.scoring.published import published
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.scoring.metrics.intervals import PERCENT, mean_interval, wilson

BRAKES, OVERTAKES, MERGES, GIVES, SIGNS = (
    "HardBreakRoute", "Accident", "HighwayCutIn", "InvadingTurn", "VanillaSignalizedTurnEncounterRedLight",
)  # fmt: skip


def completed(route: str, score: float = 100.0, rep: int = 0, hits: int = 0, **changes: Any) -> EpisodeRecord:
    """A completed drive; a success if the score is 100."""
    lists = dict(episode().infractions)
    lists["collisions_vehicle"] = ["hit"] * (hits or (score < 100.0))
    return episode(route, rep, score_composed=score, infractions=lists, **changes)


def compared_runs(
    a: list[EpisodeRecord], b: list[EpisodeRecord], routes: list[str] | None = None
) -> tuple[ComparedRun, ComparedRun]:
    def route_ids(records: list[EpisodeRecord]) -> list[str]:
        return routes or list(dict.fromkeys(r.route_id for r in records))

    return compared_run("standard", route_ids(a), a), compared_run("threat", route_ids(b), b)


def compared_run(name: str, routes: Sequence[str], records: Sequence[EpisodeRecord | OfficialRecord]) -> ComparedRun:
    return ComparedRun(name, routes, [ComparedEpisode.of(r) for r in records])


def row(found: DrivingComparison, name: str) -> DrivingComparisonRow:
    return next(r for r in found.rows if r.name == name)


def test_the_drop_is_paired_by_route() -> None:
    a = [completed("1", 100.0), completed("2", 80.0), completed("3", 60.0)]
    b = [completed("3", 30.0), completed("1", 90.0), completed("2", 60.0)]
    found = compare(*compared_runs(a, b))
    score = row(found, "driving_score")
    assert (score.n, score.a, score.b, score.drop, score.relative) == (3, 80.0, 60.0, 20.0, 25.0)
    gain = row(compare(*compared_runs(b, a)), "driving_score")
    assert (gain.drop, gain.relative) == (-20.0, pytest.approx(-100 / 3))
    assert score.ci_drop == pytest.approx((-5.32, 42.90), abs=0.01)  # Student's t of 10, 20, 30: about 20 +- 24.8
    assert (score.p_value, score.test) == (0.25, "sign-flip")  # 2 of 8 flips are as extreme
    success = row(found, "success_rate")
    assert (success.a, success.b, success.drop, success.test) == (
        pytest.approx(100 / 3),
        0.0,
        pytest.approx(100 / 3),
        "mcnemar",
    )
    assert success.relative == pytest.approx(100.0)
    assert success.ci_relative is None  # b is 0: the drop is 100 % whichever routes are left out


def test_the_interval_of_a_column_is_that_of_the_summary() -> None:
    scores = [10.0, 35.0, 80.0, 100.0, 55.0]
    names = [str(i) for i in range(5)]
    a = [completed(n, s) for n, s in zip(names, scores, strict=True)]
    found = row(compare(*compared_runs(a, [completed(n, 50.0) for n in names])), "driving_score")
    same = mean_interval(scores, bounds=PERCENT)
    assert same is not None and found.ci_a == pytest.approx((same.low, same.high))
    assert found.ci_b == pytest.approx((50 - 50 * wilson(0, 5).high, 50 + 50 * wilson(0, 5).high))  # no score differs
    drop = mean_interval([score - 50.0 for score in scores], bounds=(-100.0, 100.0))
    assert drop is not None and found.ci_drop == pytest.approx((drop.low, drop.high))


def test_repetitions_are_averaged_by_route_and_their_spread_is_reported() -> None:
    a = [completed("1", 90.0), completed("1", 70.0, rep=1), completed("2", 50.0), completed("2", 50.0, rep=1)]
    b = [completed("1", 40.0), completed("2", 50.0)]
    found = compare(*compared_runs(a, b))
    score = row(found, "driving_score")
    assert (score.a, score.b, score.n) == (65.0, 45.0, 2)
    assert score.spread_a == pytest.approx(statistics.stdev([70.0, 60.0]))
    assert score.spread_b is None
    assert found.repetitions == (2, 1)
    uneven = compare(*compared_runs(a[:3], b))
    assert row(uneven, "driving_score").a == 65.0  # (80 + 50) / 2: the route with two does not count twice
    assert any("1 to 2 repetitions" in note for note in uneven.notes)


def test_collisions_per_kilometre_are_a_ratio_of_sums() -> None:
    a = [completed("1", hits=1, route_length_m=1000.0), completed("2", route_length_m=3000.0)]
    b = [completed("1", hits=3, route_length_m=1000.0, score_route=50.0), completed("2", hits=1, route_length_m=3000.0)]
    found = row(compare(*compared_runs(a, b)), "collisions_per_km")
    assert (found.a, found.b) == (pytest.approx(1 / 4), pytest.approx(4 / 3.5))
    assert not found.higher_is_better and found.test == "sign-flip"
    still = [completed("1", score_route=0.0)]
    none = row(compare(*compared_runs(still, still)), "collisions_per_km")
    assert (none.a, none.reason) == (None, "nothing was driven")


def test_abilities_use_the_standard_routes_type_and_skill_is_their_mean() -> None:
    types = [BRAKES, OVERTAKES, MERGES, GIVES, SIGNS]
    a = [completed(t, scenario=t, scenario_name=f"{t}_1", junctions_passed=1) for t in types]
    b = [completed(t, 50.0, scenario="Threat", scenario_name=f"{t}_1", junctions_passed=1) for t in types]
    found = compare(*compared_runs(a, b))
    assert (row(found, "Emergency_Brake").a, row(found, "Emergency_Brake").b) == (100.0, 0.0)
    assert (row(found, "Traffic_Signs").a, row(found, "Traffic_Signs").b) == (100.0, 50.0)  # half for the junction test
    newer = compare(*compared_runs(a, b), signs="v0.0.4")
    assert (row(newer, "Traffic_Signs").a, row(newer, "Traffic_Signs").b) == (
        100.0,
        100.0,
    )  # a passed test counts fully
    assert row(newer, "skill_score").b == 20.0 and any("variant v0.0.4" in note for note in newer.notes)
    skill = row(found, "skill_score")
    assert (skill.a, skill.b, skill.n) == (100.0, 10.0, 5)
    assert skill.ci_drop is None  # an ability with one route has no spread
    assert skill.p_value == 0.0625  # 2 of 2^5 flips
    untested = compare(*compared_runs(a, [*b[:4], completed(SIGNS, 50.0, scenario_name=f"{SIGNS}_1")]))
    assert (row(untested, "Traffic_Signs").b, row(untested, "Traffic_Signs").a) == (0.0, 100.0)
    assert any("lack the junction test" in note for note in untested.notes)
    plain = [ComparedEpisode.of(completed(k, scenario=SIGNS, scenario_name=f"{SIGNS}_1")) for k in ("1", "2")]
    bounded = [replace(one, bound=ShareBelow(100)) for one in plain]
    assert signs_tested(bounded, "v0.0.3") and not signs_tested([bounded[0], plain[1]], "v0.0.3")
    assert signs_tested(plain, "v0.0.4")  # which asks no success for its junction test
    without = row(compare(*compared_runs(a[:4], b[:4])), "skill_score")
    assert (without.a, without.reason) == (None, "no route that both drove has a value")


def test_threats_that_replaced_the_standard_scenario_have_no_abilities() -> None:
    a = [completed("1", scenario=BRAKES), completed("2", scenario=MERGES)]
    b = [replace(r, world={**r.world, "program": "abc", "standard": "replaced"}) for r in a]
    found = compare(*compared_runs(a, b))
    assert {r.group for r in found.rows} == {"paper", "extra"} and "skill_score" not in {r.name for r in found.rows}
    assert any(note.startswith("threat: 2 of 2 episode(s) test no ability") for note in found.notes)
    kept = [replace(r, world={**r.world, "standard": "kept"}) for r in b]
    assert row(compare(*compared_runs(a, kept)), "Emergency_Brake").b == 100.0
    mixed = compare(*compared_runs(a, [b[0], kept[1]]))
    assert row(mixed, "Merging").b == 100.0 and row(mixed, "Emergency_Brake").b is None


def test_skill_score_has_an_interval_if_every_ability_has_two_routes() -> None:
    types = [BRAKES, OVERTAKES, MERGES, GIVES, SIGNS]
    a = [completed(f"{t}{k}", scenario=t, scenario_name=t, junctions_passed=1) for t in types for k in (1, 2)]
    b = [
        completed(r.route_id, 50.0 * int(r.route_id[-1]), scenario_name=r.scenario_name, junctions_passed=1) for r in a
    ]
    skill = row(compare(*compared_runs(a, b)), "skill_score")
    assert (skill.a, skill.b) == (100.0, pytest.approx((4 * 50.0 + 75.0) / 5))
    assert skill.ci_drop is not None and skill.ci_drop[0] < skill.drop < skill.ci_drop[1]  # type: ignore[operator]


def test_runs_that_differ_on_no_route_have_the_interval_of_none_in_n() -> None:
    """The Skill Score's is at most the mean of its abilities'; a measure without bounds has none."""
    types = [BRAKES, OVERTAKES, MERGES, GIVES, SIGNS]
    speeds = {"min_speed_infractions": ["Average speed is 80 % of the surrounding traffic's one"]}
    a = [
        completed(f"{t}{k}", 100.0 * (k > 1), scenario=t, scenario_name=t, junctions_passed=1, hits=0)
        for t in types
        for k in range(10 if t == GIVES else 40)
    ]
    a = [replace(one, infractions={**one.infractions, **speeds}) for one in a]
    found = compare(*compared_runs(a, a))
    skill, few, many = row(found, "skill_score"), 100 * wilson(0, 10).high, 100 * wilson(0, 40).high
    assert (skill.drop, row(found, "Give_Way").ci_drop) == (0.0, pytest.approx((-few, few)))
    assert row(found, "Merging").ci_drop == pytest.approx((-many, many))
    assert skill.ci_drop == pytest.approx((-few / 5, few / 5))
    for name in ("efficiency", "collisions_per_km"):
        assert (row(found, name).drop, row(found, name).ci_drop) == (0.0, None)


def test_failed_episodes_are_listed_and_not_counted_as_0() -> None:
    a = [
        completed("1", 80.0),
        completed("2", 60.0),
        completed("3", 70.0),
        completed("4"),
        completed("6", map={"experimental": True}),
    ]
    b = [
        completed("1", 40.0), completed("2", 0.0, end=EndReason.WORLD_FAILED),
        completed("3", 0.0, end=EndReason.INVALID), completed("6"), completed("7"),
    ]  # fmt: skip
    left, right = compared_runs(a, b)
    found = compare(left, compared_run("threat", [*right.routes, "5"], b))
    assert found.routes == ["1"]
    assert (row(found, "driving_score").a, row(found, "driving_score").b) == (80.0, 40.0)
    assert found.left_out == {
        "fault of the world in threat": ["2"],
        "fault of the program in threat": ["3"],
        "only in standard": ["4"],
        "experimental map in standard": ["6"],
        "only in threat": ["7", "5"],
    }
    assert any("by fault of: program 1, world 1" in note for note in found.notes)
    begun = compare(compared_run("standard", ["1", "2"], a[:1]), compared_run("threat", ["1", "2"], b[:1]))
    assert begun.left_out == {"no record in standard": ["2"]}


def test_a_failed_repetition_does_not_exclude_its_route() -> None:
    a = [completed("1", 80.0), completed("1", 0.0, rep=1, end=EndReason.AGENT_FAILED)]
    assert row(compare(*compared_runs(a, [completed("1", 40.0)])), "driving_score").a == 80.0


def test_runs_without_a_common_route_are_refused() -> None:
    with pytest.raises(Ad2Error, match=r"no route in common.*1 only in standard; 1 only in threat"):
        compare(*compared_runs([completed("1")], [completed("cut_in")]))


def test_different_routes_with_the_same_id_are_not_paired() -> None:
    a = [completed("1"), completed("2"), completed("3")]
    b = [completed("1", 50.0), completed("2", 0.0, town="Town05"), completed("3", 0.0, scenario_name="Accident_7")]
    found = compare(*compared_runs(a, b))
    assert (list(found.routes), row(found, "driving_score").b) == (["1"], 50.0)
    assert found.left_out == {"on another route under the same id": ["2", "3"]}
    with pytest.raises(Ad2Error, match="2 on another route under the same id"):
        compare(*compared_runs(a[1:], b[1:]))


def test_margins_are_compared_on_routes_where_both_runs_have_them() -> None:
    a = [completed("1", margins={"min_ttc_s": 3.0, "min_gap_m": 2.0}), completed("2", margins={"min_ttc_s": None})]
    b = [completed("1", margins={"min_ttc_s": 1.0, "min_gap_m": 0.5}), completed("2", margins={"min_ttc_s": 1.4})]
    found = compare(*compared_runs(a, b))
    ttc, near = row(found, "min_ttc_s"), row(found, "near_misses")
    assert (ttc.n, ttc.a, ttc.b) == (1, 3.0, 1.0)
    assert (near.n, near.a, near.b) == (2, 0.0, 100.0)  # without a collision course there is no near miss
    assert row(found, "min_gap_m").drop == 1.5
    assert row(
        compare(*compared_runs([completed("1")], [completed("1")])), "min_ttc_s"
    ).reason  # no margins in older records
    strange = [completed("1", margins={"min_ttc_s": "soon"})]
    assert row(compare(*compared_runs(strange, strange)), "min_ttc_s").a is None


def test_holm_corrects_the_papers_five_and_the_others_separately() -> None:
    names = [str(i) for i in range(12)]
    a = [completed(n, scenario=BRAKES, comfort={"official": 0.5}) for n in names]
    b = [completed(n, 40.0 + int(n), comfort={"official": 0.5}) for n in names]
    found = compare(*compared_runs(a, b))
    score, success = row(found, "driving_score"), row(found, "success_rate")
    assert score.p_value == success.p_value == 2 / 4096
    assert (
        score.p_holm == success.p_holm == pytest.approx(3 * 2 / 4096)
    )  # the third is comfort; efficiency has no value
    brake = row(found, "Emergency_Brake")
    assert brake.p_holm == pytest.approx(2 * brake.p_value)  # type: ignore[operator]
    assert row(found, "comfortness").p_value == 1.0


def test_measures_have_unique_names() -> None:
    assert len({m.name for m in MEASURES}) == len(MEASURES)


def test_the_published_tables_agree_with_the_text_of_the_paper(data_dir: Path) -> None:
    """Row by row: dagger is CNG, star is DCS."""
    paper = data_dir.parent / "papers" / "bench2advlm.txt"
    if not paper.is_file():
        pytest.skip("the paper's text is not here")
    rows = [line for line in paper.read_text().splitlines() if "†" in line or "⋆" in line]
    figures = [
        [float(c) for c in (x.strip() for x in line.split("|")) if c.replace(".", "").isdigit()] for line in rows
    ]
    table_1, table_2 = figures[:16], figures[16:32]
    for k, driver in enumerate(published().drivers):
        assert list(driver.standard.values()) == table_1[k]
        assert list(driver.threat.values()) == table_2[k]
        assert driver.slow in rows[k] and ("†" in rows[k]) == (driver.mode == "cng")
    firsts = [line.split()[0] for line in rows[:16:4]]
    assert firsts == [d.fast for d in published().drivers[::4]]


def test_every_claim_is_checked_against_the_printed_figures() -> None:
    paper = published()
    drivers = paper.drivers

    def mean(which: str, name: str, **of: str) -> float:
        chosen = [d for d in drivers if all(getattr(d, k) == v for k, v in of.items())]
        return statistics.fmean(getattr(d, which)[name] for d in chosen)

    computed = [claim.computed for claim in paper.claims]
    before, after = mean("standard", "driving_score"), mean("threat", "driving_score")
    relative = [100 * d.drop["driving_score"] / d.standard["driving_score"] for d in drivers]
    assert (
        f"{before:.2f} to {after:.2f}, by {100 * (before - after) / before:.1f} %; {max(relative):.1f} %" in computed[0]
    )
    worst = max(drivers, key=lambda d: d.drop["skill_score"])
    assert f"{worst.drop['skill_score']:.2f} ({worst.fast}, {worst.slow}, {worst.mode.upper()})" in computed[1]
    assert (drivers[4].drop["success_rate"], drivers[8].drop["success_rate"]) == (1.18, 0.57)
    omni = [d for d in drivers if d.fast == "OmniDrive"]
    assert round(statistics.fmean(d.drop["comfortness"] for d in omni), 2) == 12.15
    assert round(statistics.fmean(d.drop["success_rate"] for d in omni), 2) == 1.44
    for name, expected in (("success_rate", 2), ("comfortness", 2), ("driving_score", 0), ("skill_score", 0)):
        beaten = [d for k, d in enumerate(omni) if any(o.standard[name] > d.standard[name] for o in drivers[k:12:4])]
        assert len(beaten) == expected
    own = {f: round(mean("standard", "driving_score", fast=f), 2) for f in ("DriveLM", "Dolphins", "EM-VLM4AD")}
    assert own == {"DriveLM": 39.39, "Dolphins": 35.19, "EM-VLM4AD": 36.42}
    for key, one, other, text in (
        ("mode", "cng", "dcs", computed[6]),
        ("slow", "LLaVA-1.5-13B", "LLaMA-3-8B", computed[7]),
    ):
        first, second = ([d for d in drivers if getattr(d, key) == v] for v in (one, other))
        wins = sum(
            x.standard["driving_score"] > y.standard["driving_score"] for x, y in zip(first, second, strict=True)
        )
        assert f"in {wins} of 8 pairs" in text
        for value in (one, other):
            assert f"{mean('standard', 'driving_score', **{key: value}):.1f}" in text
    reachable = {f"{k / 22:.2f}" for k in range(2201)}
    unreachable = [
        sum(f"{getattr(d, t)['success_rate']:.2f}" not in reachable for d in drivers) for t in ("standard", "threat")
    ]
    assert f"{unreachable[0]} of 16 values of Table 1 and {unreachable[1]} of 16" in computed[8]
    fine, hybrid = (e.figures["success_rate"] for e in paper.extensions)
    assert (f"{fine:.2f}" in reachable, f"{hybrid:.2f}" in reachable) == (False, True)
    assert f"{hybrid} is a multiple of 1/2200, {fine} is not" in computed[10]
    assert [c.agrees for c in paper.claims] == [False, False, True, True, *[False] * 7]


def test_the_figures_of_section_5_are_those_of_the_text(data_dir: Path) -> None:
    paper = data_dir.parent / "papers" / "bench2advlm.txt"
    if not paper.is_file():
        pytest.skip("the paper's text is not here")
    text = paper.read_text()
    fine, hybrid = published().extensions
    first, second = (d.standard for d in published().drivers if (d.fast, d.mode) == ("DriveLM", "cng"))
    assert f"from {first['success_rate']} to {fine.figures['success_rate']} on 220 standard routes" in text
    pairs = [f"{d['success_rate']}, {d['efficiency']}" for d in (first, second, hybrid.figures)]
    assert f"LLaMA: {pairs[0]}; LLaVA: {pairs[1]}; Hybrid: {pairs[2]}" in text
