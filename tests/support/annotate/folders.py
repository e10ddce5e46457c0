"""Small annotation folders for tests, with one generated picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from lmms_eval_ad2.annotate.folder import AnnotationMetadata, make_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import OBJECTS
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt

EVIL = (
    """<script>document.title='owned'</script><img src=x onerror="document.title='owned'">**b** {{7*7}} ${alert(1)}"""
)
SIZE = (320, 180)


def text_record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "id": "a/region", "benchmark": "coda_lm", "task": "region", "subtask": "region", "form": "vqa",
        "images": ("a.png",), "question": BilingualText("What is marked?", "标出的是什么？"),
        "answer": BilingualText("A dog ahead.", "前方有狗。"), "mark": VisualPrompt("box", ((10.0, 20.0, 60.0, 90.0),)),
        "image_size": SIZE, "cluster": "a.png",
    }  # fmt: skip
    return Record(**values | changes)


def chain_record(**changes: Any) -> Record:
    steps = tuple(
        ReasoningStep(
            BilingualText(name),
            BilingualText(f"{name}?", f"{name}？"),
            BilingualText(f"{name} is fine.", f"{name}正常。"),
        )
        for name in ("weather", "vehicles", "decision")
    )
    values: dict[str, Any] = {
        "id": "a/cot", "benchmark": "ad2_bench", "task": "cot", "subtask": "holistic", "form": "chain", "steps": steps,
        "answer": steps[-1].answer, "mark": VisualPrompt(),
    }  # fmt: skip
    return text_record(**values | changes)


def choice_record(**changes: Any) -> Record:
    kinds = ("distractor", "correct", "logical_inconsistencies")
    options = tuple(
        AnswerOption(letter, BilingualText(word), kind)
        for letter, word, kind in zip("ABC", ("cat", "dog", "cow"), kinds, strict=True)
    )
    values: dict[str, Any] = {
        "id": "a/mc", "benchmark": "autodrive_qa", "form": "mc", "options": options, "letter": "B",
        "answer": BilingualText("dog"), "mark": VisualPrompt(),
    }  # fmt: skip
    return text_record(**values | changes)


def scene_record(**changes: Any) -> Record:
    values: dict[str, Any] = {"id": "a/general", "task": "general", "answer": BilingualText(), "mark": VisualPrompt(),
                              "meta": {OBJECTS: []}}  # fmt: skip
    return text_record(**values | changes)


def make_project(path: Path, *records: Record, lang: Any = "en", scale: int = 5) -> AnnotationProject:
    """An annotation project in a new folder below `path`, with its picture."""
    root = path / "pictures"
    root.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", SIZE, (90, 120, 90)).save(root / "a.png")
    metadata = AnnotationMetadata("made here", "test", 0, "", root, lang, scale)
    kept = records or (text_record(), chain_record(), choice_record())
    return AnnotationProject(make_folder(path / "notes", kept, metadata))


def keep_all(project: AnnotationProject, reviewer: str, number: int, complete: bool = True) -> None:
    """Keep all texts of a record, and mark the record as complete."""
    for line in project.review(reviewer, number).lines:
        if line.base.kind != "question":
            project.save_verdict(reviewer, number, line.base.key, "keep", line.now.words)
    project.save(reviewer, number, "complete", complete)
