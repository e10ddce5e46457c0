"""docs/performance.md shows what docs/results/benchmarks.json holds, and no page a rate that nothing measures."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.running import REPO
from support.scripts import script

from lmms_eval_ad2.core.errors import Ad2Error

script = script("performance_page", "benchmarks")
STORED: dict[str, Any] = json.loads(script.STORED.read_text("utf-8"))
ROWS = (*script.RATIOS, *script.RATES)
BLOCK = re.compile(r"<!-- ([\w-]+): begin -->\n(.*?)\n<!-- \1: end -->", re.DOTALL)
UNIT = r"(?:×|%|µs|us|MB|GB|kB|\w+/(?:s|step|record|item|request|document|episode)\b)"
# Results of the learned model and of drives have scripts and tests of their own; commands.md is generated.
PAGES = [REPO / "README.md", *sorted((REPO / "docs").glob("*.md")), *sorted((REPO / "docs/results").glob("*.md"))]
RATE = re.compile(
    r"\d[\d.,]* ?(?:records|items|requests|questions|documents|answers|pictures|frames|steps|episodes)/s\b"
)

# Figures of other pages that a benchmark measures: page, expression with one group, figure, digits after the point.
QUOTED = [
    (
        "decisions-file.md",
        r"A decision takes about (\d+) bytes",
        "closed_loop.overhead.blind_bytes_per_decision",
        -2,
    ),
]


def part(date: str = "2026-01-02", version: str = "1.0.0", **figures: float) -> dict[str, Any]:
    return {"version": version, "date": date, "machine": "Python 3, 2 cores", "results": figures}


def measurement(date: str, scale: float = 1.0, **figures: float) -> dict[str, Any]:
    found = part(date, "2.0.0", **figures)
    return {**found, "benchmark": "serve", "scale": scale, "results": {"words": found["results"]}}


def written_text(page: Path) -> str:
    """The page without its generated blocks."""
    return BLOCK.sub("", page.read_text("utf-8"))


def test_the_page_shows_what_was_measured() -> None:
    found = dict(BLOCK.findall(script.PAGE.read_text("utf-8")))
    assert found == script.blocks(STORED), "python benchmarks/performance_page.py"


def test_a_figure_changed_on_the_page_is_found() -> None:
    changed = copy.deepcopy(STORED)
    changed["open_loop.scoring"]["results"]["records_per_s"] *= 6
    assert script.blocks(changed) != script.blocks(STORED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_every_row_was_measured(row: Any) -> None:
    assert row.value(STORED) is not None, f"no {row.path} in {script.STORED.name}"


def test_make_bench_runs_every_benchmark_of_the_page() -> None:
    (run,) = re.findall(r"^BENCHMARKS := (.*)$", (REPO / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {row.path.partition(".")[0] for row in ROWS} == set(run.split())


def test_the_text_of_the_page_has_no_figure_of_its_own() -> None:
    assert not re.findall(rf"\d[\d.,]* ?{UNIT}", written_text(script.PAGE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_rate_that_no_benchmark_wrote(page: Path) -> None:
    assert not RATE.findall(written_text(page))


@pytest.mark.parametrize(("page", "expression", "path", "digits"), QUOTED, ids=lambda value: str(value))
def test_figures_of_other_pages_are_those_measured(page: str, expression: str, path: str, digits: int) -> None:
    (quoted,) = re.findall(expression, (REPO / "docs" / page).read_text("utf-8"))
    assert float(quoted.replace(",", "")) == round(script.FigureRow("", path).value(STORED), digits)


def test_a_part_that_was_not_measured_keeps_its_figures() -> None:
    stored = {"serve.picture": part(share=0.5), "serve.words": part(share=0.6)}
    found = script.merged(stored, [measurement("2026-02-03", share=0.7)])
    assert found["serve.picture"] == stored["serve.picture"]
    assert found["serve.words"] == part("2026-02-03", "2.0.0", share=0.7)


@pytest.mark.parametrize(
    "left_out", [measurement("2026-02-03", scale=0.1, share=0.7), measurement("2026-01-01", share=0.7)]
)
def test_trials_and_older_measurements_are_left_out(left_out: dict[str, Any]) -> None:
    stored = {"serve.words": part(share=0.6)}
    assert script.merged(stored, [left_out]) == stored


def test_a_file_that_is_no_measurement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="lacks benchmark, date, machine"):
        script.merged({}, [{"version": "1", "results": {}, "scale": 1}])
    broken = tmp_path / "serve.json"
    broken.write_text("{")
    with pytest.raises(Ad2Error, match=r"serve\.json: expected the JSON of a benchmark"):
        script.read(broken)


@pytest.mark.parametrize(
    ("share", "cells", "shown"),
    [(0.984, ("≥ 0.98", "yes"), "0.98"), (0.974, ("≥ 0.98", "**no**"), "0.97"), (0.9751, ("≥ 0.98", "yes"), "0.98")],
)
def test_the_goal_is_compared_with_the_figure_that_is_shown(share: float, cells: tuple[str, str], shown: str) -> None:
    row, parts = script.FigureRow("x", "serve.words.share", goal=0.98), {"serve.words": part(share=share)}
    assert (row.goal_cells(parts), row.shown(parts)) == (cells, shown)


def test_an_upper_bound_is_met_from_below() -> None:
    row = script.FigureRow("x", "serve.words.share", digits=1, unit="%", goal=5, at_most=True, factor=100)
    assert row.goal_cells({"serve.words": part(share=0.032)}) == ("≤ 5 %", "yes")
    assert row.goal_cells({"serve.words": part(share=0.106)}) == ("≤ 5 %", "**no**")
    assert row.goal_cells({}) == ("≤ 5 %", "–") and row.shown({}) == "not measured"


def test_figures_of_another_version_are_named() -> None:
    parts = {"serve.words": part("2026-02-03", "2.0.0"), "serve.picture": part("2026-02-03", "2.0.0"),
             "open_loop.scoring": part("2026-03-01", "1.9.0")}  # fmt: skip
    first, second = script.origin(parts).splitlines()
    assert first == "Measured with lmms-eval-ad2 1.9.0 on 2026-03-01: Python 3, 2 cores."
    assert second.startswith("Of another version, day or machine: serve.words, serve.picture: 2.0.0, 2026-02-03, ")
    assert len(script.origin({"serve.words": part()}).splitlines()) == 1
