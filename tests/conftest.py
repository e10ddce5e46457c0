"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

REPO = Path(__file__).resolve().parent.parent

# Otherwise only where CI is set: a machine that stands still for a second is no fault of the example under test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# What a shell puts into the background is deaf to Ctrl-C, and so are its children: commands under test must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data for tests. `AD2_TEST_DATA` names it; absent: skip here, fail under CI."""
    path = Path(os.environ.get("AD2_TEST_DATA") or REPO.parent / "shared" / "data")
    if path.is_dir():
        return path
    message = f"no real test data at {path}; set AD2_TEST_DATA to the folder that holds drivelm/ and road_photos/"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a data home of its own, and no network for model hubs."""
    home = tmp_path_factory.mktemp("ad2home")
    monkeypatch.setenv("AD2_HOME", str(home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("AD2_JUDGE", raising=False)
    monkeypatch.delenv("AD2_PROMPTS", raising=False)
    return home
