"""Drawing order of boxes, with expected orders worked out by hand."""

from __future__ import annotations

import numpy as np

from closedloop_plugin.worlds.embedded.camera.render import BoxFootprints, back_to_front


def _boxes(*rows: tuple[float, float, float, float, float]) -> BoxFootprints:
    return BoxFootprints(*np.array(rows, dtype=float).T)


def test_farther_boxes_are_drawn_first() -> None:
    boxes = _boxes((10, 0, 0, 4, 2), (30, 0, 0, 4, 2), (20, 0, 0, 4, 2))
    assert back_to_front(boxes, np.ones(3, bool), (0.0, 0.0)) == [1, 2, 0]


def test_a_person_beside_the_far_end_of_a_truck_is_drawn_over_it() -> None:
    """Truck from 6 to 18 m ahead, 3 to 5.5 m to the right; the person stands at 17 m, in front of its side."""
    boxes = _boxes((12, -4.25, 0, 12, 2.5), (17, -2.6, 0, 0.5, 0.5))
    assert back_to_front(boxes, np.ones(2, bool), (0.0, 0.0)) == [0, 1]
    hidden = _boxes((12, -4.25, 0, 12, 2.5), (22, -5.0, 0, 0.5, 0.5))
    assert back_to_front(hidden, np.ones(2, bool), (0.0, 0.0)) == [1, 0]


def test_bodies_at_the_same_place_have_an_order() -> None:
    same = _boxes(*[(0, 0, 0.3, 4, 2)] * 4)
    assert sorted(back_to_front(same, np.ones(4, bool), (0.0, 0.0))) == [0, 1, 2, 3]
