"""DriveRecorder: recorder of one episode of the target: its summary, and the moments of the interview.

    <folder>/<route>_rep<k>.json                 DriveLog
    <pictures>/<route>_<m>_<k>[_<camera>].jpg    frame k of moment m; the first camera has no suffix

Frames are rendered once per second while the ego moves, and every 10 s if it stands longer than 10 s. All files are
written when the episode ends, before its record is stored: a record always has its log.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Observation
from closedloop_plugin.runner.episode import EpisodeTick
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.threats.driven.observer import EpisodeObserver
from closedloop_plugin.threats.driven.summary import DriveSummary, read_model
from closedloop_plugin.threats.robustness import scored
from closedloop_plugin.threats.site import ThreatSite, site_of
from closedloop_plugin.threats.transcript import InterviewMoment
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_bytes

FRAME_S = 1.0  # between frames
STANDS_S, STANDING_FRAME_S = 10.0, 10.0  # after this time at one place, frames are this far apart
MOVES_M = 0.2
MOST_FRAMES = 400  # rendered in one episode
EARLY_M, EARLY_SPEED = 3.0, 1.0  # driven distance and speed of the first moment
QUALITY = 90
MOMENT_REPLIES = 5  # last replies of the target at a moment


class DriveLog(BaseModel):
    """What a DriveRecorder writes. `summary`: None if the episode could not be scored."""

    model_config = ConfigDict(extra="forbid")

    seed: int
    site: ThreatSite
    summary: DriveSummary | None = None
    moments: list[InterviewMoment] = []

    @classmethod
    def read(cls, file: Path) -> DriveLog:
        """Raises DataError with file and field."""
        hint = f"Remove {file.parent.parent}; everything in it is then driven again"
        if not file.is_file():
            raise DataError(file, None, "file", "the log of a drive whose record is stored", None, hint)
        return read_model(cls, file, hint)


@dataclass(frozen=True)
class _Sample:
    """Observation and frames (JPEG, by camera) at one time. `replies`: number of replies so far."""

    time_s: float
    s: float
    observation: Observation
    frames: tuple[bytes, ...]
    replies: int


class DriveRecorder:
    """Recorder of one episode (see WorkerConfig.recorders).

    moments, frames: number of moments, and of frames at each, 1 s apart. `pictures`: folder of the frames, `prefix`:
    their names in the log are relative to the suite's folder.
    """

    def __init__(
        self,
        folder: Path,
        task: EpisodeTask,
        suite: str = "",
        moments: int = 0,
        frames: int = 1,
        cameras: Sequence[str] = (),
        pictures: Path | None = None,
    ) -> None:
        self.file, self.task, self.suite = Path(folder) / f"{task.key}.json", task, suite
        self.moments, self.frames, self.cameras = moments, frames, tuple(cameras)
        self.pictures = pictures
        self._episode: EpisodeObserver | None = None
        self._samples: list[_Sample] = []
        self._moved = (0.0, -1.0)  # time and s of the last movement
        self.file.unlink(missing_ok=True)

    def __call__(self, tick: EpisodeTick) -> None:
        if self._episode is None:
            assert tick.road is not None and self.task.setup.route is not None
            self.site = site_of(self.suite, self.task.setup.route, tick.road, tick.shown)
            self._episode = EpisodeObserver(tick.road, self.site.trigger_s)
        s = self._episode.add(tick)
        if self.moments and self._is_due(tick.truth.time_s, s):
            self._keep(tick, s)

    def _is_due(self, time_s: float, s: float) -> bool:
        if abs(s - self._moved[1]) > MOVES_M:
            self._moved = (time_s, s)
        if not self._samples:
            return True
        stands = time_s - self._moved[0] > STANDS_S
        wait = STANDING_FRAME_S if stands else FRAME_S
        return time_s >= self._samples[-1].time_s + wait - 1e-6 and len(self._samples) < MOST_FRAMES

    def _keep(self, tick: EpisodeTick, s: float) -> None:
        assert self._episode is not None
        frames = tuple(_jpeg(tick.observation.images(name)) for name in self.cameras)
        replies = len(self._episode.replies)
        self._samples.append(_Sample(tick.truth.time_s, s, tick.observation, frames, replies))

    def close(self, record: EpisodeRecord | None) -> None:
        if record is None or self._episode is None:
            return
        summary = self._episode.summary(record) if scored(record) else None
        chosen = moment_indices(
            [(x.time_s, x.s, x.observation.speed) for x in self._samples], self.site.trigger_s, self.moments
        )
        moments = [self._moment(number, index) for number, index in enumerate(chosen)]
        log = DriveLog(seed=self.task.setup.seed, site=self.site, summary=summary, moments=moments)
        with atomic_write(self.file) as handle:
            handle.write(log.model_dump_json(indent=1) + "\n")

    def _moment(self, number: int, index: int) -> InterviewMoment:
        assert self._episode is not None
        sample = self._samples[index]
        shown = self._samples[max(0, index - self.frames + 1) : index + 1]
        return InterviewMoment(
            time_s=round(sample.time_s, 3),
            s=round(sample.s, 2),
            speed=round(sample.observation.speed, 2),
            speed_limit=round(sample.observation.speed_limit, 2),
            command=str(sample.observation.command),
            target=(round(sample.observation.target[0], 2), round(sample.observation.target[1], 2)),
            frames=self._write_frames(number, shown),
            frame_s=[round(x.time_s, 3) for x in shown],
            replies=self._episode.replies[: sample.replies][-MOMENT_REPLIES:],
        )

    def _write_frames(self, number: int, shown: Sequence[_Sample]) -> list[str]:
        if self.pictures is None:
            return []
        names = []
        for k, sample in enumerate(shown):
            for c, (camera, data) in enumerate(zip(self.cameras, sample.frames, strict=True)):
                name = f"{self.task.route_id}_{number}_{k}{f'_{camera}' if c else ''}.jpg"
                atomic_write_bytes(self.pictures / name, data)
                names.append(f"{self.pictures.name}/{name}")
        return names


def moment_indices(samples: Sequence[tuple[float, float, float]], trigger_s: float, moments: int) -> list[int]:
    """Indices of the moments in samples of (time, s, speed), increasing; at most `moments`.

    The first one lies in early motion, the second where the route's trigger point is reached, the others at equal
    distances of the rest of the drive; with one moment, it is that at the trigger. If the trigger is never reached,
    all after the first are at equal distances; if the ego never moves, all are at equal times.
    """
    if not samples or moments < 1:
        return []
    start, end = samples[0][1], max(s for _, s, _ in samples)
    if end - start < EARLY_M:
        last = len(samples) - 1
        return sorted({round(last * (k + 1) / (moments + 1)) for k in range(moments)})
    early = next(i for i, (_, s, _) in enumerate(samples) if s - start >= EARLY_M or s >= end)
    early = next((i for i in range(early, len(samples)) if samples[i][2] >= EARLY_SPEED), early)
    found = [early] if moments > 1 or end < trigger_s else []
    base = samples[early][1]
    if end >= trigger_s:
        at_trigger = next(i for i, (_, s, _) in enumerate(samples) if s >= trigger_s)
        found.append(max(at_trigger, early + 1 if found and early + 1 < len(samples) else early))
        base = max(base, trigger_s)
    rest = moments - len(found)
    for k in range(rest):
        wanted = base + (end - base) * (k + 1) / (rest + 1)
        found.append(next(i for i, (_, s, _) in enumerate(samples) if s >= wanted))
    return sorted(set(found))[:moments]


def _jpeg(image: Any) -> bytes:
    data = io.BytesIO()
    try:
        Image.fromarray(image).save(data, "JPEG", quality=QUALITY)
    except (TypeError, ValueError) as exc:
        raise Ad2Error(f"a camera's image cannot be stored: {exc}") from exc
    return data.getvalue()
