"""docs/tour.md: its files exist, each is imported or named where the list says, and an option's way is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.running import REPO

PAGE = (REPO / "docs/tour.md").read_text("utf-8")
WAYS: dict[str, str] = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", PAGE, re.MULTILINE))
STEP = re.compile(r"^- `(?P<file>[^`]+)`(?:, from `(?P<source>[^`]+)`)?: .+$", re.MULTILINE)
OPTION = "An option of a drive, from the flag to the worker"
MOST_FILES, MOST_TYPES = 18, 6  # that an option passes through


def steps(way: str) -> list[tuple[str, str | None]]:
    """(file, name of the file that imports it; None: the one before)."""
    return [(found["file"], found["source"]) for found in STEP.finditer(WAYS[way])]


def named_in(text: str, file: str) -> bool:
    """Whether a text has the name of a module, or of a file that is none."""
    path = Path(file)
    word = path.parent.name if path.name == "__init__.py" else path.stem if path.suffix == ".py" else path.name
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def found_by(end: str) -> list[Path]:
    """Files of the packages and tasks whose path has this end."""
    folders = (REPO / "lmms_eval_ad2", REPO / "closedloop_plugin", REPO / "tasks")
    return [p for folder in folders for p in folder.rglob(Path(end).name) if str(p).endswith(f"/{end}")]


@pytest.mark.parametrize("way", WAYS)
def test_every_file_is_named_by_the_one_that_the_tour_says(way: str) -> None:
    before: str | None = None
    assert steps(way) and len(steps(way)) == WAYS[way].count("\n- ")
    for file, source in steps(way):
        assert (REPO / file).is_file(), file
        sources = found_by(source) if source else [REPO / before] if before else []
        assert not sources or any(named_in(p.read_text("utf-8"), file) for p in sources), f"{file}: not in {sources}"
        assert sources or not (source or before), f"{file}: no file {source}"
        before = file


def test_an_option_passes_through_few_files_and_types() -> None:
    assert len({file for file, _ in steps(OPTION)}) <= MOST_FILES
    carrying = WAYS[OPTION].partition("The others are values")[0]
    types = re.findall(r"`(\w+)` \(", carrying)
    assert 0 < len(types) <= MOST_TYPES
    sources = "".join((REPO / file).read_text("utf-8") for file, _ in steps(OPTION))
    assert [name for name in types if f"class {name}" not in sources] == []
