"""The record of a server: command, round trip, and one clear error for invalid files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.carla.servers import record
from closedloop_plugin.carla.servers.record import COMPOSE_FILE, CarlaServerRecord
from lmms_eval_ad2.core.errors import Ad2Error

TOKEN = "0123456789abcdef" * 2
PLAIN = CarlaServerRecord(
    port=2000,
    token=TOKEN,
    stage="answers",
    binary="/carla/CarlaUE4.sh",
    gpu=1,
    extra=("-fps=20", "a b"),
    since=1.5e9,
    server_version="0.9.16",
)
CONTAINER = CarlaServerRecord(port=2000, token=TOKEN, image="carlasim/carla:0.9.16")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_the_command_of_a_binary() -> None:
    assert PLAIN.command == [
        "/carla/CarlaUE4.sh", "-RenderOffScreen", "-nosound", "-carla-rpc-port=2000", "-graphicsadapter=1", "-fps=20",
        "a b",
    ]  # fmt: skip
    without = CarlaServerRecord(port=2000, token=TOKEN, binary="/c")
    assert not any("graphicsadapter" in argument for argument in without.command)


def test_the_command_of_a_container() -> None:
    name = f"ad2-carla-2000-{TOKEN[:12]}"
    assert CONTAINER.command[:6] == ["docker", "compose", "-p", name, "-f", str(COMPOSE_FILE)]
    assert COMPOSE_FILE.is_file()
    assert CONTAINER.environment["AD2_CARLA_GPU"] == "all"
    second = CONTAINER.model_copy(update={"gpu": 1, "extra": ("-fps=20", "a b"), "engine": "podman"})
    assert second.command[0] == "podman"
    names = ("TOKEN", "IMAGE", "NAME", "PORT", "GPU", "ARGS")
    assert [second.environment[f"AD2_CARLA_{name}"] for name in names] == [
        TOKEN, "carlasim/carla:0.9.16", name, "2000", "1", "-fps=20 'a b'",
    ]  # fmt: skip


@pytest.mark.parametrize("entry", [PLAIN, CONTAINER])
def test_a_written_record_is_read_back(entry: CarlaServerRecord, tmp_path: Path) -> None:
    entry.write(tmp_path)
    assert record.read(tmp_path, 2000) == entry
    assert record.read_all(tmp_path) == [entry]
    assert record.read(tmp_path, 2001) is None


def write_changed(folder: Path, **changes: Any) -> None:
    (folder / "2000.json").write_text(json.dumps({**PLAIN.model_dump(), **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 2001},
        {"token": "x"},
        {"token": TOKEN + "\n"},
        {"stage": "fine"},
        {"engine": "sh"},
        {"image": "--all"},
        {"gpu": "0"},
        {"gpu": True},
        {"restarts": -1},
        {"since": 10**400},
        {"since": float("nan")},
        {"reason": "\x1b[2J"},
        {"reason": "x" * 1001},
        {"server_version": "\u202e"},
        {"extra": "-fps=20"},
        {"unknown": 1},
    ],
)
def test_an_invalid_record_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    write_changed(tmp_path, **changes)
    with pytest.raises(Ad2Error, match=r"2000.json: not a record of a CARLA server"):
        record.read(tmp_path, 2000)


def test_the_unchanged_record_is_valid(tmp_path: Path) -> None:
    write_changed(tmp_path)
    assert record.read(tmp_path, 2000) == PLAIN


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes_raise_only_ad2_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "2000.json").write_bytes(content)
    with pytest.raises(Ad2Error):
        record.read(tmp_path, 2000)


def test_deep_nesting_and_huge_numbers_are_an_error(tmp_path: Path) -> None:
    for text in ("[" * 60_000, "9" * 60_000, '{"port":' * 9000):
        (tmp_path / "2000.json").write_text(text)
        with pytest.raises(Ad2Error):
            record.read(tmp_path, 2000)


@FUZZ
@given(st.sampled_from(sorted(PLAIN.model_dump())), JSON)
def test_any_value_of_a_field_is_read_or_refused(tmp_path: Path, name: str, value: Any) -> None:
    write_changed(tmp_path, **{name: value})
    try:
        entry = record.read(tmp_path, 2000)
    except Ad2Error:
        return
    assert entry is not None and entry.port == 2000 and (name == "token" or entry.token == TOKEN)


def test_files_with_other_names_are_ignored(tmp_path: Path) -> None:
    for name in ("x.json", "2000.json.bak", "99999999.json", "-1.json"):
        (tmp_path / name).write_text("no record")
    assert record.read_all(tmp_path) == []
