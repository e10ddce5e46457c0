"""Score columns: the columns of each part, those of its mean, and the column of each sub-task.

The AD2-Bench sub-tasks are listed in `subtasks.yaml`. The paper names about 23 of its 33 sub-tasks and no ids, so users
can extend the list (AD2_SUBTASKS names a file), also by columns that enter the mean of their part. An unknown sub-task
has a column of its own name, outside the mean; those of reasoning are in the part's one column.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from lmms_eval_ad2.core.errors import DataError, yaml_fault
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.core.records import Form, Lang, Record
from lmms_eval_ad2.storage import user_yaml

# part -> columns whose unweighted mean is the part's score
# (AD2 Tables 3, 5, 6, 7; CODA-LM Tables 2, 3; AutoDrive-QA Table 1)
MEAN_COLUMNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("ad2_bench", "perception_base"): ("existence", "counting", "location", "detection"),
    ("ad2_bench", "perception_advanced"): ("ocr_f1", "attribute", "position", "caption_others"),
    ("ad2_bench", "relation"): ("spatial", "occlusion", "social", "causal"),
    ("ad2_bench", "reasoning"): ("reasoning",),
    ("ad2_bench", "cot"): ("sacs", "slps", "orcs", "djss"),
    # Questions from the world's truth: AD2-Bench's metrics. Of a chain the steps have a reference (SACS); the other
    # scores of a chain rate its logic and are shown beside the mean.
    **{("world", part): (part,) for part in ("existence", "counting", "location", "detection", "relation")},
    ("world", "cot"): ("sacs",),
    ("coda_lm", "general"): ("text_score",),
    ("coda_lm", "suggestion"): ("text_score",),
    ("coda_lm", "region"): ("text_score",),
}
CHAIN_COLUMNS = ("sacs", "slps", "orcs", "djss")
DISTRACTOR_BENCHMARK = "autodrive_qa"  # its options state their kind of error, maker and set
# Width of the picture, px, in whose pixels the location score counts distances; None: the stored picture's. Collected
# frames are small, so that in their own pixels any point would score more than a half (equation 6: 0.5 at 200 px).
LOCATION_WIDTH: Mapping[str, int] = {"world": 1920}
# Text in the image (OCR): AD2-Bench's scores of the reply as given, and the same scores of the text that the parser
# extracts from it (parsing/free_text.py), beside the mean.
EXTRACTED = {"ocr_f1": "ocr_f1_extracted", "ocr_cer": "ocr_cer_extracted"}
LOWER_IS_BETTER = frozenset({"ocr_cer", EXTRACTED["ocr_cer"]})
# The form in which a record of AD2-Bench that has both is asked. Section A.1: objective perception as multiple choice,
# descriptive answers as free text. A.1 counts relation among the latter, but all printed figures of Table 7 are
# accuracies (spatial: k/1216) and A.8 explains them by options E and F.
SUITED_FORMS: Mapping[str, Form] = {
    "perception_base": "mc", "perception_advanced": "mc", "relation": "mc", "reasoning": "vqa",
}  # fmt: skip
OTHER = "other"  # of unknown sub-tasks whose name is that of a column with another meaning


def mean_columns(benchmark: str, part: str) -> tuple[str, ...]:
    """The columns of the part's mean: of AD2-Bench those of the paper, then those of the user's table.

    Other benchmarks have only "accuracy", or for chains the four CoT scores.
    """
    columns = MEAN_COLUMNS.get((benchmark, part), CHAIN_COLUMNS if part == "cot" else ("accuracy",))
    if benchmark != "ad2_bench":
        return columns
    added = (row.column for row in _table().values() if row.mean and row.part == part)
    return tuple(dict.fromkeys((*columns, *added)))


@dataclass(frozen=True, slots=True)
class Subtask:
    """A row of the sub-task table: its part, the column it counts in, and its id (1..33) if known.

    form: the form that suits it, if that is not the one of its part (SUITED_FORMS). mean: whether its column enters the
    mean of its part, if it is not one of the paper's.
    """

    name: str
    part: str
    column: str
    id: int | None = None
    form: Form | None = None
    mean: bool = False


@functools.cache
def subtasks(path: str | None = None) -> Mapping[str, Subtask]:
    """The sub-task table: the packaged one, extended by the file `path` or AD2_SUBTASKS.

    Raises DataError for a file that cannot be read, or a row with a wrong field.
    """
    table = _read(resources.files(__package__).joinpath("subtasks.yaml").read_text("utf-8"), "subtasks.yaml")
    override = path or os.environ.get("AD2_SUBTASKS")
    if override:
        try:
            text = user_yaml.read_text(Path(override))
        except OSError as exc:
            raise DataError(override, None, "file", "a readable YAML sub-task table", str(exc)) from exc
        table |= _read(text, override)
    return table


def _read(text: str, file: str) -> dict[str, Subtask]:
    try:
        data = user_yaml.parse(text) or {}
    except yaml.YAMLError as exc:
        raise DataError(file, None, "file", "valid YAML", yaml_fault(exc)) from exc
    if not isinstance(data, dict):
        raise DataError(file, None, "file", "a mapping: sub-task name -> {part, column, id, form, mean}", data)
    return {str(name): _subtask(file, str(name), row) for name, row in data.items()}


def _subtask(file: str, name: str, row: Any) -> Subtask:
    """The row `name` of a table; raises DataError for a wrong field."""
    if not isinstance(row, dict) or not {"part", "column"} <= row.keys() <= {"part", "column", "id", "form", "mean"}:
        expected = "{part: ..., column: ..., id: optional number, form: mc or vqa, mean: true or false}"
        raise DataError(file, name, "row", expected, row)
    parts = [part for benchmark, part in MEAN_COLUMNS if benchmark == "ad2_bench" and part != "cot"]
    if row["part"] not in parts:
        hint = f"Chains have the columns {', '.join(CHAIN_COLUMNS)}" if row["part"] == "cot" else ""
        raise DataError(file, name, "part", f"one of {', '.join(parts)}", row["part"], hint)
    reserved = {"score", *CHAIN_COLUMNS, *LOWER_IS_BETTER, *EXTRACTED.values()}
    if not isinstance(row["column"], str) or not row["column"].strip() or row["column"] in reserved:
        raise DataError(file, name, "column", f"a name, none of {', '.join(sorted(reserved))}", row["column"])
    if row.get("form") not in (None, "mc", "vqa"):
        raise DataError(file, name, "form", "mc or vqa", row["form"])
    if not isinstance(row.get("mean", False), bool):
        raise DataError(file, name, "mean", "true or false", row["mean"])
    if row.get("id") is not None and not is_whole(row["id"], low=1):
        raise DataError(file, name, "id", "a whole number from 1", row["id"])
    return Subtask(name, row["part"], row["column"], row.get("id"), row.get("form"), row.get("mean", False))


def _table() -> Mapping[str, Subtask]:
    return subtasks(os.environ.get("AD2_SUBTASKS"))


def _row(part: str, subtask: str, subtask_id: int | None) -> Subtask | None:
    """The row of a sub-task, by its name, else by its id; None if the table has none in this part."""
    table = _table()
    row = table.get(subtask)
    if row is None and subtask_id is not None:
        row = next((s for s in table.values() if s.id == subtask_id), None)
    return row if row is not None and row.part == part else None


def suited_form(record: Record, lang: Lang = "en") -> Form:
    """The form in which a record is asked if the task names none: its own, or the suited one of AD2-Bench's two.

    Only free text and multiple choice are exchanged: numbers, points, boxes, yes/no and text in the image (OCR) have
    metrics of their own form (A.5), so such a record is asked in it even if it has options too. Options that do not
    exist in `lang` are not asked.
    """
    both = record.benchmark == "ad2_bench" and set(record.forms) == {"mc", "vqa"}
    if not both:
        return record.form
    if not all(option.text.readable_in(lang) for option in record.options):
        return "vqa"
    row = _row(record.task, record.subtask, record.subtask_id)
    return (row.form if row else None) or SUITED_FORMS.get(record.task, record.form)


def column_of(benchmark: str, part: str, subtask: str, subtask_id: int | None = None) -> str:
    """The column of a sample. AD2: by the sub-task's name, else by its id, else the name itself."""
    if benchmark != "ad2_bench":
        return mean_columns(benchmark, part)[0]
    row = _row(part, subtask, subtask_id)
    if row is not None:
        return row.column
    if part in ("reasoning", "cot"):
        return part
    table = _table()
    taken = {"score", *mean_columns(benchmark, part), *LOWER_IS_BETTER, *EXTRACTED.values()}
    taken |= {known.column for known in table.values() if known.part == part}
    return OTHER if subtask in taken else subtask
