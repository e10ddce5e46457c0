"""Figures printed in documents are those of their sources: stored results, the shipped suite, published files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from support.running import REPO
from support.scripts import script

from closedloop_plugin.scenarios.suites.shipped_threats import SHIPPED
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.scoring.metrics.intervals import FRACTION, mean_interval

DOCS = REPO / "docs"
LEARNED = ("seed0-0.9.0", "seed1-0.9.0", "seed0-0.8.0", "seed1-0.8.0", "seed2-0.8.0")  # the columns of docs/learn.md


def between_markers(page: Path, name: str) -> str:
    text = page.read_text("utf-8").partition(f"<!-- {name}: begin -->\n")[2]
    return text.partition(f"\n<!-- {name}: end -->")[0]


def test_the_tables_of_the_learned_models() -> None:
    spread = script("learn_spread")
    seeds = [spread.read_seed(DOCS / "results" / "learn" / f"{name}.json") for name in LEARNED]
    for page, shown in ((DOCS / "learn.md", seeds), (spread.CARD, seeds[:1])):
        assert between_markers(page, "drives") == spread.driving_table(shown)
        assert between_markers(page, "answers") == spread.answer_table(shown)


def test_threat_failures_by_target() -> None:
    module = script("threat_failures", "benchmarks")
    figures = module.read()
    assert {"late", "steer-only", "tiny-driver"} <= set(figures)
    assert between_markers(DOCS / "threats.md", "failures") == module.table(figures)


def test_causes_in_the_shipped_suite() -> None:
    """The rows of docs/threats.md, from the causes that suite.json names."""
    with zipfile.ZipFile(SHIPPED / "threats220_late.zip") as archive:
        causes = [*json.loads(archive.read("suite.json"))["causes"].values()]
    failed = [cause for cause in causes if cause is not None]
    text = (DOCS / "threats.md").read_text("utf-8")

    def row(title: str, hits: list[bool]) -> str:
        hits = hits + [False] * (len(causes) - len(hits))
        interval = mean_interval([float(hit) for hit in hits], bounds=FRACTION)
        share, low, high = (100 * value for value in (sum(hits) / len(hits), interval.low, interval.high))
        bold = "**" if title.startswith("**") else ""
        return f"| {title} | {sum(hits)} | {bold}{share:.1f} [{low:.1f}, {high:.1f}]{bold} |"

    by = {
        "by the threat": "threat", "by both": "both", "by the standard scenario": "standard", "by itself": "itself"
    }  # fmt: skip
    for title, source in by.items():
        assert row(title, [cause["by"] == source for cause in failed]) in text
    involved = [cause["by"] in ("threat", "both") for cause in failed]
    assert row("with an actor of the threat involved", involved) in text
    assert row("first by the threat", [cause["first"]["source"] == "threat" for cause in failed]) in text
    new = [cause["new"] is True for cause in failed]
    assert row("first infraction not on the standard route", new) in text
    made = [a or b for a, b in zip(involved, new, strict=True)]
    assert row("**the threat made it fail** (involved, or new)", made) in text
    assert f"in {len(failed)} of the {len(causes)} scenarios" in text
    assert f"So {len(failed) - sum(made)} of the {len(failed)} failures say nothing about the threat" in text


def test_the_published_file_of_pdm_lite(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data_dir / "bench2drive"
    words = ["score", str(folder / "pdm_lite_results.json"), "--routes", str(folder / "bench2drive220.xml"), "--json"]
    assert main(["drive", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    figures = (
        f"Driving Score {found['driving_score']:.2f}, Success Rate {found['success_rate']:.2f} %, "
        f"Efficiency {found['efficiency']:.2f}."
    )
    for page in (REPO / "README.md", DOCS / "drive.md"):
        assert figures in " ".join(page.read_text("utf-8").split()), page.name
