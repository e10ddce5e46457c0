"""The gallery page: content, hostile texts in a real browser, and the size of a large suite."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
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
    passed,
    record,
    run,
    spec,
    transcript,
)  # fmt: skip

from closedloop_plugin.threats.gallery import page as gallery
from closedloop_plugin.threats.gallery import runs as gallery_runs
from closedloop_plugin.threats.gallery import scenarios as gallery_read
from closedloop_plugin.threats.gallery.scenarios import ScenarioCheckState
from closedloop_plugin.threats.transcript import ScenarioVerdict
from lmms_eval_ad2.core.errors import Ad2Error


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
    found = {s.name: s for s in gallery_read.read(threats).scenarios}
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
    html = Reader(page)
    for fact in (
        "base suite demo", "interviewed qwen2.5-vl-7b", "fuser rules", "seed 11", "5 scenarios made, of 6",
        "2 pass the check (66.7 % of 3 checked)", "1 left out of the suite", "1 not made", "1 attempts refused",
        "A truck drives ahead of the ego and brakes to a standstill, 20 to 40 m on.", "probes prediction",
        "expert survived 1 of 2 draws", "hits it in 4 of 4 draws", "20 to 40", "collision: vehicle (s1) at 9.6 s",
        "failed by the threat 1 of 2", "world failed: the world died", "embedded 0.1.0, profile bench2advlm, seed 0",
        "Prediction: asked of qwen2.5-vl-7b", "It goes on.", 'param route = "demo:101"', "as it acts, 4.2 s",
        "mean driving score 80.0 over 2 scored", "103 left out: the expert does not survive it",
    ):  # fmt: skip
        assert fact in html.flat, fact
    assert html.card("102")["data-failed"] == "0 1"
    assert html.card("101")["data-failed"] == "1"
    assert html.card("101")["data-scores"] == "100.000 75.000"
    assert html.card("104")["data-scores"] == "- 90.000"  # a failed world has no score
    assert html.card("105")["data-driven"] == ""
    assert html.card("102")["data-adversary"] == "bus"


def test_further_actors_and_conditions_are_tags() -> None:
    follower = {
        "adversary": "van", "behaviour": "tailgate", "place": {"side": "behind", "lane": "own", "ahead_m": 20},
        "trigger": {"value": 2}, "road": "open",
    }  # fmt: skip
    shown = spec(further=[follower], perception={"sun_glare": 50, "contradictory_sign": "no_entry"})
    assert gallery._more(shown) == ["and tailgate: van", "sun glare", "sign: no entry"]
    assert gallery._more(spec()) == []


def test_pictures_are_of_the_current_program(page: str) -> None:
    parts = {m[1]: m[2] for m in re.finditer(r'<article class="card" id="s-(\d+)"(.*?)</article>', page, re.S)}
    assert "as it acts" in parts["101"]
    assert 'class="top"' in parts["101"]
    assert "what the interview showed" in parts["104"]  # the check's picture is of another version
    assert 'class="top"' not in parts["104"]
    for text in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page):
        data = base64.b64decode(text)
        assert len(data) <= 15_000
        assert Image.open(io.BytesIO(data)).size in ((400, 225), (240, 135))  # of the card, of a moment


def test_hostile_text_is_escaped(page: str) -> None:
    html = Reader(page)
    assert [tag for tag, _ in html.tags if tag in ("script", "style", "iframe", "link", "form")] == ["style", "script"]
    assert not [
        a for _, attrs in html.tags for a in attrs if a.startswith("on") or a in ("srcdoc", "style", "formaction")
    ]
    addresses = [v for _, attrs in html.tags for k, v in attrs.items() if k in ("src", "href", "xlink:href", "action")]
    assert all(str(v).startswith(("data:image/jpeg;base64,", "#s-")) for v in addresses)
    assert html.text.count(ATTACKS[0]) >= 10  # description, why, question, answers, reply, problem, agent, fuser ...
    assert "{{ 7*7 }}" in html.text
    assert "[U+202E]gnp.x[U+2066][U+0000][U+200B]" in html.text
    assert not re.search("[\x00\u202a-\u202e\u2066-\u2069]", page)


# -- in a real browser ---------------------------------------------------------------------------------------------

DRIVER = """<script>
const shown = () => [...document.querySelectorAll(".card")].filter((c) => !c.hidden).map((c) => c.id.slice(2));
const set = (e, value) => { e.value = value; e.dispatchEvent(new Event("input")); return shown(); };
const once = (e, value) => { const found = set(e, value); set(e, ""); return found; };
const pick = (key, value) => once(document.querySelector("[data-filter=" + key + "]"), value);
const one = (id, value) => once(document.getElementById(id), value);
const found = {
  bus: pick("adversary", "bus"), perception: pick("weakness", "perception"), refused: pick("state", "not made"),
  text: one("text", "BUS standstill"), by0: one("failed", "0"), all: one("failed", "all"), some: one("failed", "some"),
  none: one("failed", "none"), sorted: one("sort", "1+"), back: shown(),
};
document.querySelector("#s-101 .sentence").click();
found.opened = document.querySelector("#s-101 details").open;
found.loading = [...document.images].every((i) => i.loading === "lazy");
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
found.ground = getComputedStyle(document.body).backgroundColor;
document.body.dataset.found = JSON.stringify(found);
</script>"""


def browse(text: str, folder: Path, *options: str) -> str:
    """The page's elements after its scripts ran, from Debian's chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no chromium: apt-get install chromium")
        pytest.skip("no chromium here")
    file = folder / "page.html"
    file.write_text(text, "utf-8")
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *options,
             f"--user-data-dir={folder / 'profile'}", "--timeout=100000", "--dump-dom", f"file://{file}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "<html" in done.stdout, done.stderr[-2000:]
    return done.stdout


