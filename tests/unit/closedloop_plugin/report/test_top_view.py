"""Top view: contents, heading, names of infractions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.closedloop.rides import pixels, ride

from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.report.top_view import NAMES, box, heading, top_view
from closedloop_plugin.report.track_log import EpisodeTrack, parse_track

WRONG = (194, 24, 91)


def test_the_top_view_shows_road_route_and_infractions(track: EpisodeTrack, tmp_path: Path) -> None:
    lane = np.array([(-20, -1.75), (130, -1.75), (130, 1.75), (-20, 1.75)])
    drawn = top_view(track, tmp_path / "deep" / "a.png", [("driving", lane)])
    bare = top_view(replace(track, places=(), route=(), stop_lines=()), tmp_path / "b.png")
    assert pixels(drawn, WRONG) > 300 > pixels(bare, WRONG)
    assert pixels(drawn, (212, 214, 217), 2) > 5000  # the lane
    width, height = Image.open(drawn).size
    assert 500 < width < 2000 and 300 < height < 2000


def test_the_same_track_gives_the_same_picture(track: EpisodeTrack, tmp_path: Path) -> None:
    files = [top_view(track, tmp_path / f"{i}.png").read_bytes() for i in range(2)]
    assert files[0] == files[1]


@pytest.mark.parametrize("ticks", [1, 2])
def test_a_top_view_of_a_very_short_episode(ticks: int, tmp_path: Path) -> None:
    log, _, _ = ride(ticks=ticks)
    assert top_view(parse_track(log.to_json()), tmp_path / "x.png").is_file()


def test_every_infraction_has_a_name() -> None:
    assert set(NAMES) == set(INFRACTIONS) - {"min_speed_infractions"}


def test_the_heading_names_the_episode_and_its_result(track: EpisodeTrack) -> None:
    first, second = heading(track).splitlines()
    assert first == "PedestrianCrossing, route 17 repetition 0 (Town05 demo fake), made up"
    assert second.startswith("Completed, ") and "route 100 × 0.258" in second
    assert heading(replace(track, result={})).endswith(" s")


def test_a_box_rotated_by_90_degrees() -> None:
    assert np.allclose(box((0.0, 10.0, 5.0, np.pi / 2), 4.0, 2.0), [(9, 7), (11, 7), (11, 3), (9, 3)])
