"""Which reasons of a label the picture shows."""

from __future__ import annotations

from typing import Any

import pytest

from closedloop_plugin.learn.collection import reason_is_shown, shown_kind

CAR = {"id": "7", "pixels": 40, "speed": 3.0}
HIDDEN = {"id": "7", "pixels": 0, "speed": 3.0}
PARKED = {"id": "8", "pixels": 90, "speed": 0.0}
LIGHT = {"control": "signal", "on_route": True, "shown": False, "state_pixels": 2}
SIGN = {"control": "stop", "on_route": True, "shown": True, "state_pixels": 0}


@pytest.mark.parametrize(
    ("kind", "actor", "objects", "signals", "shown"),
    [
        ("clear", None, [], [], True),
        ("line_ahead", None, [], [], True),  # nobody is waited for yet
        ("curve", None, [HIDDEN], [], True),
        ("passing", "7", [HIDDEN], [], True),  # the obstacle is beside the car; nobody is waited for
        ("vehicle_ahead", "7", [CAR], [], True),
        ("vehicle_ahead", "7", [HIDDEN, PARKED], [], False),
        ("actor", "7", [], [], False),
        ("yield", "7", [HIDDEN, PARKED], [], False),  # it comes from behind
        ("yield", None, [CAR], [], True),
        ("yield", None, [HIDDEN, PARKED], [], False),  # a gap is waited for, and nothing in the picture moves
        ("blocked", None, [], [], True),
        ("red_light", None, [], [LIGHT], True),
        ("red_light", None, [], [{**LIGHT, "state_pixels": 0}], False),
        ("red_light", None, [], [{**LIGHT, "on_route": False}], False),
        ("red_light", None, [], [SIGN], False),
        ("stop_sign", None, [], [SIGN], True),
        ("stop_sign", None, [], [{**SIGN, "shown": False}, LIGHT], False),
    ],
)
def test_what_the_picture_must_show(
    kind: str, actor: str | None, objects: list[dict[str, Any]], signals: list[dict[str, Any]], shown: bool
) -> None:
    frame = {"label": {"reason": {"kind": kind, "actor": actor}}, "objects": objects, "signals": signals}
    assert reason_is_shown(frame) is shown


@pytest.mark.parametrize(
    ("kind", "signals", "shown"),
    [
        ("line_ahead", [LIGHT], "line_ahead"),
        ("line_ahead", [SIGN], "line_ahead"),
        ("line_ahead", [{**LIGHT, "state_pixels": 0}], "clear"),
        ("line_ahead", [], "clear"),
        ("red_light", [], "red_light"),
    ],
)
def test_a_line_that_cannot_be_seen_yet_is_no_reason(kind: str, signals: list[dict[str, Any]], shown: str) -> None:
    assert shown_kind({"label": {"reason": {"kind": kind}}, "objects": [], "signals": signals}) == shown
