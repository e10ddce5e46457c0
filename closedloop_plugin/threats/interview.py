"""Interviews about moments of the target's own drives: questions in batches, transcripts stored as they arrive.

The drives are complete before the first question (driven/target.py), so that a model sees its own replies and speeds
of an episode that it really drove. A kill loses at most the answers of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from closedloop_plugin.threats.base import Interviewee, InterviewScene
from closedloop_plugin.threats.driven.recorder import DriveLog
from closedloop_plugin.threats.transcript import InterviewRecord, StageAnswer, ThreatTranscript
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.code_state import code_label
from lmms_eval_ad2.storage.image_files import ImageOutsideError, locate, open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

BATCH = 32  # maximum number of moments per call of the target; those of one route are in one call


@dataclass(frozen=True)
class DrivenRoute:
    """A route to interview about: its id and the log of the target's drive."""

    route_id: str
    log: DriveLog


def interview(
    *,
    routes: Sequence[DrivenRoute],
    interviewee: Interviewee,
    folder: Path,
    keep: Callable[[ThreatTranscript], None],
    quiet: bool = False,
) -> dict[str, str]:
    """Interview the target about every route; return {route id: reason} of routes without a moment.

    `folder`: of the suite, to which the names of the frames are relative. `keep` is called once per transcript, also if
    its answers failed. Raises Ad2Error for errors that the user must fix; transcripts kept until then remain.
    """
    asked = [r for r in routes if r.log.moments]
    with tqdm(total=len(asked), desc="interviews", unit="route", disable=quiet) as bar:
        for batch in _batches(asked):
            scenes = [scene for route in batch for scene in scenes_of(route, folder)]
            answers = iter(interviewee.answer(scenes))
            for route in batch:
                keep(_transcript(route, [next(answers) for _ in route.log.moments], interviewee))
                bar.update()
    return {r.route_id: "the drive has no moment to ask about" for r in routes if not r.log.moments}


def scenes_of(route: DrivenRoute, folder: Path) -> list[InterviewScene]:
    """The moments of a drive with their images."""
    moved = route.log.summary is None or route.log.summary.moved
    return [
        InterviewScene(route.route_id, number, moment, moved, images_of(folder, moment.frames))
        for number, moment in enumerate(route.log.moments)
    ]


def images_of(folder: Path, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Images of a suite's folder, (H, W, 3) uint8 RGB; files that are missing or outside of the folder are skipped."""
    return tuple(image for name in names if (image := _image(folder, name)) is not None)


def _image(folder: Path, name: str) -> np.ndarray | None:
    try:
        with open_image(locate(folder, name)) as image:
            return np.asarray(shown_rgb(image))
    except (FileNotFoundError, ImageOutsideError):
        return None
    except OSError as exc:
        raise Ad2Error(f"{folder / name}: not a readable image ({exc})") from exc


def _batches(routes: Sequence[DrivenRoute]) -> Iterator[list[DrivenRoute]]:
    """Parts of the routes with at most BATCH moments each, or one route."""
    part: list[DrivenRoute] = []
    for route in routes:
        if part and sum(len(r.log.moments) for r in [*part, route]) > BATCH:
            yield part
            part = []
        part.append(route)
    if part:
        yield part


def _transcript(
    route: DrivenRoute, answers: Sequence[Sequence[StageAnswer]], interviewee: Interviewee
) -> ThreatTranscript:
    moments = [
        moment.model_copy(update={"answers": list(found)})
        for moment, found in zip(route.log.moments, answers, strict=True)
    ]
    record = InterviewRecord(
        agent=dict(interviewee.describe()), source=interviewee.source, moments=moments, drive=route.log.summary
    )
    return ThreatTranscript(route=route.route_id, site=route.log.site, interview=record, version=code_label())


def never_moved(transcripts: Mapping[str, ThreatTranscript]) -> list[str]:
    """Routes on which the target never moved."""
    return [k for k, t in transcripts.items() if t.interview.drive is not None and not t.interview.drive.moved]
