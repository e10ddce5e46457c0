"""The track of one ride, for the pictures of an episode."""

from __future__ import annotations

import pytest
from support.closedloop.rides import ride, road

from closedloop_plugin.report.track_log import EpisodeTrack, parse_track


@pytest.fixture(scope="module")
def track() -> EpisodeTrack:
    log, rec, _ = ride()
    return parse_track(log.to_json(road(), rec))
