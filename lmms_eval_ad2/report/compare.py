"""Two runs, sample by sample: is the difference more than chance?

Only samples that both runs have, and both scored, enter; the others are counted. Runs on other
data, or rated by other judges, are refused: their figures do not mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.metrics import summary
from lmms_eval_ad2.report import tables
from lmms_eval_ad2.report.runs import Run, Task, judge_sha, sample_rows

_FORCE = "to compare them all the same: --force"


@dataclass(frozen=True, slots=True)
class Row:
    """A task of both runs. Means are percentages over the `n` paired samples (not means of columns), difference a - b.

    `p_holm` is the p-value corrected for the number of tasks tested (Holm, 1979); None where nothing can be tested.
    `only_a`, `only_b`: samples that the other run lacks; `unscored`: shared samples that a run has no score for.
    """

    task: str
    n: int
    only_a: int
    only_b: int
    unscored: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    ci: tuple[float, float] | None
    p_value: float | None
    p_holm: float | None
    test: str
    notes: tuple[str, ...] = ()


def compare(run_a: Run, run_b: Run, *, force: bool = False, seed: int = 0) -> list[Row]:
    """A row for every task that both runs have.

    Raises Ad2Error where there is none, and, unless `force`, where a task's data (sha256) or judge differ;
    DataError where samples are absent or broken.
    """
    shared = [name for name in run_a.tasks if name in run_b.tasks]
    if not shared:
        raise Ad2Error(
            f"the runs share no task: {run_a.name} has {', '.join(run_a.tasks) or 'none'}; "
            f"{run_b.name} has {', '.join(run_b.tasks) or 'none'}"
        )
    other = judge_sha(run_a.about) != judge_sha(run_b.about)
    clashes = {name: _clashes(run_a.tasks[name], run_b.tasks[name], other) for name in shared}
    found = [f"{name}: {clash}" for name in shared for clash in clashes[name]]
    if found and not force:
        raise Ad2Error(f"not comparable: {'; '.join(found)}. Leave these tasks out, or run both alike; {_FORCE}")
    rows = [_row(run_a, run_b, name, clashes[name], seed) for name in shared if not run_a.tasks[name].open_ended]
    corrected = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction, in the order given; None (not tested) stays None and is not counted."""
    tested = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(tested):
        highest = max(highest, min(1.0, p * (len(tested) - rank)))
        corrected[i] = highest
    return corrected


def render(run_a: Run, run_b: Run, rows: Sequence[Row], *, markdown: bool = False) -> str:
    """The comparison as a table, with what was left out and why."""
    headers = ["Task", "n paired", "A", "B", "A - B [95 % interval]", "p", "p (Holm)", "test", "left out"]
    body = []
    for row in rows:
        span = f" [{row.ci[0]:+.1f}, {row.ci[1]:+.1f}]" if row.ci else ""
        difference = tables.NONE if row.difference is None else f"{row.difference:+.1f}{span}"
        body.append([
            row.task, str(row.n), tables.number(row.mean_a), tables.number(row.mean_b), difference,
            _p(row.p_value), _p(row.p_holm), row.test, _left_out(row),
        ])  # fmt: skip
    if markdown:
        body = [[tables.escape(cell) for cell in line] for line in body]
    lines = [f"A: {run_a.name}", f"B: {run_b.name}", "", tables.table(headers, body, markdown), ""]
    for key in ("prompts_sha256", "gen_kwargs", "limit", "image_encoding"):
        if run_a.about.get(key) != run_b.about.get(key):
            lines.append(f"Attention: {key} differs: {run_a.about.get(key)} against {run_b.about.get(key)}")
    lines += [f"Attention, {row.task}: {note}" for row in rows for note in row.notes]
    lines.append(
        "Means over the samples that both runs have and scored (not means of columns). Exact McNemar test where all "
        "scores are right or wrong, else a sign-flip test over clusters; p (Holm) is corrected for the number of tasks."
    )
    return tables.printable("\n".join(lines)) + "\n"


def _p(value: float | None) -> str:
    if value is None:
        return tables.NONE
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _left_out(row: Row) -> str:
    counts = ((row.only_a, "only in A"), (row.only_b, "only in B"), (row.unscored, "unscored"))
    return ", ".join(f"{n} {word}" for n, word in counts if n) or "none"


def _clashes(a: Task, b: Task, other_judge: bool) -> list[str]:
    found = []
    for field in ("name", "split", "sha256"):
        if a.data.get(field) != b.data.get(field):
            found.append(f"data {field} {_shown(a.data.get(field))} against {_shown(b.data.get(field))}")
    if a.judge != b.judge:
        found.append(f"judge {a.judge or 'none'} against {b.judge or 'none'}")
    elif a.judge and other_judge:
        found.append(f"judge {a.judge} with other rubrics or settings")
    if dict(a.variant) != dict(b.variant):
        found.append(f"asked as {dict(a.variant)} against {dict(b.variant)}")
    return found


def _shown(value: Any) -> str:
    return str(value)[:12]


def _row(run_a: Run, run_b: Run, name: str, notes: Sequence[str], seed: int) -> Row:
    a, clusters = _scores(run_a, name)
    b, more = _scores(run_b, name)
    shared = a.keys() & b.keys()
    left = {i: v / 100 for i in shared if (v := a[i]) is not None and b[i] is not None}
    right = {i: v / 100 for i in left if (v := b[i]) is not None}
    counts = {"only_a": len(a) - len(shared), "only_b": len(b) - len(shared), "unscored": len(shared) - len(left)}
    if not left:
        said = "no sample that both runs scored"
        return Row(name, 0, **counts, mean_a=None, mean_b=None, difference=None, ci=None, p_value=None, p_holm=None,
                   test="none", notes=(*notes, said))  # fmt: skip
    # As fractions: McNemar's test wants 0 and 1.
    result = summary.paired(left, right, clusters=more | clusters, seed=seed)
    ci = (100 * result.ci.low, 100 * result.ci.high) if result.ci else None
    return Row(
        name, result.n, **counts, mean_a=100 * result.mean_a, mean_b=100 * result.mean_b,
        difference=100 * result.difference, ci=ci, p_value=result.p_value, p_holm=None, test=result.test,
        notes=tuple(notes),
    )  # fmt: skip


def _scores(run: Run, task: str) -> tuple[dict[str, float | None], dict[str, str]]:
    """Score (percent, None where unscored) and cluster of every sample, by id."""
    scores: dict[str, float | None] = {}
    clusters: dict[str, str] = {}
    for row in sample_rows(run, task):
        key, score = str(row["id"]), row.get("score")
        scores[key] = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
        clusters[key] = str(row.get("cluster") or key)
    return scores, clusters
