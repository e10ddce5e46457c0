"""`ad2 scenic new` and `check`: a program to start from, its parameters, actors and picture, mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from closedloop_plugin.cli.scenic.check import ScenicCheckOptions
from closedloop_plugin.cli.scenic.check import run as check
from closedloop_plugin.cli.scenic.new import ScenicNewOptions
from closedloop_plugin.cli.scenic.new import run as new
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.integration
def test_a_new_program_is_checked_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert new(ScenicNewOptions(name="mine")) == 0
    assert "ad2 scenic check mine.scenic" in capsys.readouterr().out
    assert check(ScenicCheckOptions(file=Path("mine.scenic"), set=("due=2.0",))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path / 'mine.scenic'}: compiles"
    assert lines[1] == "route       Demo106, 72 m, VanillaNonSignalizedTurn plays too (--config alone=true drops it)"
    assert any(line.startswith("parameter   ahead = ") and line.endswith(" of 14 to 20") for line in lines)
    assert "parameter   due = 2 of 1.8 to 2.4" in lines or "parameter   due = 2.0 of 1.8 to 2.4" in lines
    assert sum(line.startswith("actor       ") for line in lines) == 2
    assert lines[-1] == "picture     mine.png"
    with Image.open("mine.png") as picture:
        assert picture.width == 800 and picture.height > 700 and len(picture.getcolors(10**6) or ()) > 500


@pytest.mark.integration
def test_a_new_program_on_a_map_plays_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from closedloop_plugin.maps.base import RoadLayout
    from closedloop_plugin.maps.build import road_for
    from closedloop_plugin.scenarios.suites.lookup import routes_of

    road = road_for(routes_of("demo")[0], RoadLayout(), folder=tmp_path)
    assert new(ScenicNewOptions(name="street", map=road.file)) == 0
    assert check(ScenicCheckOptions(file=Path("street.scenic"), out=Path("seen/street.png"))) == 0
    out = capsys.readouterr().out
    assert "m of road ahead of the ego" in out and "actor       van" in out and "actor       pedestrian" in out
    assert Path("seen/street.png").is_file()


@pytest.mark.integration
def test_what_is_perhaps_not_meant_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    new(ScenicNewOptions(name="far"))
    file = Path("far.scenic")
    text = file.read_text().replace(
        "param ahead = Range(14, 20)", "param unused = Range(1, 2)\nparam ahead = Range(2800, 4000)"
    )
    file.write_text(text)
    assert check(ScenicCheckOptions(file=file)) == 0
    out = capsys.readouterr().out
    assert " m along the ego's path, which ends at 72 m, 3.2 m right of it" in out
    assert "note        param unused: the program never reads it" in out and "param ahead: the program" not in out


@pytest.mark.integration
def test_a_closed_road_is_named_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    new(ScenicNewOptions(name="wall"))
    file = Path("wall.scenic")
    file.write_text(
        file.read_text() + "for d in (-6, -3.5, 0, 3.5, 7):\n    new Wheeled at place(14, d), facing turned(14, 0)\n"
    )
    assert check(ScenicCheckOptions(file=file)) == 1
    assert "the scene leaves the ego no way: " in capsys.readouterr().out


@pytest.mark.integration
def test_a_mistake_is_one_line() -> None:
    Path("bad.scenic").write_text('param route = "demo:101"\nego = new Car at (\n')
    with pytest.raises(Ad2Error, match=r"bad.scenic, line 2: SyntaxError: '\(' is never closed"):
        check(ScenicCheckOptions(file=Path("bad.scenic")))
    new(ScenicNewOptions(name="mine"))
    with pytest.raises(Ad2Error, match=r"mine.scenic: has no param 'duu' to be set.*ahead, due, pace"):
        check(ScenicCheckOptions(file=Path("mine.scenic"), set=("duu=2",)))


def test_wrong_arguments_are_refused_and_nothing_is_overwritten() -> None:
    new(ScenicNewOptions(name="mine"))
    for options, message in (
        (ScenicNewOptions(name="mine"), "mine.scenic: exists already"),
        (ScenicNewOptions(name="a b"), "the name becomes that of the episode"),
        (ScenicNewOptions(name="no/where"), "no: no such folder"),
        (ScenicNewOptions(name="x", route="demo:9"), "no such route: 9"),
        (ScenicNewOptions(name="x", map=Path("no.xodr")), "--map no.xodr: no such OpenDRIVE file"),
        (ScenicNewOptions(name="x", map=Path("a.xodr"), route="demo:101"), "--route has its own map"),
    ):
        with pytest.raises(Ad2Error, match=message):
            new(options)
    assert not Path("x.scenic").exists()
    for wrong, message in (
        (ScenicCheckOptions(file=Path("no.scenic")), "no.scenic: no such program"),
        (ScenicCheckOptions(file=Path("mine.scenic"), map=Path("a.xodr")), "names its route, which has its own map"),
        (ScenicCheckOptions(file=Path("mine.scenic"), out=Path("x.jpg")), "must end in .png"),
    ):
        with pytest.raises(Ad2Error, match=message):
            check(wrong)
