"""Where a walker was at the end of its episode, by verify_carla.py."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
FAR_EDGE_M = 6.0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("verify_carla_steps")


def check_with(folder: Path, left: list[tuple[float, float]], until: float) -> Any:
    """A walker at metres left of a route to the north, at times; the episode ends at `until`."""
    poses = [{"t": t, "actors": {"s1": [-x, 40.0, 0.0]}} for t, x in left]
    track = {
        "bodies": {"b0": {"kind": "car"}, "s1": {"kind": "pedestrian"}},
        "road": {"route": [[0.0, 0.0], [0.0, 100.0]]},
        "samples": [*poses, {"t": until, "actors": {}}],
    }
    file = folder / "runs" / "walker" / "tracks" / "902_rep0.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(track))
    return SimpleNamespace(out=folder, far_edge_m=FAR_EDGE_M)


@pytest.mark.parametrize(
    ("left", "until", "found"),
    [
        ([(0.0, -3.4), (5.0, 0.0), (9.0, 6.4)], 20.0, "the walker crossed and left the road by 0.4 m"),
        ([(0.0, -3.4), (5.0, 0.0), (9.0, 4.0)], 9.5, "the walker was still walking, 7.4 m from its start"),
    ],
)
def test_a_walker_that_crossed_or_still_walks_is_good(
    left: list[tuple[float, float]], until: float, found: str, steps: ModuleType, tmp_path: Path
) -> None:
    assert steps.walkers_end(check_with(tmp_path, left, until)) == found


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ([(0.0, -3.4), (5.0, 0.0), (9.0, 5.9)], "stands 9.3 m from its start, 0.1 m before the far edge"),
        ([(0.0, -3.4)], "stands 0.0 m from its start, 9.4 m before the far edge"),
    ],
)
def test_a_walker_that_stands_at_a_kerb_fails_the_step(
    left: list[tuple[float, float]], found: str, steps: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(steps.Failed, match=rf"{found}.*carla issue 4291"):
        steps.walkers_end(check_with(tmp_path, left, 20.0))
