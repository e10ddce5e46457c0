"""AutoDrive-QA in a schema of this project. Its data are not public: imported files are reconstructions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record
from lmms_eval_ad2.data.releases.base import BenchmarkRelease, OpenedRelease
from lmms_eval_ad2.data.releases.stream import open_rows
from lmms_eval_ad2.data.releases.untrusted_row import MOST_PARTS, UntrustedRow

SCHEMA = """\
SOURCE: a file of JSON lines, or one JSON array; one object per question.
Images: --images DIR (default: the folder of the file).

  id           string, unique
  task         perception | prediction | planning
  subtask      string (optional; default: the task)
  source       origin of the question: drivelm, nuscenes_qa, lingoqa, ...
  question     "text" or {"en": "...", "zh": "..."}
  options      [{"letter": "A", "text": text, "kind": kind}, ...], letters A, B, ... in order, two to eight; kind is
               correct (exactly once) or the error category of a distractor:
               driving_domain_misconceptions, logical_inconsistencies, misinterpreted_sensor_inputs,
               computational_oversights, question_ambiguity; or naive (made without error modelling), or
               uncategorised (the category does not follow from how it was made)
  answer       the letter of the correct option
  images       list of paths relative to the image folder (or image: one path)
  views        name of each image's camera (optional)
  image_size   [width, height] in pixels (optional)
  open_answer  free-text reference (optional; default: the correct option's text)
  objects      annotated objects, shown to the makers of the options but not to a model under test (optional):
               [{"tag": "<c1,CAM_BACK,1088.3,497.5>", "category": "...", "status": "...", "description": "...",
                 "box": [x_min, y_min, x_max, y_max] in pixels of that camera's image}, ...], all fields optional
  cluster      name of the evidence shared with other questions, such as a scene (optional; default: the first image)
  meta         object, stored unchanged (optional)
"""

TASKS = ("perception", "prediction", "planning")
ERRORS = (
    "driving_domain_misconceptions", "logical_inconsistencies", "misinterpreted_sensor_inputs",
    "computational_oversights", "question_ambiguity",
)  # fmt: skip
NAIVE = "naive"  # a distractor made without error modelling (Table 8)
UNCATEGORISED = "uncategorised"  # a distractor whose error category does not follow from how it was made
KINDS = ("correct", *ERRORS, NAIVE, UNCATEGORISED)
KEY_OBJECTS = "key_objects"  # key of Record.meta: the row's `objects`; absent without them
_OBJECT_TEXTS = ("tag", "category", "status", "description")
FIELDS = (
    "id", "task", "subtask", "source", "question", "options", "answer", "images", "image", "views", "image_size",
    "open_answer", "objects", "cluster", "meta",
)  # fmt: skip


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    return open_rows(source, split, images, lambda row: [record_of(row)])


def record_of(row: UntrustedRow) -> Record:
    row.only(FIELDS)
    options = _options(row)
    letter = row.choice("answer", [option.letter for option in options])
    right = next(option for option in options if option.kind == "correct")
    if right.letter != letter:
        raise row.fail("answer", f"the letter of the option of kind correct ('{right.letter}')", letter)
    images, views = row.image_list(), row.strings("views")
    if views and len(views) != len(images):
        raise row.fail("views", f"one name per image ({len(images)})", list(views))
    task = row.choice("task", TASKS)
    meta = row.inner("meta")
    about = {**(meta.data if meta else {}), "source": row.string("source")}
    if objects := _objects(row):
        about[KEY_OBJECTS] = objects
    return Record(
        id=row.string("id"), benchmark="autodrive_qa", task=task, subtask=row.string("subtask", task), form="mc",
        images=images, question=row.text("question"), answer=row.text("open_answer", required=False) or right.text,
        letter=letter, options=options, views=views, image_size=row.size("image_size"),
        cluster=row.string("cluster", images[0]), meta=about,
    )  # fmt: skip


def _options(row: UntrustedRow) -> tuple[AnswerOption, ...]:
    rows = row.inners("options")
    letters = [inner.string("letter") for inner in rows]
    if not 2 <= len(rows) <= 8 or letters != [chr(ord("A") + i) for i in range(len(rows))]:
        raise row.fail("options", "two to eight options with the letters A, B, ... in order", letters)
    for inner in rows:
        inner.only(("letter", "text", "kind"))
    options = tuple(
        AnswerOption(inner.string("letter"), inner.text("text"), inner.choice("kind", KINDS)) for inner in rows
    )
    if sum(option.kind == "correct" for option in options) != 1:
        raise row.fail("options", "exactly one option of kind correct", [option.kind for option in options])
    texts = [_plain(option.text) for option in options]
    if len(set(texts)) != len(texts):
        raise row.fail("options", "options that differ from each other", sorted(t for t in texts if texts.count(t) > 1))
    return options


def _objects(row: UntrustedRow) -> list[dict[str, Any]]:
    found = []
    for inner in row.inners("objects")[: MOST_PARTS + 1]:
        inner.only((*_OBJECT_TEXTS, "box"))
        one: dict[str, Any] = {name: text for name in _OBJECT_TEXTS if (text := inner.string(name, ""))}
        if (box := inner.get("box")) is not None:
            one["box"] = list(inner.numbers("box", box, 4))
        found.append(one)
    if len(found) > MOST_PARTS:
        raise row.fail("objects", f"at most {MOST_PARTS} objects", len(row.listing("objects")))
    return found


def _plain(text: BilingualText) -> tuple[str, str]:
    return text.en.casefold(), text.zh.casefold()


RELEASE = BenchmarkRelease(
    "autodrive_qa", "AutoDrive-QA (reconstruction in our schema; its data are not public)", SCHEMA, open_release
)
