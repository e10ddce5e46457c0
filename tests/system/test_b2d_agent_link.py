"""The leaderboard agent's parser of replies, agent.json, pictures, and Python 3.7."""

from __future__ import annotations

import ast
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.bench2drive.scripted_driver import answer
from support.running import REPO

from closedloop_plugin.carla.leaderboard_agent import ad2_link as link

FOLDER = REPO / "closedloop_plugin" / "carla" / "leaderboard_agent"
SHIPPED = REPO / "configs" / "bench2drive" / "agent.json"
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def chat(content: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}}]}


@pytest.mark.parametrize("file", ["agent.py", "ad2_link.py", "ad2_position.py"])
def test_the_files_are_python_3_7_and_do_not_import_the_packages(file: str) -> None:
    text = (FOLDER / file).read_text("utf-8")
    tree = ast.parse(text, feature_version=(3, 7))
    named = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    named |= {str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(n.startswith(("closedloop_plugin", "lmms_eval_ad2")) for n in named)
    with pytest.raises(SyntaxError):
        ast.parse("if (n := 1): pass", feature_version=(3, 7))  # the check can fail


def test_the_shipped_configuration_has_the_default_values() -> None:
    assert link.read_config(SHIPPED, {}) == link.LeaderboardAgentConfig()


def test_every_field_is_documented() -> None:
    page = (REPO / "docs" / "bench2drive.md").read_text("utf-8")
    missing = [name for name in link.settings(link.LeaderboardAgentConfig()) if f"`{name}`" not in page]
    assert not missing, f"docs/bench2drive.md does not name {missing}"


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"base_ulr": "x"}, "unknown field 'base_ulr'; did you mean 'base_url'"),
        ({"timeout_s": 0}, "timeout_s: expected seconds"),
        ({"timeout_s": "20"}, "timeout_s: expected seconds"),
        ({"timeout_s": math.nan}, "timeout_s: expected seconds"),
        ({"retries": 1.5}, "retries: expected a whole number"),
        ({"retries": True}, "retries: expected a whole number"),
        ({"retries": 9}, "may take"),
        ({"patience": 0}, "patience: expected"),
        ({"image_format": "webp"}, "auto, jpeg or png"),
        ({"cameras": {"front": {"widht": 4}}}, "unknown field 'widht'; did you mean 'width'"),
        ({"cameras": {"front": {"width": 4}}}, "width: expected pixels"),
        ({"cameras": [1]}, "cameras: expected an object"),
        ([], "expected an object"),
    ],
)
def test_an_invalid_configuration_is_rejected_with_the_reason(given_: Any, words: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(given_), "utf-8")
    with pytest.raises(link.SetupError, match=words):
        link.read_config(file, {})


@pytest.mark.parametrize(
    "url", ["host:8100", "ftp://h/v1", "http://", "http://u:p@h/v1", "http://h:port/v1", "http://[/"]
)
def test_invalid_addresses_are_rejected(url: str) -> None:
    with pytest.raises(link.SetupError, match="base_url"):
        link.DriverHttpClient(link.LeaderboardAgentConfig(base_url=url), {})


def test_an_unset_api_key_is_reported() -> None:
    with pytest.raises(link.SetupError, match="MY_KEY"):
        link.DriverHttpClient(link.LeaderboardAgentConfig(api_key_env="MY_KEY"), {})


@pytest.mark.parametrize("key", ["two\nlines", "schl\u00fcssel"])
def test_an_api_key_that_no_header_can_contain_is_reported_without_its_value(key: str) -> None:
    with pytest.raises(link.SetupError, match="MY_KEY") as error:
        link.DriverHttpClient(link.LeaderboardAgentConfig(api_key_env="MY_KEY"), {"MY_KEY": key})
    assert key not in str(error.value)


