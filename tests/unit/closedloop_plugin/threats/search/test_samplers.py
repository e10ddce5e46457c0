"""The samplers on functions whose failing corner is known; no world."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.threats.search.bayes import GaussianProcessSurrogate, expected_improvement
from closedloop_plugin.threats.search.samplers import SAMPLERS, ParameterSampler
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.errors import Ad2Error

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
        apart = [max(a - values[f"p{i}"], values[f"p{i}"] - a - side, 0.0) for i, a in enumerate(at)]
        return -0.5 if not any(apart) else min(float(np.hypot(*apart)) + 0.02, 1.0)

    return rho


def hunted(kind: str, rho: Callable[[Mapping[str, Any]], float | None], seed: int, runs: int = 50, lag: int = 1) -> Any:
    sampler, waiting, found = ParameterSampler(kind, UNIT, seed), [], []
    for _ in range(runs):
        if len(waiting) == lag:
            sampler.tell(waiting.pop(0))
        values = sampler.next()
        waiting.append(rho(values))
        found.append((values, waiting[-1]))
    return found


def failures(kind: str, seeds: range, **more: Any) -> float:
    """Mean of runs that failed, corners at random places of 7 % of the space."""
    counts = []
    for seed in seeds:
        at = tuple(np.random.default_rng(seed).uniform(0, 0.73, 2))
        counts.append(sum(r < 0 for _, r in hunted(kind, corner(at, 0.27), seed, **more)))
    return float(np.mean(counts))


@pytest.mark.parametrize("kind", SAMPLERS)
def test_values_lie_in_their_domains_and_are_plain(kind: str) -> None:
    sampler = ParameterSampler(kind, MIXED, 3)
    for k in range(20):
        values = sampler.next()
        assert list(values) == list(MIXED)
        assert type(values["far"]) is float and -5 <= values["far"] <= 15
        assert type(values["many"]) is int and 2 <= values["many"] <= 6
        assert values["kind"] in ("car", "van", 7)
        sampler.tell(None if k % 5 == 0 else k / 30)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_same_seed_draws_the_same_whatever_others_draw(kind: str) -> None:
    rho = corner((0.2, 0.5), 0.3)
    first = hunted(kind, rho, 5, 14)

    def disturbing(values: Mapping[str, Any]) -> float:
        random.random(), np.random.random()
        return rho(values)

    random.seed(99)
    assert hunted(kind, disturbing, 5, 14) == first
    assert hunted(kind, rho, 6, 14) != first


@pytest.mark.parametrize("kind", SAMPLERS)
def test_nobody_elses_dice_are_touched(kind: str) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), str(np.random.get_state())
    hunted(kind, corner((0.1, 0.1), 0.4), 0, 12)
    assert (random.getstate(), str(np.random.get_state())) == before


@pytest.mark.parametrize("lag", [1, 4])
def test_cross_entropy_finds_three_times_as_many_failures_as_uniform_sampling(lag: int) -> None:
    uniform, learned = failures("random", range(12)), failures("ce", range(12), lag=lag)
    assert 1.5 < uniform < 6 and learned > 3 * uniform


def test_bayesian_optimisation_climbs_to_the_corner() -> None:
    found = hunted("bo", corner((0.6, 0.15), 0.2), 2, 30, lag=2)
    assert sum(r < 0 for _, r in found[:10]) <= 2 and sum(r < 0 for _, r in found[15:]) >= 8


def test_halton_covers_every_part_of_the_space() -> None:
    """27 cells; 120 points of a quasi-random sequence leave none empty and crowd none, from any start."""
    for seed in (0, 7):
        cells = {}
        for values, _ in hunted("halton", lambda v: 1.0, seed, 120):
            cell = tuple(int(3 * v) for v in values.values())
            cells[cell] = cells.get(cell, 0) + 1
        assert len(cells) == 27 and max(cells.values()) <= 9


def test_what_could_not_be_scored_teaches_nothing() -> None:
    """All None: the cross-entropy sampler draws as if it had heard nothing, and bo stays at its random start."""
    for kind in ("ce", "bo"):
        silent = ParameterSampler(kind, UNIT, 4)
        drawn = [silent.next() for _ in range(25)]
        heard = ParameterSampler(kind, UNIT, 4)
        again = []
        for _ in range(25):
            again.append(heard.next())
            heard.tell(None)
        assert again == drawn


def test_near_misses_teach_where_nothing_fails() -> None:
    """No run fails here; the later ones are nearer all the same."""
    found = hunted("ce", lambda v: 0.1 + v["p0"] / 2, 1, 60)
    late = np.mean([v["p0"] for v, _ in found[30:]])
    assert late < 0.25 < np.mean([v["p0"] for v, _ in found[:8]])


def test_a_wrong_sampler_and_an_empty_space_are_told() -> None:
    with pytest.raises(Ad2Error, match="expected one of random, halton, ce, bo"):
        ParameterSampler("mab", UNIT, 0)
    with pytest.raises(Ad2Error, match="no free parameters"):
        ParameterSampler("ce", {}, 0)


def test_expected_improvement_by_hand() -> None:
    """At the best value and a deviation of 1: the density at 0. Certain and better by 2: 2. Certain and worse: 0."""
    found = expected_improvement(np.array([1.0, -1.0, 3.0]), np.array([1.0, 0.0, 0.0]), 1.0)
    assert found == pytest.approx([0.39894, 2.0, 0.0], abs=1e-4)


def test_points_under_way_are_not_proposed_again() -> None:
    process = GaussianProcessSurrogate(2)
    for k in range(12):
        point, number = process.propose(k)
        process.learn(number, float(np.hypot(point[0] - 0.5, point[1] - 0.5)))
    waiting = [np.array(process.propose(100 + k)[0]) for k in range(4)]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(waiting) for b in waiting[:i]]
    assert min(apart) > 1e-3
