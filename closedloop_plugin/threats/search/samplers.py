"""Samplers of the free parameters of a program: VerifAI's, through Scenic.

    random   independent and uniform
    halton   quasi-random: covers the space evenly (integers and options: at random)
    ce       cross-entropy: learns the probability of each sixth of a parameter's range from the runs closest to failure
    bo       Bayesian optimisation: a Gaussian process over all runs so far (integers and options: at random)

VerifAI's cross-entropy sampler updates on samples whose robustness is below a fixed threshold. With its default, 0,
these are failures only, and it learns nothing if failures are rare. Here the threshold adapts: a run is used if it
failed or is in the ELITE share of smallest robustness so far. VerifAI's own Bayesian sampler needs GPyOpt, which cannot
be installed with numpy 2; bayes.py replaces it with scikit-learn.

The only module that imports VerifAI. VerifAI draws from the global generators of Python and numpy: each call here swaps
in the search's own states, so that a search depends only on its seed and does not affect other code.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from closedloop_plugin.threats.search.bayes import GaussianProcessSurrogate
from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error, require

SAMPLERS = ("random", "halton", "ce", "bo")
LEARNS = ("ce", "bo")
# Cross-entropy sampler; benchmarks/threats.py compares alternatives on functions with a known failure region.
BUCKETS = 6  # per parameter range
ALPHA = 0.7  # update of the bucket probabilities at each elite run: p <- ALPHA p + (1 - ALPHA) 1[bucket of the run]
ELITE = 0.2  # share of the runs so far that are elite, in addition to failures
WARM_UP = 8  # runs before the first update


@dataclass(frozen=True)
class _Drawn:
    """A draw without a result: VerifAI's point, and the info that it expects back with the result."""

    point: Any
    info: Any


class ParameterSampler:
    """Sampler with an ask-and-tell interface: `next` draws values, `tell` passes the robustness back.

    Results are passed in the order of the draws; any number of draws may be pending. Raises Ad2Error for an unknown
    sampler, without parameters, or if VerifAI is not installed.
    """

    def __init__(self, kind: str, space: Mapping[str, ParameterDomain], seed: int) -> None:
        if kind not in SAMPLERS:
            raise Ad2Error(f"--sampler {kind}: expected one of {', '.join(SAMPLERS)}")
        if not space:
            raise Ad2Error("nothing to search: no free parameters")
        self.kind, self.space = kind, dict(space)
        self._states: tuple[Any, Any] = _seeded(seed)
        self._pending: deque[_Drawn] = deque()
        self._elite = _EliteRuns()
        with self._own_random_state():
            self._scenic, self._parameters = _sampler(kind, self.space, seed)

    def next(self) -> dict[str, Any]:
        """Draw a value for each parameter, as JSON types."""
        with self._own_random_state():
            point, info = self._scenic.sampler.getSample()
        self._pending.append(_Drawn(point, info))
        self._scenic.cachedSample = point
        found = {}
        for (name, domain), parameter in zip(self.space.items(), self._parameters, strict=True):
            value = parameter.sampleGiven(None)
            if domain.options:
                found[name] = domain.options[int(value)]
            else:
                found[name] = int(value) if domain.whole else float(value)
        return found

    def tell(self, rho: float | None) -> None:
        """Pass the robustness of the oldest pending draw; None if it could not be scored, which is ignored."""
        drawn = self._pending.popleft()
        with self._own_random_state():
            if self.kind == "ce":
                for run in self._elite.add(drawn, rho):
                    self._scenic.update(run.point, run.info, -1.0)  # -1: below the threshold 0, so it is used
            elif self.kind == "bo":
                self._scenic.update(drawn.point, drawn.info, rho)

    @contextmanager
    def _own_random_state(self) -> Iterator[None]:
        """Use this sampler's states of the global generators within the block."""
        before = random.getstate(), np.random.get_state()
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
        try:
            yield
        finally:
            self._states = random.getstate(), np.random.get_state()
            random.setstate(before[0])
            np.random.set_state(before[1])


