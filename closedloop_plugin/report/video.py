"""VideoRecorder: a video of an episode: H.264 by PyAV if available, else MPEG-4 by OpenCV.

The file gets its name when it is complete. Frames are written one by one, so memory does not grow with the length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.report.film_strip import captioned
from closedloop_plugin.report.top_view import NAMES, WRONG
from closedloop_plugin.report.track_log import reply_lines
from lmms_eval_ad2.core.errors import Ad2Error, MissingExtra, require

LINES, LINES_NARROW, WIDE = 4, 7, 640  # lines of text under a picture, and under one narrower than WIDE px
MARK_S = 1.5  # for which an infraction is shown


class FrameWriter(Protocol):
    """Takes (H, W, 3) uint8 RGB frames of one size; `close` finishes the file."""

    def add(self, image: np.ndarray) -> None: ...

    def close(self) -> None: ...


class VideoRecorder:
    """Recorder of one episode (WorkerConfig.recorders): <folder>/<route>_rep<k>.mp4, with texts under the picture.

    Called with every EpisodeTick; takes a frame of `camera` every `every_s` seconds of simulated time. The video plays
    in real time.
    """

    def __init__(self, folder: Path, camera: str, task: Any, every_s: float = 0.1) -> None:
        self.file = Path(folder) / f"{task.key}.mp4"
        self._camera, self._every_s = camera, every_s
        self._part = self.file.with_name(f".part-{self.file.name}")
        self._writer: FrameWriter | None = None
        self._next = 0.0
        self._lines: list[str] = []
        self._marked: dict[str, float] = {}  # kind of infraction -> until when it is shown, s

    def __call__(self, tick: Any) -> None:
        if tick.decision is not None:
            response = tick.decision.response
            interpreted = response.interpreted
            reply = {"texts": dict(response.decision.texts), "error": response.decision.error}
            if interpreted:
                names = ("raw", "mode", "reason", "meaning")
                reply |= {name: getattr(interpreted, name) for name in names}
            self._lines = reply_lines(reply)
        self._marked |= {kind: tick.truth.time_s + MARK_S for kind in tick.infractions if kind in NAMES}
        if tick.truth.time_s + 1e-9 < self._next:
            return
        self._next += self._every_s
        control, speed = tick.control, 3.6 * tick.truth.ego.speed  # km/h
        pedals = f"steer {control.steer:+.2f}, throttle {control.throttle:.2f}, brake {control.brake:.2f}"
        head = f"{tick.truth.time_s:.1f} s, {speed:.0f} km/h, {pedals}"
        image = tick.observation.images(self._camera)
        if marks := [NAMES[kind] for kind, until in self._marked.items() if until > tick.truth.time_s]:
            image, head = framed(image), f"{', '.join(marks)}; {head}"
        self.add(captioned(image, "\n".join([head, *self._lines]), LINES if image.shape[1] >= WIDE else LINES_NARROW))

    def add(self, image: np.ndarray) -> None:
        if self._writer is None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._writer = writer(self._part, 1.0 / self._every_s, image.shape[1], image.shape[0])
        self._writer.add(image)

    def close(self, record: EpisodeRecord | None) -> None:
        """Finish the video; without a record (the episode will be retried) it is deleted."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            if record is not None:
                self._part.replace(self.file)
        finally:
            self._writer = None
            self._part.unlink(missing_ok=True)


def framed(image: np.ndarray) -> np.ndarray:
    """A copy of the picture with a frame in the colour of infractions."""
    wide = max(3, image.shape[1] // 100)
    picture = np.empty_like(image)
    picture[:] = tuple(bytes.fromhex(WRONG[1:]))
    picture[wide:-wide, wide:-wide] = image[wide:-wide, wide:-wide]
    return picture


def writer(file: Path, fps: float, width: int, height: int) -> FrameWriter:
    """The best available writer of .mp4 files."""
    try:
        return _H264(file, fps, width, height)
    except MissingExtra:
        return _Mpeg4(file, fps, width, height)


class _H264:
    """H.264 by PyAV; plays in browsers. Raises MissingExtra without PyAV or its H.264 encoder."""

    def __init__(self, file: Path, fps: float, width: int, height: int) -> None:
        self._av = require("av", "videos in H.264")
        if "libx264" not in self._av.codecs_available:
            raise MissingExtra("this PyAV has no H.264")
        self._size = width // 2 * 2, height // 2 * 2  # yuv420p needs even sizes
        self._container = self._av.open(str(file), "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream("libx264", rate=max(1, round(fps)))
        self._stream.width, self._stream.height = self._size
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"preset": "veryfast", "crf": "23", "threads": "1"}  # several worlds share the cores

    def add(self, image: np.ndarray) -> None:
        width, height = self._size
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:height, :width]), format="rgb24")
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        self._container.mux(self._stream.encode())
        self._container.close()


class _Mpeg4:
    """MPEG-4 by OpenCV's encoder; plays in video players, not in all browsers."""

    def __init__(self, file: Path, fps: float, width: int, height: int) -> None:
        self._cv2 = require("cv2", "videos")
        self._video = self._cv2.VideoWriter(str(file), self._cv2.VideoWriter_fourcc(*"mp4v"), fps, (width, height))
        if not self._video.isOpened():
            raise Ad2Error(f"{file}: OpenCV cannot write a video there; check the folder, or `pip install av`")

    def add(self, image: np.ndarray) -> None:
        self._video.write(np.ascontiguousarray(image[:, :, ::-1]))

    def close(self) -> None:
        self._video.release()
