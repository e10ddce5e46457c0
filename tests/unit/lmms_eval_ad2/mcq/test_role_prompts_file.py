"""Prompt texts: the packaged ones, overlaid by a user's file, and errors in such a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.mcq.role_prompts import SLOTS, McqPromptTexts


def test_every_slot_has_a_text() -> None:
    assert set(McqPromptTexts.load().texts) == set(SLOTS)


def test_a_file_replaces_its_keys_and_changes_the_hash(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("again: 'Once more: {fault}'\n")
    own, packaged = McqPromptTexts.load(file), McqPromptTexts.load()
    assert own.fill("again", fault="{fault} {0}") == "Once more: {fault} {0}"
    assert own.texts["naive"] == packaged.texts["naive"]
    assert own.sha256 != packaged.sha256 == McqPromptTexts.load().sha256


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("refiner: x", "'refiner': expected a known prompt key.*Did you mean 'refine'"),
        ("again: Once more.", "'again': expected the placeholder {fault}"),
        ("select: '{material} {n} {error}'", "only {material}, {n}"),
        ("naive: 3", "'naive': expected a text"),
        ("- a", "expected a mapping"),
        ("a: [", "expected valid YAML"),
    ],
)
def test_an_invalid_file_is_rejected_with_the_reason(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        McqPromptTexts.load(file)
    assert "mine.yaml" in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.yaml"):
        McqPromptTexts.load(tmp_path / "none.yaml")
