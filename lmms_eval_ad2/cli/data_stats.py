"""`ad2 data stats`: records of a dataset by part and sub-task, weather and severity, or what else its records state."""

from __future__ import annotations

from collections.abc import Sequence

from lmms_eval_ad2.data.home.statistics import DatasetStatistics
from lmms_eval_ad2.report.table import Table

NOT_STATED = "not stated"
_MOST_COLUMNS = 12  # more values of a condition are rows


def render(found: DatasetStatistics) -> str:
    """One table per condition: rows are parts and sub-tasks, columns the values of the condition.

    The cells of weather also have the numbers by severity.
    """
    blocks = [f"{found.name} ({found.split}): {found.n} records, sha256 {found.sha256[:16]}"]
    split = "severity" if {"weather", "severity"} <= set(found.conditions) else ""
    for condition in [name for name in found.conditions if name != split] or [""]:
        blocks.append(_table(found, condition, split if condition == "weather" else ""))
    return "\n\n".join(blocks)


def _table(found: DatasetStatistics, condition: str, split: str) -> str:
    """The table of one condition ("": only totals), with the numbers by the condition `split` in its cells."""
    kinds = sorted({key[:2] for key in found.counts})
    values = found.values(condition) if condition else []
    if condition and found.total(**{condition: ""}):
        values.append("")
    rows: list[Sequence[object]] = []
    for part, subtask in kinds:
        where = {"part": part, "subtask": subtask}
        cells = [_cell(found, split, **where, **{condition: value}) for value in values]
        rows.append((part, subtask, *cells, _cell(found, split, **where)))
    rows.append(("all", "", *(_cell(found, split, **{condition: value}) for value in values), _cell(found, split)))
    headers = ["part", "sub-task", *(value or NOT_STATED for value in values), "all"]
    if len(values) > _MOST_COLUMNS:
        names = ["/".join(filter(None, (str(row[0]), str(row[1])))) for row in rows]
        headers, rows = [condition, *names], [
            (header, *(row[i] for row in rows)) for i, header in enumerate(headers[2:], 2)
        ]  # fmt: skip
        text = Table(headers, rows, "l" + "r" * len(names)).plain()
    else:
        text = Table(headers, rows, "ll" + "r" * (len(values) + 1)).plain()
    title = f"by {condition}" if condition else "by part and sub-task"
    if split:
        title += f"; in brackets: {' / '.join(found.values(split))}"
        title += ", the rest states none" if found.total(**{split: ""}) else ""
    return f"{title}\n{text}"


def _cell(found: DatasetStatistics, split: str, **where: str) -> str:
    n = found.total(**where)
    if not (split and n):
        return str(n)
    return f"{n} ({'/'.join(str(found.total(**where, **{split: value})) for value in found.values(split))})"
