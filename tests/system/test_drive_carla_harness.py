"""The closed loop as lmms-eval tasks, in CARLA: each server of the settings gets one worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import Ad2Error


def started_run(monkeypatch: pytest.MonkeyPatch, **settings: str) -> Any:
    """The run that the engine would start for one route of the demo suite."""
    from closedloop_plugin.interfaces import tasks as harness

    for name, value in settings.items():
        monkeypatch.setenv(f"AD2_DRIVE_{name}", value)
    runs: list[Any] = []
    monkeypatch.setattr(harness, "run", lambda config: runs.append(config) or [record])
    record = SimpleNamespace(route_id="101", blamed="", to_json=lambda: "{}")
    config = SimpleNamespace(dataset_path="ad2drive:demo", metadata={}, task="ad2drive_carla", test_split="test")
    harness.ConfigurableTask.download(SimpleNamespace(config=config))
    lm = SimpleNamespace(is_simple=True, task_dict={"ad2drive_carla": {"test": [{"id": "101"}]}})
    request = SimpleNamespace(args=("x", {"max_new_tokens": 16}, None, None, 0, "ad2drive_carla", "test"))
    assert harness.drive(lm, [request], "ad2drive_carla") == ["{}"]
    return runs[0]


def test_world_and_servers_are_those_of_drive_run(monkeypatch: pytest.MonkeyPatch) -> None:
    drive_run = started_run(monkeypatch, WORLD="carla", SERVERS="gpu1:2000,gpu1:2010,gpu2:2000")
    world = drive_run.worker_config.world
    assert [world.of(k).kwargs["server"] for k in range(3)] == ["gpu1:2000", "gpu1:2010", "gpu2:2000"]
    assert (drive_run.limits.workers, drive_run.identity["world"]) == (
        3,
        "closedloop_plugin.carla.world.world:CarlaWorld",
    )


def test_without_servers_the_default_port_of_carla_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    drive_run = started_run(monkeypatch, WORLD="carla")
    assert (drive_run.worker_config.world.server(0), drive_run.limits.workers) == ("127.0.0.1:2000", 1)


def test_servers_without_carla_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Ad2Error, match="belong to --world carla; the world here is embedded"):
        started_run(monkeypatch, SERVERS="gpu1:2000")