def test_the_configuration_string_is_split_into_file_and_save_name(tmp_path: Path) -> None:
    """The file name may contain a +; the last of several save names is that of the route."""
    file = tmp_path / "my+agent.json"
    file.write_text("{}", "utf-8")
    assert link.split_config(f"{file}+one+two") == (file, "two")
    assert link.split_config(str(file)) == (file, "")
    with pytest.raises(link.SetupError, match=r"TEAM_CONFIG must be the path of agent.json"):
        link.split_config(f"{tmp_path}/none.json+one")


@pytest.mark.parametrize("wanted", ["png", "jpeg", "auto"])
def test_encoded_pictures_keep_size_and_colours(wanted: str) -> None:
    """Blue on the left, red on the right, in CARLA's order of channels."""
    bgra = np.zeros((9, 33, 4), np.uint8)
    bgra[:, :16, 0], bgra[:, 16:, 2] = 200, 250
    encoder = link.choose_encoder(wanted, 95)
    picture = Image.open(io.BytesIO(encoder.encode(bgra)))
    assert picture.format == ("PNG" if wanted == "png" else "JPEG") and encoder.kind == picture.format.lower()
    rgb = np.asarray(picture.convert("RGB")).astype(int)
    assert rgb.shape == (9, 33, 3)
    tolerance = 0 if wanted == "png" else 12
    assert np.abs(rgb[4, 4] - [0, 0, 200]).max() <= tolerance and np.abs(rgb[4, 28] - [250, 0, 0]).max() <= tolerance


def test_without_pillow_pictures_are_png(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(link.importlib, "import_module", absent)
    assert link.choose_encoder("auto", 90).kind == "png"
    with pytest.raises(link.SetupError, match="pip install Pillow"):
        link.choose_encoder("jpeg", 90)


@given(JSON)
def test_an_arbitrary_reply_is_an_answer_or_a_failure(reply: Any) -> None:
    for each in (reply, chat(reply), chat(json.dumps(reply)), chat(json.dumps(answer(control=reply)))):
        try:
            parsed = link.read_answer(each)
        except link.DriverFailure as exc:
            assert str(exc).isascii() and len(str(exc)) < 1500
        else:
            assert parsed["control"] is None or set(parsed["control"]) == {"steer", "throttle", "brake"}


@given(st.dictionaries(st.sampled_from(["steer", "throttle", "brake"]), JSON))
def test_a_control_is_in_range_or_refused(control: dict[str, Any]) -> None:
    try:
        found = link.read_answer(chat(json.dumps(answer(control=control))))["control"]
    except link.DriverFailure:
        return
    assert -1 <= found["steer"] <= 1 and 0 <= found["throttle"] <= 1 and 0 <= found["brake"] <= 1


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_valid_control_is_unchanged(steer: float, throttle: float, brake: float) -> None:
    control = {"steer": steer, "throttle": throttle, "brake": brake}
    assert link.read_answer(chat(json.dumps(answer(control=control))))["control"] == control


def test_an_unparsed_reply_has_no_control() -> None:
    found = link.read_answer(chat(json.dumps(answer(unparsed="no\nnumber"))))
    assert found["control"] is None and found["unparsed"] == "no number"


def test_the_field_unparsed_is_optional() -> None:
    reply = answer()
    del reply["unparsed"]
    assert link.read_answer(chat(json.dumps(reply)))["unparsed"] is None


class Dripping:
    """A reply of one byte at a time that never ends."""

    def __init__(self) -> None:
        self.given = 0

    def read1(self, _: int) -> bytes:
        self.given += 1
        return b" "


def test_a_dripping_reply_is_cut_off_by_size_and_time() -> None:
    by_size = Dripping()
    with pytest.raises(Exception, match="more than"):
        link._read(by_size, time.monotonic() + 1e6)  # type: ignore[arg-type]
    assert by_size.given == link.MAX_REPLY + 1
    with pytest.raises(Exception, match="too long"):
        link._read(Dripping(), time.monotonic() - 1)  # type: ignore[arg-type]
