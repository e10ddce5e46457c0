"""Selection of questions by source, task and sub-task, balanced as in the paper (sections 3.3 and 4.1).

Symbols: a_ij available questions of source i and task j, r_i and c_j margins (questions per source and per task),
x_ij the table. Both margins are met exactly (rounded by largest remainder), 0 <= x_ij <= a_ij, and x is close to
independence of source and task: it is the table of least relative entropy to r_i c_j, rounded to integers.
NuScenes-QA has only perception, so that the product itself cannot be met; the other sources then supply less of it.

Within a cell (source, task) the sub-tasks get numbers as equal as their supply allows. The questions of a stratum are
in seeded order, alternating between scenes, so that a small draw covers many scenes. Those after the quota are the
reserve: they replace questions that are rejected.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.sources import SourceSurvey, SurveyEntry
from lmms_eval_ad2.mcq.taxonomy import SUBTASKS, TASKS

_SWEEPS = 500  # at most, of iterative proportional fitting
_EPS = 1e-9


@dataclass(frozen=True, slots=True)
class Stratum:
    """Questions of one sub-task from one source. The first `quota` of `entries` are drawn, the rest are the reserve."""

    source: str
    task: str
    subtask: str
    quota: int
    entries: tuple[SurveyEntry, ...]


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """The drawn questions. `available`, `table`: numbers of usable and of drawn questions by source and task."""

    strata: tuple[Stratum, ...]
    seed: int
    mix: Mapping[str, float] | None
    tasks: Mapping[str, float] | None
    asked: int | None
    available: Mapping[str, Mapping[str, int]]
    table: Mapping[str, Mapping[str, int]]

    @property
    def total(self) -> int:
        return sum(stratum.quota for stratum in self.strata)

    def facts(self) -> dict[str, Any]:
        """JSON-able: seed, shares, totals, both tables, and each stratum with its quota and its number of questions."""
        return {
            "seed": self.seed, "mix": dict(self.mix) if self.mix else None,
            "tasks": dict(self.tasks) if self.tasks else None, "asked": self.asked, "total": self.total,
            "available": self.available, "table": self.table,
            "strata": [
                {"source": s.source, "task": s.task, "subtask": s.subtask, "quota": s.quota, "there": len(s.entries)}
                for s in self.strata
            ],
        }  # fmt: skip


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
    total = math.fsum(shares.values())
    if not abs(total - 1) <= 1e-6:
        listed = ", ".join(f"{name}={share:g}" for name, share in shares.items()) or "none"
        raise Ad2Error(f"shares must sum to 1; these sum to {total:g}: {listed}")
    return {name: shares.get(name, 0.0) for name in known}


def plan(
    survey: SourceSurvey, *, mix: Mapping[str, float] | None = None, tasks: Mapping[str, float] | None = None,
    total: int | None = None, seed: int = 0,
) -> QuestionPlan:  # fmt: skip
    """Draw `total` questions with these shares of sources (`mix`) and tasks; by default as many as possible.

    mix, tasks: as returned by `parse_shares`. A margin without shares is free: it follows the available questions.
    Raises Ad2Error for shares that cannot be met, naming what is missing and the greatest total that can be met.
    """
    strata: defaultdict[tuple[str, str, str], list[SurveyEntry]] = defaultdict(list)
    for entry in survey.entries:
        strata[entry.source, entry.task, entry.subtask].append(entry)
    names = list(dict.fromkeys(source for source, _, _ in strata))
    empty = [name for name, share in (mix or {}).items() if share and name not in names]
    if empty:
        raise Ad2Error(f"--mix: {empty[0]} has no usable question")
    available = np.zeros((len(names), len(TASKS)), int)
    for (source, task, _), entries in strata.items():
        available[names.index(source), TASKS.index(task)] += len(entries)
    row_shares = [mix.get(name, 0.0) for name in names] if mix is not None else None
    column_shares = [tasks.get(task, 0.0) for task in TASKS] if tasks is not None else None
    table = _table(available, row_shares, column_shares, total, names)
    drawn = []
    for (i, name), (j, task) in ((row, column) for row in enumerate(names) for column in enumerate(TASKS)):
        subtasks = [subtask for subtask in SUBTASKS[task] if (name, task, subtask) in strata]
        quotas = level(int(table[i, j]), [len(strata[name, task, subtask]) for subtask in subtasks])
        for subtask, quota in zip(subtasks, quotas, strict=True):
            if quota:
                ordered = _drawing_order(strata[name, task, subtask], f"{seed}:{name}/{task}/{subtask}")
                drawn.append(Stratum(name, task, subtask, quota, ordered))
    tables = [
        {name: dict(zip(TASKS, row, strict=True)) for name, row in zip(names, numbers.tolist(), strict=True)}
        for numbers in (available, table)
    ]
    return QuestionPlan(tuple(drawn), seed, mix, tasks, total, *tables)


def _drawing_order(entries: Sequence[SurveyEntry], seed: str) -> tuple[SurveyEntry, ...]:
    """Shuffle, then alternate between scenes, and within a scene between frames."""
    shuffled = list(entries)
    random.Random(seed).shuffle(shuffled)
    # Stable sorts: the second, by scene, keeps the alternation of frames within each scene.
    for name in ("frame", "cluster"):
        sizes: Counter[tuple[int, str]] = Counter()
        ranked = []
        for entry in shuffled:
            group = (entry.at, getattr(entry, name))
            ranked.append((sizes[group], entry))
            sizes[group] += 1
        ranked.sort(key=lambda pair: pair[0])
        shuffled = [entry for _, entry in ranked]
    return tuple(shuffled)


def _table(
    available: np.ndarray, row_shares: list[float] | None, column_shares: list[float] | None, total: int | None,
    names: Sequence[str],
) -> np.ndarray:  # fmt: skip
    """Numbers of questions by source (rows) and task (columns). Raises Ad2Error if the shares cannot be met."""
    if row_shares is None and column_shares is None:
        flat = available.ravel().tolist()
        _check_enough(["all sources"], [total or 0], [sum(flat)], sum(flat))
        return np.reshape(apportion(total or sum(flat), flat, flat), available.shape)
    if column_shares is None:
        return _one_margin(available, row_shares or [], total, names)
    if row_shares is None:
        return _one_margin(available.T, column_shares, total, TASKS).T
    most = greatest_total(available, row_shares, column_shares)
    asked = most if total is None else total
    rows, columns = apportion(asked, row_shares), apportion(asked, column_shares)
    table = integer_table(available, rows, columns, continuous_table(available, rows, columns)) if asked else None
    if table is not None:
        return table
    wanted = asked or _total_of_one_margin(available.sum(axis=1), row_shares)
    raise _unmet(available, apportion(wanted, row_shares), apportion(wanted, column_shares), names, most)


def _one_margin(available: np.ndarray, shares: list[float], total: int | None, names: Sequence[str]) -> np.ndarray:
    """The table whose rows have these shares; each row is divided in proportion to the available questions."""
    have = available.sum(axis=1).tolist()
    most = int(min(n / share for n, share in zip(have, shares, strict=True) if share) + 1e-6)
    while most and any(n > there for n, there in zip(apportion(most, shares), have, strict=True)):
        most -= 1
    asked = apportion(total or most or _total_of_one_margin(have, shares), shares)
    _check_enough(names, asked, have, most)
    return np.array([apportion(n, row, row) for n, row in zip(asked, available.tolist(), strict=True)])


def _total_of_one_margin(have: Sequence[int], shares: Sequence[float]) -> int:
    """The greatest total that this margin alone would allow; used for the error message if no total can be met."""
    return max(1, int(min((n / share for n, share in zip(have, shares, strict=True) if n and share), default=1)))


def _check_enough(names: Sequence[str], asked: Sequence[int], have: Sequence[int], most: int) -> None:
    short = [
        f"{name}: {n:,} questions are requested, {there:,} can be used"
        for name, n, there in zip(names, asked, have, strict=True)
        if n > there
    ]
    if short:
        raise Ad2Error(f"{'; '.join(short)}. {_greatest_total_hint(most)}")


def _greatest_total_hint(most: int) -> str:
    if not most:
        return "No total can be met with these shares: change them."
    return f"The greatest total that can be met is {most:,}: --total {most}, or change the shares."


def _unmet(
    available: np.ndarray, rows: Sequence[int], columns: Sequence[int], names: Sequence[str], most: int
) -> Ad2Error:
    """The error that names the margin which cannot be met, alone (then it is raised) or together with the other."""
    _check_enough(names, rows, available.sum(axis=1), most)
    _check_enough(TASKS, columns, available.sum(axis=0), most)
    listed = "; ".join(
        f"{name}: " + ", ".join(f"{task} {n:,}" for task, n in zip(TASKS, row, strict=True))
        for name, row in zip(names, available, strict=True)
    )
    rest = f"Available: {listed}. {_greatest_total_hint(most)}"
    for task, wanted, column in zip(TASKS, columns, available.T, strict=True):
        # Bounds on a task if every source has its share n: sum of min(a_ij, n_i), and of max(0, n_i - rest of row i).
        highest = int(np.minimum(column, rows).sum())
        lowest = int(np.maximum(0, rows - (available.sum(axis=1) - column)).sum())
        if not lowest <= wanted <= highest:
            bound = f"at most {highest:,}" if wanted > highest else f"at least {lowest:,}"
            shares = ", ".join(f"{name} {n:,}" for name, n in zip(names, rows, strict=True))
            return Ad2Error(
                f"{task}: {wanted:,} questions are requested, but with the sources' shares ({shares}) it has "
                f"{bound}. {rest}"
            )
    return Ad2Error(f"sources' and tasks' shares cannot be met together. {rest}")


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


def greatest_total(available: np.ndarray, rows: Sequence[float], columns: Sequence[float]) -> int:
    """The greatest total for which a table with these shares of rows and columns exists; 0 if there is none."""
    n, m = available.shape
    # Linear programme: maximise T subject to sum_j x_ij = rows_i T, sum_i x_ij = columns_j T, 0 <= x_ij <= a_ij.
    # Variables: the cells x_ij in row order, then T.
    equal = np.column_stack([_margins(n, m), -np.concatenate([rows, columns])])
    bounds = [(0, cap) for cap in available.ravel()] + [(0, available.sum())]
    found = linprog([0] * (n * m) + [-1], A_eq=equal, b_eq=np.zeros(n + m), bounds=bounds, method="highs")
    most = math.floor(found.x[-1] + 1e-6) if found.success else 0
    near = np.zeros((n, m))
    while most > 0 and integer_table(available, apportion(most, rows), apportion(most, columns), near) is None:
        most -= 1  # a margin rounded up may exceed its share by one question
    return most


def _margins(n: int, m: int) -> np.ndarray:
    """The matrix whose product with the cells of an n x m table, in row order, gives the sums of rows and columns."""
    return np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])


def continuous_table(available: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """The real-valued table with these margins and x_ij <= a_ij that is closest to r_i c_j in relative entropy.

    By the optimality conditions x_ij = min(a_ij, u_i v_j r_i c_j). Iterative proportional fitting solves for u and v in
    turn. If the margins only just fit, it converges slowly and stops close to them; `integer_table` makes them exact.
    """
    caps = available.astype(float)
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

    The left side is piecewise linear in f with breakpoints caps_k / weights_k.
    """
    used = weights > 0
    if not used.any() or total <= 0:
        return 0.0
    weights, caps = weights[used], caps[used]
    steps = np.concatenate([[0.0], np.sort(caps / weights)])
    reached = np.minimum(caps, steps[:, None] * weights).sum(axis=1)
    return float(np.interp(total, reached, steps))


