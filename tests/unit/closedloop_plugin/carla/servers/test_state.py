"""The record of a server: round trip, and one clear error for invalid files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiers import examples

from closedloop_plugin.carla.servers import state
from closedloop_plugin.carla.servers.processes import ProcessIdentity
from closedloop_plugin.carla.servers.state import CarlaServerRecord
from lmms_eval_ad2.errors import Ad2Error

IDENTITY = ProcessIdentity(4711, 123456, "6a1f0e7c-0000-4000-8000-000000000000")
TOKEN = "0123456789abcdef" * 2
PLAIN = CarlaServerRecord(
    port=2000,
    token=TOKEN,
    stage="answers",
    supervisor=IDENTITY,
    what="/carla/CarlaUE4.sh",
    server=IDENTITY,
    gpu=1,
    since=1.5e9,
    server_version="0.9.16",
)
CONTAINER = replace(PLAIN, server=None, gpu=None, engine="docker", container=state.container_name(2000, TOKEN))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("entry", [PLAIN, CONTAINER])
def test_a_written_record_is_read_back_and_removed(entry: CarlaServerRecord, tmp_path: Path) -> None:
    state.write(tmp_path, entry)
    assert state.read(tmp_path, 2000) == entry
    assert state.read_all(tmp_path) == [entry]
    state.remove(tmp_path, 2000)
    assert state.read(tmp_path, 2000) is None and state.read_all(tmp_path) == []


def write_changed(folder: Path, **changes: Any) -> None:
    (folder / "2000.json").write_text(json.dumps({**asdict(PLAIN), **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 2001},
        {"token": "x"},
        {"token": TOKEN + "\n"},
        {"stage": "fine"},
        {"supervisor": None},
        *({"server": {**asdict(IDENTITY), "pid": pid}} for pid in (-1, 0, 1, True, "2", 2**40, 2.0)),
        {"server": {**asdict(IDENTITY), "start": -1}},
        {"server": {**asdict(IDENTITY), "boot": "a b"}},
        {"engine": "sh", "container": state.container_name(2000, TOKEN)},
        {"engine": "docker", "container": "somebody-elses"},
        {"engine": "docker", "container": "--all"},
        {"container": state.container_name(2000, TOKEN)},
        {"gpu": "0"},
        {"restarts": -1},
        {"since": 10**400},
        {"since": float("nan")},
        {"reason": "\x1b[2J"},
        {"reason": "x" * 1001},
        {"server_version": "\u202e"},
        {"what": ""},
        {"what": "x" * 70_000},
    ],
)
def test_an_invalid_record_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    write_changed(tmp_path, **changes)
    with pytest.raises(Ad2Error, match=r"2000.json: not a record of a CARLA server"):
        state.read(tmp_path, 2000)


def test_the_unchanged_record_is_valid(tmp_path: Path) -> None:
    write_changed(tmp_path)
    assert state.read(tmp_path, 2000) == PLAIN


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes_raise_only_ad2_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "2000.json").write_bytes(content)
    with pytest.raises(Ad2Error):
        state.read(tmp_path, 2000)


def test_deep_nesting_and_huge_numbers_are_an_error(tmp_path: Path) -> None:
    for text in ("[" * 60_000, "9" * 60_000, '{"port":' * 9000):
        (tmp_path / "2000.json").write_text(text)
        with pytest.raises(Ad2Error):
            state.read(tmp_path, 2000)


@FUZZ
@given(st.sampled_from(sorted(asdict(PLAIN))), JSON)
def test_any_value_of_a_field_is_read_or_refused(tmp_path: Path, name: str, value: Any) -> None:
    write_changed(tmp_path, **{name: value})
    try:
        entry = state.read(tmp_path, 2000)
    except Ad2Error:
        return
    assert entry is not None and entry.port == 2000 and entry.token == TOKEN and entry.supervisor.pid > 1


def test_files_with_other_names_are_ignored(tmp_path: Path) -> None:
    for name in ("x.json", "2000.json.bak", "99999999.json", "-1.json"):
        (tmp_path / name).write_text("no record")
    assert state.read_all(tmp_path) == []
