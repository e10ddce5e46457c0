"""When an interrupt of a training is raised. Trainings: test_train.py and tests/e2e/test_learn.py."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from closedloop_plugin.learn.row_trainer import TrainingWatch, _interrupts_noted
from lmms_eval_ad2.core.command_errors import ended_by_sigterm

pytestmark = pytest.mark.integration  # imports Trainer


def watch() -> TrainingWatch:
    steps: Any = None  # not used
    return TrainingWatch(steps, 0.0, print)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_comes_after_the_training(which: signal.Signals) -> None:
    noted = watch()
    with ended_by_sigterm():
        before = signal.getsignal(which)
        with pytest.raises(KeyboardInterrupt), _interrupts_noted(noted):
            signal.raise_signal(which)
            assert noted.interrupt == which
        assert signal.getsignal(which) is before


def test_other_handlers_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _interrupts_noted(watch()):
        assert signal.getsignal(signal.SIGTERM) is before
