"""SeenGrid: what a collected frame shows as a field of a row, and as a grid; hand-worked cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from closedloop_plugin.learn.seen_grid import CHANNELS, KINDS, ShownBox, read_seen, seen_grid, seen_json

CAR = {
    "kind": "car", "lane": "own", "shown": True, "box": [64, 36, 96, 54], "forward": 12.0, "left": 0.0,
}  # fmt: skip
LIGHT = {
    "control": "signal", "state": "yellow", "on_route": True, "shown": True, "box": [0, 0, 8, 9], "forward": 3.0,
    "left": 4.0,
}  # fmt: skip


def _frame(*objects: dict[str, Any], signals: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"objects": list(objects), "signals": list(signals)}


def test_a_frame_becomes_shares_of_the_picture_and_kinds() -> None:
    made = seen_json(_frame(CAR, {**CAR, "kind": "bicycle", "lane": "off"}, signals=(LIGHT,)), (160, 90))
    assert made == [
        [["vehicle", "own lane"], [0.4, 0.4, 0.6, 0.6], 12.0],
        [["person"], [0.4, 0.4, 0.6, 0.6], 12.0],
        [["stop signal"], [0.0, 0.0, 0.05, 0.1], 5.0],
    ]
    assert read_seen(made) is not None


@pytest.mark.parametrize(
    "hidden",
    [{**CAR, "shown": False}, {**CAR, "box": None}, {**LIGHT, "on_route": False}],
    ids=("hidden", "out", "of others"),
)
def test_what_the_picture_does_not_show_is_left_out(hidden: dict[str, Any]) -> None:
    group = ((hidden,), ()) if "kind" in hidden else ((), (hidden,))
    assert seen_json({"objects": group[0], "signals": group[1]}, (160, 90)) == []


def test_signals_by_their_state() -> None:
    states = [{**LIGHT, "state": "green"}, {**LIGHT, "state": "red"}, {**LIGHT, "control": "stop", "state": None}]
    assert [one[0] for one in seen_json(_frame(signals=tuple(states)), (160, 90))] == [
        ["go signal"], ["stop signal"], ["stop sign"],
    ]  # fmt: skip


def test_other_signs_are_not_taken_for_stop_signs() -> None:
    states = [{**LIGHT, "state": "off"}, {**LIGHT, "state": None}, {**LIGHT, "control": "yield", "state": None}]
    assert [one[0] for one in seen_json(_frame(signals=tuple(states)), (160, 90))] == [["yield sign"]]


def test_cells_of_a_box() -> None:
    """A box over the cells (1, 2) and (1, 3) of a grid of 4 x 5, and a tenth of the next column."""
    grid = seen_grid([ShownBox((0, 3), (0.4, 0.25, 0.82, 0.5), 12.0)], 4, 5)
    assert grid.shape == (4, 5, CHANNELS) and grid.dtype == np.uint8
    assert np.argwhere(grid[..., 0]).tolist() == np.argwhere(grid[..., 3]).tolist() == [[1, 2], [1, 3]]
    assert grid[1, 2, len(KINDS)] == round(255 * math.exp(-1)) == grid[1, 3, len(KINDS) + 3]
    assert grid.astype(bool).sum() == 2 * 4


def test_a_small_box_is_in_the_cell_of_its_centre_and_the_nearest_counts() -> None:
    small = (0.505, 0.505, 0.51, 0.51)
    grid = seen_grid([ShownBox((1,), small, 24.0), ShownBox((1,), small, 6.0)], 4, 4)
    assert np.argwhere(grid[..., 1]).tolist() == [[2, 2]]
    assert grid[2, 2, len(KINDS) + 1] == round(255 * math.exp(-0.5))


def test_a_box_at_the_edge_stays_in_the_grid() -> None:
    grid = seen_grid([ShownBox((2,), (0.9, 0.9, 1.0, 1.0), 1.0), ShownBox((2,), (1.0, 1.0, 1.0, 1.0), 1.0)], 4, 4)
    assert np.argwhere(grid[..., 2]).tolist() == [[3, 3]]


@pytest.mark.parametrize(
    "value",
    [
        "vehicle", [["vehicle"]], [[["tank"], [0, 0, 1, 1], 1.0]], [[["vehicle"], [0, 0, 2, 1], 1.0]],
        [[["vehicle"], [0, 0, 1], 1.0]], [[["vehicle"], [0, 0, 1, 1], -1]], [[["vehicle"], [0, 0, 1, 1], math.inf]],
        [[["vehicle"], [0, 0, "1", 1], 1]], [[["vehicle"], [0, 0, 1, 1], 1.0]] * 401, [[[[]], [0, 0, 1, 1], 1.0]],
        [[["vehicle"], [0, 0, 1, 1], 10**400]],
    ],
)  # fmt: skip
def test_other_values_are_not_read(value: object) -> None:
    assert read_seen(value) is None
