"""Records of episodes: JSON and success."""

from __future__ import annotations

from closedloop_plugin.core.record import INFRACTIONS, EpisodeRecord


def test_a_record_round_trips_and_defines_success() -> None:
    lists = {name: [] for name in INFRACTIONS}
    record = EpisodeRecord(
        "s", "7", 0, 1, "ParkingCutIn", "P_1", "T", "completed", "Completed", lists, 100, 1, 100, 50, 9.5, 1.2, 190,
        {"name": "x"}, None, "bench2drive", {"backend": "embedded"}, {"source": "corridor"},
    )  # fmt: skip
    assert EpisodeRecord.from_json(record.to_json()) == record
    assert record.success
    slow = EpisodeRecord.from_json(record.to_json())
    slow.infractions["min_speed_infractions"].append("Average speed is 50%")
    assert slow.success
    slow.infractions["red_light"].append("ran one")
    assert not slow.success
