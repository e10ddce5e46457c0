"""Changes of the scenic package: translations and maps are remembered, by text and version, and are those of Scenic."""

from __future__ import annotations

import ast
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import EpisodeFault
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.runner.faults import fault_of, is_certain
from closedloop_plugin.worlds.bridge import scenic_patches
from closedloop_plugin.worlds.bridge.compiled_scene import scenic
from closedloop_plugin.worlds.bridge.scenic_patches import translated
from lmms_eval_ad2.core.errors import Ad2Error

BOXES = """
param speed = Range(1, 9)
class Box(Object):
    width: 2
    length: self.width * 2
ego = new Box at (0, 0), facing Range(-5, 5) deg
other = new Box at (Range(5, 9), 4), with width 3
require (distance from ego to other) < 8
"""


@pytest.fixture
def translator() -> Any:
    scenic()
    import scenic.syntax.translator as translator

    return translator


def sampled(scenic_module: Any, program: Path, seed: int) -> tuple[Any, ...]:
    """What a scene of the program consists of."""
    random.seed(seed)
    np.random.seed(seed)
    scene, _ = scenic_module.scenarioFromFile(str(program), mode2D=True).generate(maxIterations=500)
    return (
        scene.params["speed"],
        [(o.position.x, o.position.y, o.heading, o.width, o.length, type(o).__name__) for o in scene.objects],
    )


@pytest.mark.integration
def test_a_remembered_translation_gives_the_same_scene(
    tmp_path: Path, translator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "boxes.scenic"
    program.write_text(BOXES)
    first = sampled(scenic(), program, seed=4)
    monkeypatch.setattr(translator, "parse_string", lambda *a, **k: pytest.fail("parsed again"))
    assert sampled(scenic(), program, seed=4) == first
    assert sampled(scenic(), program, seed=5) != first


@pytest.mark.integration
def test_a_changed_text_is_translated_again(tmp_path: Path) -> None:
    program = tmp_path / "boxes.scenic"
    program.write_text(BOXES)
    assert sampled(scenic(), program, seed=4)[1][1][3] == 3
    program.write_text(BOXES.replace("width 3", "width 1"))
    assert sampled(scenic(), program, seed=4)[1][1][3] == 1


@pytest.mark.integration
def test_the_translation_is_scenics(translator: Any) -> None:
    """Of the same text, by Scenic's own compileStream: code but for the lines, requirements and hash."""
    from scenic.syntax.translator import CompileOptions

    original = translator.compileStream.__wrapped__
    namespace: dict[str, Any] = {}
    code, _ = original(io.BytesIO(BOXES.encode()), namespace, CompileOptions(mode2D=True), "a.scenic")
    ours = translated(BOXES, "a.scenic")
    assert (ours.code.co_code, ours.code.co_names, ours.digest) == (code.co_code, code.co_names, namespace["_astHash"])
    assert len(ours.requirements) == len(namespace["_scenario"]._requirementSyntax) == 1


@pytest.mark.integration
def test_errors_of_syntax_keep_their_place(tmp_path: Path) -> None:
    from scenic.core.errors import ScenicSyntaxError

    with pytest.raises(ScenicSyntaxError) as caught:
        translated("ego = new Object\nego = = 3\n", str(tmp_path / "wrong.scenic"))
    assert caught.value.lineno == 2


PROGRAM = "ego = new Object at (0, 0), with width 3, with requireVisible False\nrequire ego.width > 2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    scenic()
    monkeypatch.setattr(scenic_patches, "_CACHES", {})
    monkeypatch.setattr(scenic_patches, "_KNOWN", {})
    scenic_patches.use_disk_cache(tmp_path / "parsed")
    yield tmp_path / "parsed"


def forget() -> None:
    scenic_patches._KNOWN.clear()


def refuse_to_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenic.syntax.translator.parse_string", lambda *a, **k: pytest.fail("parsed again"))


@pytest.mark.integration
def test_a_program_is_parsed_once_for_all_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = translated(PROGRAM, "p.scenic")
    forget()
    refuse_to_parse(monkeypatch)
    again = translated(PROGRAM, "p.scenic")
    assert again is not first and (again.code, again.digest) == (first.code, first.digest)
    assert [ast.dump(r) for r in again.requirements] == [ast.dump(r) for r in first.requirements]


@pytest.mark.integration
@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"": "exec"}, [], ""]', '[{"": "Module", "bogus": 1}, [], ""]'])
def test_a_damaged_program_is_parsed_again(folder: Path, content: str) -> None:
    first = translated(PROGRAM, "p.scenic")
    (entry,) = (folder / "programs").iterdir()
    good = entry.read_text()
    entry.write_text(content)
    forget()
    assert translated(PROGRAM, "p.scenic").code == first.code
    assert entry.read_text() == good


