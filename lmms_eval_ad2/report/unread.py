"""Replies that could not be read, by model, task and reason, with examples: `ad2 report --unparsed`.

A model that answers in a form of its own shows as one reason with many replies that look alike. The samples are read
line by line; only counts and a few shortened replies stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.printed import one_line, printable, shortened
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows
from lmms_eval_ad2.report.sample_row import record_of
from lmms_eval_ad2.report.table import WIDTH, Table, escape, wrapped

EXAMPLES = 3  # per model, task and reason
REPLY = 160  # characters of a reply; its middle is left out
ID = 80
REASONS = 50  # per task, of a foreign file; further ones are "other"
UNPARSED = "unparsed"
MOST_TURNS = 20
IN_FRAME = ("point", "box")


@dataclass(frozen=True)
class UnreadExample:
    """One unread reply. id: of the sample, or route and repetition; expected: form of the answer; reply: shortened."""

    id: str
    expected: str
    reply: str


@dataclass(frozen=True)
class UnreadReason:
    """The unread replies of a model to a task with one reason; `n` of `asked` replies."""

    model: str
    task: str
    reason: str
    n: int
    asked: int
    examples: tuple[UnreadExample, ...] = field(default=())


def unread(runs: Sequence[RunSummary]) -> list[UnreadReason]:
    """The unread replies of all tasks, most frequent first. Without its samples, a task has only the counts."""
    found = []
    for run in runs:
        for task in run.tasks.values():
            split = {why.partition(":")[::2]: n for why, n in task.reasons.items()}
            counts = {reason: n for (status, reason), n in split.items() if status == UNPARSED}
            if not counts and not task.score.n_unparsed:
                continue
            try:
                found += _of_samples(sample_rows(run, task.name), run, task)
            except DataError:  # no samples, or broken ones: the counts of the summary
                asked = max(task.score.n, sum(counts.values()))
                found += [UnreadReason(run.name, task.name, reason, n, asked) for reason, n in counts.items()]
    return by_count(found)


def by_count(found: Sequence[UnreadReason]) -> list[UnreadReason]:
    return sorted(found, key=lambda one: (-one.n, one.model, one.task, one.reason))


def _of_samples(rows: Iterator[Mapping[str, Any]], run: RunSummary, task: TaskSummary) -> list[UnreadReason]:
    found: dict[str, UnreadReason] = {}
    asked = 0
    for row in rows:
        asked += 1
        if row.get("status") != UNPARSED:
            continue
        reason = str(row.get("reason"))[:ID]
        reason = reason if reason in found or len(found) < REASONS else "other"
        known = found.get(reason) or UnreadReason(run.name, task.name, reason, 0, 0)
        examples = known.examples
        if len(examples) < EXAMPLES:
            raw = row.get("raw")
            turns = [raw] if not isinstance(raw, list) else raw[:MOST_TURNS]  # several if asked in rounds
            texts = ("" if turn is None else shortened(str(turn), REPLY) for turn in turns)
            reply = shortened(" | ".join(texts), REPLY)
            examples += (UnreadExample(shortened(str(row["id"]), ID), _expected(row, task), reply),)
        found[reason] = replace(known, n=known.n + 1, examples=examples)
    return [replace(one, asked=asked) for one in found.values()]


def _expected(row: Mapping[str, Any], task: TaskSummary) -> str:
    """The form of the answer: with the letters offered, the frame of coordinates, or the words of a yes/no question."""
    form = str(row.get("form"))
    options = record_of(row).get("options")
    if form == "mc" and isinstance(options, list):
        letters = [str(o.get("letter")) for o in options if isinstance(o, Mapping)]
        return shortened(f"{form} {'/'.join(letters)}", ID)
    return f"{form}, frame {task.frame}" if form in IN_FRAME else shortened(form, ID)


def render(found: Sequence[UnreadReason], *, markdown: bool = False) -> str:
    """A table of all counts, then the examples of each."""
    if not found:
        return "No unread reply: every reply was read, or is unscored.\n"
    headers = ["n", "of", "model", "task", "reason"]
    found = [replace(one, reason=one.reason.replace("_", " ")) for one in found]
    cells = [[str(one.n), str(one.asked), one.model, one.task, one.reason] for one in found]
    table = Table(headers, cells, "rrlll")
    total = f"Unread replies: {sum(one.n for one in found)}"
    blocks = [total, table.markdown() if markdown else table.within(WIDTH)]
    for one in found:
        title = f"{one.model}, {one.task}, {one.reason}: {one.n} of {one.asked}"
        lines = [f"{one_line(e.id)} [{e.expected}]: {one_line(e.reply) or '(empty)'}" for e in one.examples]
        if markdown:
            blocks.append("\n".join([f"### {escape(title)}\n", *(f"- {escape(line)}" for line in lines)]))
        elif lines:
            blocks.append("\n".join([wrapped(title, WIDTH), *(wrapped(f"  {line}", WIDTH, "    ") for line in lines)]))
    return printable("\n\n".join(blocks)) + "\n"
