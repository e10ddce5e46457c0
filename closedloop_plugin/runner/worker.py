"""A world process: runs episodes that it receives through a pipe, and sends requests for decisions to the parent.

Messages to the parent, tuples that begin with their kind:
    ("ready", backend, version)         the world is built
    ("beat", time_s, decisions)         about once a second while an episode runs: simulated time, decisions so far
    ("start", key, seed)                an episode begins; the parent calls its agent's start
    ("ask", DecisionRequest, Decision | None, interpret)
                                        request for a decision, or for its control if the decision is given;
                                        interpret: the parent has the interpreter
    ("reply", UnreadReply | None)       a model's reply could not be read, or was read (None)
    ("decisions", bytes)                a block of lines of the episode's decision file
    ("done", EpisodeResult)             an episode ended
    ("failed", reason, fault, certain)  the world failed; this process ends, and a new one retries the episode, unless
                                        it is certain to fail again. Before "ready": world or driver cannot be made;
                                        certain: the machine is not the cause
    ("user", message)                   an error of the user (Ad2Error), which ends the run
From the parent: WorkerConfig, then ("run", EpisodeTask), DecisionResponse, or the end of the pipe. Messages are
pickled; the pipe is an inherited socket pair, to which no third process can write, or calls of a Ray actor
(cluster/world_actors.py).
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import gc
import inspect
import itertools
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from PIL import Image

from closedloop_plugin.core.image_encoding import ImageEncoding, SentImages
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Decision, EpisodeFault
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.runner.decision_files import DecisionLog
from closedloop_plugin.runner.decisions import DecisionResponse, TimedDecision, UnreadReply, unread_reply
from closedloop_plugin.runner.episode import EpisodeTick, TickObserver, run_episode
from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.faults import (
    OF_THE_MACHINE,
    DriverFailed,
    decide,
    end,
    fault_of,
    interpret,
    is_certain,
    limited,
    made,
    needs_interpreter,
    start,
)
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import EpisodeTask, EvaluationConditions
from closedloop_plugin.worlds.base import World, WorldError
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.parent_process import exit_with_parent
from lmms_eval_ad2.core.printed import encodable

# Of a World, beside what no episode needs; without a value for some of them before the first reset.
ATTRIBUTES = ("backend", "version", "road", "done", "weather", "drawn")
METHODS = ("reset", "step", "truth", "close")


@dataclass(frozen=True)
class WorkerConfig:
    """Configuration of a world process. Without a recipe the parent has the agent or interpreter."""

    world: FactoryRecipe
    conditions: EvaluationConditions
    agent: FactoryRecipe | None = None
    interpreter: FactoryRecipe | None = None
    interprets: bool = False  # there is an interpreter, here or in the parent
    cameras: tuple[str, ...] = ()  # whose images the parent's models need
    encodings: frozenset[ImageEncoding] | None = None  # in which they need them; None: as arrays
    track: FactoryRecipe | None = None  # makes an object with add(truth, control, note), to_json(road, record)
    recorders: tuple[FactoryRecipe, ...] = ()  # each made with (task=): called every tick, then close(record)
    keeps_decisions: bool = False  # the parent writes them to files
    silence_s: float = 180.0  # after which the parent takes this process for hung: a world's fault


class DecisionResponder:
    """Responds to the requests of one world, locally or through `remote(request, decision, interpret)`.

    `on_reply` is called for each reply of a model, with None if it was read.
    """

    def __init__(
        self,
        config: WorkerConfig,
        agent: Agent | None,
        interpreter: Interpreter | None,
        remote: Any,
        on_reply: Callable[[UnreadReply | None], None] = lambda unread: None,
    ) -> None:
        self.config, self.agent, self.interpreter, self.remote = config, agent, interpreter, remote
        self.on_reply = on_reply

    def __call__(self, request: DecisionRequest) -> DecisionResponse:
        asked = time.perf_counter()
        response = self._respond(request)
        response = replace(response, waited_s=time.perf_counter() - asked)
        if response.replied:
            self.on_reply(unread_reply(request, response))
        return response

    def _respond(self, request: DecisionRequest) -> DecisionResponse:
        parent_interprets = self.config.interprets and self.interpreter is None
        if self.agent is None:
            response: DecisionResponse = self.remote(request, None, parent_interprets)
        else:
            with limited(self.config.silence_s, self.agent.name):
                response = DecisionResponse(decide(self.agent, [request])[0])
        complete = not needs_interpreter(response.decision) or response.interpreted is not None
        if complete or not self.config.interprets:
            return response
        if self.interpreter is None:
            return self.remote(request, response.decision, True)
        return replace(response, interpreted=interpret(self.interpreter, [(request, response.decision)])[0])


# Garbage collection of a world process: outside of episodes, and without the objects of imported modules.
# Imports and a compiled scene are 300,000 objects. A full collection visits all of them, takes as long as hundreds of
# steps, and used to run twice an episode. Now one runs after every fourth episode: the garbage of four is about 20 MB.

YOUNG_OBJECTS = 20_000  # allocations between two collections of the youngest objects; Python's default is 700
RARELY = 1_000  # collections of the middle generation before a full one: none within an episode
FULL_EVERY = 4  # episodes of a process, from one full collection to the next

_EPISODES = itertools.count(1)


def keep_imports() -> None:
    """Exclude all objects of this moment, those of imported modules, from collections for the process's lifetime."""
    gc.collect()
    gc.freeze()


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """Collect only young objects in the block, and after every FULL_EVERY-th one all others."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, before[1], RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if next(_EPISODES) % FULL_EVERY == 0:
            gc.collect()


@collected_afterwards()
def drive(
    world: World,
    task: EpisodeTask,
    config: WorkerConfig,
    responder: DecisionResponder,
    observers: Sequence[TickObserver] = (),
    keep_block: Callable[[bytes], None] | None = None,
) -> EpisodeResult:
    """Run one episode with start and end of its agent, its track, its recorders and its decisions (see DecisionLog)."""
    log = DecisionLog(config.conditions.profile.hz, keep_block) if keep_block else None
    track = config.track.make() if config.track else None
    recorders = [recipe.make(task=task) for recipe in config.recorders]
    all_observers = [*observers, *recorders]
    if track is not None:
        hz = config.conditions.profile.hz
        all_observers.append(lambda tick: track.add(tick.truth, tick.control, reply_note(tick.decision, hz)))
    if responder.agent is not None:
        with limited(config.silence_s, responder.agent.name):
            start(responder.agent, task.key, task.driver_seed)
    result = None
    try:
        result = run_episode(world, task, config.conditions, responder, all_observers, *([log] if log else []))
    finally:
        if responder.agent is not None:
            end(responder.agent, task.key)
        for recorder in recorders:
            recorder.close(result.record if result else None)
    if log is not None:
        log.flush()
    if track is None:
        return result
    road = world.road if result.record.map else None  # a rejected scene has no road
    return replace(result, track=track.to_json(road, result.record))


def reply_note(decision: TimedDecision | None, hz: float) -> dict[str, Any] | None:
    """Texts and times of a decision, for tracks and pictures."""
    if decision is None:
        return None
    response = decision.response
    note: dict[str, Any] = {"texts": dict(response.decision.texts), "error": response.decision.error}
    if control := response.interpreted:
        note |= {"raw": control.raw, "reason": control.reason, "mode": control.mode, "meaning": control.meaning}
    if decision.arrived > decision.requested:
        note |= {"asked_s": round(decision.requested / hz, 3), "arrived_s": round(decision.arrived / hz, 3)}
    return note


def main(pipe: Connection, parent: int) -> None:
    """Entry point of the process. Ends when the parent ends, even if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends this process
    exit_with_parent(parent)  # without prctl the closed pipe ends it at the next message
    faulthandler.enable()  # writes the stack of a native crash to the log
    serve(pipe)


