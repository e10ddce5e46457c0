"""The on-board settings: checked at the start, with messages that name the key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from support.robots.onboard import TOKEN, settings
from support.tiers import examples

from closedloop_plugin.robots.onboard.settings import SettingsError, read_settings, read_token
from closedloop_plugin.robots.vehicles.robot_config import VEHICLES


def changed(file: Path, **keys: Any) -> Path:
    content = json.loads(file.read_text("utf-8"))
    for key, value in keys.items():
        node = content
        *path, last = key.split("__")
        for part in path:
            node = node[part]
        node[last] = value
    file.write_text(json.dumps(content), "utf-8")
    return file


@pytest.mark.parametrize("name", VEHICLES)
def test_every_vehicle_can_be_set_up_with_its_defaults(tmp_path: Path, name: str) -> None:
    file = settings(tmp_path, 4000, name)
    content = json.loads(file.read_text("utf-8"))
    minimal = {k: content[k] for k in ("planner", "vehicle")}
    minimal["vehicle"] = VEHICLES[name].to_onboard()
    file.write_text(json.dumps(minimal), "utf-8")
    found = read_settings(file)
    assert found["motion_s"] == 0.5 and found["rate_hz"] == 20 and found["backend"] == "ros1" and found["relay"]
    assert found["planner"] == {"host": "127.0.0.1", "port": 4000, "token_file": tmp_path / "token"}
    assert found["folder"] == tmp_path and read_token(found["planner"]["token_file"]) == TOKEN


def test_a_vehicle_without_a_watchdog_always_gets_the_relay(tmp_path: Path) -> None:
    assert read_settings(settings(tmp_path, 1, car={"watchdog_s": None}, relay=False))["relay"] is True
    assert read_settings(settings(tmp_path, 1, car={"watchdog_s": 1.0}, relay=False))["relay"] is False


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"moton_s": 1}, "'moton_s'; did you mean 'motion_s'"),
        ({"planner__tokenfile": "x"}, "planner: unknown key 'tokenfile'; did you mean 'token_file'"),
        ({"motion_s": 5}, "motion_s: expected a number from 0.05 to 1"),
        ({"motion_s": True}, "motion_s"),
        ({"rate_hz": 10}, "rate_hz: expected a number from 20"),
        ({"planner__port": "22"}, "planner: port"),
        ({"planner": []}, "planner: expected an object"),
        ({"backend": "ros3"}, "backend: expected ros1, ros2 or MODULE:CLASS"),
        ({"relay": 1}, "relay: expected true or false"),
        ({"vehicle__limits__speed": -1}, "limits.speed"),
        ({"vehicle__kind": "rocket"}, "kind"),
        ({"vehicle__name": ""}, "vehicle: name"),
        ({"vehicle__topics__cmd": ""}, "topics.cmd"),
        ({"vehicle__topics__camera_type": "png"}, "camera_type: expected compressed or raw"),
        ({"vehicle__topics": None}, "topics: expected an object"),
        ({"vehicle__mode": 1, "vehicle__topics__status": ""}, "topics.status: needed to check"),
        ({"vehicle__mode": "ackermann"}, "vehicle: mode"),
        ({"vehicle__watchdog_s": 0}, "watchdog_s"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_key(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(changed(settings(tmp_path, 1), **keys))
    assert words in str(caught.value) and "settings.json" in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "[" * 100000, '{"planner": NaN}'])
def test_an_invalid_settings_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "settings.json"
    file.write_text(content, "utf-8")
    with pytest.raises(SettingsError, match=r"settings\.json"):
        read_settings(file)
    with pytest.raises(SettingsError, match="ad2 robot deploy"):
        read_settings(tmp_path / "other.json")


ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.lists(st.none(), max_size=1)
PLACES = [
    "planner", "planner__port", "planner__host", "planner__token_file", "vehicle", "vehicle__topics", "vehicle__kind",
    "vehicle__limits", "vehicle__limits__speed", "vehicle__mode", "vehicle__topics__camera", "backend", "max_age_s",
]  # fmt: skip


@given(st.sampled_from(PLACES), ANY)
@given_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150), deadline=None)
def test_any_value_is_accepted_or_refused(tmp_path: Path, place: str, value: Any) -> None:
    file = changed(settings(tmp_path, 1), **{place: value})
    try:
        found = read_settings(file)
    except SettingsError:
        return
    assert found["folder"] == tmp_path


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("00" * 32, 0o644, "chmod 600"),
        ("00" * 32, 0o660, "chmod 600"),
        ("zz" * 32, 0o600, "hex"),
        ("00" * 8, 0o600, "at least 16"),
        ("", 0o600, "at least 16"),
    ],
)
def test_a_readable_or_short_token_is_refused(tmp_path: Path, text: str, mode: int, words: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, "utf-8")
    file.chmod(mode)
    with pytest.raises(SettingsError, match=words):
        read_token(file)
    with pytest.raises(SettingsError, match="ad2 robot deploy"):
        read_token(tmp_path / "none")
