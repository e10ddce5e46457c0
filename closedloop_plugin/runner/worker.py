"""One world in a process of its own: takes episodes from the pipe, asks the parent what it cannot answer itself.

Messages to the parent, tuples by their first word:
    ("ready", backend, version)         the world is built
    ("beat", tick)                      alive, about once a second while an episode runs
    ("start", key, seed)                an episode begins: the parent tells the agent that it holds
    ("ask", Ask, Decision | None, read) what is lacking: the decision, or its reading (read: a reading is wanted too)
    ("done", Result)                    an episode ended
    ("failed", reason)                  the world failed; this process ends, a new one tries the episode again
    ("user", message)                   the user's to mend (Ad2Error): the run ends with it
From the parent: the Plan, then ("run", Task), Answer, or the end of the pipe. Only our own two processes write to it.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.runner.decisions import DecisionResponse
from closedloop_plugin.runner.episode import EpisodeResult, EpisodeTick, EvaluationConditions, TickObserver, run_episode
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask
from closedloop_plugin.worlds.base import World, WorldError
from lmms_eval_ad2.errors import Ad2Error

_PDEATHSIG = 1  # prctl: the signal that this process gets when its parent dies


@dataclass(frozen=True)
class WorkerConfig:
    """All that a world process needs to know. A recipe that is None is answered by the parent."""

    world: FactoryRecipe
    cast: EvaluationConditions
    agent: FactoryRecipe | None = None
    interpreter: FactoryRecipe | None = None
    reads: bool = False  # there is an interpreter, here or with the parent
    cameras: tuple[str, ...] = ()  # images that the parent's models need
    track: FactoryRecipe | None = None  # makes an object with add(truth, control, note), to_json(road, record)
    recorders: tuple[FactoryRecipe, ...] = ()  # each made with (task=): called every tick, then close(record)


@dataclass(frozen=True)
class SentImages:
    """The images that travelled with a question."""

    arrays: dict[str, np.ndarray]

    def __call__(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise Ad2Error(f"no image of camera {name!r} here; there are: {', '.join(self.arrays) or 'none'}")
        return self.arrays[name]


class DecisionResponder:
    """Answers one world's questions: what is at hand here, the rest through `remote(ask, decision, read)`."""

    def __init__(self, plan: WorkerConfig, agent: Agent | None, interpreter: Interpreter | None, remote: Any) -> None:
        self.plan, self.agent, self.interpreter, self.remote = plan, agent, interpreter, remote

    def __call__(self, ask: DecisionRequest) -> DecisionResponse:
        read_there = self.plan.reads and self.interpreter is None
        if self.agent is None:
            answer: DecisionResponse = self.remote(ask, None, read_there)
        else:
            answer = DecisionResponse(decide(self.agent, [ask])[0])
        if not wants_reading(answer.decision) or answer.reading is not None or not self.plan.reads:
            return answer
        if self.interpreter is None:
            return self.remote(ask, answer.decision, True)
        return replace(answer, reading=read(self.interpreter, [(ask, answer.decision)])[0])


def wants_reading(decision: Decision) -> bool:
    return decision.control is None and decision.error is None


def decide(agent: Agent, asks: Sequence[DecisionRequest]) -> list[Decision]:
    """The agent's decisions; an exception of its own becomes an error of each, except the user's to mend."""
    try:
        decisions = agent.decide(asks)
        if len(decisions) != len(asks):
            raise ValueError(f"{len(decisions)} decisions for {len(asks)} questions")
        return decisions
    except (Ad2Error, WorldError):
        raise
    except Exception as exc:
        return [Decision(error=f"{type(exc).__name__}: {exc}")] * len(asks)


