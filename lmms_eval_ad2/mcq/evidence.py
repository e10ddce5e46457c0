"""What a language model is shown of a question besides its text: cameras and annotated objects.

The makers of distractors may see the answer; a model under test may not. They are therefore shown the cameras that the
question asks for, and those that the answer names. Objects are those of DriveLM's key_object_infos (AutoDrive-QA,
appendix D), or those stored in a row of a built set.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.autodrive_qa import KEY_OBJECTS
from lmms_eval_ad2.data.releases.untrusted_row import plain
from lmms_eval_ad2.mcq.base import OpenQuestion
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
        """Entry of `objects` in `ad2 data schema autodrive_qa`."""
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
    for one in _of_scene(question.scene):
        if len(others) == len(named) + MOST_OTHERS:
            break
        if one.camera in cameras:
            others.setdefault(one.tag, one)
    known = {one.tag for one in named}
    return (*named, *(one for tag, one in others.items() if tag not in known))


def _of_scene(scene: Iterable[Record]) -> Iterator[SceneAnnotation]:
    return (one for record in scene for one in _objects(record.meta.get("objects")) if one.tag)


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