@pytest.mark.integration
def test_other_texts_and_versions_have_their_own_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translated(PROGRAM, "p.scenic")
    translated(PROGRAM + "x = 1\n", "p.scenic")
    forget()
    monkeypatch.setattr(scenic_patches, "_versions", lambda: b"newer")
    translated(PROGRAM, "p.scenic")
    assert len(list((folder / "programs").iterdir())) == 3


@pytest.mark.integration
def test_a_constant_that_json_lacks_is_not_cached(folder: Path) -> None:
    assert translated("x = b'bytes'\n", "p.scenic").code
    assert not (folder / "programs").exists() or not list((folder / "programs").iterdir())


def test_trees_survive_json() -> None:
    source = "def f(a, *, b=(1, -2.5e-300)):\n    global c\n    return {a: [True, None, 'ü', f'{b!r:>{a}}']}\n"
    tree = ast.parse(source)
    back = scenic_patches._decoded(json.loads(json.dumps(scenic_patches._encoded(tree))))
    assert ast.dump(back, include_attributes=True) == ast.dump(tree, include_attributes=True)
    assert compile(back, "f", "exec") == compile(tree, "f", "exec")


@pytest.mark.integration
def test_a_map_is_cached_on_its_second_use(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import scenic.domains.driving.roads as roads

    points = tuple((2.0 * i, 0.0) for i in range(50))
    file = road_for(Route("1", "T", points, "", "", (20.0, 0.0, 0.0)), RoadLayout(), folder=tmp_path).file
    parsed: list[Any] = []
    parse = roads.Network.fromOpenDrive

    def counted(path: Any, **_: Any) -> Any:
        parsed.append(path)
        return parse(path)

    monkeypatch.setattr(roads.Network, "fromOpenDrive", counted)

    def lanes() -> list[tuple[str, bytes, Any]]:
        network = roads.Network.fromFile(str(file), useCache=False, writeCache=False)
        return [(lane.uid, lane.polygon.wkb, lane.centerline.points) for lane in network.lanes]

    first = lanes()
    assert [entry.stat().st_size for entry in (folder / "networks").iterdir()] == [0]
    assert lanes() == first and len(parsed) == 2
    (entry,) = (folder / "networks").iterdir()
    assert lanes() == first and len(parsed) == 2
    entry.write_bytes(entry.read_bytes()[:-100])
    assert lanes() == first and len(parsed) == 3, "a damaged entry is parsed and written again"
    assert lanes() == first and len(parsed) == 3
    (folder / "networks").chmod(0o755)
    assert lanes() == first and len(parsed) == 4, "others could have written it"


def test_a_map_beyond_the_bounds_does_not_reach_scenic(tmp_path: Path) -> None:
    file = tmp_path / "far.xodr"
    file.write_text('<OpenDRIVE><road id="1" length="1e9"/></OpenDRIVE>')
    with pytest.raises(
        Ad2Error, match=r"far\.xodr: Scenic's OpenDRIVE reader cannot use this map: road 1: <road> length is 1e9"
    ):
        scenic_patches._network(None, file, lambda *a, **k: pytest.fail("parsed"))


LINE = '<planView><geometry s="0" x="0" y="0" hdg="0" length="100"><line/></geometry></planView>'
LANE = (
    '<lanes><laneSection s="0"><center><lane id="0" type="none"/></center><right><lane id="-1" type="driving">'
    '<width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane></right></laneSection></lanes>'
)
LINK = '<link><successor elementType="road" elementId="77" contactPoint="start"/></link>'
ROAD = '<OpenDRIVE><road name="a" length="100" id="1" junction="-1">{}</road></OpenDRIVE>'


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<OpenDRIVE/>", "no driving lane in it"),
        (ROAD.format(LANE), "AttributeError"),
        (ROAD.format(LINE.replace("<line/>", "<weird/>") + LANE), "AttributeError"),
        (ROAD.format(f"{LINK}{LINE}{LANE}"), "KeyError: 77"),
    ],
)
def test_a_map_that_scenic_cannot_read_is_at_fault(tmp_path: Path, text: str, problem: str) -> None:
    from scenic.domains.driving.roads import Network

    file = tmp_path / "town.xodr"
    file.write_text(text)
    with pytest.raises(MapError, match=f"town.xodr: Scenic's OpenDRIVE reader cannot use this map: {problem}") as found:
        scenic_patches._network(Network, file, Network.fromFile.__func__)
    assert (fault_of(found.value), is_certain(found.value)) == (EpisodeFault.MAP, True)
