"""The samplers on functions with a known failing corner, without a world."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.threats.search.samplers import ParameterSampler
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

SAMPLERS = ("gp", "halton", "random")
MIXED = {
    "far": ParameterDomain(-5.0, 15.0),
    "many": ParameterDomain(2, 6, whole=True),
    "kind": ParameterDomain(options=("car", "van", 7)),
    "one": ParameterDomain(1.5, 1.5),
}
UNIT = {f"p{i}": ParameterDomain(0.0, 1.0) for i in range(3)}
Run = tuple[dict[str, Any], float | None]


def corner(values: Mapping[str, Any]) -> float:
    """Fails in a square of the first two parameters, 7 % of the space; outside, the distance to it."""
    distances = [max(a - values[name], values[name] - a - 0.27, 0.0) for name, a in (("p0", 0.6), ("p1", 0.15))]
    return -0.5 if not any(distances) else min(float(np.hypot(*distances)) + 0.02, 1.0)


def sampled(
    kind: str, rho: Callable[[Mapping[str, Any]], float | None], seed: int, runs: int, lag: int = 1, known: int = 0
) -> list[Run]:
    """Runs of a sampler whose results come `lag` draws late. `known`: so many first runs are given, as on resuming."""
    sampler, found = ParameterSampler(kind, UNIT, seed), list[Run]()
    earlier = sampled(kind, rho, seed, known, lag) if known else []
    for k in range(runs):
        if k >= lag:
            sampler.tell(k - lag, found[k - lag][1])
        values = sampler.draw(k, earlier[k][0] if k < known else None)
        found.append((values, rho(values)))
    return found


@pytest.mark.parametrize("kind", SAMPLERS)
def test_values_are_in_their_domains_and_have_plain_types(kind: str) -> None:
    sampler = ParameterSampler(kind, MIXED, 3)
    seen = []
    for k in range(14):
        values = sampler.draw(k)
        assert list(values) == list(MIXED)
        assert type(values["far"]) is float and -5 <= values["far"] <= 15 and values["one"] == 1.5
        assert type(values["many"]) is int and 2 <= values["many"] <= 6
        assert values["kind"] in ("car", "van", 7)
        sampler.tell(k, None if k % 5 == 0 else k / 30)
        seen.append(values)
    assert len({v["many"] for v in seen}) > 2 and len({v["kind"] for v in seen}) > 1


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samples_depend_only_on_the_seed_and_leave_the_global_generators(kind: str) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), str(np.random.get_state())
    first = sampled(kind, corner, 5, 12)
    assert (random.getstate(), str(np.random.get_state())) == before
    random.seed(99)
    np.random.seed(99)
    assert sampled(kind, corner, 5, 12) == first
    assert sampled(kind, corner, 6, 12) != first


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_resumed_search_continues_with_the_same_draws(kind: str) -> None:
    assert sampled(kind, corner, 3, 14, lag=2, known=11) == sampled(kind, corner, 3, 14, lag=2)


@pytest.mark.parametrize("lag", [1, 4])
def test_the_process_finds_three_times_as_many_failures_as_uniform_draws(lag: int) -> None:
    uniform = np.mean([sum(rho < 0 for _, rho in sampled("random", corner, s, 30)) for s in range(10)])
    learned = np.mean([sum(rho < 0 for _, rho in sampled("gp", corner, s, 30, lag=lag)) for s in range(2)])
    assert 0.8 < uniform < 4 and learned > 3 * uniform


def test_near_misses_guide_the_process_if_nothing_fails() -> None:
    found = sampled("gp", lambda v: 0.1 + v["p0"] / 2, 1, 20)
    assert np.mean([v["p0"] for v, _ in found[12:]]) < 0.2 < np.mean([v["p0"] for v, _ in found[:8]])


def test_pending_points_are_not_proposed_again() -> None:
    points = [np.array(list(values.values())) for values, _ in sampled("gp", corner, 4, 16, lag=4)[12:]]
    assert min(np.linalg.norm(a - b) for i, a in enumerate(points) for b in points[:i]) > 1e-3


def test_halton_covers_every_part_of_the_space() -> None:
    """120 points of a quasi-random sequence reach all 27 cells, none too often, with any seed."""
    for seed in (0, 7):
        cells: dict[tuple[int, ...], int] = {}
        for values, _ in sampled("halton", lambda v: 1.0, seed, 120):
            cell = tuple(int(3 * v) for v in values.values())
            cells[cell] = cells.get(cell, 0) + 1
        assert len(cells) == 27 and max(cells.values()) <= 9


def test_unscored_runs_do_not_influence_the_process() -> None:
    """All None: it stays at its random start."""
    without_feedback = ParameterSampler("gp", UNIT, 4)
    assert [v for v, _ in sampled("gp", lambda v: None, 4, 12)] == [without_feedback.draw(k) for k in range(12)]


def test_an_empty_space_and_values_outside_of_it_are_errors() -> None:
    with pytest.raises(Ad2Error, match="no free parameters"):
        ParameterSampler("gp", {}, 0)
    for name, value in (("far", 15.1), ("far", None), ("kind", "bus"), ("many", "3")):
        given = {"far": 0.0, "many": 3, "kind": "car", "one": 1.5, name: value}
        with pytest.raises(Ad2Error, match=f"run 0 was driven with {name} = {value!r}"):
            ParameterSampler("halton", MIXED, 0).draw(0, given)
