"""A cache of road networks, for test modules with `pytest_plugins = ("support.closedloop.networks",)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def one_network_a_map() -> Iterator[None]:
    """Read each map only once: reading it again for another program takes most of the time of these tests."""
    from scenic.domains.driving.roads import Network

    from closedloop_plugin.worlds.bridge.compiled_scene import scenic

    scenic()  # its patches replace the same method, and must come first
    read, known = Network.fromFile, {}

    def remembered(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path) not in known:
            known[str(path)] = read(path, *args, **kwargs)
        return known[str(path)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "fromFile", remembered)
        yield
