"""Records as JSON lines: the output of `ad2 annotate export` is read back unchanged, hostile rows are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.home import import_release, open_dataset
from lmms_eval_ad2.data.releases import RELEASES, BadRow
from lmms_eval_ad2.data.sample import ensure_sample

PLAIN: dict[str, Any] = {
    "id": "a", "benchmark": "coda_lm", "task": "region", "subtask": "region", "form": "vqa", "images": ["a.jpg"],
    "question": {"en": "What is it?"}, "answer": {"en": "A cone."},
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", ["sample_ad2_bench", "sample_coda_lm", "sample_autodrive_qa"])
def test_every_form_is_read_back_unchanged(tmp_path: Path, name: str) -> None:
    ensure_sample()
    source = open_dataset(name, "test")
    records = list(source.records())
    (tmp_path / "r.jsonl").write_text("".join(r.to_json() + "\n" for r in records), "utf-8")
    manifest = import_release("records", tmp_path / "r.jsonl", images=source.image_root, split="train", name="again")
    assert list(open_dataset("again", "train").records()) == records
    assert manifest.sha256 == source.sha256


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"form": "essay"}, "form"),
        ({"images": ["../secret.jpg"]}, "images"),
        ({"images": ["a.jpg"] * 101}, "images"),
        ({"question": {"en": "x" * 20_001}}, "question"),
        ({"options": [{"letter": "A", "text": {"en": "x"}, "kind": "correct"}], "letter": "B"}, "letter"),
        ({"steps": [{"name": "s", "question": {"en": "q"}, "answer": {"en": "a"}}] * 101}, "steps"),
        ({"mark": {"kind": "star"}}, "kind"),
        ({"views": ["CAM_FRONT", "CAM_BACK"]}, "views"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_bad_row_is_reported_and_the_next_one_read(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**PLAIN, **change}) + "\n" + json.dumps(PLAIN) + "\n", "utf-8")
    bad, good = RELEASES["records"].open(path, split=None, images=None, options={}).records()
    assert isinstance(bad, BadRow)
    assert field in bad.error.field
    assert isinstance(good, Record)
    assert good.id == "a"
