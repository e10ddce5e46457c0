"""Draws of the free parameters of a program, by libraries.

    random   independent and uniform (numpy)
    halton   quasi-random: covers the space evenly (scipy)
    gp       Bayesian optimisation (optuna): a Gaussian process over the robustness of the runs so far; runs without a
             result count as what the process predicts for them. The first START runs are random

The draw of a run depends on the seed, its number, and what is known of the other runs, not on the state of a generator:
a search that is resumed continues with the draws of one that was not interrupted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import qmc

from closedloop_plugin.worlds.base import ParameterDomain
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.numbers import is_number

START = 8  # scored runs before the process is used


class ParameterSampler:
    """Sampler with an ask-and-tell interface; any number of draws may be without a result.

    Raises Ad2Error without parameters, or if optuna is not installed.
    """

    def __init__(self, kind: str, space: Mapping[str, ParameterDomain], seed: int) -> None:
        if not space:
            raise Ad2Error("nothing to search: no free parameters")
        self.kind, self.space, self.seed = kind, dict(space), seed % 2**32
        self.learns = kind == "gp"  # draws depend on results
        if self.learns:
            optuna = check_installed()
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            self.study = optuna.create_study()

    def draw(self, number: int, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The values of run `number`, as JSON types; runs are drawn in order.

        `given`: the values of a run that was driven before. Raises Ad2Error if they are not in the space.
        """
        for name, domain in self.space.items():
            if given is not None and not _contains(domain, value := given.get(name)):
                raise Ad2Error(
                    f"run {number} was driven with {name} = {value!r}, which this search cannot draw; choose another "
                    "--out"
                )
        if self.learns:
            return self._proposed(number, given)
        if given is not None:
            return {name: given[name] for name in self.space}
        if self.kind == "halton":
            unit = qmc.Halton(len(self.space), seed=self.seed).random(number + 1)[number]
        else:
            unit = np.random.default_rng((self.seed, number)).random(len(self.space))
        return {name: _scaled(domain, float(u)) for (name, domain), u in zip(self.space.items(), unit, strict=True)}

    def tell(self, number: int, rho: float | None) -> None:
        """Pass the robustness of a run on; None if it could not be scored, which is ignored."""
        if self.learns:
            states = check_installed().trial.TrialState
            self.study.tell(number, rho, state=states.FAIL if rho is None else states.COMPLETE)

    def _proposed(self, number: int, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """The values that optuna proposes, or the given ones, which it takes note of."""
        optuna = check_installed()
        options = {name: domain.options for name, domain in self.space.items() if domain.options}
        if given is not None:
            known = {n: options[n].index(given[n]) if n in options else given[n] for n in self.space}
            self.study.enqueue_trial(known)
        seed = int(np.random.SeedSequence((self.seed, number)).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self.study.sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=START)
            trial = self.study.ask({name: _distribution(domain) for name, domain in self.space.items()})
        return {n: options[n][trial.params[n]] if n in options else trial.params[n] for n in self.space}


def check_installed() -> Any:
    """The library of the sampler gp; raises Ad2Error without it."""
    return require("optuna", "searching a scenario's parameters")


def _distribution(domain: ParameterDomain) -> Any:
    """optuna's distribution of a domain; options by their index."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if domain.options:
        return CategoricalDistribution(range(len(domain.options)))
    if domain.whole:
        return IntDistribution(math.ceil(domain.low), math.floor(domain.high))
    return FloatDistribution(domain.low, domain.high)


def _scaled(domain: ParameterDomain, unit: float) -> Any:
    """The value at a coordinate in [0, 1); discrete domains are cut into equal cells."""
    if domain.options:
        return domain.options[int(unit * len(domain.options))]
    if domain.whole:
        low, high = math.ceil(domain.low), math.floor(domain.high)
        return low + int(unit * (high - low + 1))
    return domain.low + (domain.high - domain.low) * unit


def _contains(domain: ParameterDomain, value: Any) -> bool:
    if domain.options:
        return value in domain.options
    return is_number(value) and domain.low <= value <= domain.high
