"""real_time.py: who is called once more, and with what."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from support.robots import real_time
from support.robots.real_time import CALLS, HELD_S, HeldUp, Pulse


class Machine(Pulse):
    """Stands still for so long, whoever looks."""

    stood_s = 0.0

    @property
    def worst_s(self) -> float:
        return self.stood_s


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bool | None]:
    """Calls a test with its fixtures, on a machine that stood still for so long."""

    def called(test: Callable[..., None], stood_s: float, renewed: Any = None, **fixtures: Any) -> bool | None:
        monkeypatch.setattr(Machine, "stood_s", stood_s)
        monkeypatch.setattr(real_time, "Pulse", Machine)
        module = SimpleNamespace() if renewed is None else SimpleNamespace(RENEWED=renewed)
        item = SimpleNamespace(
            module=module, nodeid="it", obj=test, funcargs=fixtures,
            _fixtureinfo=SimpleNamespace(argnames=[name for name in fixtures if name != "hidden"]),
            _request=SimpleNamespace(getfixturevalue=lambda name: tmp_path_factory),
        )  # fmt: skip
        return real_time.pytest_pyfunc_call(item)  # type: ignore[arg-type]

    return called


def test_what_fails_on_a_machine_that_was_there_has_failed(call: Any) -> None:
    seen: list[int] = []

    def test() -> None:
        seen.append(1)
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        call(test, HELD_S / 2, renewed={})
    assert seen == [1]
    assert call(test, 9.0) is None, "a module that takes no part"


def test_what_failed_while_it_stood_still_is_called_again_with_everything_anew_and_told(call: Any) -> None:
    seen: list[tuple[Any, str]] = []
    ended: list[str] = []

    @contextmanager
    def renewed(folder: Any, found: dict[str, Any]) -> Any:
        yield f"planner in {folder.name}, {found['hidden']}"
        ended.append(folder.name)

    def test(tmp_path: Any, planner: str) -> None:
        assert not seen or tmp_path.is_dir()
        seen.append((tmp_path, planner))
        assert len(seen) > 2, "too early"

    with pytest.warns(HeldUp, match=r"it: this machine stalled for 1.00 s, called again: .*too early"):
        assert call(test, 1.0, {"planner": renewed}, tmp_path="first", planner="first", hidden="sshd") is True
    assert seen[0] == ("first", "first") and len({str(folder) for folder, _ in seen}) == 3
    assert seen[2][1] == f"planner in {seen[2][0].name}, sshd" and len(ended) == 2


def test_a_machine_that_stands_still_all_the_time_excuses_nothing_for_ever(call: Any) -> None:
    seen: list[int] = []

    def test() -> None:
        seen.append(1)
        raise AssertionError("wrong")

    with pytest.warns(HeldUp), pytest.raises(AssertionError, match="wrong"):
        call(test, 9.0, renewed={})
    assert len(seen) == CALLS


def test_a_pulse_sees_that_nobody_else_could_run() -> None:
    with Pulse() as pulse:
        while len(pulse.late_s) < 3:
            time.sleep(0.001)
    assert 0.0 <= min(pulse.late_s) <= pulse.worst_s == max(pulse.late_s)
