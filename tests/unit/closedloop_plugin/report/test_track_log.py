"""The track log: contents, limited size, and reading it back."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closedloop.rides import PATH, model_answer, record, ride, road, truth
from support.tiers import examples

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import ActorKind, Control, EgoContact
from closedloop_plugin.report.track_log import EpisodeTrack, TrackLog, parse_track, progress, read_track, reply_lines
from closedloop_plugin.scoring.referee.referee import Referee
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def kept(log: TrackLog, **more) -> dict:
    return json.loads(json.dumps(log.to_json(**more)))


def test_two_samples_a_second_and_the_last_tick_are_kept() -> None:
    log, _, _ = ride(ticks=103)
    assert [s["tick"] for s in log.to_json()["samples"]] == [*range(0, 101, 10), 102]


def test_the_moment_of_a_crash_is_kept() -> None:
    log = TrackLog()
    for tick in range(31):
        hit = (EgoContact("cone", ActorKind.CONE, 0.0, 0.0),) if 13 <= tick < 17 else ()
        log.add(replace(truth(tick), contacts=hit), Control())
    assert [s["tick"] for s in log.to_json()["samples"]] == [0, 10, 13, 20, 30]


def test_every_part_of_a_log_is_read_back() -> None:
    log, rec, seen = ride()
    track = parse_track(kept(log, road=road(), record=rec))
    assert track.moments[2].tick == 20 and track.moments[2].t == 1.0
    ego = seen[20].ego
    assert (track.moments[2].x, track.moments[2].speed) == (round(ego.x, 2), round(ego.speed, 2))
    assert track.moments[2].reply == model_answer(20)
    assert track.events == ((4.0, "trigger"),)
    assert track.route[0] == (0.0, 0.0) and track.route[-1] == (80.0, 70.0)
    assert len(track.route) == round(PATH.length / 2) + 1
    assert [line["id"] for line in track.stop_lines] == ["west", "south", "north"]
    assert {p["kind"] for p in track.places} == {
        "outside_route_lanes",
        "red_light",
        "stop_infraction",
        "collisions_pedestrian",
    }
    assert track.result["status"] == "Completed" and track.map_sha256 == "ab" * 32
    west = [(t, state) for t, line, state in track.signals if line == "west"]
    assert west == [(0.0, "red"), (15.0, "green")]  # changes only


def test_stationary_actors_are_written_once_and_departures_are_recorded() -> None:
    log = TrackLog()
    for tick in range(0, 41, 10):
        now = truth(tick)
        log.add(now if tick != 20 else replace(now, actors=()), Control())
    samples = log.to_json()["samples"]
    assert [s["actors"].get("cone", "-") for s in samples] == [[34.0, -0.5, 0.0], "-", None, [34.0, -0.5, 0.0], "-"]
    (cone,) = [b for b in parse_track(kept(log)).bodies if b.id == "cone"]
    assert [len(piece) for piece in cone.pieces] == [1, 1]


def test_an_actor_that_was_put_elsewhere_begins_a_new_piece() -> None:
    log = TrackLog()
    for tick, x in ((0, 20.0), (10, 30.0), (20, 50.0), (30, -40.0), (40, -30.0)):  # 10 ticks: 0.5 s
        now = truth(tick)
        log.add(replace(now, actors=tuple(replace(a, x=x) for a in now.actors if a.id == "cone")), Control())
    (cone,) = parse_track(kept(log)).bodies
    assert [[pose[1] for pose in piece] for piece in cone.pieces] == [[20.0, 30.0, 50.0], [-40.0, -30.0]]


def test_actors_far_away_are_left_out() -> None:
    log = TrackLog()
    now = truth(0)
    log.add(replace(now, actors=tuple(replace(a, x=a.x + 500) for a in now.actors)), Control())
    assert log.to_json()["bodies"] == {}


def test_the_log_of_a_long_episode_with_many_actors_and_long_replies_is_small() -> None:
    """200 s, 40 moving vehicles, a page of text at every decision."""
    log = TrackLog()
    long_reply = {"texts": {"action": "é" * 5000, "reasoning": "x" * 5000}, "raw": "y" * 9000}
    for tick in range(0, 4001, 2):
        log.add(truth(tick, extra=40), Control(), long_reply if tick % 10 == 0 else None)
    found = log.to_json(road())
    assert len(json.dumps(found)) < 300_000
    assert log.every_s > 0.5 and found["samples"][0]["tick"] == 0 and found["samples"][-1]["tick"] == 4000
    assert any("said" in s for s in found["samples"])
    assert len(parse_track(found).moments) == len(found["samples"])


def test_thinning_loses_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """After thinning, each actor's last known place is still the true one."""
    ends = []
    for budget in (200_000, 8_000):
        monkeypatch.setattr("closedloop_plugin.report.track_log.BUDGET", budget)
        log = TrackLog()
        for tick in range(0, 400, 10):
            log.add(truth(tick, extra=3), Control())
        ends.append({b.id: b.pieces[-1][-1][1:3] for b in parse_track(kept(log)).bodies})
    assert log.every_s >= 1.0
    assert ends[0] == ends[1] and len(ends[0]) == 7


