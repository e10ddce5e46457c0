"""Films: real time, complete files, formats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.closedloop.rides import model_answer, picture, ride, truth

from closedloop_plugin.core.state import Control
from closedloop_plugin.report import video
from closedloop_plugin.report.video import VideoRecorder, writer
from lmms_eval_ad2.core.errors import MissingExtra


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
    decision: Any = None
    control: Control = field(default_factory=lambda: Control(0.1, 0.5, 0.0))
    infractions: tuple[str, ...] = ()


def tick(n: int) -> Tick:
    interpreted = SimpleNamespace(meaning="", raw=model_answer(n)["raw"], mode="cng", reason=None)
    decision = SimpleNamespace(texts=model_answer(n)["texts"], error=None)
    response = SimpleNamespace(decision=decision, interpreted=interpreted)
    view = SimpleNamespace(images=lambda name: picture(n, 321, 181) if name == "front" else None)
    return Tick(truth(n), view, SimpleNamespace(response=response) if n % 10 == 0 else None)


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


def test_an_infraction_is_marked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, bool]] = []
    monkeypatch.setattr(VideoRecorder, "add", lambda self, image: shown.append((captions[-1], image[0, 0, 1] == 0x18)))
    captions: list[str] = []
    monkeypatch.setattr(video, "captioned", lambda image, text, lines: captions.append(text) or image)
    film = VideoRecorder(tmp_path, "front", SimpleNamespace(key="17_rep0"))
    for n in range(41):
        film(replace(tick(n), infractions=("collisions_vehicle", "min_speed_infractions") if n == 3 else ()))
    marked = [framed for text, framed in shown if text.startswith("collision: vehicle; ")]
    assert len(marked) == 15 and all(marked) and not any(f for text, f in shown if not text.startswith("collision"))


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
