"""Rows of `ad2 data list autodrive_qa --layout`, made of accepted questions; cameras and objects of a question.

The makers of distractors may see the answer; a model under test may not. They are therefore shown the cameras that the
question asks for, and those that the answer names. Objects are those of DriveLM's key_object_infos (AutoDrive-QA,
appendix D), or those stored in a row of a built set.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.data.releases.autodrive_qa import KEY_OBJECTS, record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow, plain
from lmms_eval_ad2.mcq.base import SELECTED, AcceptedQuestion, OpenQuestion
from lmms_eval_ad2.mcq.wording import verdict
from lmms_eval_ad2.prompts.views import Views, camera, named_cameras, shown

MOST_NAMED, MOST_OTHERS = 16, 4  # objects in a prompt: tagged in question or answer, and others of the same cameras
_LONGEST = 200  # characters of a category, status or description


@dataclass(frozen=True, slots=True)
class SceneAnnotation:
    """An annotated object. Unknown texts are "".

    tag: as in questions, "<c1,CAM_BACK,1088.3,497.5>". camera: "back". box: (x_min, y_min, x_max, y_max) in pixels of
    that camera's image.
    """

    tag: str = ""
    camera: str = ""
    category: str = ""
    status: str = ""
    description: str = ""
    box: tuple[float, ...] | None = None

    def line(self) -> str:
        """One line for a prompt."""
        words = [self.category, self.status and f"status {self.status}", self.description]
        box = self.box and f"box [{', '.join(map(plain, self.box))}]"
        return f"{self.tag or 'no tag'}: {'; '.join(part.rstrip('.') for part in (*words, box) if part)}"

    def row(self) -> dict[str, Any]:
        """Entry of `objects` in `ad2 data list autodrive_qa --layout`."""
        texts = {name: getattr(self, name) for name in ("tag", "category", "status", "description")}
        found: dict[str, Any] = {name: text for name, text in texts.items() if text}
        return found | ({"box": list(self.box)} if self.box else {})


def sent_views(question: OpenQuestion, views: Views) -> list[tuple[str, str]]:
    """(view, image path) of the images that a maker or evaluator is sent, in the record's order.

    "asked": as for a model under test, and the cameras that the answer names. All frames of a single camera (LingoQA),
    whatever `views` is.
    """
    record = question.record
    if not any(camera(view) == "front" for view in record.views):
        return shown(record)
    kept = shown(record, views)
    if views != "asked":
        return kept
    named = named_cameras(f"{question.answer}\n{record.answer.get('en')}")
    return [pair for pair in shown(record) if pair in kept or pair[0] in named]


def objects_of(question: OpenQuestion) -> tuple[SceneAnnotation, ...]:
    """The annotated objects of a question: those tagged in question or answer, then others that the cameras see.

    The others are the scene's first MOST_OTHERS in the order of its records. Entries without any text or box are left
    out. Data are untrusted: values of a wrong type count as unknown, texts are shortened to one line.
    """
    record = question.record
    stored = record.meta.get(KEY_OBJECTS)
    if stored is not None:
        return tuple(_objects(stored))[: MOST_NAMED + MOST_OTHERS]
    named = tuple(itertools.islice(_objects(record.meta.get("objects")), MOST_NAMED))
    cameras = {view for view, _ in sent_views(question, "asked")}
    others: dict[str, SceneAnnotation] = {one.tag: one for one in named}
    of_scene = (one for other in question.scene for one in _objects(other.meta.get("objects")) if one.tag)
    for one in of_scene:
        if len(others) == len(named) + MOST_OTHERS:
            break
        if one.camera in cameras:
            others.setdefault(one.tag, one)
    known = {one.tag for one in named}
    return (*named, *(one for tag, one in others.items() if tag not in known))


def _objects(entries: Any) -> Iterator[SceneAnnotation]:
    """The objects of an untrusted list: entries of data/releases/drivelm.py, or of `SceneAnnotation.row`."""
    for entry in entries if isinstance(entries, list | tuple) else ():
        if not isinstance(entry, Mapping):
            continue
        one = _drivelm(entry) if "id" in entry else _stored(entry)
        if one.category or one.status or one.description or one.box:
            yield one


def _drivelm(entry: Mapping[str, Any]) -> SceneAnnotation:
    info = entry.get("info")
    if not isinstance(info, Mapping) or not all(is_number(entry.get(axis)) for axis in "xy"):
        return SceneAnnotation()
    name = _text(entry.get("camera"))
    return SceneAnnotation(
        tag=f"<{_text(entry['id'])},{name},{float(entry['x'])},{float(entry['y'])}>", camera=camera(name),
        category=_text(info.get("Category")), status=_text(info.get("Status")),
        description=_text(info.get("Visual_description")), box=_box(info.get("2d_bbox")),
    )  # fmt: skip


def _stored(entry: Mapping[str, Any]) -> SceneAnnotation:
    tag = _text(entry.get("tag"))
    return SceneAnnotation(
        tag=tag, camera=next(iter(named_cameras(tag)), ""), category=_text(entry.get("category")),
        status=_text(entry.get("status")), description=_text(entry.get("description") or entry.get("text")),
        box=_box(entry.get("box")),
    )  # fmt: skip


def _text(value: Any) -> str:
    return " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""


def _box(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, list | tuple) or len(value) != 4 or not all(map(is_number, value)):
        return None
    x1, y1, x2, y2 = map(float, value)
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


CORRECT = "correct"


def row_of(accepted: AcceptedQuestion, *, seed: int, maker: str, kind: str, split: str) -> dict[str, Any]:
    """Build one row of questions.jsonl.

    The order of the options depends only on `seed` and the question's id, so that the right option has the same letter
    in every set made with one seed. Image paths begin with the source's name (OUT/images/<source>). `maker`: the
    maker's label; `kind`: the requested kind of distractors; `split`: the source's split.
    """
    question = accepted.question
    record = question.record
    texts = [(question.answer, CORRECT, "")] + [(d.text, d.category, d.reason) for d in accepted.distractors]
    operations = {d.text: d.operation for d in accepted.distractors if d.operation}
    random.Random(f"{seed}:{question.id}").shuffle(texts)
    lettered = [(chr(ord("A") + place), *text) for place, text in enumerate(texts)]
    row: dict[str, Any] = {
        "id": row_id(question.source, question.id), "task": question.task, "subtask": question.subtask,
        "source": question.source, "question": question.text,
        "options": [{"letter": letter, "text": text, "kind": what} for letter, text, what, _ in lettered],
        "answer": next(letter for letter, _, what, _ in lettered if what == CORRECT),
        "images": [f"{question.source}/{image}" for image in record.images], "open_answer": reference(question),
        "cluster": f"{question.source}:{record.cluster or record.images[0]}",
    }  # fmt: skip
    if record.views:
        row["views"] = list(record.views)
    if record.image_size:
        row["image_size"] = list(record.image_size)
    if objects := objects_of(question):
        row["objects"] = [one.row() for one in objects]
    row["meta"] = {
        "source_id": question.id, "source_split": split, "distractors": kind, "maker": maker,
        "correctness": accepted.correctness, "rounds": accepted.rounds, "seed": seed,
        "reasons": {letter: reason for letter, _, _, reason in lettered if reason},
    }  # fmt: skip
    if operations:
        row["meta"]["operations"] = {letter: operations[text] for letter, text, *_ in lettered if text in operations}
    if verdict(question.answer):
        row["meta"]["polar"] = True
    return row


def row_id(source: str, name: str) -> str:
    """The row's id: ids are unique only within a source. A question has the same id in every set."""
    return f"{source}:{name}"


def reference(question: OpenQuestion) -> str:
    """Reference for open answers: the source's text; for typed answers (yes/no, a number) the text of the option."""
    record = question.record
    words = record.answer.get("en") if record.form in ("vqa", "mc") else ""
    return words or question.answer


def row_fault(row: Mapping[str, Any], distractors: Sequence[Any]) -> str | None:
    """The error of `ad2 data import autodrive_qa` for `row`, or None: every row of a built set can be imported."""
    if len(distractors) != SELECTED:
        return f"{len(distractors)} distractors, expected {SELECTED}"
    try:
        # Text from an untrusted reply or file may contain an unpaired surrogate, which cannot be written as UTF-8.
        json.dumps(row, ensure_ascii=False).encode()
        record_of(UntrustedRow(row, "questions.jsonl", None))
    except UnicodeEncodeError as exc:
        return f"text that is not Unicode: {exc.reason}"
    except DataError as exc:
        return str(exc)
    return None
