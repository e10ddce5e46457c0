"""Prompt tables: packaged texts, overrides, and refusals with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.prompts.prompt_table import PromptTable

SLOTS = {"ask": ("question", "view"), "end": ("", "")}


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    path = tmp_path / "packaged.yaml"
    path.write_text("ask: 'See {question}'\nend: Done.\n")
    return path


def test_custom_texts_replace_packaged_ones_and_values_are_inserted_unchanged(packaged: Path, tmp_path: Path) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text("ask: 'In {view}: {question}'\n")
    plain, changed = PromptTable.overlaid(packaged, None, SLOTS), PromptTable.overlaid(packaged, custom, SLOTS)
    assert (plain.source, changed.source) == ("packaged", str(custom))
    assert plain.sha256 != changed.sha256
    assert plain.fill("ask", question="{end} {0.__class__}") == "See {end} {0.__class__}"
    assert changed.fill("ask", question="q", view="v") == "In v: q"
    assert changed.fill("end") == "Done."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "valid YAML"), ("- ask", "a mapping"), ("ask: 3", "a text"), ("ask: x", "{question}"),
        ("aks: '{question}'", "Did you mean 'ask'"), ("other: x", "It belongs into a file of others"),
        ("end: '{view}'", "only no placeholder"),
    ],
)  # fmt: skip
def test_invalid_table_is_refused_in_one_line(packaged: Path, tmp_path: Path, text: str, says: str) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text(text)
    with pytest.raises(DataError) as caught:
        PromptTable.overlaid(packaged, custom, SLOTS, {"other": "It belongs into a file of others."})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_whole_numbers_within_bounds_are_kept_apart_from_the_texts(packaged: Path, tmp_path: Path) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text("views: 3\n")
    found = PromptTable.overlaid(packaged, custom, SLOTS, bounds={"views": (1, 4)})
    plain = PromptTable.overlaid(packaged, None, SLOTS, bounds={"views": (1, 4)})
    assert (found.numbers, plain.numbers, found.texts) == ({"views": 3}, {}, plain.texts)
    assert found.sha256 != plain.sha256 == PromptTable.overlaid(packaged, None, SLOTS).sha256
    for text in ("views: 5", "views: 1.0", "views: '2'", "views: true"):
        custom.write_text(text)
        with pytest.raises(DataError, match="a whole number from 1 to 4"):
            PromptTable.overlaid(packaged, custom, SLOTS, bounds={"views": (1, 4)})


def test_unreadable_file_is_refused(packaged: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a readable UTF-8 YAML file"):
        PromptTable.overlaid(packaged, tmp_path / "none.yaml", SLOTS)
