"""FrameRecorder (--frames): camera images as JPEG files at 2 Hz, the rate of the tracks."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.runner.task import EpisodeTask


class FrameRecorder:
    """Writes <folder>/<route>_rep<k>/<camera>_<tick>.jpg. A retried episode begins with an empty folder."""

    def __init__(self, folder: Path, cameras: Sequence[str], task: EpisodeTask, every_s: float = 0.5) -> None:
        self.folder, self.cameras, self.every_s = folder / task.key, cameras, every_s
        self._next = 0.0
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def __call__(self, tick: EpisodeTick) -> None:
        if tick.truth.time_s + 1e-9 < self._next:
            return
        self._next += self.every_s
        for name in self.cameras:
            image = Image.fromarray(tick.observation.images(name))
            image.save(self.folder / f"{name}_{tick.truth.tick:05d}.jpg", quality=90)

    def close(self, record: EpisodeRecord | None) -> None:
        """Nothing to close."""
