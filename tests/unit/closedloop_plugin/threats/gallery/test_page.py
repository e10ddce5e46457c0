"""The gallery page: content, hostile texts, broken files, and the size of a large suite."""

from __future__ import annotations

import base64
import html
import io
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.threats.gallery import (
    ATTACKS,
    EVIL,
    MODEL,
    ROUTES,
    Reader,
    add,
    attempt,
    exchange,
    index,
    noise,
    passed,
    record,
    run,
    spec,
    transcript,
)  # fmt: skip

from closedloop_plugin.threats.gallery import page as gallery
from closedloop_plugin.threats.gallery import runs as gallery_runs
from closedloop_plugin.threats.gallery import scenarios as gallery_read
from closedloop_plugin.threats.gallery.scenarios import GalleryScenario, ScenarioCheckState
from closedloop_plugin.threats.transcript import ScenarioVerdict
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def rendered(folder: Path) -> str:
    return gallery.page(folder, *gallery_read.read(folder))


@pytest.fixture(scope="module")
def threats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six routes: passed, hostile and passed, failed and left out, changed since, not checked, refused."""
    folder = tmp_path_factory.mktemp("threats") / "demo"
    index(folder, left_out={"103": "the expert does not survive it"}, failed={"106": "fuser: " + EVIL})
    by_model: Any = {**MODEL, "model": EVIL}
    first, second, third, fourth, fifth, sixth = ROUTES
    add(folder, transcript(first, attempt(spec())), passed(ahead=25.0, due=2.5, rest=4.0))
    hostile = spec(adversary="bus", weakness="planning", description=EVIL, why=EVIL)
    tried = attempt(hostile, by_model, description=EVIL, exchanges=[exchange(reply=EVIL, problems=[EVIL])])
    kept = transcript(second, tried, (EVIL, EVIL, EVIL), agent={"name": EVIL})
    kept.interview.answers[0].question = EVIL
    add(folder, kept, passed(ahead=30.0))
    failed = ScenarioVerdict(
        passed=False, compiles=True, runs=True, acts=True, tries=4, reason="hits it in 4 of 4 draws"
    )
    add(folder, transcript(third, attempt(spec(adversary="van"))), failed)
    add(folder, transcript(fourth, attempt(spec(weakness="perception"))), passed())
    changed = folder / "scenarios" / f"{fourth.id}.scenic"
    changed.write_text(changed.read_text() + "# by hand\n")
    add(folder, transcript(fifth, attempt(spec(adversary="car"))), moment=False)
    add(folder, transcript(sixth, attempt(None, refused=EVIL)), moment=False)
    return folder


@pytest.fixture(scope="module")
def runs(threats: Path) -> list[Path]:
    """The first survives 101 and breaks in 104; both fail in 102; 105 is not driven."""
    folder = threats.parent
    good = [record("101", score=100.0), record("102", score=60.0, hit=True),
            record("104", score=0.0, end="world failed", status="Failed", reason="the world died")]  # fmt: skip
    twice = [record("101", score=100.0, repetition=0), record("101", score=50.0, hit=True, repetition=1)]
    worse = [
        *twice,
        record("102", score=31.5, hit=True, drawn={"ahead": float("nan"), "due": EVIL}),
        record("104", score=90.0),
    ]
    return [run(folder / "good", threats, "expert", good), run(folder / "worse", threats, EVIL, worse)]


@pytest.fixture(scope="module")
def page(threats: Path, runs: list[Path]) -> str:
    gallery.write(threats, threats / "gallery.html", runs)
    return (threats / "gallery.html").read_text("utf-8")


def test_states_are_of_the_current_program(threats: Path) -> None:
    found = {s.name: s for s in gallery_read.read(threats)[1]}
    assert {n: s.state for n, s in found.items()} == {
        "101": ScenarioCheckState.PASSED,
        "102": ScenarioCheckState.PASSED,
        "103": ScenarioCheckState.FAILED,
        "104": ScenarioCheckState.CHANGED,
        "105": ScenarioCheckState.UNCHECKED,
        "106": ScenarioCheckState.NOT_MADE,
    }
    assert found["103"].left_out == "the expert does not survive it"
    assert "changed by hand" in found["104"].problems[0]
    assert found["106"].reason.startswith("fuser: ")


def test_the_content_of_the_page(page: str) -> None:
    shown = Reader(page).flat
    for fact in (
        "base suite demo", "interviewed qwen2.5-vl-7b", "fuser rules", "seed 11", "2 passed", "1 check failed",
        "1 changed since its check", "1 not checked", "1 not made", "2 not in the suite",
        "A truck drives ahead of the ego and brakes to a standstill, 20 to 40 m on.", "probes prediction",
        "the driver of the check survived 1 of 2 draws", "hits it in 4 of 4 draws", "collision: vehicle (s1) at 9.6 s",
        "failed by the threat 1 of 2", "world failed: the world died",
        "qwen2.5-vl-7b: 0.0 s, 0.0 m/s, prediction", "It goes on.", 'param route = "demo:101"',
        "mean driving score 80.0 over 2 scored", "the expert does not survive it", "not driven by the target",
    ):  # fmt: skip
        assert fact in shown, fact


def test_pictures_are_of_the_current_program(page: str) -> None:
    parts = {m[1]: m[2] for m in re.finditer(r'<article class="card" id="s-(\d+)"(.*?)</article>', page, re.S)}
    assert "as it acts" in parts["101"]
    assert "what the interview showed" in parts["104"]  # the check's picture is of another version
    for text in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page):
        data = base64.b64decode(text)
        assert len(data) <= 15_000 and Image.open(io.BytesIO(data)).size == (400, 225)


def test_hostile_text_is_escaped(page: str) -> None:
    shown = Reader(page)
    assert [tag for tag, _ in shown.tags if tag in ("script", "style", "iframe", "link", "form")] == ["style"]
    assert not [
        a for _, attrs in shown.tags for a in attrs if a.startswith("on") or a in ("srcdoc", "style", "formaction")
    ]
    addresses = [v for _, attrs in shown.tags for k, v in attrs.items() if k in ("src", "href", "xlink:href", "action")]
    assert all(str(v).startswith("data:image/jpeg;base64,") for v in addresses)
    assert shown.text.count(ATTACKS[0]) >= 8  # description, why, answers, agent, fuser, refusal ...
    assert "{{ 7*7 }}" in shown.text
    assert "[U+202E]gnp.x[U+2066][U+0000][U+200B]" in shown.text
    assert not re.search("[\x00\u202a-\u202e\u2066-\u2069]", page)


def test_a_run_of_another_suite_or_of_other_programs_is_refused(threats: Path, tmp_path: Path) -> None:
    foreign = run(tmp_path / "foreign", threats, "expert", [], suite="demo")
    with pytest.raises(Ad2Error, match=r"a run of suite demo, and .* is suite threat demo"):
        gallery_runs.read(threats, [foreign])
    old = run(tmp_path / "old", threats, "expert", [], suite_sha256="ab" * 32)
    with pytest.raises(Ad2Error, match=r"drove other programs .* abababababab there.*Drive them again"):
        gallery_runs.read(threats, [old])
    with pytest.raises(Ad2Error, match=r"no run\.json"):
        gallery_runs.read(threats, [tmp_path])


def test_outcomes_of_episodes() -> None:
    hit, free = record("1", score=60.0, hit=True), record("1", score=100.0, repetition=1)
    broken = record("1", score=0.0, end="agent failed", reason="no answer", repetition=2)
    both = gallery_runs.outcome([free, hit, broken])
    assert (both.status, both.failures, both.scored, both.score) == ("failed by the threat", 1, 2, 80.0)
    assert both.first == "collision: vehicle (s1) at 9.6 s"  # the first in time, not the first of the lists
    assert gallery_runs.outcome([broken]).score is None
    assert gallery_runs.outcome([broken]).first == "agent failed: no answer"
    slow = record("1", score=40.0, status="Failed - Agent timed out", score_route=40.0)
    assert gallery_runs.outcome([slow]).first == "Failed - Agent timed out, 40 % of the route"
    assert gallery_runs.outcome([slow]).status == "failed by itself"
    assert gallery_runs.outcome([free]).status == "survived"
    ended = record("1", score=40.0, status="Ended by its program")
    assert gallery_runs.outcome([ended]).status == "survived"


def test_failures_are_counted_by_cause(threats: Path, tmp_path: Path) -> None:
    """A collision with a body of the standard scenario is none of the threat's; over repetitions both add up."""
    threat, standard = (record("1", score=60.0, hit=True, body=body) for body in ("s1", "r1"))
    again = record("1", score=60.0, hit=True, body="r2", repetition=1)
    assert gallery_runs.outcome([standard]).status == "failed by the standard scenario"
    assert gallery_runs.outcome([threat, again]).status == "failed by both"
    records = [record("101", score=60.0, hit=True, body="r1"), record("102", score=60.0, hit=True)]
    gallery.write(threats, tmp_path / "page.html", [run(tmp_path / "run", threats, "a", records)])
    shown = Reader((tmp_path / "page.html").read_text("utf-8")).flat
    assert "1 failed by the threat" in shown and "1 failed by the standard scenario" in shown


