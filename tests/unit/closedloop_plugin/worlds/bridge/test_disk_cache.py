"""Parsed programs and maps on disk: the same scene as without, for this text and these versions only."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.worlds.bridge import disk_cache, scenic_patches
from closedloop_plugin.worlds.bridge.compiled_scene import scenic
from lmms_eval_ad2.core.errors import Ad2Error

PROGRAM = "ego = new Object at (0, 0), with width 3, with requireVisible False\nrequire ego.width > 2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    scenic()
    monkeypatch.setattr(disk_cache, "_CACHES", {})
    monkeypatch.setattr(scenic_patches, "_KNOWN", {})
    disk_cache.use_disk_cache(tmp_path / "parsed")
    yield tmp_path / "parsed"


def forget() -> None:
    scenic_patches._KNOWN.clear()


def refuse_to_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenic.syntax.translator.parse_string", lambda *a, **k: pytest.fail("parsed again"))


@pytest.mark.integration
def test_a_program_is_parsed_once_for_all_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scenic_patches.translated(PROGRAM, "p.scenic")
    forget()
    refuse_to_parse(monkeypatch)
    again = scenic_patches.translated(PROGRAM, "p.scenic")
    assert again is not first and (again.code, again.digest) == (first.code, first.digest)
    assert [ast.dump(r) for r in again.requirements] == [ast.dump(r) for r in first.requirements]


@pytest.mark.integration
@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"": "exec"}, [], ""]', '[{"": "Module", "bogus": 1}, [], ""]'])
def test_a_damaged_program_is_parsed_again(folder: Path, content: str) -> None:
    first = scenic_patches.translated(PROGRAM, "p.scenic")
    (entry,) = (folder / "programs").iterdir()
    good = entry.read_text()
    entry.write_text(content)
    forget()
    assert scenic_patches.translated(PROGRAM, "p.scenic").code == first.code
    assert entry.read_text() == good


@pytest.mark.integration
def test_other_texts_and_versions_have_their_own_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenic_patches.translated(PROGRAM, "p.scenic")
    scenic_patches.translated(PROGRAM + "x = 1\n", "p.scenic")
    forget()
    monkeypatch.setattr(disk_cache, "_versions", lambda: b"newer")
    scenic_patches.translated(PROGRAM, "p.scenic")
    assert len(list((folder / "programs").iterdir())) == 3


@pytest.mark.integration
def test_a_constant_that_json_lacks_is_not_cached(folder: Path) -> None:
    assert scenic_patches.translated("x = b'bytes'\n", "p.scenic").code
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
    monkeypatch.setattr(roads.Network, "fromOpenDrive", lambda path, **_: parsed.append(path) or parse(path))

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