def title(dom: str) -> str:
    found = re.search(r"<title>(.*?)</title>", dom, re.S)
    return found[1] if found else ""


@pytest.mark.integration
def test_nothing_hostile_runs_in_a_browser(page: str, tmp_path: Path) -> None:
    dom = browse(page, tmp_path)
    assert title(dom) == "Threat gallery: threat demo"
    assert re.search(r'id="shown"[^>]*>6 of 6<', dom)  # the page's own script ran, so its hash is right


@pytest.mark.integration
def test_the_policy_stops_what_escaping_would_miss(page: str, tmp_path: Path) -> None:
    raw = page.replace("</main>", "".join(ATTACKS[:3]) + "</main>")
    assert title(browse(raw, tmp_path)) == "Threat gallery: threat demo"


@pytest.mark.integration
def test_filters_sorting_and_opening(page: str, tmp_path: Path) -> None:
    """Without the policy, so that the test's script runs; an unescaped attack shows that the title would change."""
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    free = free.replace("</body>", DRIVER + "<img src=x onerror=\"document.title='owned'\"></body>")
    dom = browse(free, tmp_path, "--window-size=400,900", "--blink-settings=preferredColorScheme=0")
    assert title(dom) == "owned"
    found_json = next(attrs["data-found"] for tag, attrs in Reader(dom).tags if tag == "body")
    found = json.loads(str(found_json))
    assert found["bus"] == ["102"]
    assert found["perception"] == ["104"]
    assert found["refused"] == ["106"]
    assert found["text"] == ["102"]
    assert (found["by0"], found["all"], found["some"]) == (["102"], ["102"], ["101"])
    assert found["none"] == ["104"]  # driven by the second without a failure; 105 was never driven
    assert found["sorted"] == ["102", "101", "104", "103", "105", "106"]
    assert found["back"] == ["101", "102", "103", "104", "105", "106"]
    assert found["opened"]
    assert found["loading"]
    assert found["overflow"] <= 0
    assert found["ground"] == "rgb(20, 23, 28)"  # dark mode


# -- runs ----------------------------------------------------------------------------------------------------------


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
    html = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert html.card("101")["data-failed"] == "" and html.card("102")["data-failed"] == "0"
    assert "1 failed by the threat" in html.flat and "1 failed by the standard scenario" in html.flat
    assert "Failed by the threat, by behaviour" in html.flat


def test_two_runs_of_one_agent_have_different_labels(threats: Path, tmp_path: Path) -> None:
    found = [run(tmp_path / name, threats, "expert", []) for name in ("a", "b")]
    assert [d.label for d in gallery_runs.read(threats, found)] == ["expert (a)", "expert (b)"]