class _EliteRuns:
    """Selects the runs for updates of the cross-entropy sampler.

    None before WARM_UP runs: the first run would always be the best so far. Elite runs of the warm-up are used at its
    end.
    """

    def __init__(self) -> None:
        self._known: list[tuple[float, _Drawn]] = []

    def add(self, drawn: _Drawn, rho: float | None) -> list[_Drawn]:
        """Add a result; return the draws to update with."""
        if rho is None:
            return []
        self._known.append((rho, drawn))
        if len(self._known) < WARM_UP:
            return []
        ascending = sorted(r for r, _ in self._known)
        limit = ascending[max(int(ELITE * len(ascending)) - 1, 0)]
        new = self._known if len(self._known) == WARM_UP else self._known[-1:]
        return [d for r, d in new if r < 0.0 or r <= limit]


def _seeded(seed: int) -> tuple[Any, Any]:
    return random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state()


def check_installed() -> None:
    """Raise Ad2Error without the libraries that draw values."""
    require("verifai", "searching a scenario's parameters")


def _sampler(kind: str, space: Mapping[str, ParameterDomain], seed: int) -> tuple[Any, list[Any]]:
    """(Scenic's VerifaiSampler, Scenic's parameters in the order of `space`)."""
    check_installed()
    from scenic.core.external_params import VerifaiSampler

    parameters = [_parameter(domain) for domain in space.values()]
    options = {"verifaiSamplerType": "random" if kind == "bo" else kind, "verifaiSamplerParams": _options(kind, seed)}
    scenic = VerifaiSampler(parameters, options)
    if kind == "bo":
        scenic.sampler = _bayesian(scenic.sampler.space)
    return scenic, parameters


def _parameter(domain: ParameterDomain) -> Any:
    """Scenic's parameter of a domain; for options, a range of indices (as in VerifaiOptions)."""
    from scenic.core.external_params import VerifaiDiscreteRange, VerifaiRange

    if domain.options:
        return VerifaiDiscreteRange(0, len(domain.options) - 1)
    if domain.whole:
        return VerifaiDiscreteRange(int(domain.low), int(domain.high))
    return VerifaiRange(domain.low, domain.high)


def _options(kind: str, seed: int) -> Any:
    from dotmap import DotMap

    if kind == "ce":
        return DotMap(alpha=ALPHA, thres=0.0, cont=DotMap(buckets=BUCKETS, dist=None), disc=DotMap(dist=None))
    if kind == "halton":
        # The Halton sequence is deterministic: the seed selects an offset in it.
        return DotMap(sample_index=1009 * (seed % 997), bases_skipped=0)
    return None


def _bayesian(space: Any) -> Any:
    """VerifAI's feature sampler with GaussianProcessSurrogate instead of the sampler that needs GPyOpt."""
    from verifai.samplers.domain_sampler import BoxSampler, SplitSampler
    from verifai.samplers.feature_sampler import LateFeatureSampler, makeRandomSampler
    from verifai.samplers.random_sampler import RandomSampler

    class GaussianProcessSampler(BoxSampler):
        """Sampler of the unit box with a Gaussian process."""

        def __init__(self, domain: Any) -> None:
            super().__init__(domain)
            self.surrogate = GaussianProcessSurrogate(self.dimension)

        def getVector(self) -> tuple[tuple[float, ...], int]:
            return self.surrogate.propose(np.random.randint(2**31))

        def updateVector(self, vector: Any, info: int, rho: float | None) -> None:
            self.surrogate.learn(info, rho)

    def of_domain(domain: Any) -> Any:
        return SplitSampler.fromPredicate(
            domain, lambda d: d.standardizedDimension > 0, GaussianProcessSampler, makeRandomSampler
        )

    return LateFeatureSampler(space, RandomSampler, of_domain)
