"""A film of an episode, written frame by frame: H.264 by PyAV where it is, MPEG-4 by OpenCV, or a GIF by Pillow.

A film stands under its name only once it is finished. Memory does not grow with its length.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.show.caption import captioned
from closedloop_plugin.show.episode_track import said_lines
from lmms_eval_ad2.errors import Ad2Error, MissingExtra, require

GIF_WIDTH = 400  # px
GIF_MOST = 400  # frames held; a longer film loses every second one


class FrameWriter(Protocol):
    """Takes (H, W, 3) uint8 RGB frames of one size; `close` finishes the file."""

    def add(self, image: np.ndarray) -> None: ...

    def close(self) -> None: ...


class VideoRecorder:
    """Recorder of one episode (runner.worker.Plan.recorders): <folder>/<route>_rep<k>.mp4, words under the picture.

    Called with every tick (runner.episode.Tick); looks through `camera` every `every_s` seconds of the episode, which
    the film plays as one second a second.
    """

    def __init__(self, folder: Path, camera: str, task: Any, every_s: float = 0.1, suffix: str = ".mp4") -> None:
        self.file = Path(folder) / f"{task.key}{suffix}"
        self._camera, self._every_s = camera, every_s
        self._part = self.file.with_name(f".part-{self.file.name}")
        self._writer: FrameWriter | None = None
        self._next = 0.0
        self._said: list[str] = []

    def __call__(self, seen: Any) -> None:
        if seen.answer is not None:
            reading = seen.answer.reading
            said = {"texts": dict(seen.answer.decision.texts), "error": seen.answer.decision.error}
            said |= {"raw": reading.raw, "mode": reading.mode, "reason": reading.reason} if reading else {}
            self._said = said_lines(said)
        if seen.truth.time_s + 1e-9 < self._next:
            return
        self._next += self._every_s
        control, speed = seen.control, 3.6 * seen.truth.ego.speed
        pedals = f"steer {control.steer:+.2f}, throttle {control.throttle:.2f}, brake {control.brake:.2f}"
        head = f"{seen.truth.time_s:.1f} s, {speed:.0f} km/h, {pedals}"
        self.add(captioned(seen.observation.images(self._camera), "\n".join([head, *self._said]), 4))

    def add(self, image: np.ndarray) -> None:
        if self._writer is None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._writer = writer(self._part, 1.0 / self._every_s, image.shape[1], image.shape[0])
        self._writer.add(image)

    def close(self, record: EpisodeRecord | None) -> None:
        """Finish the film; without a record (the episode will be tried again) it is thrown away."""
        if self._writer is None:
            return
        try:
            self._writer.close()
            if record is not None:
                self._part.replace(self.file)
        finally:
            self._writer = None
            self._part.unlink(missing_ok=True)


def writer(file: Path, fps: float, width: int, height: int) -> FrameWriter:
    """The best one for the name's ending, .mp4 or .gif."""
    if file.suffix == ".gif":
        return _Gif(file, fps)
    if file.suffix != ".mp4":
        raise Ad2Error(f"{file}: a film ends in .mp4 or .gif")
    try:
        return _H264(file, fps, width, height)
    except MissingExtra:
        return _Mpeg4(file, fps, width, height)


class _H264:
    """PyAV; plays in browsers. Raises MissingExtra where PyAV, or H.264 in it, is absent."""

    def __init__(self, file: Path, fps: float, width: int, height: int) -> None:
        self._av = require("av", "films in H.264")
        if "libx264" not in self._av.codecs_available:
            raise MissingExtra("this PyAV has no H.264")
        self._size = width // 2 * 2, height // 2 * 2  # its colours come in blocks of two by two
        self._container = self._av.open(str(file), "w", format="mp4", options={"movflags": "faststart"})
        self._stream = self._container.add_stream("libx264", rate=max(1, round(fps)))
        self._stream.width, self._stream.height = self._size
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"preset": "veryfast", "crf": "23", "threads": "1"}  # worlds share the cores

    def add(self, image: np.ndarray) -> None:
        width, height = self._size
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(image[:height, :width]), format="rgb24")
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        self._container.mux(self._stream.encode())
        self._container.close()


class _Mpeg4:
    """OpenCV's own encoder; players show it, browsers may not."""

    def __init__(self, file: Path, fps: float, width: int, height: int) -> None:
        self._cv2 = require("cv2", "films")
        self._video = self._cv2.VideoWriter(str(file), self._cv2.VideoWriter_fourcc(*"mp4v"), fps, (width, height))
        if not self._video.isOpened():
            raise Ad2Error(f"{file}: OpenCV cannot write a film there; check the folder, or `pip install av`")

    def add(self, image: np.ndarray) -> None:
        self._video.write(np.ascontiguousarray(image[:, :, ::-1]))

    def close(self) -> None:
        self._video.release()


class _Gif:
    """Pillow; small, and coarse in time where the episode is long."""

    def __init__(self, file: Path, fps: float) -> None:
        self._file, self._ms = file, 1000.0 / fps
        self._frames: list[Image.Image] = []
        self._every, self._seen = 1, 0

    def add(self, image: np.ndarray) -> None:
        if self._seen % self._every == 0:
            picture = Image.fromarray(np.ascontiguousarray(image))
            if picture.width > GIF_WIDTH:
                picture = picture.resize((GIF_WIDTH, max(1, round(picture.height * GIF_WIDTH / picture.width))))
            self._frames.append(picture.quantize(128))
        self._seen += 1
        if len(self._frames) > GIF_MOST:
            self._frames = self._frames[::2]
            self._every *= 2

    def close(self) -> None:
        first, *rest = self._frames
        shown = round(self._ms * self._every)
        first.save(self._file, "GIF", save_all=True, append_images=rest, duration=shown, loop=0)
