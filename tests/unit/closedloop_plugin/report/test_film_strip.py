"""Film strip: contents, order and selection of its frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.closedloop.rides import picture, pixels

from closedloop_plugin.report.film_strip import PAPER, captioned, choose, film_strip, font, wrapped
from closedloop_plugin.report.track_log import EpisodeTrack


def test_a_film_strip_is_a_page_of_frames(track: EpisodeTrack, tmp_path: Path) -> None:
    shots = [(m.t, picture(m.tick), m.words()) for m in track.moments[:6]]
    page = film_strip(shots, tmp_path / "x" / "strip.png", "Title", columns=4, width=200)
    width, height = Image.open(page).size
    assert width == 12 + 4 * (200 + 12)
    assert pixels(page, (150, 190, 230)) == pytest.approx(6 * 200 * 56, rel=0.05)  # six skies of 200 x 56 px
    assert height > 2 * 112


def test_frames_are_in_order_of_time(tmp_path: Path) -> None:
    red, blue = (np.full((40, 60, 3), c, np.uint8) for c in ((255, 0, 0), (0, 0, 255)))
    page = np.asarray(Image.open(film_strip([(2.0, blue, ""), (1.0, red, "")], tmp_path / "s.png", width=60)))
    assert tuple(page[20, 20]) == (255, 0, 0) and tuple(page[20, 20 + 72]) == (0, 0, 255)


def test_a_film_strip_needs_a_frame(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="frame"):
        film_strip([], tmp_path / "s.png")


@pytest.mark.parametrize(
    ("along", "most", "always", "chosen"),
    [
        ([0, 1, 2], 5, [], [0, 1, 2]),
        (range(9), 5, [], [0, 2, 4, 6, 8]),
        (range(100), 2, [], [0, 99]),
        (range(7), 1, [], [6]),
        ([], 3, [], []),
        (range(9), 3, [5], [0, 5, 8]),
        (range(9), 4, [5, 5, 6, 7], [0, 5, 6, 8]),  # at most half of the frames
        ([0, 0, 0, 0, 1, 2, 3, 4], 4, [], [0, 4, 5, 7]),  # the pause is not repeated
    ],
)
def test_frames_are_chosen_evenly(along, most: int, always: list[int], chosen: list[int]) -> None:
    assert choose(list(along), most, always) == chosen


@pytest.mark.parametrize("text", ["", "a b c " * 200, "x" * 2000, "one\n\ntwo", "\u4eca\u65e5" * 300])
def test_text_is_wrapped_to_its_box(text: str) -> None:
    face = font(13)
    lines = wrapped(text, 150, face, 4)
    assert len(lines) <= 4 and all(face.getlength(line) <= 150 for line in lines)
    assert captioned(picture(0), text, 4).shape == captioned(picture(0), "", 4).shape


def test_a_caption_is_below_the_picture() -> None:
    page = captioned(picture(0), "42 km/h", 2)
    assert np.array_equal(page[:180], picture(0))
    below = page[180:].reshape(-1, 3)
    assert tuple(below[0]) == PAPER and (below < 100).any()
