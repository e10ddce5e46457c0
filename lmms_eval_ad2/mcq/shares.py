"""Integer table of questions (source x task) from shares and the numbers of available questions.

Symbols: a_ij available questions of source i and task j, r_i and c_j margins (questions per source and per task),
x_ij the table. Both margins are met exactly (rounded by largest remainder), 0 <= x_ij <= a_ij, and x is close to
independence of source and task: it is the table of least relative entropy to r_i c_j, rounded to integers.
NuScenes-QA has only perception, so that the product itself cannot be met; the other sources then supply less of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from lmms_eval_ad2.core.errors import Ad2Error

Table = list[list[int]]
_SWEEPS = 500  # at most, of iterative proportional fitting
_EPS = 1e-9


def parse_shares(text: str, known: Sequence[str]) -> dict[str, float]:
    """Parse "drivelm=0.6,lingoqa=0.4": shares by name, in the order of `known`; names not given have the share 0.

    Raises Ad2Error for an unknown or repeated name, a share that is not a number from 0 to 1, and a sum other than 1.
    """
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in known or name in shares:
            fault = "given twice" if name in shares else f"not one of {', '.join(known)}"
            raise Ad2Error(
                f"shares '{text}': '{name}' is {fault}; write NAME=SHARE,NAME=SHARE with shares that sum to 1"
            )
        try:
            shares[name] = float(value)
        except ValueError:
            shares[name] = math.nan
        if not 0 <= shares[name] <= 1:
            raise Ad2Error(f"shares '{text}': the share of {name} is '{value}', expected a number from 0 to 1")
    check_sum(shares)
    return {name: shares.get(name, 0.0) for name in known}


def check_sum(shares: Mapping[str, float]) -> None:
    """Raise Ad2Error if the shares do not sum to 1 within 1e-6."""
    total = math.fsum(shares.values())
    if not abs(total - 1) <= 1e-6:
        listed = ", ".join(f"{name}={share:g}" for name, share in shares.items()) or "none"
        raise Ad2Error(f"shares must sum to 1; these sum to {total:g}: {listed}")


def apportion(total: int, weights: Sequence[float], limits: Sequence[int] | None = None) -> list[int]:
    """Divide `total` units in proportion to `weights` by largest remainder (ties: the earlier one), within `limits`.

    Units above a limit go to the others in proportion to their weights. Raises ValueError if the limits sum to less.
    """
    caps = [total] * len(weights) if limits is None else list(limits)
    if sum(cap for cap, weight in zip(caps, weights, strict=True) if weight > 0) < total:
        raise ValueError(f"{total} do not fit into {caps}")
    given = [0] * len(weights)
    rest = total
    while rest:
        open_ = [i for i, weight in enumerate(weights) if weight > 0 and given[i] < caps[i]]
        scale = math.fsum(weights[i] for i in open_)
        exact = {i: rest * weights[i] / scale for i in open_}  # q_i = rest * w_i / sum of open w
        over = [i for i in open_ if given[i] + exact[i] >= caps[i]]
        if over:
            for i in over:
                rest -= caps[i] - given[i]
                given[i] = caps[i]
            continue
        # Shares such as 0.2 are not exact in binary: treat a value within 1e-9 below an integer as that integer.
        floors = {i: math.floor(exact[i] + _EPS) for i in open_}
        left = rest - sum(floors.values())
        first = sorted(open_, key=lambda i: (-round(exact[i] - floors[i], 9), i))[:left]
        for i in open_:
            given[i] += floors[i] + (i in first)
        rest = 0
    return given


def level(total: int, limits: Sequence[int]) -> list[int]:
    """Divide `total` units as evenly as the limits allow; a remainder goes to the first entries below their limit."""
    given = [0] * len(limits)
    rest = total
    while rest:
        open_ = [i for i, limit in enumerate(limits) if given[i] < limit]
        if not open_:
            raise ValueError(f"{total} do not fit into {list(limits)}")
        step = min(rest // len(open_), min(limits[i] - given[i] for i in open_))
        for i in open_ if step else open_[:rest]:
            given[i] += step or 1
            rest -= step or 1
    return given


def greatest_total(available: Table, rows: Sequence[float], columns: Sequence[float]) -> int:
    """The greatest total for which a table with these shares of rows and columns exists; 0 if there is none."""
    cells = np.array(available, dtype=float)
    n, m = cells.shape
    # Linear programme: maximise T subject to sum_j x_ij = rows_i T, sum_i x_ij = columns_j T, 0 <= x_ij <= a_ij.
    # Variables: the cells x_ij in row order, then T.
    equal = np.zeros((n + m, n * m + 1))
    for i in range(n):
        equal[i, i * m : (i + 1) * m], equal[i, -1] = 1, -rows[i]
    for j in range(m):
        equal[n + j, j : n * m : m], equal[n + j, -1] = 1, -columns[j]
    bounds = [(0, cap) for cap in cells.ravel()] + [(0, cells.sum())]
    found = linprog([0] * (n * m) + [-1], A_eq=equal, b_eq=np.zeros(n + m), bounds=bounds, method="highs")
    most = math.floor(found.x[-1] + 1e-6) if found.success else 0
    while (
        most > 0 and integer_table(available, apportion(most, rows), apportion(most, columns), np.zeros((n, m))) is None
    ):
        most -= 1  # a margin rounded up may exceed its share by one question
    return most


def continuous_table(available: Table, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """The real-valued table with these margins and x_ij <= a_ij that is closest to r_i c_j in relative entropy.

    By the optimality conditions x_ij = min(a_ij, u_i v_j r_i c_j). Iterative proportional fitting solves for u and v in
    turn. If the margins only just fit, it converges slowly and stops close to them; `integer_table` makes them exact.
    """
    caps = np.array(available, dtype=float)
    start = np.outer(rows, columns) * (caps > 0)
    u, v = np.ones(len(rows)), np.ones(len(columns))
    for _ in range(_SWEEPS):
        before = np.minimum(caps, start * np.outer(u, v))
        u = np.array([_factor(start[i] * v, caps[i], rows[i]) for i in range(len(rows))])
        v = np.array([_factor(start[:, j] * u, caps[:, j], columns[j]) for j in range(len(columns))])
        table = np.minimum(caps, start * np.outer(u, v))
        if np.abs(table - before).max() < 1e-6:
            break
    return table


def _factor(weights: np.ndarray, caps: np.ndarray, total: float) -> float:
    """Solve sum_k min(caps_k, f weights_k) = total for f; if the caps sum to less, the f that reaches all of them.

    The left side is piecewise linear in f with breakpoints caps_k / weights_k, which are visited in order.
    """
    used = weights > 0
    if not used.any() or total <= 0:
        return 0.0
    weights, caps = weights[used], caps[used]
    order = np.argsort(caps / weights, kind="stable")
    full, rest = 0.0, float(weights.sum())  # sum of the caps already reached, sum of the other weights
    for k in order:
        if full + caps[k] / weights[k] * rest >= total:
            return (total - full) / rest
        full, rest = full + caps[k], rest - weights[k]
    return float((caps / weights).max())


def integer_table(available: Table, rows: Sequence[int], columns: Sequence[int], near: np.ndarray) -> Table | None:
    """The integer table with exactly these margins and x_ij <= a_ij that is closest to `near`; None if there is none.

    Integer programme that minimises sum |x - near|. With b = floor(near) and p = near - b, each cell is
    x = b - d + e + f, where 0 <= d <= b, 0 <= e <= 1, f >= 0. Up to the constant sum of p, the distance is
    d + (1 - 2 p) e + f.
    """
    caps = np.array(available, dtype=float)
    n, m = caps.shape
    base = np.minimum(np.floor(near + _EPS), caps).ravel()
    part = np.clip(near.ravel() - base, 0, 1)
    size = n * m
    # A cost of 1e-7 times the cell index makes the choice between equally close tables deterministic.
    tie = np.arange(size) * 1e-7
    cost = np.concatenate([1 + tie, 1 - 2 * part + tie, 1 + tie])
    upper = np.concatenate([base, np.minimum(1, caps.ravel() - base), np.maximum(0, caps.ravel() - base - 1)])
    margins = np.zeros((n + m, size))
    for i in range(n):
        margins[i, i * m : (i + 1) * m] = 1
    for j in range(m):
        margins[n + j, j::m] = 1
    target = np.concatenate([rows, columns]) - margins @ base
    matrix = np.hstack([-margins, margins, margins])
    limits = LinearConstraint(matrix, target, target)
    found = milp(
        cost, constraints=limits, bounds=Bounds(0, upper), integrality=np.ones(3 * size), options={"mip_rel_gap": 0}
    )
    if not found.success:
        return None
    down, up, more = np.split(np.rint(found.x), 3)
    return (base - down + up + more).reshape(n, m).astype(int).tolist()
