"""support/robots/real_time.py: which tests are called again, and with which fixtures."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from support.robots import real_time
from support.robots.real_time import CALLS, STALL_S, MachineStalled, Pulse


class StalledPulse(Pulse):
    """Reports `stood_s` as the longest stall."""

    stood_s = 0.0

    @property
    def worst_s(self) -> float:
        return self.stood_s


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bool | None]:
    """Function that calls a test with its fixtures on a machine that stalled for `stood_s`."""

    def called(test: Callable[..., None], stood_s: float, renewed: Any = None, **fixtures: Any) -> bool | None:
        monkeypatch.setattr(StalledPulse, "stood_s", stood_s)
        monkeypatch.setattr(real_time, "Pulse", StalledPulse)
        module = SimpleNamespace() if renewed is None else SimpleNamespace(RENEWED=renewed)
        item = SimpleNamespace(
            module=module, nodeid="it", obj=test, funcargs=fixtures,
            _fixtureinfo=SimpleNamespace(argnames=[name for name in fixtures if name != "hidden"]),
            _request=SimpleNamespace(getfixturevalue=lambda name: tmp_path_factory),
        )  # fmt: skip
        return real_time.pytest_pyfunc_call(item)  # type: ignore[arg-type]

    return called


def test_a_failure_without_a_stall_is_final(call: Any) -> None:
    calls: list[int] = []

    def test() -> None:
        calls.append(1)
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        call(test, STALL_S / 2, renewed={})
    assert calls == [1]
    assert call(test, 9.0) is None, "a module that takes no part"


def test_a_failure_during_a_stall_is_repeated_with_new_fixtures_and_a_warning(call: Any) -> None:
    calls: list[tuple[Any, str]] = []
    ended: list[str] = []

    @contextmanager
    def renewed(folder: Any, found: dict[str, Any]) -> Any:
        yield f"planner in {folder.name}, {found['hidden']}"
        ended.append(folder.name)

    def test(tmp_path: Any, planner: str) -> None:
        assert not calls or tmp_path.is_dir()
        calls.append((tmp_path, planner))
        assert len(calls) > 2, "too early"

    with pytest.warns(MachineStalled, match=r"it: this machine stalled for 1.00 s, called again: .*too early"):
        assert call(test, 1.0, {"planner": renewed}, tmp_path="first", planner="first", hidden="sshd") is True
    assert calls[0] == ("first", "first") and len({str(folder) for folder, _ in calls}) == 3
    assert calls[2][1] == f"planner in {calls[2][0].name}, sshd" and len(ended) == 2


def test_the_number_of_repetitions_is_limited(call: Any) -> None:
    calls: list[int] = []

    def test() -> None:
        calls.append(1)
        raise AssertionError("wrong")

    with pytest.warns(MachineStalled), pytest.raises(AssertionError, match="wrong"):
        call(test, 9.0, renewed={})
    assert len(calls) == CALLS


def test_a_pulse_measures_the_delay_of_its_thread() -> None:
    with Pulse() as pulse:
        while len(pulse.late_s) < 3:
            time.sleep(0.001)
    assert 0.0 <= min(pulse.late_s) <= pulse.worst_s == max(pulse.late_s)
