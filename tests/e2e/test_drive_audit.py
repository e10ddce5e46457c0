"""`ad2 drive audit` over subsets of a public result file, from a local server: the whole report, and its errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.closedloop.audits import COMMIT, FileServer, entry, serving, sha256

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.storage.identity import code_label

ROOT = f"/group/project/{COMMIT}"
ROUTES_PATH = "leaderboard/routes.xml"


def subset(rows: list[Any], **means: float) -> bytes:
    return json.dumps({"_checkpoint": {"records": rows}, **means}).encode()


@pytest.fixture(scope="module")
def contents(data_dir: Path) -> dict[str, bytes]:
    """The published file; the first 200 records with their own mean; a worse drive of all routes; the route file."""
    folder = data_dir / "bench2drive"
    whole = (folder / "pdm_lite_results.json").read_bytes()
    rows = json.loads(whole)["_checkpoint"]["records"]
    first = rows[:200]
    mean = sum(row["scores"]["score_composed"] for row in first) / len(first)
    worse = [
        {**row, "scores": {**row["scores"], "score_composed": row["scores"]["score_composed"] / 2}} for row in rows
    ]
    return {
        "results/whole.json": whole,
        "results/some.json": subset(first, **{"driving score": mean, "eval num": len(first)}),
        "results/half.json": subset(worse),
        ROUTES_PATH: (folder / "bench2drive220.xml").read_bytes(),
    }


@pytest.fixture
def server(contents: dict[str, bytes]) -> Iterator[FileServer]:
    with serving({f"{ROOT}/{path}": content for path, content in contents.items()}) as found:
        yield found


@pytest.fixture
def listing(tmp_path: Path, contents: dict[str, bytes]) -> Path:
    printed = [{"source": "README", "driving_score": 97.02, "success_rate": 92.27}]
    raw = {
        "routes": {"repository": "group/project", "commit": COMMIT, "path": ROUTES_PATH,
                   "sha256": sha256(contents[ROUTES_PATH]), "license": "unknown"},
        "results": [
            entry("whole", contents["results/whole.json"], printed=printed),
            entry("some", contents["results/some.json"]),
            entry("half", contents["results/half.json"], repeats="x"),
        ],
        "not_available": [{"name": "Absent", "reason": "no file"}],
    }  # fmt: skip
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(raw))
    return file


def audit(listing: Path, out: Path, *more: str | Path) -> int:
    return main(["drive", "audit", str(listing), "--out", str(out), *map(str, more)])


def test_the_report_has_recomputed_figures_missing_routes_and_rankings(
    tmp_path: Path, listing: Path, server: FileServer, contents: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert audit(listing, out, "--host", server.address) == 0
    text = capsys.readouterr().out
    found = json.loads((out / "audit.json").read_text("utf-8"))
    whole, some, half = found["results"]
    assert whole["driving_score"] == pytest.approx(97.0158, abs=5e-5)
    assert half["driving_score"] == pytest.approx(whole["driving_score"] / 2)
    assert (whole["n_missing"], some["n_missing"], some["n_records"]) == (0, 20, 200)
    (explained,) = some["printed"]
    assert explained["text"] == "the mean over the 200 records" and not explained["reproduced"]
    assert explained["recomputed"] == pytest.approx(explained["printed"] * 200 / 220)
    assert all(figure["reproduced"] for figure in whole["printed"])
    assert [pair["verdict"] for pair in found["pairs"]["driving_score"]] == ["reversed", None, None]
    ranked = found["rankings"]["driving_score"]
    assert ranked["published_order"] == ["some", "whole"] and ranked["without_a_printed_figure"] == ["half"]
    assert half["printed"] == [] and [figure["source"] for figure in whole["printed"][:1]] == ["README"]
    plan = found["sample_size"]["driving_score"]
    assert plan["pairs"] == 3 and all(0.93 <= one["share"] <= 0.97 for one in plan["coverages"][1:])
    assert (out / "audit.txt").read_text("utf-8") in text
    page, markdown = (out / "audit.html").read_text("utf-8"), (out / "audit.md").read_text("utf-8")
    for part in ("Published ranking by Driving Score", "the mean over the 200 records", "Absent", whole["sha256"]):
        assert part in text and part in page and part in markdown
    assert sorted(server.requests) == sorted(f"{ROOT}/{path}" for path in contents)
    assert "ad2 drive audit, lmms-eval-ad2" in page and "<title>ad2 drive audit: Audit of" in page
    assert found["version"] == code_label() and code_label() not in markdown


def test_downloaded_files_are_not_fetched_again(
    tmp_path: Path, listing: Path, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = yaml.safe_load(listing.read_text())
    listing.write_text(yaml.safe_dump({**raw, "results": raw["results"][:1]}))  # quicker: no pairs
    assert audit(listing, tmp_path / "out", "--host", server.address) == 0
    n = len(server.requests)
    assert n == 2
    assert audit(listing, tmp_path / "out", "--host", server.address) == 0
    assert len(server.requests) == n


def test_a_changed_file_and_a_missing_one_are_one_line_of_error(
    tmp_path: Path, listing: Path, server: FileServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files = {**server.files, f"{ROOT}/results/some.json": b"{}"}
    assert audit(listing, tmp_path / "out", "--host", server.address) == 2
    server.files = {path: content for path, content in server.files.items() if "some" not in path}
    assert audit(listing, tmp_path / "out", "--host", server.address) == 2
    assert audit(tmp_path / "none.yaml", tmp_path / "out") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert ["another version" in errors[0], "404" in errors[1], "cannot be read" in errors[2]] == [True] * 3
    assert len(errors) == 3
    assert not (tmp_path / "out" / "audit.json").exists()
