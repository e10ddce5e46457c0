"""Connecting to Ray: one line for each mistake, and only to clusters that demand a token."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from closedloop_plugin.runner.cluster import connection
from closedloop_plugin.runner.cluster.connection import connect, connected
from lmms_eval_ad2.core.errors import Ad2Error, MissingExtra

ADDRESS = "127.0.0.1:6379"


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(connection, "_OURS", {})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A substitute for ray, and the arguments of its init."""
    found: list[dict[str, Any]] = []
    fake = SimpleNamespace(is_initialized=lambda: False, init=lambda **given: found.append(given))
    monkeypatch.setattr(connection, "require", lambda module, why="": fake)
    return found


def answers(monkeypatch: pytest.MonkeyPatch, **by_mode: tuple[int, str]) -> None:
    """Exit code and standard error of ray's health check, by RAY_AUTH_MODE; it times out for other modes."""

    def run(command: list[str], *, env: dict[str, str], **more: Any) -> subprocess.CompletedProcess[str]:
        if env["RAY_AUTH_MODE"] not in by_mode:
            raise subprocess.TimeoutExpired(command, 1)
        code, text = by_mode[env["RAY_AUTH_MODE"]]
        return subprocess.CompletedProcess(command, code, "", text)

    monkeypatch.setattr(subprocess, "run", run)


REFUSED = (1, "RPC error: InvalidAuthToken: missing")


def test_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    text = r"^ray is needed \(by --config engine=ray\) and not installed: pip install (-e )?'.*\[ray\]'$"
    with pytest.raises(MissingExtra, match=text):
        connect(None, 1)


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "10.0.0.1", "10.0.0.1:x", ":6379"])
def test_a_malformed_address(calls: list[dict[str, Any]], address: str) -> None:
    with pytest.raises(Ad2Error, match=r"expected auto or HOST:PORT"):
        connect(address, 1)


def test_no_cluster(calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)
    with pytest.raises(Ad2Error, match=r"^--config ray_address=127.0.0.1:6379: no Ray cluster answers"):
        connect(ADDRESS, 1)


def test_a_cluster_without_token_is_refused_unless_the_user_permits_it(
    calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, disabled=(0, ""))
    with pytest.raises(Ad2Error, match="demands no token"):
        connect(ADDRESS, 1)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    connect(ADDRESS, 1)
    assert calls[0]["address"] == ADDRESS


def test_a_wrong_token(calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, disabled=REFUSED)
    with pytest.raises(Ad2Error, match="refuses this machine's token"):
        connect(ADDRESS, 1)


def test_a_cluster_with_the_same_token(calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, disabled=REFUSED, token=(0, ""))
    connect(ADDRESS, 1)
    assert "num_cpus" not in calls[0] and calls[0]["log_to_driver"] is False


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**given: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1\n    Python: 3.8\n")

    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(connection, "require", lambda module, why="": fake)
    answers(monkeypatch, disabled=REFUSED, token=(0, ""))
    with pytest.raises(Ad2Error, match=r"another version of Ray or Python; .*Ray: 2.1 Python: 3.8") as caught:
        connect(ADDRESS, 1)
    assert "\n" not in str(caught.value)


def test_ray_of_this_machine_has_its_own_token_and_a_place_for_each_world(
    calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tokens_of()
    connect(None, 500, 2)
    assert calls[0]["address"] == "local"
    assert (calls[0]["num_cpus"], calls[0]["resources"]) == (500, {"carla": 2})
    assert calls[0]["include_dashboard"] is False
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_USAGE_STATS_ENABLED"], len(tokens[0])) == ("token", "0", 64)
    connect(None, 1)
    assert tokens[0] != tokens[1]


def tokens_of() -> list[str]:
    """RAY_AUTH_TOKEN at each start of ray."""
    found: list[str] = []
    ray: Any = connection.require("ray")
    init = ray.init

    def recorded(**given: Any) -> None:
        found.append(os.environ.get("RAY_AUTH_TOKEN", "none"))
        init(**given)

    ray.init = recorded
    return found


@pytest.mark.parametrize("own", [None, "the user's"])
def test_the_token_of_this_machine_s_ray_is_not_used_for_a_later_cluster(
    calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, own: str | None
) -> None:
    if own:
        monkeypatch.setenv("RAY_AUTH_TOKEN", own)
    loader = SimpleNamespace(resets=0)
    loader.reset_cache = lambda: setattr(loader, "resets", loader.resets + 1)
    kept = SimpleNamespace(AuthenticationTokenLoader=SimpleNamespace(instance=lambda: loader))
    monkeypatch.setitem(sys.modules, "ray._raylet", kept)
    answers(monkeypatch, disabled=REFUSED, token=(0, ""))
    tokens = tokens_of()
    connect(None, 1)
    assert os.environ.get("RAY_AUTH_TOKEN") == own
    monkeypatch.setattr(connection, "is_open", lambda address, timeout_s: True)
    connect(ADDRESS, 1)
    assert len(tokens[0]) == 64
    assert tokens[1] == (own or "none")
    assert loader.resets == 2, "Ray keeps the token of the process otherwise"


def test_the_token_leaves_the_environment_although_ray_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**given: Any) -> None:
        raise RuntimeError("no shared memory")

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(connection, "require", lambda module, why="": ray)
    with pytest.raises(Ad2Error, match="no shared memory"):
        connect(None, 1)
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_replicas_require_the_engine(calls: list[dict[str, Any]]) -> None:
    with pytest.raises(Ad2Error, match="add --config engine=ray"):
        connected()
