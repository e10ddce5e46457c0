"""Texts about an image from which its driving suggestion is drafted (CODA-LM section 4.1, Fig. 3).

They are those of its `general` and `region` records: the reviewed text if a reviewer has finished the record, else the
draft, else the text of the data. A record that is incomplete or deleted, or on which reviewers disagree, gives none.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from lmms_eval_ad2.annotate.drafts import SUGGESTION, SceneNote
from lmms_eval_ad2.annotate.export import annotated
from lmms_eval_ad2.annotate.folder import AnnotationFolder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import OBJECTS, in_language, make_review, object_words, pieces_of
from lmms_eval_ad2.core.records import Record

SOURCES = ("general", "region")


class SceneNotes:
    """The notes on the images of a folder. Drafts and reviews are read when they are first asked for."""

    def __init__(self, folder: AnnotationFolder) -> None:
        self._folder = folder

    def of(self, record: Record) -> tuple[SceneNote, ...]:
        """(title, text) of each note on the record's images, scene first; empty for other records than suggestions."""
        if record.task != SUGGESTION:
            return ()
        records = [self._folder.record(number) for number in self._by_image.get(record.images, ())]
        found = []
        for one in records:
            rows, answer = self._texts(one)
            lines = [*(f"{name}: {words}".strip(": ") for name, words in rows), answer]
            text = "\n".join(filter(None, [str(one.meta.get("category_name", "")) if answer else "", *lines]))
            if text:
                found.append((_title(one), text))
        return tuple(found)

    @cached_property
    def _project(self) -> AnnotationProject:
        return AnnotationProject(self._folder)

    @cached_property
    def _by_image(self) -> dict[tuple[str, ...], list[int]]:
        """The numbers of the general and region records by their images, general first."""
        found: dict[str, dict[tuple[str, ...], list[int]]] = {task: defaultdict(list) for task in SOURCES}
        for number in range(len(self._folder)):
            record = self._folder.record(number)
            if record.task in found:
                found[record.task][record.images].append(number)
        joined: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for by_image in found.values():
            for images, numbers in by_image.items():
                joined[images] += numbers
        return joined

    def _texts(self, record: Record) -> tuple[list[tuple[str, str]], str]:
        """(category, text) of the record's objects, and its answer; both empty if reviewers left it out."""
        project, lang = self._project, self._folder.about.lang
        draft = project.drafts.get(record.id)
        reviews = {
            reviewer: make_review(record, lang, draft, project.actions.fields(reviewer, record.id))
            for reviewer in project.actions.reviewers() if project.actions.fields(reviewer, record.id)
        }  # fmt: skip
        finished = {reviewer: review for reviewer, review in reviews.items() if review.finished}
        if finished:
            found = annotated(finished)
            if isinstance(found, str):
                return [], ""
            return [object_words(row) for row in found.meta.get(OBJECTS) or ()], in_language(found.answer, lang)
        pieces = pieces_of(record, lang, draft)
        rows = [(piece.name, piece.text) for piece in pieces if piece.kind == "object"]
        return rows, next((piece.text for piece in pieces if piece.kind == "answer"), "")


def _title(record: Record) -> str:
    """The title of a note, which is not fenced: only our own words and digits."""
    if record.task != "region":
        return "scene"
    key = str(record.meta.get("object_key", ""))
    return f"object {key}" if key.isascii() and key.isdigit() else "object"