def read(interpreter: Interpreter, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
    """The interpreter's readings; an exception of its own becomes a reading that failed."""
    try:
        readings = interpreter.interpret(items)
        if len(readings) != len(items):
            raise ValueError(f"{len(readings)} readings for {len(items)} items")
        return readings
    except (Ad2Error, WorldError):
        raise
    except Exception as exc:
        return [InterpretedControl(None, reason=f"the interpreter failed: {type(exc).__name__}: {exc}")] * len(items)


def drive(
    world: World, task: EpisodeTask, plan: WorkerConfig, desk: DecisionResponder, watchers: Sequence[TickObserver] = ()
) -> EpisodeResult:
    """One episode with its agent told, its track kept and its recorders closed."""
    track = plan.track.make() if plan.track else None
    recorders = [recipe.make(task=task) for recipe in plan.recorders]
    following = [*watchers, *recorders]
    if track is not None:
        following.append(lambda seen: track.add(seen.truth, seen.control, note_of(seen.answer)))
    if desk.agent is not None:
        desk.agent.start(task.key, task.setup.seed)
    result = None
    try:
        result = run_episode(world, task, plan.cast, desk, following)
    finally:
        if desk.agent is not None:
            desk.agent.end(task.key)
        for recorder in recorders:
            recorder.close(result.record if result else None)
    if track is None:
        return result
    road = world.road if result.record.map else None  # a scene that was rejected at once has none
    return replace(result, track=track.to_json(road, result.record))


def note_of(answer: DecisionResponse | None) -> dict[str, Any] | None:
    """What was said, for tracks and pictures."""
    if answer is None:
        return None
    note: dict[str, Any] = {"texts": dict(answer.decision.texts), "error": answer.decision.error}
    if answer.reading:
        note |= {"raw": answer.reading.raw, "reason": answer.reading.reason, "mode": answer.reading.mode}
    return note


def main(pipe: Connection, parent: int) -> None:
    """Entry of the process: the first message is the Plan. Ends when the parent does, however that dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends us
    _die_with(parent)
    faulthandler.enable()  # a native crash leaves its stack in the log
    try:
        _serve(pipe, pipe.recv())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone
    except Ad2Error as exc:
        pipe.send(("user", str(exc)))
    except OSError as exc:
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        pipe.send(("user", f"the disk is full: {exc}") if full else ("failed", _told(exc)))
    except Exception as exc:
        pipe.send(("failed", _told(exc)))


def _serve(pipe: Connection, plan: WorkerConfig) -> None:
    world: World = plan.world.make()

    def remote(ask: DecisionRequest, decision: Decision | None, read_there: bool) -> DecisionResponse:
        images = SentImages({name: np.ascontiguousarray(ask.observation.images(name)) for name in plan.cameras})
        sent = replace(ask, observation=replace(ask.observation, images=images))
        pipe.send(("ask", sent, decision, read_there))
        return pipe.recv()

    agent = plan.agent.make() if plan.agent else None
    interpreter = plan.interpreter.make() if plan.interpreter else None
    desk = DecisionResponder(plan, agent, interpreter, remote)
    pipe.send(("ready", world.backend, world.version))
    try:
        while True:
            _, task = pipe.recv()
            pipe.send(("start", task.key, task.setup.seed))
            pipe.send(("done", drive(world, task, plan, desk, [_Heartbeat(pipe), spare_the_scene])))
            gc.unfreeze()
    finally:
        world.close()


def spare_the_scene(seen: EpisodeTick) -> None:
    """A compiled scene is 300,000 objects that live until the episode ends. One search for garbage among them takes as
    long as hundreds of steps, so the collector leaves them alone, until gc.unfreeze() after the episode."""
    if seen.truth.tick == 0:
        gc.freeze()


class _Heartbeat:
    """Tells the parent about once a second that ticks go on."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.last = pipe, time.monotonic()

    def __call__(self, seen: EpisodeTick) -> None:
        if time.monotonic() - self.last > 1.0:
            self.last = time.monotonic()
            self.pipe.send(("beat", seen.truth.tick))


def _told(exc: Exception) -> str:
    """An exception in one line with the place where it rose; the whole goes to the log."""
    traceback.print_exception(exc)
    last = traceback.extract_tb(exc.__traceback__)[-1]
    where = "" if isinstance(exc, WorldError) else f" (in {Path(last.filename).name}, line {last.lineno})"
    return f"{type(exc).__name__}: {exc}{where}"


def _die_with(parent: int) -> None:
    """Linux: SIGKILL to us when the parent dies. Elsewhere the pipe's end does it, at the next message."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl
        os._exit(1)
