"""How many questions each source and each task give: shares and what is there -> an integer table source x task.

Both margins of the table are met exactly (largest remainder where a share is no whole number of questions), no cell is
above what is there, and among such tables one is taken that is near to independence of source and task: the one of
least relative entropy to the product of the shares, rounded. NuScenes-QA has perception alone, so that the product
itself can never be met; the other sources then give less of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from lmms_eval_ad2.errors import Ad2Error

Table = list[list[int]]
_SWEEPS = 500
_EPS = 1e-9


def parse_shares(text: str, known: Sequence[str]) -> dict[str, float]:
    """ "drivelm=0.6,lingoqa=0.4" -> shares by name, in the order of `known`; names not given have the share 0.

    Raises Ad2Error for an unknown or repeated name, a share that is no number from 0 to 1, and a sum that is not 1.
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
    """Raise Ad2Error for shares that do not sum to 1 within a millionth."""
    total = math.fsum(shares.values())
    if not abs(total - 1) <= 1e-6:
        listed = ", ".join(f"{name}={share:g}" for name, share in shares.items()) or "none"
        raise Ad2Error(f"shares must sum to 1; these sum to {total:g}: {listed}")


def apportion(total: int, weights: Sequence[float], limits: Sequence[int] | None = None) -> list[int]:
    """`total` units by `weights`, by largest remainder (ties: the earlier one); none above its limit.

    What a limit cuts off goes to the others by their weights. Raises ValueError where the limits hold less.
    """
    caps = [total] * len(weights) if limits is None else list(limits)
    if sum(cap for cap, weight in zip(caps, weights, strict=True) if weight > 0) < total:
        raise ValueError(f"{total} do not fit into {caps}")
    given = [0] * len(weights)
    rest = total
    while rest:
        open_ = [i for i, weight in enumerate(weights) if weight > 0 and given[i] < caps[i]]
        scale = math.fsum(weights[i] for i in open_)
        exact = {i: rest * weights[i] / scale for i in open_}
        over = [i for i in open_ if given[i] + exact[i] >= caps[i]]
        if over:
            for i in over:
                rest -= caps[i] - given[i]
                given[i] = caps[i]
            continue
        # Shares such as 0.2 are no binary fractions: what is whole but for 1e-9 is whole.
        floors = {i: math.floor(exact[i] + _EPS) for i in open_}
        left = rest - sum(floors.values())
        first = sorted(open_, key=lambda i: (-round(exact[i] - floors[i], 9), i))[:left]
        for i in open_:
            given[i] += floors[i] + (i in first)
        rest = 0
    return given


def level(total: int, limits: Sequence[int]) -> list[int]:
    """`total` units over the limits, as even as these allow; what remains goes to the first that have room."""
    given = [0] * len(limits)
    rest = total
    while rest:
        room = [i for i, limit in enumerate(limits) if given[i] < limit]
        if not room:
            raise ValueError(f"{total} do not fit into {list(limits)}")
        step = min(rest // len(room), min(limits[i] - given[i] for i in room))
        for i in room if step else room[:rest]:
            given[i] += step or 1
            rest -= step or 1
    return given


def greatest_total(available: Table, rows: Sequence[float], columns: Sequence[float]) -> int:
    """The greatest total whose table can be filled with these shares of rows and columns; 0 where none can."""
    cells = np.array(available, dtype=float)
    n, m = cells.shape
    # Variables: the cells, then the total. Each margin equals its share of the total.
    equal = np.zeros((n + m, n * m + 1))
    for i in range(n):
        equal[i, i * m : (i + 1) * m], equal[i, -1] = 1, -rows[i]
    for j in range(m):
        equal[n + j, j : n * m : m], equal[n + j, -1] = 1, -columns[j]
    bounds = [(0, cap) for cap in cells.ravel()] + [(0, cells.sum())]
    found = linprog([0] * (n * m) + [-1], A_eq=equal, b_eq=np.zeros(n + m), bounds=bounds, method="highs")
    most = math.floor(found.x[-1] + 1e-6) if found.success else 0
    while most > 0 and fill(available, apportion(most, rows), apportion(most, columns), np.zeros((n, m))) is None:
        most -= 1  # whole questions may ask for one more here or there than the shares do
    return most


def rough(available: Table, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """The real-valued table with these margins, within what is available, nearest to their product in relative entropy.

    Its cells are min(available, u_i v_j rows_i columns_j): sweeps over rows and columns solve for the factors. Where
    the margins just fit, the sweeps come only near them; `fill` makes them exact.
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
    """f with sum(min(caps, f * weights)) = total; the one that fills the caps where they hold less."""
    used = weights > 0
    if not used.any() or total <= 0:
        return 0.0
    weights, caps = weights[used], caps[used]
    order = np.argsort(caps / weights, kind="stable")
    full, rest = 0.0, float(weights.sum())
    for k in order:
        if full + caps[k] / weights[k] * rest >= total:
            return (total - full) / rest
        full, rest = full + caps[k], rest - weights[k]
    return float((caps / weights).max())


def fill(available: Table, rows: Sequence[int], columns: Sequence[int], near: np.ndarray) -> Table | None:
    """An integer table with exactly these margins, no cell above `available`, near to `near`; None where there is none.

    Each cell is floor(near) - d + e + f with 0 <= e <= 1: a step up costs what it takes away from `near`.
    """
    caps = np.array(available, dtype=float)
    n, m = caps.shape
    base = np.minimum(np.floor(near + _EPS), caps).ravel()
    part = np.clip(near.ravel() - base, 0, 1)
    size = n * m
    # A hair's breadth of cost a cell, so that of equal tables always the same one is taken.
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
