"""scripts/marked_blocks.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scripts import script

from lmms_eval_ad2.core.errors import Ad2Error


def test_blocks_are_inserted_between_their_marker_lines(tmp_path: Path) -> None:
    insert = script("marked_blocks").insert
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n", encoding="utf-8")
    insert(page, {"x": "new"})
    insert(page, {"x": "new"})
    assert page.read_text("utf-8") == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n"
    with pytest.raises(Ad2Error, match="no lines '<!-- y: begin -->'"):
        insert(page, {"x": "newer", "y": "new"})
    assert "newer" not in page.read_text("utf-8")
