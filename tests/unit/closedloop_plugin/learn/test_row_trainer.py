"""When an interrupt of a training is raised. Trainings: tests/e2e/test_learn.py."""

from __future__ import annotations

import signal

import pytest

from closedloop_plugin.learn.row_trainer import _interrupts_delayed
from lmms_eval_ad2.core.command_errors import ended_by_sigterm


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_comes_after_a_step_not_in_it(which: signal.Signals) -> None:
    done = False
    with ended_by_sigterm():
        before = signal.getsignal(which)
        with pytest.raises(KeyboardInterrupt), _interrupts_delayed():
            signal.raise_signal(which)
            done = True
        assert done and signal.getsignal(which) is before


def test_other_handlers_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _interrupts_delayed():
        assert signal.getsignal(signal.SIGTERM) is before
