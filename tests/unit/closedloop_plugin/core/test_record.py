"""Records of episodes: JSON, success, and names of drivers in tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord, driver_name


def finished_record() -> EpisodeRecord:
    lists: dict[str, list[str]] = {name: [] for name in INFRACTIONS}
    return EpisodeRecord(
        "s", "7", 0, 1, "ParkingCutIn", "P_1", "T", "completed", "Completed", lists, 100, 1, 100, 50, 9.5, 1.2, 190,
        {"name": "x"}, None, "bench2drive", {"backend": "embedded"}, {"source": "corridor"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("route_id", 7, r"field 'route_id': .*string, found 7"),
        ("repetition", 0.5, r"field 'repetition': .*integer"),
        ("repetition", True, r"field 'repetition': .*integer, found True"),
        ("score_composed", "100", r"field 'score_composed': .*number, found '100'"),
        ("score_composed", float("inf"), r"field 'score_composed': .*finite"),
        ("infractions", {"red_light": "ran one"}, r"field 'infractions.red_light': .*array"),
        ("counts", {"unparsed": 1.5}, r"field 'counts.unparsed': .*integer"),
        ("events", [["a", 1.0]], r"field 'events.0.0': .*number, found 'a'"),
        ("interpreter", [], r"field 'interpreter': .*object"),
        ("more", 1, r"field 'more': .*"),
        ("drawn", "x" * 10_000, r"field 'drawn': .{1,120}$"),
    ],
)
def test_a_field_of_another_type_is_named(field: str, value: Any, message: str) -> None:
    row = {**json.loads(finished_record().to_json()), field: value}
    with pytest.raises(ValueError, match=message) as caught:
        EpisodeRecord.from_json(json.dumps(row))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ["", "{", "[]", "3", "null", '{"suite": "s"}', "[" * 100_000])
def test_a_line_that_is_no_record_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|object|Field") as caught:
        EpisodeRecord.from_json(line)
    assert len(str(caught.value)) < 200


def test_a_record_round_trips_and_defines_success() -> None:
    record = finished_record()
    assert EpisodeRecord.from_json(record.to_json()) == record
    assert record.success
    slow = EpisodeRecord.from_json(record.to_json())
    slow.infractions["min_speed_infractions"].append("Average speed is 50%")
    assert slow.success
    slow.infractions["red_light"].append("ran one")
    assert not slow.success


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ({"name": "expert (privileged)"}, "expert (privileged)"),
        ({"name": "lmms:llava_hf", "model_args": "pretrained=/a/tiny-driver/,device=cpu"}, "lmms:llava_hf tiny-driver"),
        ({"name": "lmms:qwen2_5_vl", "model_args": "device=cpu,pretrained=Qwen/Qwen2.5-VL-7B-Instruct"},
         "lmms:qwen2_5_vl Qwen2.5-VL-7B-Instruct"),
        ({"name": "lmms:openai", "model_args": "model_version=gpt-4o"}, "lmms:openai gpt-4o"),
        ({"name": "lmms:mine", "model_args": ""}, "lmms:mine"),
        ({"name": "lmms:mine", "model_args": "object=0123,base_model=x"}, "lmms:mine"),
        ({}, ""),
    ],
)  # fmt: skip
def test_a_model_is_named_with_its_checkpoint(agent: dict[str, str], name: str) -> None:
    assert driver_name(agent) == name
