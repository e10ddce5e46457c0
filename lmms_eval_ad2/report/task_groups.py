"""Grouping of tasks into table rows: one row per run, data set and task variant.

Tasks are matched by benchmark, part and variant in their summaries, never by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmms_eval_ad2.core.numbers import is_number, is_whole
from lmms_eval_ad2.report.runs import FRAME_SETTINGS, RunSummary, TaskSummary
from lmms_eval_ad2.storage.training_card import TRAINED_ON, trained_text

Signature = tuple[tuple[str, Any], ...]

# Benchmarks with a column for views; their free-text tasks share the row of the multiple-choice ones.
MULTI_VIEW = frozenset({"autodrive_qa", "drivelm"})


@dataclass(slots=True)
class TaskGroup:
    """The tasks of one table row, by (part, scored by n-gram metrics only)."""

    run: RunSummary
    benchmark: str
    data: str
    split: str
    signature: Signature
    tasks: dict[tuple[str, bool], TaskSummary] = field(default_factory=dict)

    @property
    def label(self) -> str:
        words = [self.run.role] if self.run.role != "run" else []
        words += [text for key, value in self.signature if (text := _word(self.benchmark, key, value))]
        words += [f"frame {text}" for text in self.frames if text != "auto"]
        return f"{self.run.name} ({', '.join(words)})" if words else self.run.name

    @property
    def frames(self) -> tuple[str, ...]:
        """The coordinate frames of its tasks with points or boxes; earlier versions do not state which have any."""
        stated = "frame" in self.run.about
        return tuple(dict.fromkeys(t.frame for t in self.tasks.values() if t.coordinates or not stated))

    @property
    def views(self) -> str:
        changes = dict(self.signature)
        shown = {"front": "1", "asked": "asked"}.get(str(changes.get("views")), "all")
        return f"{shown}, mosaic" if changes.get("layout") == "mosaic" else shown

    @property
    def note(self) -> str:
        """Remarks on the data, shown beside the scores."""
        maker = _joined(t.maker for t in self.tasks.values())
        trained = trained_note(self.tasks.values())
        return "; ".join([*data_notes(self.data, self.run.about.get("limit"), maker), *filter(None, [trained])])

    @property
    def circular(self) -> bool:
        return ("circular", True) in self.signature

    @property
    def coords(self) -> bool:
        """True if its tasks give the object by coordinates in the text."""
        return ("coords", True) in self.signature

    def without_coords(self) -> TaskGroup:
        """The same row, as if its tasks gave the object by a mark in the image."""
        return replace(self, signature=tuple(pair for pair in self.signature if pair[0] != "coords"))

    def asks_as(self, other: TaskGroup) -> bool:
        """True if both have the same data and variant."""
        return (self.data, self.split, self.signature) == (other.data, other.split, other.signature)

    @property
    def distractors(self) -> str | None:
        """The set of distractors of its questions; None if the data do not state it."""
        return _joined(t.distractors for t in self.tasks.values())

    @property
    def judge(self) -> str | None:
        """The judge of its tasks, else of the run; None if neither names one."""
        return next((t.judge for t in self.tasks.values() if t.judge), None) or self.run.judge

    def used(self, parts: Iterable[str]) -> list[TaskSummary]:
        """Return the tasks of these parts: the canonical ones, or the free-text ones if there are none."""
        wanted = set(parts)
        found = [t for (part, is_open), t in self.tasks.items() if part in wanted and not is_open]
        return found or [t for (part, _), t in self.tasks.items() if part in wanted]


def _joined(names: Iterable[str | None]) -> str | None:
    """The common name of all tasks; of a mixture all names, joined by " + "."""
    return " + ".join(dict.fromkeys(name for name in names if name)) or None


def trained_note(tasks: Iterable[TaskSummary]) -> str:
    """ "trained on 3 of these 200 questions (same_item 3)" of tasks whose model names its training data; "" if none."""
    blocks = [task.data.get(TRAINED_ON) for task in tasks]
    known = [block for block in blocks if isinstance(block, Mapping) and isinstance(block.get("kinds"), Mapping)]
    kinds: Counter[str] = Counter()
    for block in known:
        kinds.update({str(kind): n for kind, n in block["kinds"].items() if is_whole(n, 1)})
    total = sum(n for block in known if is_whole(n := block.get("questions"), 0))
    return trained_text(kinds, total, "questions") if kinds else ""


def data_notes(name: str, limit: Any = None, maker: str | None = None) -> list[str]:
    notes = []
    if name.startswith("sample_"):
        notes.append("sample: not the benchmark")
    if name.startswith("autodrive_qa"):
        notes.append("reconstruction: not the authors' questions")
    if maker:
        notes.append(f"distractors made by {maker}")
    if limit:
        number = f"{limit:g}" if is_number(limit) else limit
        notes.append(f"first {number} of each task only")
    return notes


def language_note(task: TaskSummary) -> str:
    """The number of records that lack the asked language, and whether they were asked all the same; "" if none."""
    number, left_out = (task.data.get(key) for key in ("not_in_lang", "left_out"))
    if not is_number(number) or number <= 0:
        return ""
    language = "Chinese" if task.variant.get("lang") == "zh" else "English"
    # AD2-Bench is published in both languages; versions before 0.4.0 asked such records in the other one.
    skipped = task.benchmark == "ad2_bench" and is_number(left_out) and left_out >= number
    return f"{number:g} records have no {language} text; {'left out' if skipped else 'asked in the other language'}"


def form_note(task: TaskSummary) -> str:
    """The number of records that lack the form of the task and were left out; "" if there are none."""
    number = task.data.get("not_in_form")
    if not is_number(number) or number <= 0:
        return ""
    form = "chain" if task.part == "cot" else task.variant.get("form")
    return f"{number:g} records do not have the form {form}; left out"


def group_tasks(runs: Sequence[RunSummary], benchmark: str) -> list[TaskGroup]:
    """Group the tasks of a benchmark into rows, in the order of the runs."""
    found: dict[tuple[Any, ...], TaskGroup] = {}
    for run in runs:
        for task in run.tasks.values():
            if task.benchmark != benchmark:
                continue
            data, split = str(task.data.get("name", "?")), str(task.data.get("split", ""))
            signature, place = signature_of(task), (task.part, task.open_ended)
            known = found.get((run.folder, data, split, signature))
            if known and place in known.tasks:
                # A second task of the same kind gets its own row, labelled with its name.
                signature += (("task", task.name),)
            new = TaskGroup(run, benchmark, data, split, signature)
            found.setdefault((run.folder, data, split, signature), new).tasks[place] = task
    return list(found.values())


def signature_of(task: TaskSummary) -> Signature:
    """The variant settings that distinguish rows: without the style of chains and the form of multiple-choice tasks.

    The frame of coordinates belongs to the model: it is in the row's label, but does not split its tasks. Parts with
    rubrics of their own share a row.
    """
    own = {"judge", "rubric", *FRAME_SETTINGS}
    if task.part == "cot":
        own.add("style")
    if task.benchmark in MULTI_VIEW:
        own.add("form")
    # As texts where they are not hashable.
    plain = {k: v if isinstance(v, str | int | float | bool | None) else str(v) for k, v in task.variant.items()}
    return tuple(sorted((k, v) for k, v in plain.items() if k not in own))


def _word(benchmark: str, key: str, value: Any) -> str:
    if key in ("views", "layout") and benchmark in MULTI_VIEW:
        return ""  # in a column of its own
    words: Mapping[tuple[str, Any], str] = {
        ("coords", True): "coordinates in words",
        ("rounds", True): "step by step",
        ("style", "chain"): "chain of thought",
        ("mark", "none"): "no mark",
        ("mark", "coords"): "coordinates in words",
        ("mark", "reference"): "target named in words",
        ("circular", True): "all orders of the options",
    }
    named = {"lang": "{}", "mark": "mark as {}", "form": "asked as {}"}
    return words.get((key, value)) or named.get(key, f"{key} {{}}").format(value)


# Explanations of reason codes that a user can act on; other codes are self-explanatory.
WORDS = {
    "not_judgeable_lexically": "the lexical judge cannot mark logic (SLPS, ORCS, DJSS); choose an LLM with --judge",
    "not_judgeable_by_similarity": "the similarity judge cannot mark logic (SLPS, ORCS, DJSS); "
    "choose an LLM with --judge",
    "no_other_reference": "the data have no other reference of that form, from which a random answer could be drawn",
}


def reasons(tasks: Iterable[TaskSummary]) -> tuple[tuple[str, int], ...]:
    """Count the reasons why answers could not be parsed or scored, most frequent first: ("unparsed:hedged", 2), ..."""
    total: Counter[str] = Counter()
    for task in tasks:
        total.update(task.reasons)
    return tuple(total.most_common())


def reason_notes(rows: Iterable[tuple[str, Sequence[tuple[str, int]]]]) -> list[str]:
    """Format one note per reason, from (label of a row, its reasons): "14 unscored in each of 4 rows: ..."."""
    found: dict[str, dict[str, int]] = {}
    for label, why in rows:
        for reason, n in why:
            found.setdefault(reason, {})[label] = n
    notes = []
    for reason, by_label in found.items():
        status, _, code = reason.partition(":")
        status = "partly scored" if status == "partly" else status
        counts = set(by_label.values())
        if len(counts) > 1:
            count = f"{status} ({', '.join(f'{label} {n}' for label, n in by_label.items())})"
        else:
            count = f"{counts.pop()} {status}" + (f" in each of {len(by_label)} rows" if len(by_label) > 1 else "")
        notes.append(f"{count}: {WORDS.get(code, code.replace('_', ' '))}")
    return notes


def data_sha(tasks: Iterable[TaskSummary]) -> str:
    """Return the short hash of the tasks' data; those of several data sets are joined by "+"."""
    return "+".join(dict.fromkeys(str(t.data.get("sha256") or "")[:8] for t in tasks))
