"""Drafts by a model: prompts, replies, files of answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.annotate.folders import (
    EVIL,
    chain_record,
    choice_record,
    keep_all,
    make_project,
    scene_record,
    text_record,
)

from lmms_eval_ad2.annotate import drafts
from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.annotate.record_review import DraftAnnotation
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText
from lmms_eval_ad2.testing.fake_endpoint import serve

SCENE = {"objects": [{"category": "vehicle", "text": "A bus ahead."}], "answer": "A quiet street."}


def reply(body: dict[str, Any]) -> str:
    """A reply in the format that the request asks for."""
    text = body["messages"][-1]["content"][-1]["text"]
    if "JSON alone" in text:
        return "Here it is: " + json.dumps(SCENE)
    return "<start1>wet<end><start2>none<end><start3>stop<end>" if "<start1>" in text else f"A wolf. {EVIL}"


def fill(project: AnnotationProject, spec: str, reviewed: set[str] | None = None) -> drafts.DraftingSummary:
    return drafts.fill(project.folder, spec, reviewed or set(), progress=False)


@pytest.mark.integration
def test_an_endpoint_drafts_all_but_options(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(), chain_record(), scene_record(), choice_record())
    with serve(reply=reply, keep_bodies=True) as server:
        summary = fill(project, f"endpoint:m@{server.url},concurrency=2")
        assert (summary.written, dict(summary.without)) == (3, {"has_options": 1})
        parts = server.bodies[0]["messages"][1]["content"]
        assert parts[0]["image_url"]["url"].startswith("data:image/jpeg;base64,")
        assert server.bodies[0]["messages"][0]["content"] == drafts.SYSTEM
        again = fill(project, f"endpoint:m@{server.url}")
        assert (again.written, again.had, server.requests) == (0, 3, 3)
    project = AnnotationProject(open_folder(project.folder.path))
    region, chain, scene, _ = (project.review("anna", n) for n in range(4))
    assert region.line("answer").base.pre == "openai:m"
    assert region.line("answer").base.own == "A dog ahead."
    assert EVIL in region.line("answer").now.text
    assert [line.now.text for line in chain.lines][1:] == ["wet", "none", "stop"]
    assert chain.lines[1].now.question == "weather?"
    assert scene.line("object.1").now.words == ("vehicle", "", "A bus ahead.")
    assert scene.line("answer").now.text == "A quiet street."
    keep_all(project, "anna", 2)
    assert project.review("anna", 2).finished


@pytest.mark.integration
def test_failures_are_counted_and_requested_again(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, *[text_record(id=f"r{n}", question=BilingualText(f"What is it, {n}?")) for n in range(6)]
    )
    with serve(reply="A wolf.", failures=lambda n, body: "400" if n % 3 == 1 else "ok") as server:
        spec = f"endpoint:m@{server.url},concurrency=1"
        summary = fill(project, spec)
        assert (summary.written, dict(summary.without)) == (4, {"http_400": 2})
        assert "http_400" in summary.line()
        assert "400" in summary.details["http_400"]
        assert fill(project, spec).written == 1  # requests 6 and 7: one more fails
        assert fill(project, spec).written == 1
    assert len(drafts.load(project.folder)) == 6


@pytest.mark.integration
def test_records_under_review_get_no_draft(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(), text_record(id="b"))
    with serve(reply="A wolf.") as server:
        summary = fill(project, f"endpoint:m@{server.url}", {"b"})
        assert (summary.written, dict(summary.without), server.requests) == (1, {"review_begun": 1}, 1)


@pytest.mark.integration
def test_a_missing_image_affects_its_record_only(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(), text_record(id="b", images=("gone.png",)))
    with serve(reply="A wolf.") as server:
        summary = fill(project, f"endpoint:m@{server.url}")
    assert (summary.written, dict(summary.without)) == (1, {"no_picture": 1})
    assert "gone.png" in summary.details["no_picture"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("no braces", "not_json"),
        ("[" * 9000 + '{"a": ' * 9000, "not_json"),
        ('{"answer": 3}', "not_as_asked"),
        ('{"answer": "x", "objects": "y"}', "not_as_asked"),
        ('{"answer": "x", "objects": [{"category": "a"}]}', "not_as_asked"),
        ('{"answer": "x", "objects": [{"category": "' + "a" * 300 + '", "text": "t"}]}', "not_as_asked"),
        ('{"answer": "x", "objects": [' + ",".join(['{"category": "a", "text": "t"}'] * 101) + "]}", "not_as_asked"),
        ("x" * 100_000, "too_long"),
    ],
)
def test_malformed_reply_is_rejected_with_a_reason(said: str, reason: str) -> None:
    assert drafts.draft_of_reply(scene_record(), "en", "m", said) == reason


def test_scene_prompt() -> None:
    """A snapshot: a change of the prompt is a change of every cached reply."""
    assert drafts.question(scene_record(question=BilingualText("What {matters} here?")), "zh") == (
        "What {matters} here?\nList each object that a driver here must reckon with, once, under one of these "
        "categories: vehicle, vulnerable road user, traffic sign, traffic light, traffic cone, barrier, other object. "
        "For each give one text: what it is, where it stands, and how it affects the ego car, understandable without "
        "the other texts. Then sum the whole scene up in one paragraph.\nAnswer with JSON alone: "
        '{"objects": [{"category": "...", "text": "..."}], "answer": "..."}\n'
        "Write all texts in Chinese; keep the category names as they are."
    )


def test_typed_replies_are_converted_to_canonical_form() -> None:
    assert drafts.draft_of_reply(text_record(form="yesno"), "en", "m", "**Yes**, there is.") == DraftAnnotation(
        "m", "yes"
    )
    assert drafts.draft_of_reply(text_record(form="box"), "en", "m", "[1, 2.5, 30, 40]") == DraftAnnotation(
        "m", "[1, 2.5, 30, 40]"
    )
    assert drafts.draft_of_reply(text_record(form="count"), "en", "m", "hard to say") not in ("", None)


def test_drafts_are_read_from_a_file(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, text_record(), chain_record(), scene_record(), choice_record(), text_record(id="late")
    )
    rows = [
        {"id": "a/region", "answer": "A wolf.", "model": "ours"},
        {"id": "a/cot", "raw": ["wet", "none", "stop"]},
        {"id": "a/general", "objects": SCENE["objects"]},
        {"id": "a/mc", "answer": "B"},
        {"id": "stranger", "answer": "x"},
    ]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    summary = fill(project, str(file))
    assert summary.written == 3
    assert dict(summary.without) == {"has_options": 1, "unknown_id": 1, "not_in_file": 1}
    found = drafts.load(project.folder)
    assert found["a/region"] == DraftAnnotation("ours", "A wolf.")
    assert found["a/cot"].steps == (("weather", "weather?", "wet"), ("vehicles", "vehicles?", "none"),
                                    ("decision", "decision?", "stop"))  # fmt: skip
    assert found["a/general"] == DraftAnnotation("file", None, None, (("vehicle", "A bus ahead."),))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "a/cot", "answer": ["one"]}, "for a chain one text per step"),
        ({"id": "a/cot", "answer": 3}, "a text, or a list"),
        ({"answer": "x"}, "'id'"),
        ({"id": "a/cot", "steps": [{"name": "x"}]}, r"steps\[0\]\.question"),
    ],
)
def test_bad_row_of_a_file_is_reported(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    project = make_project(tmp_path, chain_record())
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps(row) + "\n", "utf-8")
    with pytest.raises(DataError, match=message):
        fill(project, str(file))


def test_invalid_draft_file_is_rejected(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    path = project.folder.path / drafts.FILE
    path.write_text('{"id": "a/region", "model": "m", "answer": 7}\n', "utf-8")
    with pytest.raises(DataError, match="answer"):
        AnnotationProject(project.folder)
    path.write_text('{"id": "a/region", "model": "m", "steps": [["a", "b"]]}\n', "utf-8")
    with pytest.raises(DataError, match="lists of 3 texts"):
        AnnotationProject(project.folder)
    path.write_text('{"id": "a/region", "model": "m", "answer": "x"}\n{"id": "half', "utf-8")
    assert AnnotationProject(project.folder).drafts["a/region"] == DraftAnnotation("m", "x")


def test_unknown_model_is_rejected(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record())
    with pytest.raises(Ad2Error, match="unknown --pre"):
        fill(project, "enpoint:m@http://127.0.0.1:1/v1")
