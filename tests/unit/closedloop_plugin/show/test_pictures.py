"""Top view, film strip, captions and films: contents, complete files, sizes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.closedloop.rides import model_answer, picture, ride, road, truth

from closedloop_plugin.core.record import INFRACTIONS
from closedloop_plugin.core.state import Control
from closedloop_plugin.show import video
from closedloop_plugin.show.caption import PAPER, captioned, font, wrapped
from closedloop_plugin.show.episode_track import EpisodeTrack, parse_track, progress
from closedloop_plugin.show.film_strip import choose, film_strip
from closedloop_plugin.show.top_view import NAMES, box, heading, top_view
from closedloop_plugin.show.video import VideoRecorder, writer
from lmms_eval_ad2.errors import Ad2Error, MissingExtra

WRONG = (194, 24, 91)


@pytest.fixture(scope="module")
def track() -> EpisodeTrack:
    log, rec, _ = ride()
    return parse_track(log.to_json(road(), rec))


def pixels(file: Path, colour: tuple[int, int, int], near: int = 12) -> int:
    image = np.asarray(Image.open(file).convert("RGB")).astype(int)
    return int((np.abs(image - colour).max(axis=2) <= near).sum())


# -- top view --------------------------------------------------------------------------------------------------------
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


# -- film strip ------------------------------------------------------------------------------------------------------
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


def test_a_pause_weighs_half_of_a_drive(track: EpisodeTrack) -> None:
    """10 s stationary, then 10 s and 50 m: 0, 0.5, 2."""
    moments = [replace(track.moments[0], t=t, x=x, y=0.0) for t, x in ((5.0, 1.0), (15.0, 1.0), (25.0, 51.0))]
    assert progress(moments) == [0.0, 0.5, 2.0]
    assert progress(moments[:1]) == [0.0]


def test_the_caption_of_a_moment(track: EpisodeTrack) -> None:
    lines = track.moments[0].words().splitlines()
    assert lines[0] == "0.0 s, 1 km/h" and lines[1] == "steer +0.00, throttle 0.50, brake 0.00"
    assert lines[2].startswith("action: The light ahead is red") and lines[3].startswith('cng: {"throttle"')


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


# -- films -----------------------------------------------------------------------------------------------------------
def length(file: Path) -> tuple[int, tuple[int, int], float]:
    """Frames, size, seconds, as OpenCV reads them."""
    cv2 = pytest.importorskip("cv2")
    film = cv2.VideoCapture(str(file))
    frames = []
    while (got := film.read())[0]:
        frames.append(got[1])
    return len(frames), frames[0].shape[1::-1], len(frames) / film.get(cv2.CAP_PROP_FPS)


@dataclass
class Tick:
    """The fields of runner.episode.EpisodeTick."""

    truth: Any
    observation: Any
    response: Any = None
    control: Control = field(default_factory=lambda: Control(0.1, 0.5, 0.0))


def tick(n: int) -> Tick:
    interpreted = SimpleNamespace(raw=model_answer(n)["raw"], mode="cng", reason=None)
    decision = SimpleNamespace(texts=model_answer(n)["texts"], error=None)
    response = SimpleNamespace(decision=decision, interpreted=interpreted)
    view = SimpleNamespace(images=lambda name: picture(n, 321, 181) if name == "front" else None)
    return Tick(truth(n), view, response if n % 10 == 0 else None)


def test_a_film_plays_in_real_time(tmp_path: Path) -> None:
    pytest.importorskip("av")
    film = VideoRecorder(tmp_path / "frames", "front", SimpleNamespace(key="17_rep0"))
    for n in range(61):
        film(tick(n))
    assert not (tmp_path / "frames" / "17_rep0.mp4").exists()  # not before it is complete
    film.close(ride(ticks=2)[1])
    frames, size, seconds = length(tmp_path / "frames" / "17_rep0.mp4")
    assert frames == 31 and seconds == pytest.approx(3.1)
    assert size[0] == 320 and size[1] > 181  # even, and with its caption
    assert [f.name for f in (tmp_path / "frames").iterdir()] == ["17_rep0.mp4"]


def test_a_film_of_a_failed_attempt_is_deleted(tmp_path: Path) -> None:
    film = VideoRecorder(tmp_path, "front", SimpleNamespace(key="17_rep0"))
    film.close(None)  # nothing was filmed
    film(tick(0))
    film.close(None)
    assert list(tmp_path.iterdir()) == []


def test_without_pyav_opencv_writes_the_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cv2")
    real = video.require

    def absent(module: str, why: str = "") -> Any:
        if module == "av":
            raise MissingExtra("av is not installed")
        return real(module, why)

    monkeypatch.setattr(video, "require", absent)
    out = writer(tmp_path / "x.mp4", 10.0, 320, 180)
    for n in range(12):
        out.add(picture(n))
    out.close()
    assert length(tmp_path / "x.mp4") == (12, (320, 180), pytest.approx(1.2))


def test_a_gif_keeps_its_duration_when_frames_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "GIF_MOST", 10)
    out = writer(tmp_path / "x.gif", 10.0, 800, 450)
    for n in range(40):
        out.add(picture(8 * n, 800, 450))
    out.close()
    with Image.open(tmp_path / "x.gif") as gif:
        assert gif.size == (400, 225) and gif.n_frames <= 11
        seconds = 0.0
        for i in range(gif.n_frames):
            gif.seek(i)
            seconds += gif.info["duration"] / 1000
    assert seconds == pytest.approx(4.0, abs=0.4)


def test_an_unknown_film_suffix_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"\.mp4 or \.gif"):
        writer(tmp_path / "x.avi", 10.0, 320, 180)
