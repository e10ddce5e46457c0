"""Which parameters to try next: VerifAI's samplers, through Scenic, over the free parameters of one program.

    random   uniform, every run on its own
    halton   quasi-random: covers the space evenly (whole numbers and options: at random)
    ce       cross-entropy: learns in which sixth of each parameter's range the worst runs lie
    bo       Bayesian optimisation: a Gaussian process over all runs so far (whole numbers and options: at random)

VerifAI's cross-entropy sampler learns from samples with a robustness below a fixed threshold, and its default, 0, means
failures only: where they are rare it learns nothing. Here the threshold follows the search: a run teaches if it failed
or is among the nearest ELITE of all so far. VerifAI's own Bayesian sampler stands on GPyOpt, which cannot be
installed beside numpy 2; ours (bayes.py) fills the same place in VerifAI's sampler with scikit-learn.

The only file that knows VerifAI. It draws from Python's and numpy's global generators: each call here runs with
states of the search's own, so that a search depends on nothing but its seed, and disturbs nobody.
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
from lmms_eval_ad2.errors import Ad2Error, require

SAMPLERS = ("random", "halton", "ce", "bo")
LEARNS = ("ce", "bo")
# Of the cross-entropy sampler; benchmarks/threats.py measures others beside these on functions with a known corner.
BUCKETS = 6  # of a parameter's range
ALPHA = 0.7  # weight of what was known, at each run that teaches
ELITE = 0.2  # share of the runs so far that teach, failures aside
WARM_UP = 8  # runs before the first lesson


@dataclass(frozen=True)
class _Drawn:
    """A draw that waits for its result: VerifAI's own point, and what it wants back with the result."""

    point: Any
    info: Any


class ParameterSampler:
    """Draws values and hears how near to failing they were.

    Results come in the order of the draws; as many draws as one likes may be open. Ad2Error: no such sampler, nothing
    to search, or VerifAI is not installed.
    """

    def __init__(self, kind: str, space: Mapping[str, ParameterDomain], seed: int) -> None:
        if kind not in SAMPLERS:
            raise Ad2Error(f"--sampler {kind}: expected one of {', '.join(SAMPLERS)}")
        if not space:
            raise Ad2Error("nothing to search: no free parameters")
        self.kind, self.space = kind, dict(space)
        self._states: tuple[Any, Any] = _seeded(seed)
        self._open: deque[_Drawn] = deque()
        self._lessons = _EliteRuns()
        with self._own_dice():
            self._scenic, self._parameters = _sampler(kind, self.space, seed)

    def next(self) -> dict[str, Any]:
        """A value for each parameter, JSON's own types."""
        with self._own_dice():
            point, info = self._scenic.sampler.getSample()
        self._open.append(_Drawn(point, info))
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
        """The robustness of the oldest draw that has none yet; None: it could not be scored, and teaches nothing."""
        drawn = self._open.popleft()
        with self._own_dice():
            if self.kind == "ce":
                for lesson in self._lessons.of(drawn, rho):
                    self._scenic.update(lesson.point, lesson.info, -1.0)
            elif self.kind == "bo":
                self._scenic.update(drawn.point, drawn.info, rho)

    @contextmanager
    def _own_dice(self) -> Iterator[None]:
        """Our states of the global generators for the block, everybody else's after it."""
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
    """Which results the cross-entropy sampler learns from. Before WARM_UP there are none: the first run would be the
    best so far, whatever it is. Those of the warm-up are made up for at its end."""

    def __init__(self) -> None:
        self._known: list[tuple[float, _Drawn]] = []

    def of(self, drawn: _Drawn, rho: float | None) -> list[_Drawn]:
        if rho is None:
            return []
        self._known.append((rho, drawn))
        if len(self._known) < WARM_UP:
            return []
        worst = sorted(r for r, _ in self._known)
        limit = worst[max(int(ELITE * len(worst)) - 1, 0)]
        new = self._known if len(self._known) == WARM_UP else self._known[-1:]
        return [d for r, d in new if r < 0.0 or r <= limit]


def _seeded(seed: int) -> tuple[Any, Any]:
    return random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state()


def _sampler(kind: str, space: Mapping[str, ParameterDomain], seed: int) -> tuple[Any, list[Any]]:
    """(Scenic's VerifaiSampler, Scenic's parameters in the order of the space)."""
    require("verifai", "searching a scenario's parameters")
    from scenic.core.external_params import VerifaiSampler

    parameters = [_parameter(domain) for domain in space.values()]
    options = {"verifaiSamplerType": "random" if kind == "bo" else kind, "verifaiSamplerParams": _options(kind, seed)}
    scenic = VerifaiSampler(parameters, options)
    if kind == "bo":
        scenic.sampler = _bayesian(scenic.sampler.space)
    return scenic, parameters


def _parameter(domain: ParameterDomain) -> Any:
    """Scenic's object of this domain; of options (a VerifaiOptions is that inside) the number of the chosen one."""
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
        # The sequence has no seed: another seed is another stretch of it.
        return DotMap(sample_index=1009 * (seed % 997), bases_skipped=0)
    return None


def _bayesian(space: Any) -> Any:
    """As VerifAI builds its own, with our box sampler in the place of the one that needs GPyOpt."""
    from verifai.samplers.domain_sampler import BoxSampler, SplitSampler
    from verifai.samplers.feature_sampler import LateFeatureSampler, makeRandomSampler
    from verifai.samplers.random_sampler import RandomSampler

    class GaussianProcessSampler(BoxSampler):
        """Points of the unit box; what the process knows is in `surrogate`."""

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
