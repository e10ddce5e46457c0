"""Layouts of the papers' tables: the value that each column shows.

A column's `key` is its name in `published.yaml`; `place` is the location of its value in a run's summary:
("score",), ("position",), ("correctness",), ("columns", NAME) or ("breakdowns", "category", NAME) of the task of
that `part`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


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


def _columns(part: str, titles: dict[str, str], mean: str = "") -> tuple[TableColumn, ...]:
    """Columns of one task, followed by its score with the title `mean`."""
    inner = tuple(
        TableColumn(
            key, title, part, ("columns", key), lower_is_better=key.startswith("ocr_cer"),
            plotted=not key.endswith("_extracted"),
        )
        for key, title in titles.items()
    )  # fmt: skip
    return (*inner, TableColumn("score", mean, part, headline=True)) if mean else inner


def _headline(key: str, title: str, part: str) -> TableColumn:
    return TableColumn(key, title, part, headline=True)


BENCHMARKS = {
    "ad2_bench": "AD2-Bench", "coda_lm": "CODA-LM", "autodrive_qa": "AutoDrive-QA", "drivelm": "DriveLM",
    "world": "Collected frames",
}  # fmt: skip
AD2_PARTS = {
    "perception_base": "Base Perc.",
    "perception_advanced": "Adv. Perc.",
    "relation": "Relation Und.",
    "cot": "Event Res.",
}
ABSTAINING_PARTS = {**{p: t for p, t in AD2_PARTS.items() if p != "cot"}, "reasoning": "Reasoning"}
COT = {"sacs": "SACS", "slps": "SLPS", "orcs": "ORCS", "djss": "DJSS"}
BASE = {"existence": "Existence", "counting": "Counting", "location": "Location", "detection": "Detection"}
ADVANCED = {
    "ocr_f1": "OCR-F1",
    "ocr_cer": "OCR-CER ↓",
    "attribute": "Attr.",
    "position": "Pos.",
    "caption_others": "Cap. & Others",
    "ocr_f1_extracted": "OCR F1 (extracted)",
    "ocr_cer_extracted": "OCR CER (extracted) ↓",
}
RELATION = {"spatial": "Spatial", "occlusion": "Occlusion", "social": "Social", "causal": "Causal"}
REGION_CLASSES = {
    "vehicle": "Vehicle", "vru": "VRU", "traffic_cone": "Cone", "traffic_light": "Light", "traffic_sign": "Sign",
    "barrier": "Barrier", "miscellaneous": "Mis.",
}  # fmt: skip
CAPTIONS = {"bleu_4": "BLEU-4", "meteor": "METEOR", "cider": "CIDEr", "spice": "SPICE"}
COORDS = "@coords"  # suffix of a part whose object is given by coordinates, in a table that has both
MCQ_PARTS = {"perception": "Perception", "prediction": "Prediction", "planning": "Planning"}
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


def _supplement(key: str, title: str, part: str, place: tuple[str, ...]) -> TableColumn:
    return TableColumn(key, title, part, place, interval=True, plotted=False)


def _mcq_columns() -> tuple[TableColumn, ...]:
    columns: list[TableColumn] = []
    for part, title in MCQ_PARTS.items():
        columns += [
            _headline(part, title, part),
            TableColumn(f"{part}_bleu", "BLEU", part, ("columns", "bleu_4"), open_ended=True),
            TableColumn(f"{part}_cider", "CIDEr", part, ("columns", "cider"), open_ended=True),
        ]
    return tuple(columns)


def _set_columns() -> tuple[TableColumn, ...]:
    columns: list[TableColumn] = []
    for part, title in MCQ_PARTS.items():
        columns += [
            _headline(part, title, part),
            TableColumn(f"{part}_correctness", "Correctness", part, ("correctness",), decimals=2, plotted=False),
        ]
    return tuple(columns)


def _circular_columns() -> tuple[TableColumn, ...]:
    columns: list[TableColumn] = []
    for part, title in MCQ_PARTS.items():
        columns += [
            _headline(part, title, part),
            # Not plotted: their titles are the same for every part.
            _supplement(f"{part}_accuracy", "right on average", part, ("columns", "accuracy")),
            _supplement(f"{part}_consistency", "same text in all", part, ("columns", "consistency")),
            TableColumn(
                f"{part}_position", "letter preference ↓", part, ("position",), interval=True, lower_is_better=True
            ),
        ]
    return tuple(columns)


TABLE_LAYOUTS: tuple[TableLayout, ...] = (
    TableLayout(
        "ad2_bench",
        2,
        "AD2-Bench: overall",
        (
            *(_headline(part, title, part) for part, title in AD2_PARTS.items()),
            TableColumn("average", "Avg-S (w/ CoT)", headline=True, mean_of=tuple(AD2_PARTS)),
        ),
        notes=("Event Res. is the mean of the four chain-of-thought scores (Table 3), Avg-S of the four parts.",),
    ),
    TableLayout(
        "ad2_bench",
        3,
        "AD2-Bench: reasoning without and with chain of thought",
        (
            _headline("reasoning", "w/o CoT", "reasoning"),
            _headline("cot", "w/ CoT", "cot"),
            *(TableColumn(key, title, "cot", ("columns", key)) for key, title in COT.items()),
        ),
        extras="columns",
    ),
    TableLayout(
        "ad2_bench", 5, "AD2-Bench: basic perception", _columns("perception_base", BASE, "Avg-S"), extras="columns"
    ),
    TableLayout(
        "ad2_bench",
        6,
        "AD2-Bench: advanced perception",
        _columns("perception_advanced", ADVANCED, "Avg-S"),
        extras="columns",
        notes=(
            "OCR-CER (lower is better, can exceed 100) is not part of the mean. OCR scores are of the reply as given; "
            "'extracted': of the text that was found in it, not in the paper and not part of the mean.",
        ),
    ),
    TableLayout(
        "ad2_bench",
        7,
        "AD2-Bench: relation understanding",
        _columns("relation", RELATION, "Avg-S"),
        extras="columns",
    ),
    TableLayout(
        "ad2_bench",
        None,
        "AD2-Bench: wrong answers that abstain (options E and F)",
        tuple(TableColumn(part, title, part) for part, title in ABSTAINING_PARTS.items()),
        kinds="share",
        only=tuple(ABSTENTIONS),
        name="abstentions",
        notes=(
            "Percent of the wrong answers to multiple-choice questions, and their number. Right answers E and F are "
            "not among them. Not in the paper; its appendix A.8 explains low occlusion scores of some models by them.",
        ),
    ),
    TableLayout(
        "coda_lm",
        2,
        "CODA-LM: general perception and driving suggestions",
        (
            _headline("general", "General", "general"),
            _headline("suggestion", "Suggestion", "suggestion"),
            _headline("region", "Regional", "region"),
            TableColumn("final", "Final", headline=True, mean_of=("general", "region", "suggestion")),
        ),
        coords="none",
        notes=("Regional and Final (the mean of the three tasks) are not in the paper's table.",),
    ),
    TableLayout(
        "coda_lm",
        3,
        "CODA-LM: regional perception by class",
        (
            _headline("all", "ALL", "region"),
            *(TableColumn(k, title, "region", ("breakdowns", "category", k)) for k, title in REGION_CLASSES.items()),
        ),
        extras="category",
        coords="none",
        notes=("ALL is the mean over samples, not over classes.",),
    ),
    TableLayout(
        "coda_lm",
        5,
        "CODA-LM: regional perception, the object in a red box or given by coordinates",
        (_headline("box", "Visualization", "region"), _headline("coordinates", "Coordinates", f"region{COORDS}")),
        coords="paired",
    ),
    TableLayout(
        "coda_lm",
        6,
        "CODA-LM: regional perception, n-gram metrics (x100)",
        _columns("region", CAPTIONS),
        coords="none",
    ),
    TableLayout(
        "coda_lm",
        None,
        "CODA-LM: regional perception, the object given by coordinates: classes and n-gram metrics",
        (
            *(TableColumn(k, title, "region", ("breakdowns", "category", k)) for k, title in REGION_CLASSES.items()),
            *_columns("region", CAPTIONS),
        ),
        coords="only",
        name="coordinates",
        notes=("Not in the paper, whose Tables 3 and 6 are with the red box.",),
    ),
    TableLayout(
        "autodrive_qa",
        1,
        "AutoDrive-QA: accuracy",
        _mcq_columns(),
        views=True,
        notes=(
            "Views of published rows: the paper states their number (1, or 1 and more), not the cameras. asked: the "
            "cameras that the question asks for; 1: the front camera.",
        ),
    ),
    TableLayout(
        "autodrive_qa",
        7,
        "AutoDrive-QA: wrong answers by the kind of the chosen distractor",
        tuple(TableColumn(part, title, part) for part, title in MCQ_PARTS.items()),
        views=True,
        kinds="share",
        notes=(
            "Percent of the wrong answers that chose an option of known kind [95 % interval], and their number. "
            "The paper's three groups sum to 100; a run's other kinds are listed too, which makes the shares of the "
            "three smaller: --kinds paper leaves them out.",
        ),
    ),
    TableLayout(
        "autodrive_qa",
        None,
        "AutoDrive-QA: how often an offered distractor was chosen, by its kind",
        tuple(TableColumn(part, title, part) for part, title in MCQ_PARTS.items()),
        views=True,
        kinds="rate",
        name="rates",
        notes=(
            "Percent of the offered options of a kind that were chosen [95 % interval], and both numbers, over all "
            "questions with a parsed letter. Kinds are not offered equally often, which affects the "
            "shares of Table 7 but not these rates. Not in the paper.",
        ),
    ),
    TableLayout(
        "autodrive_qa",
        8,
        "AutoDrive-QA: accuracy and correctness by the set of distractors",
        _set_columns(),
        views=True,
        sets=True,
        notes=(
            "Correctness: an evaluator's rating (1 to 5) of whether exactly one option is right, as the mean over "
            "the rated questions. The paper's rows are Qwen2-VL-7B. To compare two sets question by question: "
            "ad2 report compare RUN --distractors naive all.",
        ),
    ),
    TableLayout(
        "autodrive_qa",
        None,
        "AutoDrive-QA: right in all orders of the options",
        _circular_columns(),
        views=True,
        circular=True,
        name="order",
        notes=(
            "Every question is asked once per rotation of its options; n counts questions, reasons count answers. "
            "Circular accuracy (right in all rotations) is (1/k)^k by chance with k options; 'on average' is over all "
            "answers. Letter preference: total variation distance in percent between the chosen letters and a uniform "
            "choice; it is never negative, so compare it with ad2_chance. Not in the paper.",
        ),
    ),
)


def in_papers_groups(layout: TableLayout) -> TableLayout:
    """AutoDrive-QA Table 7 over the three groups of appendix G, whose shares sum to 100; other layouts unchanged."""
    if layout.benchmark != "autodrive_qa" or layout.kinds != "share":
        return layout
    note = (
        "Percent of the wrong answers that chose an option of the paper's three groups, and their number: the shares "
        "sum to 100. Wrong answers of other kinds are left out (--kinds all has them)."
    )
    return replace(layout, only=tuple(ERROR_KINDS), among=True, notes=(note,))


def default_layout(benchmark: str, parts: tuple[str, ...]) -> TableLayout:
    """The layout for a benchmark without a paper's table: one column per part."""
    columns = tuple(_headline(part, part.replace("_", " ").capitalize(), part) for part in parts)
    return TableLayout(benchmark, None, f"{BENCHMARKS.get(benchmark, benchmark)}: score by part", columns, views=True)
