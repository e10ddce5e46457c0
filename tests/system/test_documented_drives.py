"""The figures of the first drives in docs/drive.md are those of this version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.running import BIN, REPO, run

FIGURES = ("Driving Score", "Success Rate", "Efficiency", "Comfortness")


@pytest.mark.system
def test_the_first_drives_have_the_documented_figures(tmp_path: Path) -> None:
    page = (REPO / "docs" / "drive.md").read_text("utf-8")
    printed = {}
    for agent in ("expert", "straight"):
        words = ("drive", "run", "--suite", "demo", "--agent", agent, "--out", tmp_path / agent)
        printed[agent] = run(BIN / "ad2", *words, cwd=tmp_path).stdout
    example = page.split("```")[1]
    rows = [line.split() for line in example.splitlines() if line.startswith(FIGURES)]
    assert len(rows) == 4 and all(row in [line.split() for line in printed["expert"].splitlines()] for row in rows)
    score = re.search(r"^Driving Score +([\d.]+)", printed["straight"], re.M)
    assert score and f"The second run has a Driving Score of {float(score[1]):.2f} " in page
