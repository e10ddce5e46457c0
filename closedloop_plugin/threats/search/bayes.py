"""Bayesian optimisation over a unit box: a Gaussian process, and the point of most expected improvement.

Smaller is better (nearer to failing). Points that are still being driven count with what the process expects of them,
so that several workers do not all try the same place.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from lmms_eval_ad2.errors import require

FIRST = 8  # points that are spread at random before the process has a say
CANDIDATES = 400  # at random, and as many about the best ones
AGAIN = 4  # results after which the process's lengths are learned anew, the slow part
SPREAD = 0.08  # of the latter, in units of the box
NOISE = 1e-3  # variance of a result, in units of the results' own: rounding, and jumps where it fails


class GaussianProcessSurrogate:
    """What is known of the box [0, 1]^dimension."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._points: list[np.ndarray] = []
        self._kernel: Any = None
        self._learned = 0  # results that the kernel knows
        self._results: dict[int, float | None] = {}  # by the point's number; None: nothing is known, and never will be

    def propose(self, seed: int) -> tuple[tuple[float, ...], int]:
        """The next point and its number."""
        dice = np.random.default_rng(seed)
        known = [n for n, rho in self._results.items() if rho is not None]
        point = dice.random(self.dimension) if len(known) < FIRST else self._best(known, dice)
        self._points.append(point)
        return tuple(float(v) for v in point), len(self._points) - 1

    def learn(self, number: int, rho: float | None) -> None:
        self._results[number] = rho

    def _best(self, known: list[int], dice: np.random.Generator) -> np.ndarray:
        x = np.array([self._points[n] for n in known])
        y = np.array([self._results[n] for n in known], float)
        if self._kernel is None or len(known) >= self._learned + AGAIN:
            self._kernel, self._learned = _fitted(x, y, dice).kernel_, len(known)
        process = _fitted(x, y, dice, self._kernel)
        waiting = [p for n, p in enumerate(self._points) if n not in self._results]
        if waiting:
            believed = process.predict(np.array(waiting))
            x, y = np.vstack([x, waiting]), np.concatenate([y, believed])
            process = _fitted(x, y, dice, self._kernel)
        near = x[np.argsort(y, kind="stable")[:5]]
        local = near[dice.integers(len(near), size=CANDIDATES)] + dice.normal(0, SPREAD, (CANDIDATES, self.dimension))
        candidates = np.vstack([dice.random((CANDIDATES, self.dimension)), np.clip(local, 0.0, 1.0)])
        mean, deviation = process.predict(candidates, return_std=True)
        return candidates[int(np.argmax(expected_improvement(mean, deviation, float(y.min()))))]


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """How far below `best` a normal value of this mean and standard deviation lies on average; (n,) each."""
    gain = best - mean
    z = gain / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in z]))
    return gain * below + deviation * density


def _fitted(x: np.ndarray, y: np.ndarray, dice: np.random.Generator, kernel: Any = None) -> Any:
    """A process through (n, d) points and (n,) results. With a `kernel` its lengths are taken as they are."""
    require("sklearn", "the sampler bo")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    first = ConstantKernel(1.0, (0.1, 10.0)) * Matern(np.full(x.shape[1], 0.3), (0.05, 3.0), nu=2.5)
    process = GaussianProcessRegressor(
        kernel or first,
        alpha=NOISE,
        normalize_y=True,
        optimizer=None if kernel else "fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        random_state=int(dice.integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: that parameter does not matter
        return process.fit(x, y)
