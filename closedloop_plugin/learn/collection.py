"""Collections: folders of `ad2 drive collect`, drive runs whose recorder is a FrameCollector.

DIR/routes.xml      the made routes
DIR/frames/...      see frame_collector.py
DIR/run.json, episodes.jsonl, ...      as of every run, see runner/store.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.state import FAILED
from closedloop_plugin.learn.frame_collector import FRAMES
from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.errors import Ad2Error, DataError

ROUTES, FOLDER = "routes.xml", "frames"
CAMERA = "front"


@dataclass(frozen=True)
class CollectedEpisode:
    """The frames of one finished episode. `folder` has its pictures."""

    key: str
    folder: Path

    def frames(self) -> Iterator[dict[str, Any]]:
        """The frames in order of time. Raises DataError for a line that is not an object."""
        file = self.folder / FRAMES
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    frame = json.loads(line)
                except ValueError:
                    frame = None
                if not isinstance(frame, dict):
                    raise DataError(file, f"line {number}", "frame", "a JSON object", line[:60])
                yield frame


def episodes_of(folder: Path) -> list[CollectedEpisode]:
    """The finished episodes of a collection that have frames, by name. Raises Ad2Error if it is none."""
    if not (folder / FOLDER).is_dir():
        raise Ad2Error(f"{folder}: no collection of frames; make one with: ad2 drive collect --out {folder} ...")
    keys = {f"{r.route_id}_rep{r.repetition}" for r in read_records(folder) if r.end not in FAILED}
    found = [CollectedEpisode(key, folder / FOLDER / key) for key in sorted(keys)]
    return [episode for episode in found if (episode.folder / FRAMES).is_file()]


def frame_count(episodes: Sequence[CollectedEpisode]) -> int:
    """Number of frames, without reading their values."""
    total = 0
    for episode in episodes:
        with (episode.folder / FRAMES).open("rb") as lines:
            total += sum(1 for _ in lines)
    return total
