"""Questions for tests of faults.py and of `ad2 mcq check`, written manually, without image files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Form, Record
from lmms_eval_ad2.mcq.base import OpenQuestion


def question(
    text: str, answer: str, *, subtask: str = "", form: Form = "vqa", scene: Sequence[tuple[str, str]] = (),
    references: Sequence[str] = (),
) -> OpenQuestion:  # fmt: skip
    """An open question. scene: (question, answer) of the frame's other records."""

    def record(number: int, question_text: str, answer_text: str) -> Record:
        meta = {"references": list(references)} if references else {}
        return Record(
            f"q{number}",
            "drivelm",
            "perception",
            subtask,
            form,
            ("a.jpg",),
            BilingualText(en=question_text),
            BilingualText(en=answer_text),
            meta=meta,
        )

    own = record(0, text, answer)
    frame = (own, *(record(n, *pair) for n, pair in enumerate(scene, 1))) if scene else ()
    return OpenQuestion("q0", own, "drivelm", "perception", subtask, answer, Path(), frame)


def choice(
    name: str, question_text: str, right: str, wrong: Sequence[str], *, at: int = 0, task: str = "perception",
    cluster: str = "", image: str = "a.jpg", meta: dict[str, object] | None = None,
) -> Record:  # fmt: skip
    """A multiple-choice record with the correct option at index `at`."""
    texts = [*wrong[:at], right, *wrong[at:]]
    kinds = ["correct" if index == at else "logical_inconsistencies" for index in range(len(texts))]
    options = tuple(
        AnswerOption(chr(ord("A") + index), BilingualText(en=text), kind)
        for index, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    )
    return Record(
        name,
        "autodrive_qa",
        task,
        task,
        "mc",
        (image,),
        BilingualText(en=question_text),
        BilingualText(en=right),
        letter=chr(ord("A") + at),
        options=options,
        cluster=cluster or name,
        meta={"source": "drivelm", **(meta or {})},
    )


def row(record: Record) -> dict[str, object]:
    """The record as a row of `ad2 data list autodrive_qa --layout`."""
    return {
        "id": record.id, "task": record.task, "source": record.meta["source"], "question": record.question.en,
        "options": [{"letter": o.letter, "text": o.text.en, "kind": o.kind} for o in record.options],
        "answer": record.letter, "images": list(record.images), "cluster": record.cluster,
        "meta": {key: value for key, value in record.meta.items() if key != "source"},
    }  # fmt: skip
