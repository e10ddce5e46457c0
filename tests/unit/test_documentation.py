"""Links of Markdown files resolve, each page of docs/ starts with an example, and the README stays short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from support.running import REPO

from closedloop_plugin.learn.trained_agent import FOLDER

PAGES = sorted((REPO / "docs").glob("*.md"))
FILES = [
    *(REPO / name for name in ("README.md", "CONTRIBUTING.md")), *PAGES,
    *sorted((REPO / "docs" / "decisions").glob("*.md")), *sorted((REPO / "tasks").rglob("*.md")),
]  # fmt: skip
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXAMPLE_BY_LINE = 6  # heading, empty line, at most two lines of text, empty line, example


@cache
def text_of(file: Path) -> str:
    """The text without fenced code blocks."""
    return re.sub(r"^```.*?^```", "```", file.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors_of(file: Path) -> frozenset[str]:
    """Anchors of the headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.+)$", text_of(file), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain)


def broken_links(file: Path) -> list[str]:
    broken = []
    for link in LINK.findall(text_of(file)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (file.parent / path).resolve() if path else file
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


def test_relative_links_resolve() -> None:
    broken = {str(file.relative_to(REPO)): found for file in FILES if (found := broken_links(file))}
    assert not broken


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n## Part `x` two\n[a](#part-x-two) [b](#part) [c](gone.md) [d](https://x.y/z) [e](page.md)\n"
    )
    assert broken_links(page) == ["#part", "gone.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_of_docs_starts_with_an_example(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()[:EXAMPLE_BY_LINE]
    assert any(line.startswith(("    ", "```")) for line in lines), "\n".join(lines)


def test_the_readme_has_at_most_1000_words() -> None:
    assert len((REPO / "README.md").read_text("utf-8").split()) <= 1000


def scores_of(page: Path, heading: str) -> list[str]:
    """The Driving Scores of a row of the table of drives, one per seed, without intervals, means and deviations."""
    (cells,) = re.findall(rf"^\| {re.escape(heading)} +\|(.*)\|$", page.read_text("utf-8"), re.MULTILINE)
    return [cell.split()[0] for cell in cells.split("|") if "[" in cell]


def test_figures_of_the_shipped_model_agree() -> None:
    """In its card, the first seed of docs/learn.md, and the README."""
    card, learn = FOLDER / "README.md", REPO / "docs" / "learn.md"
    for heading, before in (("**the model**", "has"), ("its blind twin", "pictures")):
        (score,) = scores_of(card, heading)
        assert scores_of(learn, heading)[0] == score
        assert f"{before} {score}" in " ".join((REPO / "README.md").read_text("utf-8").split())
