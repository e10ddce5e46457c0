"""Test tiers, the guard of the quick tier, and fixtures for all tests."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from support.running import REPO, WARM, note_variables_of_libraries
from support.soak_table import SOAK, machine, soak_table
from support.tiers import TIER, examples

# A test has the tier of its marker, else that of its folder; without either it belongs to `make quick`.
FOLDER_TIERS = {"e2e": "integration", "system": "system", "golden": "system"}
MARKED = ("integration", "system", "soak")
GUARDED = {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.connect"}
FONTS = ["fc-list"]  # of the machine: matplotlib, at its first import after an installation
NOT_IN_QUICK = ("scenic", "lmms_eval", "torch")

# No deadline: a slow machine must not fail an example.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("any machine")

# A background shell starts children with SIGINT ignored, and they inherit it. The commands under test need Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = REPO / "tests"
    for item in items:
        tier = FOLDER_TIERS.get(item.path.relative_to(tests).parts[0])
        if tier and not any(item.get_closest_marker(name) for name in MARKED):
            item.add_marker(tier)
        if item.get_closest_marker("soak"):
            item.user_properties.append((SOAK, ""))  # the keywords of a report contain names of parameters too


def pytest_sessionfinish() -> None:
    WARM.stop()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table of the soak tests. A repeated test counts with its last outcome."""
    found = (
        report for category in ("passed", "failed", "error") for report in terminalreporter.stats.get(category, [])
    )
    if lines := soak_table(found):
        terminalreporter.section(f"{TIER} tier, {machine()}")
        for line in lines:
            terminalreporter.write_line(line)


class QuickGuard:
    """Audit hook. While `active`, starting a process, a network socket or a heavy import raises RuntimeError.

    The flag exists because an audit hook cannot be removed.
    """

    active = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active or (event == "subprocess.Popen" and list(args[1])[:1] == FONTS):
            return
        if event in GUARDED and not (event.startswith("socket") and isinstance(args[1], str | bytes)):
            raise RuntimeError(f"{event} in a test of the quick tier; mark the test integration or system")
        if event == "import" and TIER == "quick" and args[0].split(".")[0] in NOT_IN_QUICK:
            raise RuntimeError(f"import of {args[0]} in a test of the quick tier; mark the test integration or system")


GUARD = QuickGuard()
sys.addaudithook(GUARD)


@pytest.fixture(autouse=True)
def quick_guard(request: pytest.FixtureRequest) -> Iterator[None]:
    """Activate the guard for tests without a tier marker. Heavy imports are errors in `make quick` only."""
    GUARD.active = not any(request.node.get_closest_marker(name) for name in MARKED)
    yield
    GUARD.active = False


@pytest.fixture(autouse=True)
def fixed_commit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the quick tier start no git: results there are of commit 0."""
    if not any(request.node.get_closest_marker(name) for name in MARKED):
        monkeypatch.setattr("lmms_eval_ad2.storage.identity.source_commit", lambda: "0" * 40)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real test data (`AD2_TEST_DATA`). If it is absent, skip; under CI, fail."""
    path = Path(os.environ.get("AD2_TEST_DATA") or REPO.parent / "shared" / "data")
    if path.is_dir():
        return path
    message = f"no real test data at {path}; set AD2_TEST_DATA to the folder that contains drivelm/ and road_photos/"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test its own data home, and keep model hubs offline."""
    note_variables_of_libraries()
    home = tmp_path_factory.mktemp("ad2home")
    monkeypatch.setenv("AD2_HOME", str(home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("AD2_JUDGE", raising=False)
    monkeypatch.delenv("AD2_JUDGE_REPEATS", raising=False)
    monkeypatch.delenv("AD2_JUDGE_IMAGES", raising=False)
    monkeypatch.delenv("AD2_PROMPTS", raising=False)
    monkeypatch.delenv("AD2_SHARD", raising=False)
    return home
