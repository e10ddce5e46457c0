"""Sample sizes: the intervals behind them cover 93 to 97 %, and the planned routes give the planned width."""

from __future__ import annotations

import numpy as np
import pytest

from closedloop_plugin.scoring.audit import sample_size
from closedloop_plugin.scoring.audit.sample_size import Z, coverage, paired_interval, plan, routes_needed, seeds_needed
from lmms_eval_ad2.scoring.metrics.intervals import ConfidenceInterval, Floats

# Route scores of driving results: most are 100, 60 (one collision), 36 (two) or near 0. Shares of a weak, a middling
# and a strong driver, as in public result files.
SCORES = np.array([0.0, 12.0, 36.0, 49.0, 60.0, 65.0, 70.0, 100.0])
SHARES = {
    "weak": (0.16, 0.16, 0.10, 0.10, 0.20, 0.10, 0.03, 0.15),
    "middling": (0.04, 0.06, 0.06, 0.05, 0.16, 0.06, 0.04, 0.53),
    "strong": (0.01, 0.01, 0.01, 0.01, 0.03, 0.01, 0.00, 0.92),
}


def driven(driver: str, seed: int, n: int = 220) -> Floats:
    shares = np.array(SHARES[driver])
    return np.random.default_rng(seed).choice(SCORES, size=n, p=shares / shares.sum())


def table() -> Floats:
    runs = [driven(driver, seed) for seed, driver in enumerate(("weak", "middling", "strong", "middling"))]
    return np.array([a - b for i, a in enumerate(runs) for b in runs[i + 1 :]])


@pytest.mark.parametrize("n", [110, 220, 440])
def test_intervals_of_differences_cover_93_to_97_percent(n: int) -> None:
    assert 0.93 <= coverage(table(), n, draws=2000) <= 0.97


def test_intervals_of_success_cover_93_to_97_percent() -> None:
    successes = np.array([100.0 * (driven(d, s) == 100.0) for s, d in enumerate(("weak", "middling"))])
    assert 0.93 <= coverage(successes[:1] - successes[1:], 220, draws=2000) <= 0.97


def test_intervals_of_half_the_width_cover_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(values: Floats) -> ConfidenceInterval | None:
        ci, mean = paired_interval(values), float(values.mean())
        return ci and ConfidenceInterval((ci.low + mean) / 2, (ci.high + mean) / 2)

    monkeypatch.setattr(sample_size, "paired_interval", narrow)
    assert 0.6 <= coverage(table(), 220, draws=500) <= 0.75  # normal: 67 %


def test_planned_routes_give_the_planned_half_width() -> None:
    differences = table()[0]
    n = routes_needed(float(differences.std()), points=4.0)
    picks = np.random.default_rng(1).integers(len(differences), size=(200, n))
    halves = [(ci.high - ci.low) / 2 for row in differences[picks] if (ci := paired_interval(row)) is not None]
    assert float(np.median(halves)) == pytest.approx(4.0, abs=0.1)


def test_formulas_by_hand() -> None:
    assert routes_needed(40.0, points=2.0) == 1537  # (1.95996 x 40 / 2)^2 = 1536.6
    assert seeds_needed(20.0, routes=220, points=2.0) == 4  # 2 x (1.95996 x 20 / 2)^2 / 220 = 3.49
    assert seeds_needed(0.0, routes=220) == 1


def test_the_plan_uses_pairs_of_different_models_and_seeds_of_one() -> None:
    first, other = driven("middling", 1), driven("weak", 2)
    second = np.where(np.arange(220) % 4 == 0, 100.0 - first, first)  # another seed: a quarter of the routes differs
    results = [("model", first), ("model", second), (None, other)]
    found = plan(results, "driving_score", draws=100)
    assert found is not None and found["pairs"] == 2
    assert found["seeds"]["models"] == ["model"]
    assert found["seeds"]["spread"] == pytest.approx(np.sqrt(((first - second) ** 2).mean() / 2))
    spreads = sorted(float((one - other).std(ddof=1)) for one in (first, second))
    assert spreads[0] <= found["demands"][0]["spread"] <= found["demands"][-1]["spread"] <= spreads[1]
    assert found["demands"][0]["visible"] == pytest.approx(Z * found["demands"][0]["spread"] / np.sqrt(220))
    assert [one["n"] for one in found["coverages"]] == [110, 220, 440]


def test_one_model_has_no_plan() -> None:
    runs = [("model", driven("weak", i)) for i in range(2)]
    assert plan(runs[:1], "driving_score") is None
    assert plan(runs, "driving_score") is None
