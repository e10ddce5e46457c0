"""docs/coverage.md: each status has its reason; all files, commands, tasks and tests that the page names exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from support.running import REPO, TESTS

PAGE = (REPO / "docs" / "coverage.md").read_text("utf-8")
COMMANDS = (REPO / "docs" / "commands.md").read_text("utf-8")  # current: test_commands_page.py
PAPERS = {
    "AD2-Bench": ("lmms_eval_ad2", 55), "CODA-LM": ("lmms_eval_ad2", 40), "AutoDrive-QA": ("lmms_eval_ad2", 25),
    "Bench2ADVLM": ("closedloop_plugin", 35),
}  # fmt: skip
LEAST_ITEMS = 120
NOTHING = "–"
HEADER = "| paper § | what | where | status | test |"
STATUS = re.compile(r"works|(partly|not): \S.{8,}")
SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class PaperItem:
    """A row of a table, with the line of the page and the package that its paths are relative to."""

    line: int
    package: str
    where: str
    status: str
    test: str


def items(page: str) -> Iterator[PaperItem]:
    """The rows of all tables. Raises ValueError for a row without five cells."""
    paper = ""
    for line, text in enumerate(page.splitlines(), 1):
        if text.startswith("## "):
            paper = text.removeprefix("## ")
        if text.startswith("| ") and text != HEADER:
            _, _, _, where, status, test, _ = (cell.strip() for cell in text.split("|"))
            yield PaperItem(line, PAPERS[paper][0], where, status, test)


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def names(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text("utf-8")))


def command_exists(words: str) -> bool:
    """Whether docs/commands.md has the command, its further words and its flags ("ad2 report compare --force")."""
    words, *flags = re.split(r" (?=--)", words)
    command, rest = words, list[str]()
    while command:
        if found := re.search(rf"(?ms)^##+ {re.escape(command)}\n(.*?)(?=^##|\Z)", COMMANDS):
            wanted = [*(rf"\b{word}\b" for word in rest), *(_column(flag) for flag in flags)]
            return all(re.search(pattern, found[1]) for pattern in wanted)
        command, _, last = command.rpartition(" ")
        rest.append(last)
    return False


def _column(flag: str) -> str:
    """What the page shows of a flag, or of a key of `--config`."""
    key = flag.removeprefix("--config ")
    return rf"`{flag}[ `]" if key == flag else rf"`{key}:"


def place_exists(place: str, package: str) -> bool:
    if place.startswith("ad2 "):
        return command_exists(place)
    if re.fullmatch(r"(ad2|bench)\w*_\w+", place):
        return any((REPO / "tasks").glob(f"*/{place}.yaml"))
    path, _, name = place.partition(":")
    files = [file for file in (REPO / package / path, REPO / path) if file.exists()]
    return bool(files) and (not name or name in names(files[0]))


def test_exists(place: str, package: str) -> bool:
    path, _, name = place.partition("::")
    files = [file for file in (TESTS / "unit" / package / path, TESTS / path) if file.is_file()]
    return bool(files) and name.startswith("test_") and name in functions(files[0])


test_exists.__test__ = False  # type: ignore[attr-defined]


def faults(page: str) -> list[str]:
    found = []
    for item in items(page):
        places, tests = SPAN.findall(item.where), SPAN.findall(item.test)
        found += [f"line {item.line}: {p} does not exist" for p in places if not place_exists(p, item.package)]
        found += [f"line {item.line}: {t} does not exist" for t in tests if not test_exists(t, item.package)]
        if not STATUS.fullmatch(item.status):
            found.append(f"line {item.line}: '{item.status}' is not works, partly: REASON or not: REASON")
        if not item.status.startswith("not: ") and not (places and tests):
            found.append(f"line {item.line}: works or partly, without a place or a test")
        found += [f"line {item.line}: an empty cell is {NOTHING}" for cell in (item.where, item.test) if not cell]
    return found


def test_what_the_page_names_exists_and_each_status_has_its_reason() -> None:
    assert faults(PAGE) == []


def test_the_page_has_the_items_of_all_papers() -> None:
    counts = {
        paper: section.count("\n| ") - 1 for paper, section in re.findall(r"(?ms)^## (\S+)$(.*?)(?=^## |\Z)", PAGE)
    }
    assert list(counts) == list(PAPERS)
    assert all(counts[paper] >= least for paper, (_, least) in PAPERS.items()), counts
    assert sum(counts.values()) == len(list(items(PAGE))) >= LEAST_ITEMS
    assert PAGE.count(HEADER) == len(PAPERS)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ("`core/numbers.py:is_whole` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`", ""),
        ("`ad2 drive run --config history`, `ad2 report compare`, `ad2_cot`, `docs` | not: for another reason | –", ""),
        ("`none.py` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`", "none.py does not exist"),
        (
            "`core/numbers.py:none` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`",
            "none does not exist",
        ),
        (
            "`ad2 drive fly` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`",
            "ad2 drive fly does not exist",
        ),
        (
            "`ad2 drive run --hist` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`",
            "--hist does not exist",
        ),
        ("`ad2_none` | works | `scoring/metrics/test_answer_metrics.py::test_accuracy`", "ad2_none does not exist"),
        ("`core/numbers.py` | works | `scoring/metrics/test_answer_metrics.py::test_none`", "test_none does not exist"),
        ("`core/numbers.py` | works | –", "without a place or a test"),
        (
            "– | partly: for some reason | `scoring/metrics/test_answer_metrics.py::test_accuracy`",
            "without a place or a test",
        ),
        ("`core/numbers.py` | not | –", "is not works"),
        ("`core/numbers.py` | partly: x | `scoring/metrics/test_answer_metrics.py::test_accuracy`", "is not works"),
        (" | not: for another reason | –", "an empty cell"),
    ],
)
def test_faults_of_a_row_are_found(cells: str, fault: str) -> None:
    found = faults(f"## AD2-Bench\n\n{HEADER}\n|---|---|---|---|---|\n| A.1 | x | {cells} |\n")
    assert (fault in found[0]) if fault else not found