def test_two_runs_of_one_agent_have_different_labels(threats: Path, tmp_path: Path) -> None:
    found = [run(tmp_path / name, threats, "expert", []) for name in ("a", "b")]
    assert [d.label for d in gallery_runs.read(threats, found)] == ["expert (a)", "expert (b)"]


def test_parameters_of_a_program() -> None:
    text = 'param route = "demo:101"\nparam ahead = Range(20, 40.5)   # m: where\nparam n = Uniform(1, 2)\nparam k=3\n'
    found = GalleryScenario(name="1", program=text, problems=[]).parameters
    assert found == [("ahead", "Range(20, 40.5)", "m: where"), ("n", "Uniform(1, 2)", ""), ("k", "3", "")]


def test_broken_pictures_and_transcripts_are_reported(tmp_path: Path) -> None:
    add(tmp_path, transcript(ROUTES[0], attempt(spec())), moment=False)
    (tmp_path / "frames" / "101_0.jpg").write_bytes(b"<svg onload=alert(1)>")
    assert "101_0.jpg cannot be read as a picture" in rendered(tmp_path)
    (tmp_path / "transcripts" / "101.json").write_text('{"route": 3}')
    scenario = gallery_read.read(tmp_path)[1][0]
    assert "its transcript cannot be read" in scenario.problems[0]
    assert str(tmp_path) not in rendered(tmp_path)


