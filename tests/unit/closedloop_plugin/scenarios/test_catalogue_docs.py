"""docs/scenarios.md agrees with the catalogue, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import select
from closedloop_plugin.core.state import Control
from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

TEXT = (Path(__file__).parents[4] / "docs" / "scenarios.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| `(\w+\.scenic)` \| (.+?) \| (.+?) \|$", re.M)


def test_the_table_names_every_type_with_its_program_and_abilities():
    shown = {name: (summary, program, abilities) for name, summary, program, _, abilities in ROW.findall(TEXT)}
    assert shown == {
        t.name: (t.summary, t.program.name, ", ".join(a.replace("_", " ") for a in t.abilities))
        for t in CATALOGUE.values()
    }
    assert len(shown) == 44


@pytest.mark.integration
def test_the_example_compiles_and_its_actor_acts(tmp_path: Path):
    example = re.search(r"```\n(\"\"\"A van.*?)```", TEXT, re.S)
    assert example
    program = tmp_path / "crossing.scenic"
    program.write_text(example.group(1), "utf-8")
    (route,) = select(suite("demo").routes, ["101"])
    map_file = road_for(route, CATALOGUE["ParkedObstacle"].layout, folder=tmp_path).file
    world = EmbeddedWorld(tmp_path)
    try:
        world.reset(EpisodeSetup(None, 1, program=program, town=map_file))
        for _ in range(200):  # 10 s: the ego drives towards the van
            world.step(Control(throttle=0.5))
        assert "act" in [name for _, name in world.truth().events]
    finally:
        world.close()