def test_an_empty_log_is_still_json() -> None:
    assert kept(TrackLog())["samples"] == []


def test_a_track_from_an_unfinished_referee() -> None:
    log, referee = TrackLog(), Referee(profile("bench2drive"), road(), None)
    log.add(truth(0), Control())
    referee.tick(truth(0))
    assert parse_track(kept(log, record=record(referee))).places == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": 2}, "format"),
        ({"samples": []}, "samples"),
        ({"samples": [{"t": 0}]}, "samples"),
        ({"samples": "x"}, "samples"),
        ({"bodies": {"a": {"kind": "car"}}}, "samples"),
        ({"places": [{"kind": "red_light"}]}, "samples"),
        ({"road": {"route": [[1, "x"]]}}, "samples"),
    ],
)
def test_a_malformed_track_names_file_and_field(change: dict, field: str) -> None:
    log, _, _ = ride(ticks=30)
    with pytest.raises(DataError, match=rf"x\.json.*{field}"):
        parse_track({**kept(log), **change}, "x.json")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    log, _, _ = ride(ticks=30)
    text = json.dumps(log.to_json()).replace('"ego": [0.0, 0.0', '"ego": [NaN, 0.0', 1)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match="finite"):
        read_track(tmp_path / "x.json")


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "null", "\x00"])
def test_a_file_that_is_no_track_is_an_error(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "x.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Ad2Error, match=r"x\.json"):
        read_track(file)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(["road", "ego", "bodies", "samples", "events", "places", "result"]), values)
def test_any_value_in_a_field_is_read_or_refused(name: str, value) -> None:
    log, _, _ = ride(ticks=21)
    with suppress(Ad2Error):
        parse_track({**kept(log), name: value})


def test_a_pause_weighs_half_of_a_drive(track: EpisodeTrack) -> None:
    """10 s stationary, then 10 s and 50 m: 0, 0.5, 2."""
    moments = [replace(track.moments[0], t=t, x=x, y=0.0) for t, x in ((5.0, 1.0), (15.0, 1.0), (25.0, 51.0))]
    assert progress(moments) == [0.0, 0.5, 2.0]
    assert progress(moments[:1]) == [0.0]


def test_the_caption_of_a_moment(track: EpisodeTrack) -> None:
    lines = track.moments[0].words().splitlines()
    assert lines[0] == "0.0 s, 1 km/h" and lines[1] == "steer +0.00, throttle 0.50, brake 0.00"
    assert lines[2].startswith("action: The light ahead is red") and lines[3].startswith('cng: {"throttle"')


def test_a_caption_has_what_was_read_and_no_words_twice() -> None:
    words = {"texts": {"action": "Slow down."}, "raw": "Slow down.", "mode": "rules"}
    assert reply_lines({**words, "meaning": "slower, keep"}) == ["action: Slow down.", "read as: slower, keep"]
    assert reply_lines(words) == ["action: Slow down."]
    assert reply_lines({**words, "raw": '{"brake": 1}', "mode": "cng"})[1] == 'cng: {"brake": 1}'