def test_a_program_with_an_unreadable_route_has_a_card_with_the_problem(tmp_path: Path) -> None:
    (tmp_path / "fine.scenic").write_text('param route = "demo:102"\n')
    (tmp_path / "two.scenic").write_text('param route = "demo:101"\nparam route = "demo:102"\n')
    fine, two = gallery_read.read(tmp_path)[1]
    assert (fine.route, fine.problems, two.route) == (("demo", "102"), [], None)
    assert "names two routes" in two.problems[0] and str(tmp_path) not in two.problems[0]


def test_a_folder_of_custom_programs(tmp_path: Path) -> None:
    (tmp_path / "mine.scenic").write_text('"""A dog\nruns <b>.\n\nMore."""\nparam route = "demo:102"\nego = new Car\n')
    reader = Reader(rendered(tmp_path))
    assert "A program without a specification." in reader.flat and "runs <b>." in reader.flat
    assert "not checked" in reader.flat
    assert "demo · 102" in reader.flat


def test_a_missing_folder_and_no_scenarios_are_errors(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="no such folder"):
        gallery_read.read(tmp_path / "absent")
    with pytest.raises(Ad2Error, match="no scenario programs"):
        gallery_read.read(tmp_path)
    (tmp_path / "suite.json").write_text('{"failed": [1]}')
    with pytest.raises(DataError, match="failed"):
        gallery_read.read(tmp_path)


def test_the_page_of_a_large_suite_is_small(tmp_path: Path) -> None:
    """A quarter of 220 scenarios, each with texts and pictures of maximum size."""
    for name in ("transcripts", "scenarios"):
        (tmp_path / name).mkdir()
    long, count = "<&'\"> " * 3000, 55
    for number in range(count):
        route = replace(ROUTES[0], id=str(1000 + number))
        tried = attempt(spec(description="<" * 600), exchanges=[exchange(reply=long)])
        kept = transcript(route, tried, (long, long, long))
        kept.write(tmp_path / "transcripts" / f"{route.id}.json")
        (tmp_path / "scenarios" / f"{route.id}.scenic").write_text("# " + "<" * 20_000)
        noise(tmp_path / "frames" / f"{route.id}_0.jpg", (1600, 900)) if number == 0 else _copy(tmp_path, route.id)
    assert len(rendered(tmp_path).encode()) < 12_000_000 * count / 220


@pytest.mark.parametrize("text", ["a" * 99, "<" * 99, "\u202e" * 99, "\u96fe" * 99, "\ud800" * 99, "a\r\nb" * 30])
def test_texts_are_cut_by_their_escaped_length(text: str) -> None:
    cut = gallery.clip(text, 40).split(" … (")[0]
    assert 35 <= len(html.escape(cut).encode()) <= 40
    assert gallery.clip("short\r\n", 40) == "short\n"


def _copy(folder: Path, name: str) -> None:
    shutil.copy(folder / "frames" / "1000_0.jpg", folder / "frames" / f"{name}_0.jpg")
