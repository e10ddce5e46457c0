"""Bayesian optimisation (minimisation) over a unit box: Gaussian process and expected improvement.

The objective is the robustness rho: smaller is closer to failure. Pending points enter with the mean that the process
predicts for them ("kriging believer"), so that parallel workers do not all propose the same point.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from lmms_eval_ad2.core.errors import require

FIRST = 8  # scored random points before the process is used
CANDIDATES = 400  # random candidate points, and as many near the best points
AGAIN = 4  # results after which the hyperparameters are fitted again (the slow part)
SPREAD = 0.08  # standard deviation of the candidates near the best points, in units of the box
NOISE = 1e-3  # noise variance relative to that of the results: rounding, and the jump at failure


class GaussianProcessSurrogate:
    """Gaussian process model of the objective over [0, 1]^dimension, with an ask-and-tell interface."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._points: list[np.ndarray] = []
        self._kernel: Any = None
        self._fitted_to = 0  # number of results at the last fit of the kernel
        self._results: dict[int, float | None] = {}  # by point number; None: could not be scored

    def propose(self, seed: int) -> tuple[tuple[float, ...], int]:
        """(next point, its number)."""
        rng = np.random.default_rng(seed)
        known = [n for n, rho in self._results.items() if rho is not None]
        point = rng.random(self.dimension) if len(known) < FIRST else self._best(known, rng)
        self._points.append(point)
        return tuple(float(v) for v in point), len(self._points) - 1

    def learn(self, number: int, rho: float | None) -> None:
        """Store the result of a point."""
        self._results[number] = rho

    def _best(self, known: list[int], rng: np.random.Generator) -> np.ndarray:
        x = np.array([self._points[n] for n in known])
        y = np.array([self._results[n] for n in known], float)
        if self._kernel is None or len(known) >= self._fitted_to + AGAIN:
            self._kernel, self._fitted_to = _fitted(x, y, rng).kernel_, len(known)
        process = _fitted(x, y, rng, self._kernel)
        pending = [p for n, p in enumerate(self._points) if n not in self._results]
        if pending:
            predicted = process.predict(np.array(pending))
            x, y = np.vstack([x, pending]), np.concatenate([y, predicted])
            process = _fitted(x, y, rng, self._kernel)
        near = x[np.argsort(y, kind="stable")[:5]]
        local = near[rng.integers(len(near), size=CANDIDATES)] + rng.normal(0, SPREAD, (CANDIDATES, self.dimension))
        candidates = np.vstack([rng.random((CANDIDATES, self.dimension)), np.clip(local, 0.0, 1.0)])
        mean, deviation = process.predict(candidates, return_std=True)
        return candidates[int(np.argmax(expected_improvement(mean, deviation, float(y.min()))))]


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """Expected improvement below `best`, E[max(best - Y, 0)] for Y ~ N(mean, deviation^2); arrays (n,)."""
    # EI = (best - mean) Phi(z) + deviation phi(z), z = (best - mean) / deviation, with the standard normal density phi
    # and distribution Phi (Jones, Schonlau and Welch 1998, eq. 15).
    gain = best - mean
    z = gain / np.maximum(deviation, 1e-12)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in z]))
    return gain * below + deviation * density


def _fitted(x: np.ndarray, y: np.ndarray, rng: np.random.Generator, kernel: Any = None) -> Any:
    """Fit a process to points (n, d) and results (n,). With a `kernel` its hyperparameters are kept."""
    require("sklearn", "the sampler bo")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    # Matern 5/2 with one length scale per dimension, times a variance; normalize_y scales the results to unit variance.
    initial = ConstantKernel(1.0, (0.1, 10.0)) * Matern(np.full(x.shape[1], 0.3), (0.05, 3.0), nu=2.5)
    process = GaussianProcessRegressor(
        kernel or initial,
        alpha=NOISE,
        normalize_y=True,
        optimizer=None if kernel else "fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        random_state=int(rng.integers(2**31)),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound: that parameter has no effect
        return process.fit(x, y)