def serve(pipe: Connection) -> None:
    """Receive a WorkerConfig and run episodes until the parent ends the pipe. Errors become messages to the parent."""
    try:
        _serve(pipe, pipe.recv())
    except (EOFError, BrokenPipeError, ConnectionResetError) as exc:
        # The parent is gone, or a world's own connection to its simulator.
        with contextlib.suppress(OSError):
            pipe.send(_failure(exc))
    except Ad2Error as exc:
        pipe.send(("user", str(exc)))
    except OSError as exc:
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        pipe.send(("user", f"the disk is full: {exc}") if full else _failure(exc))
    except Exception as exc:
        pipe.send(_failure(exc))


def _serve(pipe: Connection, config: WorkerConfig) -> None:
    try:
        world = _checked(config.world.make(), config.world.target)
        agent, interpreter = (made(recipe) if recipe else None for recipe in (config.agent, config.interpreter))
    except (Ad2Error, EOFError, OSError):
        raise
    except Exception as exc:
        *message, _ = _failure(exc)
        pipe.send((*message, not isinstance(exc, OF_THE_MACHINE)))
        return

    def remote(request: DecisionRequest, decision: Decision | None, parent_interprets: bool) -> DecisionResponse:
        observation = request.observation
        images = SentImages.of(observation.images, config.cameras, config.encodings)
        sent = replace(request, observation=replace(observation, images=images))
        pipe.send(("ask", sent, decision, parent_interprets))
        return pipe.recv()

    responder = DecisionResponder(config, agent, interpreter, remote, lambda unread: pipe.send(("reply", unread)))
    keep_block = (lambda block: pipe.send(("decisions", block))) if config.keeps_decisions else None
    keep_imports()
    pipe.send(("ready", world.backend, world.version))
    try:
        while True:
            _, task = pipe.recv()
            pipe.send(("start", task.key, task.driver_seed))
            pipe.send(("done", drive(world, task, config, responder, [_Heartbeat(pipe)], keep_block)))
    finally:
        world.close()


