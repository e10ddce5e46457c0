"""Folders as `ad2 threats generate` writes them, from given specs, without an interview and without drives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from closedloop_plugin.maps.build import road_for
from closedloop_plugin.scenarios.catalogue import CATALOGUE
from closedloop_plugin.suites.lookup import suite
from closedloop_plugin.threats.folder import ThreatFolder
from closedloop_plugin.threats.site import ThreatSite, fit, site_of
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import InterviewRecord, ThreatAttempt, ThreatTranscript

ROUTES = {route.id: route for route in suite("demo").routes}


def site_on(route_id: str, maps: Path) -> ThreatSite:
    """The site of a route of the demo suite on its corridor map."""
    route = ROUTES[route_id]
    return site_of("demo", route, road_for(route, CATALOGUE[route.scenario].layout, folder=maps))


def write_suite(folder: Path, scenarios: Mapping[str, tuple[ThreatSite, ThreatSpec]], **index: Any) -> Path:
    """A finished suite with one program and transcript per scenario; `index`: more fields of suite.json."""
    written = ThreatFolder(folder)
    for name, (site, spec) in scenarios.items():
        assert fit(spec, site) == [], name
        interview = InterviewRecord(agent={"name": "m"}, source="said")
        transcript = ThreatTranscript(route=name, site=site, interview=interview)
        written.add(transcript, ThreatAttempt(number=0, seed=0, fuser={"name": "x"}, spec=spec))
    fields = {"name": "threats", "asked": {"profile": "bench2advlm"}, "finished": True, "left_out": {}, **index}
    (folder / "suite.json").write_text(json.dumps(fields))
    return folder
