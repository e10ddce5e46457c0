"""The 220 routes, and a world to play their scenarios in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import Route, read_routes
from closedloop_plugin.worlds.base import World


@pytest.fixture(scope="module")
def routes(data_dir: Path) -> dict[str, Route]:
    """By id."""
    file = data_dir / "bench2drive" / "bench2drive220.xml"
    if not file.is_file():
        pytest.skip("the 220 routes are not here")
    return {route.id: route for route in read_routes(file)}


@pytest.fixture(scope="module")
def routes_by_type(routes: dict[str, Route]) -> dict[str, Route]:
    """One route of each scenario type."""
    return {route.scenario: route for route in routes.values()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    embedded = EmbeddedWorld(tmp_path_factory.mktemp("maps"))
    yield embedded
    embedded.close()
