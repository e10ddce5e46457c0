"""Layouts of the papers' tables (table_layouts.yaml): the value that each column shows.

A column's `key` is its name in `published.yaml`; `place` is the location of its value in a run's summary:
("score",), ("position",), ("correctness",), ("columns", NAME) or ("breakdowns", "category", NAME) of the task of
that `part`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal

import yaml


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. `headline`: a main score, shown with its interval in text tables.

    `mean_of`: columns of the same table of which this is the mean; then there is no `part`.
    `decimals`: of the runs' values; `plotted`: can be plotted beside the others; `interval`: show it in text tables.
    `open_ended`: value of the task that asks the same questions as free text (AutoDrive-QA Table 1).
    """

    key: str
    title: str
    part: str = ""
    place: tuple[str, ...] = ("score",)
    headline: bool = False
    lower_is_better: bool = False
    open_ended: bool = False
    mean_of: tuple[str, ...] = ()
    decimals: int = 1
    plotted: bool = True
    interval: bool = False


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table of a paper (`number`), or our own (None).

    `views`: with a column for the number of views. `kinds`: one row per kind of distractor, with its "share" of the
    wrong answers or its "rate" of choice; `only`: of these kinds, if one was chosen; `among`: shares are of the wrong
    answers of these kinds, and sum to 100. `extras`: location of additional scores, shown after the paper's columns
    ("columns", "category"). `sets`: one row per set of distractors (naive, one kind, all); other tables show the full
    set only. `circular`: for tasks with circular evaluation only. `coords`: whether the table is for tasks that give
    the object by coordinates in the text: any task, none of them, these only, or "paired": one row per run with both,
    under the parts PART and PART@coords. `name`: distinguishes our own tables of a benchmark.
    """

    benchmark: str
    number: int | None
    title: str
    columns: tuple[TableColumn, ...]
    views: bool = False
    kinds: Literal["", "share", "rate"] = ""
    only: tuple[str, ...] = ()
    among: bool = False
    extras: str = ""
    sets: bool = False
    circular: bool = False
    coords: Literal["any", "none", "only", "paired"] = "any"
    name: str = "parts"
    notes: tuple[str, ...] = ()

    @property
    def row_label(self) -> str:
        """The text cell that labels a published row, if it is not the model."""
        return "distractors" if self.sets else "kind"

    @property
    def parts(self) -> frozenset[str]:
        return frozenset(c.part for c in self.columns if c.part)


BENCHMARKS = {
    "ad2_bench": "AD2-Bench", "coda_lm": "CODA-LM", "autodrive_qa": "AutoDrive-QA", "drivelm": "DriveLM",
    "world": "Collected frames",
}  # fmt: skip
CAPTIONS = ("bleu_4", "meteor", "cider", "spice")  # n-gram metrics
COORDS = "@coords"  # suffix of a part whose object is given by coordinates, in a table that has both
ABSTENTIONS = {"none_matches": "E, none matches", "absent": "F, target absent"}  # AD2-Bench A.1
# The groups of AutoDrive-QA Table 7, in its order; other kinds of distractor follow.
ERROR_KINDS = {
    "driving_domain_misconceptions": "Driving domain misconceptions",
    "logical_inconsistencies": "Logical inconsistencies",
    "misinterpreted_sensor_inputs": "Misinterpreted sensor inputs",
}
ErrorKinds = Literal["all", "paper"]  # of the shares: all kinds of distractors, or the three groups of Table 7
UNCATEGORISED = "uncategorised"  # the kind of distractors whose category does not follow from how they were made
# The sets of distractors of AutoDrive-QA Table 8, in its order.
ALL = "all"
SETS = ("naive", *ERROR_KINDS, "computational_oversights", "question_ambiguity", ALL)


def _columns(titles: dict[str, str], **shared: Any) -> list[TableColumn]:
    """A group of columns of table_layouts.yaml."""
    place = tuple(shared.pop("in", ("score",)))
    named = place == ("columns",) or (place[0] == "breakdowns" and len(place) == 2)
    shared["mean_of"] = tuple(shared.get("mean_of", ()))
    return [
        TableColumn(
            key, title, place=(*place, key) if named else place,
            **{"part": "" if shared["mean_of"] else key, **shared},
        )
        for key, title in titles.items()
    ]  # fmt: skip


def _read() -> tuple[TableLayout, ...]:
    text = resources.files(__package__).joinpath("table_layouts.yaml").read_text("utf-8")
    layouts = []
    for raw in yaml.safe_load(text):
        columns = tuple(column for group in raw.pop("columns") for column in _columns(**group))
        only, notes = (tuple(raw.pop(name, ())) for name in ("only", "notes"))
        layouts.append(TableLayout(**{"number": None, **raw}, columns=columns, only=only, notes=notes))
    return tuple(layouts)


TABLE_LAYOUTS = _read()


def in_papers_groups(layout: TableLayout) -> TableLayout:
    """AutoDrive-QA Table 7 over the three groups of appendix G, whose shares sum to 100; other layouts unchanged."""
    if layout.benchmark != "autodrive_qa" or layout.kinds != "share":
        return layout
    note = (
        "Percent of the wrong answers that chose an option of the paper's three groups, and their number: the shares "
        "sum to 100. Wrong answers of other kinds are left out (--config kinds=all has them)."
    )
    return replace(layout, only=tuple(ERROR_KINDS), among=True, notes=(note,))


def default_layout(benchmark: str, parts: tuple[str, ...]) -> TableLayout:
    """The layout for a benchmark without a paper's table: one column per part."""
    titles = {part: part.replace("_", " ").capitalize() for part in parts}
    columns = tuple(TableColumn(part, title, part, headline=True) for part, title in titles.items())
    return TableLayout(benchmark, None, f"{BENCHMARKS.get(benchmark, benchmark)}: score by part", columns, views=True)
