"""insert: replace what stands between marker lines of a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write


def insert(page: Path, blocks: Mapping[str, str]) -> None:
    """Replace the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->`, by name.

    Raises Ad2Error if the page lacks one of these lines; nothing is then written.
    """
    text = page.read_text("utf-8")
    for name, block in blocks.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            raise Ad2Error(f"{page}: no lines '{begin}' and '{end}'")
        text = f"{head}{begin}\n{block}\n{end}{tail}"
    with atomic_write(page) as file:
        file.write(text)
