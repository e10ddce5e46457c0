"""The gallery's parts: parameters, small pictures, broken and hostile files, texts that are cut, a large suite."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from support.threats.gallery import EVIL, ROUTES, Reader, add, attempt, exchange, noise, scene, spec, transcript

from closedloop_plugin.threats.gallery import page as gallery
from closedloop_plugin.threats.gallery import scenarios as gallery_read
from closedloop_plugin.threats.gallery.page import clip
from closedloop_plugin.threats.gallery.pictures import RangeMark, range_bar, thumbnail, top_view
from closedloop_plugin.threats.gallery.scenarios import parameters
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def test_parameters_of_a_program() -> None:
    free = "param ahead = Range(20, 40.5)   # m: where\n"
    text = f'param route = "demo:101"\n{free}param n = Uniform(1, 2)\nparam fixed=3\n'
    found = {p.name: p for p in parameters(text)}
    assert list(found) == ["ahead", "n", "fixed"]
    assert (found["ahead"].low, found["ahead"].high, found["ahead"].note) == (20.0, 40.5, "m: where")
    assert (found["n"].low, found["n"].value) == (None, "Uniform(1, 2)")


def test_a_range_bar_marks_the_sampled_values() -> None:
    bar = range_bar(10.0, 20.0, [RangeMark(15.0, "expert"), RangeMark(99.0, "failed"), RangeMark(10.0, "survived")])
    assert 'class="expert" d="M70.0 2v12"' in bar
    assert 'class="failed" d="M131.0 5' in bar  # beyond the range: at its end
    assert 'class="survived" cx="6.0"' in bar
    assert range_bar(3.0, 3.0, []) == ""


def test_the_ego_drives_upward_in_the_top_view(tmp_path: Path) -> None:
    scene(tmp_path, "a_rep0")
    svg = top_view(tmp_path / "a_rep0.json")
    place = re.compile(r'class="(\w+)" transform="translate\(([\d.-]+) ([\d.-]+)\) rotate\(([\d-]+)\)"')
    found = {m[1]: (float(m[2]), float(m[3]), int(m[4])) for m in place.finditer(svg)}
    scale = 200.0 / (28.0 + 12.0 + 2.0)  # 42 m of road
    assert found["ego"][0] == pytest.approx(62.0, abs=0.1)
    assert found["ego"][1] - found["threat"][1] == pytest.approx(20 * scale, abs=0.2)  # ahead is up
    assert found["cover"][0] - found["ego"][0] == pytest.approx(4 * scale, abs=0.2)  # east is right of a northbound ego
    assert abs(found["other"][2]) == 180
    assert ">10 m<" in svg


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"ego": {}}', '{"ego": {"x": 1e999, "y": 0, "yaw": 0}, "actors": []}',
        '{"ego": {"x": true, "y": 0, "yaw": 0}, "actors": []}', "[" * 99999,
    ],
)  # fmt: skip
def test_a_broken_moment_has_no_top_view(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert top_view(tmp_path / "a.json") == ""


def test_hostile_kinds_are_not_written_as_markup(tmp_path: Path) -> None:
    body = {"kind": EVIL, "role": EVIL, "x": 1, "y": 2, "yaw": 0, "length": 4, "width": 2}
    scene(tmp_path, "a", ego=body, actors=[body, {**body, "role": "scenario"}])
    assert "owned" not in top_view(tmp_path / "a.json")


def test_broken_pictures_and_transcripts_are_reported(tmp_path: Path) -> None:
    add(tmp_path, transcript(ROUTES[0], attempt(spec())))
    (tmp_path / "frames" / "101_0.jpg").write_bytes(b"<svg onload=alert(1)>")
    (tmp_path / "transcripts" / "101.json").write_text('{"route": 3}')
    assert thumbnail(tmp_path, "101", None).caption == "101_0.jpg cannot be read as a picture"
    scenario = gallery_read.read(tmp_path).scenarios[0]
    assert "its transcript cannot be read" in scenario.problems[0]
    assert str(tmp_path) not in gallery.page(gallery_read.read(tmp_path))


def test_a_program_with_an_unreadable_route_has_a_card_with_the_problem(tmp_path: Path) -> None:
    (tmp_path / "fine.scenic").write_text('param route = "demo:102"\n')
    (tmp_path / "two.scenic").write_text('param route = "demo:101"\nparam route = "demo:102"\n')
    fine, two = gallery_read.read(tmp_path).scenarios
    assert (fine.route, fine.problems, two.route) == (("demo", "102"), (), None)
    assert "names two routes" in two.problems[0] and str(tmp_path) not in two.problems[0]


def test_the_survivor_is_the_agent_that_drove_the_check(tmp_path: Path) -> None:
    text = 'param route = "demo:102"\n'
    (tmp_path / "mine.scenic").write_text(text)
    entry = {
        "passed": True, "compiles": True, "runs": True, "acts": True, "tries": 2, "survived": 1,
        "program_sha256": sha256(text.encode()).hexdigest(), "judge": "steer only (privileged)",
    }  # fmt: skip
    (tmp_path / "check.json").write_text(json.dumps({"mine": entry}))
    page_text = Reader(gallery.page(gallery_read.read(tmp_path))).flat
    assert "steer only survived 1 of 2 draws" in page_text and "expert survived" not in page_text


def test_a_folder_of_custom_programs(tmp_path: Path) -> None:
    (tmp_path / "mine.scenic").write_text('"""A dog\nruns <b>.\n\nMore."""\nparam route = "demo:102"\nego = new Car\n')
    reader = Reader(gallery.page(gallery_read.read(tmp_path)))
    assert "A dog runs <b>." in reader.flat
    assert "not checked" in reader.flat
    assert "demo 102" in reader.flat


def test_a_missing_folder_and_no_scenarios_are_errors(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="no such folder"):
        gallery_read.read(tmp_path / "absent")
    with pytest.raises(Ad2Error, match="no scenario programs"):
        gallery_read.read(tmp_path)
    (tmp_path / "suite.json").write_text('{"failed": [1]}')
    with pytest.raises(DataError, match="failed"):
        gallery_read.read(tmp_path)


def test_the_page_of_a_large_suite_is_small_and_quick(tmp_path: Path) -> None:
    """A quarter of 220 scenarios, each with texts and pictures of maximum size."""
    long, count = "<&'\"> " * 3000, 55
    for number in range(count):
        route = replace(ROUTES[0], id=str(1000 + number))
        tried = attempt(spec(description="<" * 600), exchanges=[exchange(reply=long)])
        kept = transcript(route, tried, (long, long, long))
        kept.write(_created(tmp_path / "transcripts") / f"{route.id}.json")
        (_created(tmp_path / "scenarios") / f"{route.id}.scenic").write_text("# " + "<" * 20_000)
        noise(tmp_path / "frames" / f"{route.id}_0.jpg", (1600, 900)) if number == 0 else _copy(tmp_path, route.id)
    start = time.process_time()  # independent of other processes on the machine
    text = gallery.page(gallery_read.read(tmp_path))
    assert len(text.encode()) < 12_000_000 * count / 220
    assert time.process_time() - start < 15


@pytest.mark.parametrize("text", ["a" * 99, "<" * 99, "\u202e" * 99, "\u96fe" * 99, "\ud800" * 99, "a\r\nb" * 30])
def test_texts_are_cut_by_their_escaped_length(text: str) -> None:
    cut = clip(text, 40).split(" … (")[0]
    assert 35 <= len(html.escape(cut).encode()) <= 40
    assert clip("short\r\n", 40) == "short\n"


def _created(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _copy(folder: Path, name: str) -> None:
    shutil.copy(folder / "frames" / "1000_0.jpg", folder / "frames" / f"{name}_0.jpg")
