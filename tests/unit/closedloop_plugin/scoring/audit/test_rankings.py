"""Paired differences, and the published orders that they confirm."""

from __future__ import annotations

import numpy as np
import pytest
from support.closedloop.audits import audited_result

from closedloop_plugin.scoring.audit.rankings import differences, ranking
from closedloop_plugin.scoring.audit.sample_size import paired_interval
from lmms_eval_ad2.scoring.metrics.paired_comparison import paired

LOW = np.array([0.0, 0.0, 60.0, 100.0] * 20)
HIGH = np.array([60.0, 100.0, 100.0, 100.0] * 20)


def verdicts(first: float, second: float, a: np.ndarray = HIGH, b: np.ndarray = LOW) -> list[str]:
    results = [audited_result("a", a, first), audited_result("b", b, second)]
    return [pair.verdict for pair in differences(results)["driving_score"]]


def test_a_difference_has_the_interval_of_the_paired_comparison() -> None:
    (pair,) = differences([audited_result("a", HIGH), audited_result("b", LOW)])["driving_score"]
    by_route = [{str(i): float(value) for i, value in enumerate(values)} for values in (HIGH, LOW)]
    expected = paired(*by_route, bounds=(0.0, 100.0))
    assert pair.value == pytest.approx(expected.difference) == 50.0
    assert pair.ci is not None and expected.ci is not None
    assert pair.ci == pytest.approx((expected.ci.low, expected.ci.high))
    assert pair.excludes_zero and pair.routes == len(HIGH)
    assert (pair.reverse.value, pair.reverse.ci) == (-pair.value, (-pair.ci[1], -pair.ci[0]))
    interval = paired_interval(HIGH - LOW)  # whose coverage the sample size checks
    assert interval is not None and (interval.low, interval.high) == pytest.approx(pair.ci)


def test_a_route_without_a_record_is_0_in_the_difference() -> None:
    a, b = audited_result("a", HIGH, missing=[1]), audited_result("b", LOW)
    assert a.missing == ["1"] and a.values["success_rate"][1] == 0.0
    found = differences([a, b])
    assert found["driving_score"][0].value == pytest.approx(50.0 - 100.0 / len(HIGH))
    assert found["success_rate"][0].value == pytest.approx(50.0 - 100.0 / len(HIGH))


def test_an_order_holds_is_reversed_open_or_a_tie() -> None:
    assert verdicts(90.0, 40.0) == ["holds"]
    assert verdicts(40.0, 90.0) == ["reversed"]
    assert verdicts(50.0, 50.0) == ["tie"]
    assert verdicts(90.0, 40.0, LOW, np.roll(LOW, 1)) == ["open"]
    assert verdicts(90.0, 40.0, np.array([100.0]), np.array([0.0])) == ["open"]  # one route has no interval


def test_the_ranking_follows_the_printed_figures_and_shows_the_recomputed_places() -> None:
    results = [audited_result("a", LOW, 95.0), audited_result("b", HIGH, 90.0), audited_result("c", LOW - LOW, 0.0)]
    pairs = differences(results)["driving_score"]
    found = ranking(results, "driving_score", pairs)
    assert found.order == (0, 1, 2)
    assert found.recomputed_ranks == {1: 1, 0: 2, 2: 3}
    assert [(pair.a, pair.b, pair.verdict) for pair in found.next_pairs] == [(0, 1, "reversed"), (1, 2, "holds")]
    assert found.verdicts == {"reversed": 1, "holds": 2}


def test_a_result_without_a_printed_figure_has_no_place_and_no_verdict() -> None:
    results = [audited_result("a", LOW, 30.0), audited_result("b", HIGH), audited_result("c", LOW - LOW, 0.0)]
    assert results[1].printed_figure("driving_score") is None
    pairs = differences(results)["driving_score"]
    assert [pair.verdict for pair in pairs] == [None, "holds", None]
    found = ranking(results, "driving_score", pairs)
    assert (found.order, found.unprinted, found.recomputed_ranks) == ((0, 2), (1,), {0: 1, 2: 2})
    assert [(pair.a, pair.b) for pair in found.next_pairs] == [(0, 2)] and found.verdicts == {"holds": 1}


def test_a_printed_figure_is_equal_to_two_decimals() -> None:
    """A key of a file has more decimals than a printed figure."""
    assert verdicts(48.64, 48.6363636) == ["tie"]
