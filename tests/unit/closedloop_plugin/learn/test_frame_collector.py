"""What a FrameCollector leaves in its folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from closedloop_plugin.core.state import EndReason
from closedloop_plugin.learn.frame_collector import FrameCollector
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.worlds.base import EpisodeSetup


def _closed(folder: Path, record: Any) -> list[str]:
    collector = FrameCollector(folder, "front", EpisodeTask("made", "m0-000000", 0, EpisodeSetup(None, 0)))
    (collector.folder / "front_00000.jpg").write_bytes(b"picture")
    collector.close(record)
    return sorted(file.name for file in folder.glob("*/*"))


def test_a_finished_episode_has_a_frames_file(tmp_path: Path) -> None:
    assert _closed(tmp_path, SimpleNamespace(end=EndReason.COMPLETED)) == ["frames.jsonl", "front_00000.jpg"]


@pytest.mark.parametrize("end", [EndReason.AGENT_FAILED, EndReason.WORLD_FAILED, EndReason.INVALID])
def test_a_failed_episode_leaves_no_frames(tmp_path: Path, end: EndReason) -> None:
    assert _closed(tmp_path, SimpleNamespace(end=end)) == []
    assert not list(tmp_path.iterdir())


def test_a_killed_episode_leaves_no_frames_file(tmp_path: Path) -> None:
    assert _closed(tmp_path, None) == ["front_00000.jpg"]


def test_the_future_of_what_is_put_elsewhere_ends_there(tmp_path: Path) -> None:
    """Traffic that has left the scene comes back at another place, under the same name."""
    collector = FrameCollector(tmp_path, "front", EpisodeTask("made", "m0-000000", 0, EpisodeSetup(None, 0)))
    for k in range(61):
        ego, car = (0.5 * k, 0.0, 0.0), (20.0 + 0.5 * k - (60.0 if k >= 32 else 0.0), 3.5, 0.0)
        poses = {"ego": ego, "car": car} | ({"bike": (9.0, 0.0, 0.0)} if k < 12 else {})
        collector._note(0.05 * k, poses)
    frame: dict[str, Any] = {"moment": 0, "objects": [{"id": "car"}, {"id": "bike"}]}
    collector._add_future(frame)
    car, bike = (row["future"] for row in frame["objects"])
    assert frame["future"][-1] == [30.0, 0.0] and len(frame["future"]) == 6
    assert car == [[25.0, 3.5], [30.0, 3.5], [35.0, 3.5]]  # 0.5, 1 and 1.5 s; at 1.6 s it jumps
    assert bike == [[9.0, 0.0]]  # it leaves after 0.55 s