def _checked(world: Any, target: str) -> World:
    """The world, if it has what the runner calls. Raises Ad2Error, which ends the run: another try would not help."""
    missing = object()
    # Statically: a property such as `road` may have no value before the first reset.
    lacks = [name for name in ATTRIBUTES if inspect.getattr_static(world, name, missing) is missing]
    lacks = [name for name in lacks if not hasattr(world, name)]  # a proxy has them dynamically
    lacks += [f"{name}()" for name in METHODS if not callable(getattr(world, name, None))]
    if lacks:
        raise Ad2Error(
            f"--world {target}: the {type(world).__name__} lacks {', '.join(lacks)}: see World in "
            "closedloop_plugin/worlds/base.py"
        )
    return world


class _Heartbeat:
    """Reports progress to the parent about once a second."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.last, self.decisions = pipe, time.monotonic(), 0

    def __call__(self, tick: EpisodeTick) -> None:
        self.decisions += tick.decision is not None
        if time.monotonic() - self.last > 1.0:
            self.last = time.monotonic()
            self.pipe.send(("beat", tick.truth.time_s, self.decisions))


def _failure(exc: Exception) -> tuple[str, str, EpisodeFault, bool]:
    """The message about an exception, in one line with its origin; the traceback goes to the log."""
    traceback.print_exception(exc)
    last = traceback.extract_tb(exc.__traceback__)[-1]
    reason = str(exc) if isinstance(exc, DriverFailed) else f"{type(exc).__name__}: {exc}"
    if not isinstance(exc, WorldError | DriverFailed):
        reason += f" (in {Path(last.filename).name}, line {last.lineno})"
    return "failed", encodable(reason), fault_of(exc), is_certain(exc)


class FrameRecorder:
    """Writes <folder>/<route>_rep<k>/<camera>_<tick>.jpg. A retried episode begins with an empty folder."""

    def __init__(self, folder: Path, cameras: Sequence[str], task: EpisodeTask, every_s: float = 0.5) -> None:
        self.folder, self.cameras, self.every_s = folder / task.key, cameras, every_s
        self._next = 0.0
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def __call__(self, tick: EpisodeTick) -> None:
        if tick.truth.time_s + 1e-9 < self._next:
            return
        self._next += self.every_s
        for name in self.cameras:
            image = Image.fromarray(tick.observation.images(name))
            image.save(self.folder / f"{name}_{tick.truth.tick:05d}.jpg", quality=90)

    def close(self, record: EpisodeRecord | None) -> None:
        """Nothing to close."""
