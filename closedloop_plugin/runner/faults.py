"""Calls of a driver's code, and what is to blame when an episode ends with an exception.

Exceptions of the fast and the slow system become errors of their requests, or DriverFailed.
"""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.core.state import Control, Decision, EpisodeFault, InterpretedControl
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.worlds.base import InvalidScene, WorldError
from lmms_eval_ad2.core.errors import Ad2Error

_PACKAGE = Path(__file__).parents[1]
# Folders whose code depends on its input alone: an exception on the way through them comes again at every try.
_CERTAIN = {EpisodeFault.MAP: _PACKAGE / "maps", EpisodeFault.PROGRAM: _PACKAGE / "scenarios"}
OF_THE_MACHINE = (WorldError, OSError, EOFError, MemoryError)


class UnhealthyRun(Ad2Error):
    """A drive was stopped because it would measure nothing: its world, driver or endpoint has to be repaired first."""

    exit_code = 3


class DriverFailed(Exception):
    """An agent or interpreter could not be made, or its start raised an exception, which the text names."""


def fault_of(exc: BaseException) -> EpisodeFault:
    """The fault behind an exception that ended an episode."""
    if isinstance(exc, DriverFailed | MapError):
        return EpisodeFault.DRIVER if isinstance(exc, DriverFailed) else EpisodeFault.MAP
    frames = [Path(frame.filename) for frame in traceback.extract_tb(exc.__traceback__)]
    for fault, folder in _CERTAIN.items():
        if any(folder in file.parents for file in frames):
            return fault
    return EpisodeFault.PROGRAM if isinstance(exc, InvalidScene) else EpisodeFault.WORLD


def is_certain(exc: BaseException) -> bool:
    """Whether the same episode would fail again: its map or program is at fault, not the machine or a connection."""
    return not isinstance(exc, OF_THE_MACHINE) and fault_of(exc) is not EpisodeFault.WORLD


OWN_EXCEPTIONS = (Exception, SystemExit)  # of a driver's code: one that calls sys.exit() must not end its process
LIMIT = 0.9  # of the time after which a process counts as hung, for one call of a driver
_log = logging.getLogger(__name__)


def needs_interpreter(decision: Decision) -> bool:
    return decision.control is None and decision.error is None


def made(recipe: FactoryRecipe) -> Any:
    """The agent or interpreter of a recipe. Raises DriverFailed instead of its exceptions, except Ad2Error."""
    try:
        return recipe.make()
    except Ad2Error:
        raise
    except OWN_EXCEPTIONS as exc:
        raise DriverFailed(f"the driver cannot be made: {type(exc).__name__}: {exc}") from exc


@contextmanager
def limited(seconds: float, name: str) -> Iterator[None]:
    """Raise DriverFailed in a block of a driver's code that takes longer, before its process is taken for hung.

    Only in a main thread, and not while code that is not Python runs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise DriverFailed(f"the agent {name}: no answer for {LIMIT * seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT * seconds, 1.0)  # again, if the driver's own code catches the exception
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def start(agent: Agent, episode: str, seed: int) -> None:
    """Agent.start. Raises DriverFailed instead of the agent's exceptions, except Ad2Error."""
    try:
        agent.start(episode, seed)
    except (Ad2Error, DriverFailed):
        raise
    except OWN_EXCEPTIONS as exc:
        raise DriverFailed(f"the agent {agent.name}: start() raised {type(exc).__name__}: {exc}") from exc


def end(agent: Agent, episode: str) -> None:
    """Agent.end. Its exceptions are logged: the episode has been driven, and its result counts."""
    try:
        agent.end(episode)
    except OWN_EXCEPTIONS:
        _log.warning("the agent %s: end() failed after episode %s", agent.name, episode, exc_info=True)


def decide(agent: Agent, requests: Sequence[DecisionRequest]) -> list[Decision]:
    """The agent's decisions. An exception of the agent, except Ad2Error, becomes the error of each of them.

    Raises Ad2Error if the agent returns something else than decisions, which ends the run.
    """
    try:
        decisions = agent.decide(requests)
        if fault := _fault(decisions):
            wanted = "it must return a list with one Decision per request, see docs/agents.md"
            raise Ad2Error(f"the agent {agent.name}: decide() returned {fault}; {wanted}")
        if len(decisions) != len(requests):
            raise ValueError(f"{len(decisions)} decisions for {len(requests)} questions")
        return [decision.storable() for decision in decisions]
    except (Ad2Error, WorldError, DriverFailed):
        raise
    except OWN_EXCEPTIONS as exc:
        return [Decision(error=f"{type(exc).__name__}: {exc}").storable()] * len(requests)


def _fault(decisions: object) -> str | None:
    """What is not a list of decisions."""
    if not isinstance(decisions, Sequence) or isinstance(decisions, str | bytes):
        return f"a {type(decisions).__name__}"
    for decision in decisions:
        if not isinstance(decision, Decision):
            return f"a list with a {type(decision).__name__}"
        if not isinstance(decision.control, Control | None):
            return f"a Decision whose control is a {type(decision.control).__name__}, no Control"
        if not isinstance(decision.texts, Mapping) or not all(isinstance(t, str) for t in decision.texts.values()):
            return "a Decision whose texts are no mapping of tasks to texts"
        if not isinstance(decision.error, str | None):
            return f"a Decision whose error is a {type(decision.error).__name__}, no text"
    return None


def interpret(interpreter: Interpreter, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
    """The interpreter's controls. An exception of the interpreter, except Ad2Error, becomes the reason of each."""
    try:
        interpreted = interpreter.interpret(items)
        if len(interpreted) != len(items):
            raise ValueError(f"{len(interpreted)} readings for {len(items)} items")
        return [reading.storable() for reading in interpreted]
    except (Ad2Error, WorldError):
        raise
    except OWN_EXCEPTIONS as exc:
        failed = InterpretedControl(None, reason=f"the interpreter failed: {type(exc).__name__}: {exc}")
        return [failed.storable()] * len(items)
