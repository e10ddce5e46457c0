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
