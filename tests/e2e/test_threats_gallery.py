"""`ad2 threats gallery` on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.threats.gallery import ROUTES, add, attempt, index, passed, record, run, spec, transcript

from closedloop_plugin.cli.threats import gallery
from lmms_eval_ad2.core.errors import Ad2Error


def ad2(words: Sequence[object]) -> int:
    """Run `ad2 threats gallery` without the other commands."""
    top = argparse.ArgumentParser(prog="ad2 threats")
    gallery.register(top.add_subparsers(required=True))
    args = top.parse_args([str(w) for w in words])
    return int(args.func(args))


@pytest.fixture
def threats(tmp_path: Path) -> Path:
    index(tmp_path / "demo")
    for route in ROUTES[:2]:
        add(tmp_path / "demo", transcript(route, attempt(spec())), passed())
    return tmp_path / "demo"


def test_the_gallery_is_written_to_the_folder(threats: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2(["gallery", threats]) == 0
    assert capsys.readouterr().out == f"gallery  {threats / 'gallery.html'}  (2 scenarios, 0 runs, 0.0 MB)\n"
    assert "brakes to a standstill" in (threats / "gallery.html").read_text("utf-8")


def test_the_gallery_shows_runs_and_is_written_to_out(
    threats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = run(tmp_path / "one", threats, "expert", [record("101", score=100.0)])
    two = run(tmp_path / "two", threats, "straight", [record("101", score=12.5, hit=True)])
    out = tmp_path / "new" / "talk.html"
    assert ad2(["gallery", threats, "--runs", one, two, "--out", out]) == 0
    assert "2 scenarios, 2 runs" in capsys.readouterr().out
    assert "12.5" in out.read_text("utf-8")
    assert not (threats / "gallery.html").exists()


def test_mistakes_are_reported_and_leave_the_page_unchanged(threats: Path, tmp_path: Path) -> None:
    page = threats / "gallery.html"
    page.write_text("before")
    with pytest.raises(Ad2Error, match=r"must end in \.html"):
        ad2(["gallery", threats, "--out", tmp_path / "page.png"])
    with pytest.raises(Ad2Error, match=r"no run\.json"):
        ad2(["gallery", threats, "--runs", tmp_path])
    with pytest.raises(Ad2Error, match="no such folder"):
        ad2(["gallery", tmp_path / "absent"])
    (tmp_path / "file").write_text("")
    with pytest.raises(Ad2Error, match="cannot write the gallery"):
        ad2(["gallery", threats, "--out", tmp_path / "file" / "page.html"])
    assert page.read_text() == "before"


def test_an_unfinished_folder_is_shown_and_marked(threats: Path) -> None:
    index(threats, finished=False)
    assert ad2(["gallery", threats]) == 0
    assert "not finished" in (threats / "gallery.html").read_text("utf-8")