def integer_table(
    available: np.ndarray, rows: Sequence[int], columns: Sequence[int], near: np.ndarray
) -> np.ndarray | None:
    """The integer table with exactly these margins and x_ij <= a_ij that is closest to `near`; None if there is none.

    Integer programme that minimises sum |x - near|. With b = floor(near) and p = near - b, each cell is
    x = b - d + e + f, where 0 <= d <= b, 0 <= e <= 1, f >= 0. Up to the constant sum of p, the distance is
    d + (1 - 2 p) e + f.
    """
    caps, (n, m) = available.astype(float), available.shape
    base = np.minimum(np.floor(near + _EPS), caps).ravel()
    part = np.clip(near.ravel() - base, 0, 1)
    size = n * m
    # A cost of 1e-7 times the cell index makes the choice between equally close tables deterministic.
    tie = np.arange(size) * 1e-7
    cost = np.concatenate([1 + tie, 1 - 2 * part + tie, 1 + tie])
    upper = np.concatenate([base, np.minimum(1, caps.ravel() - base), np.maximum(0, caps.ravel() - base - 1)])
    margins = _margins(n, m)
    target = np.concatenate([rows, columns]) - margins @ base
    matrix = np.hstack([-margins, margins, margins])
    limits = LinearConstraint(matrix, target, target)
    found = milp(
        cost, constraints=limits, bounds=Bounds(0, upper), integrality=np.ones(3 * size), options={"mip_rel_gap": 0}
    )
    if not found.success:
        return None
    down, up, more = np.split(np.rint(found.x), 3)
    return (base - down + up + more).reshape(n, m).astype(int)
