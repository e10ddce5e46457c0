"""Prompt tables: packaged texts, overrides, and refusals with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.errors import DataError
from lmms_eval_ad2.prompts.prompt_table import PromptTable

SLOTS = {"ask": ("question", "view"), "end": ("", "")}


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    path = tmp_path / "packaged.yaml"
    path.write_text("ask: 'See {question}'\nend: Done.\n")
    return path


def test_a_users_file_overlays_and_values_are_never_looked_into(packaged: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("ask: 'In {view}: {question}'\n")
    plain, changed = PromptTable.overlaid(packaged, None, SLOTS), PromptTable.overlaid(packaged, own, SLOTS)
    assert (plain.source, changed.source) == ("packaged", str(own))
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
def test_what_is_refused_is_one_line(packaged: Path, tmp_path: Path, text: str, says: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(text)
    with pytest.raises(DataError) as caught:
        PromptTable.overlaid(packaged, own, SLOTS, {"other": "It belongs into a file of others."})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(packaged: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a readable UTF-8 YAML file"):
        PromptTable.overlaid(packaged, tmp_path / "none.yaml", SLOTS)
