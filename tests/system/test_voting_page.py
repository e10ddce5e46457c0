"""The voting page in a real browser: blind, saved, and one vote per pair for two quick clicks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.annotate.browser import PATIENCE_MS, browser, served, shows
from support.studies import write_answers

from lmms_eval_ad2.annotate.pairwise_study import draw
from lmms_eval_ad2.annotate.votes import open_project

pytestmark = pytest.mark.system


def test_votes_are_saved_and_models_stay_hidden(tmp_path: Path) -> None:
    for label in ("model-one", "model-two"):
        write_answers(tmp_path / label, label, {str(k): (f"Answer <b>{k}</b> {len(label)}", 5.0) for k in range(3)})
    draw([tmp_path / "model-one", tmp_path / "model-two"], tmp_path / "s")
    with served("page", "s", "--reviewer", "ann", cwd=tmp_path) as server, browser() as chromium:
        tab = chromium.new_page()
        sent: list[str] = []
        tab.on("response", lambda reply: sent.append(reply.url))
        tab.goto(server.url)
        for number in (1, 2, 3):
            tab.wait_for_selector(f"#progress b:has-text('{number} / 3')", timeout=PATIENCE_MS)
            shows(tab.locator("#left .answer"), 1)
            shows(tab.locator("#right .answer"), 1)
            assert "model-" not in tab.content()
            tab.dblclick("#vote-left")
        tab.wait_for_selector("#progress :text('3 finished, 0 to do')", timeout=PATIENCE_MS)
        assert all(url.startswith((server.url, "data:", "blob:")) for url in sent)
    votes = open_project(tmp_path / "s").human_votes()
    assert [len(vote.votes) for vote in votes] == [1, 1, 1]
    project = open_project(tmp_path / "s")
    assert [project.choice("ann", k) for k in range(3)] == ["left"] * 3
