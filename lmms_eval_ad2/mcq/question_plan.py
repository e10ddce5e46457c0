"""Selection of questions by source, task and sub-task, balanced as in the paper (sections 3.3 and 4.1).

Shares of sources and of tasks are met exactly (shares.py); within a cell (source, task) the sub-tasks get numbers as
equal as their supply allows. The questions of a stratum are in seeded order, alternating between scenes, so that a
small draw covers many scenes. Those after the quota are the reserve: they replace questions that are rejected.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.mcq.shares import (
    Table,
    apportion,
    check_sum,
    continuous_table,
    greatest_total,
    integer_table,
    level,
    parse_shares,
)
from lmms_eval_ad2.mcq.survey import SourceSurvey, SurveyEntry
from lmms_eval_ad2.mcq.taxonomy import SUBTASKS, TASKS

PAPER_MIX = {"drivelm": 0.6, "nuscenes_qa": 0.2, "lingoqa": 0.2}
PAPER_TASKS = {"perception": 0.4, "prediction": 0.3, "planning": 0.3}
PAPER_TOTAL = 15_400


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
            "available": {name: dict(row) for name, row in self.available.items()},
            "table": {name: dict(row) for name, row in self.table.items()},
            "strata": [
                {"source": s.source, "task": s.task, "subtask": s.subtask, "quota": s.quota, "there": len(s.entries)}
                for s in self.strata
            ],
        }  # fmt: skip


def plan(
    survey: SourceSurvey, *, mix: Mapping[str, float] | None = None, tasks: Mapping[str, float] | None = None,
    total: int | None = None, seed: int = 0,
) -> QuestionPlan:  # fmt: skip
    """Draw `total` questions with these shares of sources (`mix`) and tasks; by default as many as possible.

    A margin without shares is free: it follows the available questions. Raises Ad2Error for invalid shares, and for
    shares that cannot be met, naming what is missing and the greatest total that can be met.
    """
    names = tuple(dict.fromkeys(entry.source for entry in survey.entries))
    row_shares = _shares(mix, [source["name"] for source in survey.sources] or names, "mix", names)
    column_shares = _shares(tasks, TASKS, "tasks", TASKS)
    if total is not None and total < 1:
        raise Ad2Error(f"--total is {total}, expected at least 1")
    strata = _by_stratum(survey.entries)
    counts = Counter((entry.source, entry.task) for entry in survey.entries)
    available = [[counts[name, task] for task in TASKS] for name in names]
    table = _table(available, row_shares, column_shares, total, names)
    drawn = [
        Stratum(
            name, task, subtask, quota, _drawing_order(strata[name, task, subtask], f"{seed}:{name}/{task}/{subtask}")
        )
        for name, row in zip(names, table, strict=True)
        for task, cell in zip(TASKS, row, strict=True)
        for subtask, quota in _subtasks(strata, name, task, cell)
        if quota
    ]
    return QuestionPlan(
        strata=tuple(drawn),
        seed=seed,
        mix=mix,
        tasks=tasks,
        asked=total,
        available=_by_name(names, available),
        table=_by_name(names, table),
    )


def _shares(
    shares: Mapping[str, float] | None, known: Sequence[str], what: str, order: Sequence[str]
) -> list[float] | None:
    """The shares in `order`, None if none are given. Raises Ad2Error for invalid shares."""
    if shares is None:
        return None
    unknown = [name for name in shares if name not in known]
    if unknown:
        raise Ad2Error(f"--{what}: '{unknown[0]}' is not one of {', '.join(known)}")
    if not all(0 <= share <= 1 for share in shares.values()):
        raise Ad2Error(f"--{what}: every share is a number from 0 to 1: {dict(shares)}")
    check_sum(shares)
    empty = [name for name, share in shares.items() if share and name not in order]
    if empty:
        raise Ad2Error(f"--{what}: {empty[0]} has no usable question")
    return [shares.get(name, 0.0) for name in order]


def _table(
    available: Table,
    row_shares: list[float] | None,
    column_shares: list[float] | None,
    total: int | None,
    names: Sequence[str],
) -> Table:
    """Numbers of questions by source (rows) and task (columns). Raises Ad2Error if the shares cannot be met."""
    flat = [cell for row in available for cell in row]
    if row_shares is None and column_shares is None:
        _check_enough({"all sources": total or 0}, {"all sources": sum(flat)}, sum(flat))
        return _reshaped(apportion(total or sum(flat), flat, flat), len(TASKS))
    if column_shares is None:
        return _one_margin(available, row_shares or [], total, names)
    if row_shares is None:
        return _transposed(_one_margin(_transposed(available), column_shares, total, TASKS))
    most = greatest_total(available, row_shares, column_shares)
    asked = most if total is None else total
    rows, columns = apportion(asked, row_shares), apportion(asked, column_shares)
    table = integer_table(available, rows, columns, continuous_table(available, rows, columns)) if asked else None
    if table is None:
        wanted = asked or _total_of_one_margin([sum(row) for row in available], row_shares)
        _raise_unmet(available, apportion(wanted, row_shares), apportion(wanted, column_shares), names, most)
    return table or []


def _one_margin(available: Table, shares: list[float], total: int | None, names: Sequence[str]) -> Table:
    """The table whose rows have these shares; each row is divided in proportion to the available questions."""
    have = [sum(row) for row in available]
    most = int(min(n / share for n, share in zip(have, shares, strict=True) if share) + 1e-6)
    while most and any(n > there for n, there in zip(apportion(most, shares), have, strict=True)):
        most -= 1
    asked = apportion(total or most or _total_of_one_margin(have, shares), shares)
    _check_enough(dict(zip(names, asked, strict=True)), dict(zip(names, have, strict=True)), most)
    return [apportion(n, row, row) for n, row in zip(asked, available, strict=True)]


def _total_of_one_margin(have: Sequence[int], shares: Sequence[float]) -> int:
    """The greatest total that this margin alone would allow; used for the error message if no total can be met."""
    return max(1, int(min((n / share for n, share in zip(have, shares, strict=True) if n and share), default=1)))


def _check_enough(asked: Mapping[str, int], have: Mapping[str, int], most: int) -> None:
    short = [
        f"{name}: {n:,} questions are requested, {have[name]:,} can be used"
        for name, n in asked.items()
        if n > have[name]
    ]
    if short:
        raise Ad2Error(f"{'; '.join(short)}. {_greatest_total_hint(most)}")


def _greatest_total_hint(most: int) -> str:
    if not most:
        return "No total can be met with these shares: change them."
    return f"The greatest total that can be met is {most:,}: --total {most}, or change the shares."


def _raise_unmet(
    available: Table, rows: Sequence[int], columns: Sequence[int], names: Sequence[str], most: int
) -> None:
    """Raise the Ad2Error that names the margin which cannot be met, alone or together with the other."""
    _check_enough(
        dict(zip(names, rows, strict=True)), {n: sum(row) for n, row in zip(names, available, strict=True)}, most
    )
    transposed = _transposed(available)
    _check_enough(
        dict(zip(TASKS, columns, strict=True)), {t: sum(row) for t, row in zip(TASKS, transposed, strict=True)}, most
    )
    for j, task in enumerate(TASKS):
        # Bounds on a task if every source has its share n: sum of min(a_ij, n_i), and of max(0, n_i - rest of row i).
        highest = sum(min(row[j], n) for row, n in zip(available, rows, strict=True))
        lowest = sum(max(0, n - (sum(row) - row[j])) for row, n in zip(available, rows, strict=True))
        if not lowest <= columns[j] <= highest:
            bound = f"at most {highest:,}" if columns[j] > highest else f"at least {lowest:,}"
            shares = ", ".join(f"{name} {n:,}" for name, n in zip(names, rows, strict=True))
            raise Ad2Error(
                f"{task}: {columns[j]:,} questions are requested, but with the sources' shares ({shares}) it has "
                f"{bound}. {_listing(names, available)} {_greatest_total_hint(most)}"
            )
    raise Ad2Error(
        f"sources' and tasks' shares cannot be met together. {_listing(names, available)} {_greatest_total_hint(most)}"
    )


def _listing(names: Sequence[str], available: Table) -> str:
    rows = (
        f"{name}: " + ", ".join(f"{task} {n:,}" for task, n in zip(TASKS, row, strict=True))
        for name, row in zip(names, available, strict=True)
    )
    return f"Available: {'; '.join(rows)}."


def _by_stratum(entries: Iterable[SurveyEntry]) -> dict[tuple[str, str, str], list[SurveyEntry]]:
    groups: dict[tuple[str, str, str], list[SurveyEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.source, entry.task, entry.subtask].append(entry)
    return groups


def _subtasks(
    strata: Mapping[tuple[str, str, str], Sequence[SurveyEntry]], source: str, task: str, cell: int
) -> list[tuple[str, int]]:
    """(sub-task, quota) pairs of a cell, in the order of the taxonomy."""
    there = [name for name in SUBTASKS[task] if (source, task, name) in strata]
    return list(zip(there, level(cell, [len(strata[source, task, name]) for name in there]), strict=True))


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


def _reshaped(flat: Sequence[int], width: int) -> Table:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)]


def _transposed(table: Table) -> Table:
    return [list(column) for column in zip(*table, strict=True)]


def _by_name(names: Sequence[str], table: Table) -> dict[str, dict[str, int]]:
    return {name: dict(zip(TASKS, row, strict=True)) for name, row in zip(names, table, strict=True)}


__all__ = ["PAPER_MIX", "PAPER_TASKS", "PAPER_TOTAL", "QuestionPlan", "Stratum", "parse_shares", "plan"]
