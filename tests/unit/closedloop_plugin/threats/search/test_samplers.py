"""The samplers on functions with a known failing corner, without a world."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.threats.search.bayes import GaussianProcessSurrogate, expected_improvement
from closedloop_plugin.threats.search.samplers import SAMPLERS, ParameterSampler
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

MIXED = {
    "far": ParameterDomain(-5.0, 15.0),
    "many": ParameterDomain(2, 6, whole=True),
    "kind": ParameterDomain(options=("car", "van", 7)),
}
UNIT = {f"p{i}": ParameterDomain(0.0, 1.0) for i in range(3)}


def corner(at: tuple[float, float], side: float) -> Callable[[Mapping[str, Any]], float]:
    """Fails in a square of the first two parameters; outside, the distance to it. The third does not matter."""

    def rho(values: Mapping[str, Any]) -> float:
        distances = [max(a - values[f"p{i}"], values[f"p{i}"] - a - side, 0.0) for i, a in enumerate(at)]
        return -0.5 if not any(distances) else min(float(np.hypot(*distances)) + 0.02, 1.0)

    return rho


def run_sampler(
    kind: str, rho: Callable[[Mapping[str, Any]], float | None], seed: int, runs: int = 50, lag: int = 1
) -> Any:
    sampler, pending, found = ParameterSampler(kind, UNIT, seed), [], []
    for _ in range(runs):
        if len(pending) == lag:
            sampler.tell(pending.pop(0))
        values = sampler.next()
        pending.append(rho(values))
        found.append((values, pending[-1]))
    return found


def failures(kind: str, seeds: range, **more: Any) -> float:
    """Mean number of failed runs; the corner is 7 % of the space, at a random place."""
    counts = []
    for seed in seeds:
        at = tuple(np.random.default_rng(seed).uniform(0, 0.73, 2))
        counts.append(sum(r < 0 for _, r in run_sampler(kind, corner(at, 0.27), seed, **more)))
    return float(np.mean(counts))


@pytest.mark.parametrize("kind", SAMPLERS)
def test_values_are_in_their_domains_and_have_plain_types(kind: str) -> None:
    sampler = ParameterSampler(kind, MIXED, 3)
    for k in range(20):
        values = sampler.next()
        assert list(values) == list(MIXED)
        assert type(values["far"]) is float and -5 <= values["far"] <= 15
        assert type(values["many"]) is int and 2 <= values["many"] <= 6
        assert values["kind"] in ("car", "van", 7)
        sampler.tell(None if k % 5 == 0 else k / 30)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samples_depend_only_on_the_seed(kind: str) -> None:
    rho = corner((0.2, 0.5), 0.3)
    first = run_sampler(kind, rho, 5, 14)

    def using_global_generators(values: Mapping[str, Any]) -> float:
        random.random(), np.random.random()
        return rho(values)

    random.seed(99)
    assert run_sampler(kind, using_global_generators, 5, 14) == first
    assert run_sampler(kind, rho, 6, 14) != first


@pytest.mark.parametrize("kind", SAMPLERS)
def test_global_generators_are_not_used(kind: str) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), str(np.random.get_state())
    run_sampler(kind, corner((0.1, 0.1), 0.4), 0, 12)
    assert (random.getstate(), str(np.random.get_state())) == before


@pytest.mark.parametrize("lag", [1, 4])
def test_cross_entropy_finds_three_times_as_many_failures_as_uniform_sampling(lag: int) -> None:
    uniform, learned = failures("random", range(12)), failures("ce", range(12), lag=lag)
    assert 1.5 < uniform < 6 and learned > 3 * uniform


def test_bayesian_optimisation_finds_the_corner() -> None:
    found = run_sampler("bo", corner((0.6, 0.15), 0.2), 2, 30, lag=2)
    assert sum(r < 0 for _, r in found[:10]) <= 2 and sum(r < 0 for _, r in found[15:]) >= 8


def test_halton_covers_every_part_of_the_space() -> None:
    """120 points of a quasi-random sequence reach all 27 cells, none too often, from any start."""
    for seed in (0, 7):
        cells = {}
        for values, _ in run_sampler("halton", lambda v: 1.0, seed, 120):
            cell = tuple(int(3 * v) for v in values.values())
            cells[cell] = cells.get(cell, 0) + 1
        assert len(cells) == 27 and max(cells.values()) <= 9


def test_unscored_runs_do_not_influence_the_sampler() -> None:
    """All None: the cross-entropy sampler samples as without feedback, and bo stays at its random start."""
    for kind in ("ce", "bo"):
        without_feedback = ParameterSampler(kind, UNIT, 4)
        expected = [without_feedback.next() for _ in range(25)]
        with_feedback = ParameterSampler(kind, UNIT, 4)
        samples = []
        for _ in range(25):
            samples.append(with_feedback.next())
            with_feedback.tell(None)
        assert samples == expected


def test_near_misses_guide_the_sampler_if_nothing_fails() -> None:
    """No run fails, but the later ones are nearer."""
    found = run_sampler("ce", lambda v: 0.1 + v["p0"] / 2, 1, 60)
    late = np.mean([v["p0"] for v, _ in found[30:]])
    assert late < 0.25 < np.mean([v["p0"] for v, _ in found[:8]])


def test_an_unknown_sampler_and_an_empty_space_are_errors() -> None:
    with pytest.raises(Ad2Error, match="expected one of random, halton, ce, bo"):
        ParameterSampler("mab", UNIT, 0)
    with pytest.raises(Ad2Error, match="no free parameters"):
        ParameterSampler("ce", {}, 0)


def test_expected_improvement_in_cases_worked_out_by_hand() -> None:
    """At the best value and a deviation of 1: the density at 0. Certain and better by 2: 2. Certain and worse: 0."""
    found = expected_improvement(np.array([1.0, -1.0, 3.0]), np.array([1.0, 0.0, 0.0]), 1.0)
    assert found == pytest.approx([0.39894, 2.0, 0.0], abs=1e-4)


def test_pending_points_are_not_proposed_again() -> None:
    process = GaussianProcessSurrogate(2)
    for k in range(12):
        point, number = process.propose(k)
        process.learn(number, float(np.hypot(point[0] - 0.5, point[1] - 0.5)))
    pending = [np.array(process.propose(100 + k)[0]) for k in range(4)]
    distances = [np.linalg.norm(a - b) for i, a in enumerate(pending) for b in pending[:i]]
    assert min(distances) > 1e-3
