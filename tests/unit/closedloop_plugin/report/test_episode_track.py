"""Moments of a track: progress along the drive, and their captions."""

from __future__ import annotations

from dataclasses import replace

from closedloop_plugin.report.episode_track import EpisodeTrack, progress, reply_lines


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
