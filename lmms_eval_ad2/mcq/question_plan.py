"""Which questions are drawn: by source, task and sub-task, as the paper balances its set (sections 3.3 and 4.1).

Shares of sources and of tasks are met exactly (shares.py); inside a cell the sub-tasks get as even a number as they
have questions for. Each stratum's questions are in seeded order, one scene after the other, so that a small draw is
not one scene's; those after the quota are the reserve for questions of which no multiple choice can be made.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.shares import Table, apportion, check_sum, fill, greatest_total, level, parse_shares, rough
from lmms_eval_ad2.mcq.survey import SourceSurvey, SurveyEntry
from lmms_eval_ad2.mcq.taxonomy import SUBTASKS, TASKS

PAPER_MIX = {"drivelm": 0.6, "nuscenes_qa": 0.2, "lingoqa": 0.2}
PAPER_TASKS = {"perception": 0.4, "prediction": 0.3, "planning": 0.3}
PAPER_TOTAL = 15_400


@dataclass(frozen=True, slots=True)
class Stratum:
    """Questions of one sub-task from one source. The first `quota` of `entries` are drawn, the rest is the reserve."""

    source: str
    task: str
    subtask: str
    quota: int
    entries: tuple[SurveyEntry, ...]


@dataclass(frozen=True, slots=True)
class QuestionPlan:
    """What is drawn. `available` and `table`: questions by source and task, there and drawn."""

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
        """JSON-able: seed, shares, totals, both tables, and each stratum with its quota and how many are there."""
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
    """Draw `total` questions with these shares of sources (`mix`) and tasks; without a total, as many as there are.

    A margin without shares is free: it follows what is there. Raises Ad2Error where shares are no shares and where
    they cannot be met, naming what is short and the greatest total that can be.
    """
    names = tuple(dict.fromkeys(entry.source for entry in survey.entries))
    rows = _shares(mix, [source["name"] for source in survey.sources] or names, "mix", names)
    columns = _shares(tasks, TASKS, "tasks", TASKS)
    if total is not None and total < 1:
        raise Ad2Error(f"--total is {total}, expected at least 1")
    strata = _grouped(survey.entries)
    counts = Counter((entry.source, entry.task) for entry in survey.entries)
    available = [[counts[name, task] for task in TASKS] for name in names]
    table = _table(available, rows, columns, total, names)
    drawn = [
        Stratum(name, task, subtask, quota, _order(strata[name, task, subtask], f"{seed}:{name}/{task}/{subtask}"))
        for name, row in zip(names, table, strict=True)
        for task, cell in zip(TASKS, row, strict=True)
        for subtask, quota in _subtasks(strata, name, task, cell)
        if quota
    ]
    return QuestionPlan(tuple(drawn), seed, mix, tasks, total, _named(names, available), _named(names, table))


def _shares(
    shares: Mapping[str, float] | None, known: Sequence[str], what: str, order: Sequence[str]
) -> list[float] | None:
    """The shares in `order`, None where none are given; raises Ad2Error for a fault in them."""
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
        raise Ad2Error(f"--{what}: {empty[0]} has no question that can be used")
    return [shares.get(name, 0.0) for name in order]


def _table(
    available: Table, rows: list[float] | None, columns: list[float] | None, total: int | None, names: Sequence[str]
) -> Table:
    """Questions by source and task; raises Ad2Error where the shares cannot be met."""
    flat = [cell for row in available for cell in row]
    if rows is None and columns is None:
        _enough({"all sources": total or 0}, {"all sources": sum(flat)}, sum(flat))
        return _cut(apportion(total or sum(flat), flat, flat), len(TASKS))
    if rows is None or columns is None:
        one, across = (available, rows) if rows is not None else (_turned(available), columns)
        found = _one_margin(one, across or [], total, names if rows is not None else TASKS)
        return found if rows is not None else _turned(found)
    most = greatest_total(available, rows, columns)
    asked = most if total is None else total
    down, right = apportion(asked, rows), apportion(asked, columns)
    table = fill(available, down, right, rough(available, down, right)) if asked else None
    if table is None:
        wanted = asked or _alone([sum(row) for row in available], rows)
        _explain(available, apportion(wanted, rows), apportion(wanted, columns), names, most)
    return table or []


def _one_margin(available: Table, shares: list[float], total: int | None, names: Sequence[str]) -> Table:
    """The table whose rows have these shares; along a row, what is there decides."""
    have = [sum(row) for row in available]
    most = int(min(n / share for n, share in zip(have, shares, strict=True) if share) + 1e-6)
    while most and any(n > there for n, there in zip(apportion(most, shares), have, strict=True)):
        most -= 1
    asked = apportion(total or most or _alone(have, shares), shares)
    _enough(dict(zip(names, asked, strict=True)), dict(zip(names, have, strict=True)), most)
    return [apportion(n, row, row) for n, row in zip(asked, available, strict=True)]


def _alone(have: Sequence[int], shares: Sequence[float]) -> int:
    """A total to explain by, where none can be met and none was asked for: what this margin alone would allow."""
    return max(1, int(min((n / share for n, share in zip(have, shares, strict=True) if n and share), default=1)))


def _enough(asked: Mapping[str, int], have: Mapping[str, int], most: int) -> None:
    short = [
        f"{name}: {n:,} questions are asked, {have[name]:,} can be used" for name, n in asked.items() if n > have[name]
    ]
    if short:
        raise Ad2Error(f"{'; '.join(short)}. {_greatest(most)}")


def _greatest(most: int) -> str:
    if not most:
        return "No total can be met with these shares: change them."
    return f"The greatest total that can be met is {most:,}: --total {most}, or change the shares."


def _explain(available: Table, rows: Sequence[int], columns: Sequence[int], names: Sequence[str], most: int) -> None:
    """Raise the Ad2Error that says which margin cannot be met, alone or beside the other."""
    _enough(dict(zip(names, rows, strict=True)), {n: sum(row) for n, row in zip(names, available, strict=True)}, most)
    turned = _turned(available)
    _enough(dict(zip(TASKS, columns, strict=True)), {t: sum(row) for t, row in zip(TASKS, turned, strict=True)}, most)
    for j, task in enumerate(TASKS):
        # With every source at its share: as many of this task as that allows, and as few.
        highest = sum(min(row[j], n) for row, n in zip(available, rows, strict=True))
        lowest = sum(max(0, n - (sum(row) - row[j])) for row, n in zip(available, rows, strict=True))
        if not lowest <= columns[j] <= highest:
            bound = f"at most {highest:,}" if columns[j] > highest else f"at least {lowest:,}"
            shares = ", ".join(f"{name} {n:,}" for name, n in zip(names, rows, strict=True))
            raise Ad2Error(
                f"{task}: {columns[j]:,} questions are asked, but with the sources' shares ({shares}) it has {bound}. "
                f"{_listed(names, available)} {_greatest(most)}"
            )
    raise Ad2Error(f"sources' and tasks' shares cannot be met together. {_listed(names, available)} {_greatest(most)}")


def _listed(names: Sequence[str], available: Table) -> str:
    rows = (
        f"{name}: " + ", ".join(f"{task} {n:,}" for task, n in zip(TASKS, row, strict=True))
        for name, row in zip(names, available, strict=True)
    )
    return f"There are ({'; '.join(rows)})."


def _grouped(entries: Iterable[SurveyEntry]) -> dict[tuple[str, str, str], list[SurveyEntry]]:
    groups: dict[tuple[str, str, str], list[SurveyEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.source, entry.task, entry.subtask].append(entry)
    return groups


def _subtasks(
    strata: Mapping[tuple[str, str, str], Sequence[SurveyEntry]], source: str, task: str, cell: int
) -> list[tuple[str, int]]:
    """(sub-task, quota) of a cell, in the taxonomy's order."""
    there = [name for name in SUBTASKS[task] if (source, task, name) in strata]
    return list(zip(there, level(cell, [len(strata[source, task, name]) for name in there]), strict=True))


def _order(entries: Sequence[SurveyEntry], seed: str) -> tuple[SurveyEntry, ...]:
    """Shuffled, then one of each scene in turn, and inside a scene one of each frame in turn."""
    shuffled = list(entries)
    random.Random(seed).shuffle(shuffled)
    for name in ("frame", "cluster"):
        turns: Counter[tuple[int, str]] = Counter()
        ranked = []
        for entry in shuffled:
            group = (entry.at, getattr(entry, name))
            ranked.append((turns[group], entry))
            turns[group] += 1
        ranked.sort(key=lambda pair: pair[0])
        shuffled = [entry for _, entry in ranked]
    return tuple(shuffled)


def _cut(flat: Sequence[int], width: int) -> Table:
    return [list(flat[i : i + width]) for i in range(0, len(flat), width)]


def _turned(table: Table) -> Table:
    return [list(column) for column in zip(*table, strict=True)]


def _named(names: Sequence[str], table: Table) -> dict[str, dict[str, int]]:
    return {name: dict(zip(TASKS, row, strict=True)) for name, row in zip(names, table, strict=True)}


__all__ = ["PAPER_MIX", "PAPER_TASKS", "PAPER_TOTAL", "QuestionPlan", "Stratum", "parse_shares", "plan"]
