"""`ad2 drive read`."""

from __future__ import annotations

import io
import json

import pytest

from closedloop_plugin.cli.drive.read import COMMANDS
from closedloop_plugin.core.state import RouteCommand
from lmms_eval_ad2.cli.main import main

KEYS = ["throttle", "steer", "brake", "pace", "direction", "unread"]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict]:
    assert main(["drive", "read", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_one_object_per_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, '{"throttle":0.4,"steer":0,"brake":0.0}', "Stop. Turn left.", "hm")
    assert [list(reply) for reply in found] == [KEYS] * 3
    assert [tuple(reply.values()) for reply in found] == [
        (0.4, 0.0, 0.0, None, None, None),
        (0.0, -0.55, 0.6, "stop", "left", None),
        (None, None, None, None, None, "no_action"),
    ]


def test_the_commands_are_those_of_the_navigation() -> None:
    assert set(COMMANDS) == set(RouteCommand)  # not imported, since `ad2 --help` must not import numpy


@pytest.mark.parametrize(
    ("words", "throttle", "unread"),
    [
        (["--interpreter", "cng", '{"throttle":0.5,"steer":0,"brake":0}'], 0.5, None),
        (["--interpreter", "cng", "Stop."], None, "no_json"),
        (["--interpreter", "dcs", '{"throttle":0.6,"steer":0,"brake":0}'], 0.6, None),
        (["--interpreter", "dcs", '{"throttle":0.5,"steer":0,"brake":0}'], 0.6, None),  # snapped
        (
            ["--interpreter", "dcs", "--config", "policy=strict", '{"throttle":0.5,"steer":0,"brake":0}'],
            None,
            "not_in_set throttle",
        ),
        (["--interpreter", "cng", '{"throttle":0.5}'], 0.5, None),
        (["--interpreter", "cng", "--config", "policy=strict", '{"throttle":0.5}'], None, "missing_key steer"),
        (["--config", "speed=6", '{"throttle":0.5,"steer":0,"brake":0}'], 0.0, None),  # above 5 m/s: the profile
        (["--config", "speed=6", "--profile", "bench2drive", '{"throttle":0.5,"steer":0,"brake":0}'], 0.5, None),
        (["--task", "trajectory", "Stop."], None, "no_waypoints"),
    ],
)
def test_interpreter_profile_and_task(
    capsys: pytest.CaptureFixture[str], words: list[str], throttle: float | None, unread: str | None
) -> None:
    (found,) = shown(capsys, *words)
    assert (found["throttle"], found["unread"]) == (throttle, unread)


def test_text_for_people_and_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Slow down.\nTurn left."))
    assert main(["drive", "read", "-", "x" * 200, "--config", "command=turn left"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Slow down. Turn left.",
        "    throttle 0.00  steer 0.00  brake 0.30  (slow, left)",
        "x" * 100 + "...",
        "    unread: no_action",
    ]
