"""Failing worlds and small drivers, importable by name in world processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, WorldError
from closedloop_plugin.worlds.testing.fake_world import FakeWorld
from lmms_eval_ad2.core.errors import Ad2Error


class Follower:
    """A local driver that steers to the next route point and accelerates to 15 m/s, which keeps episodes short."""

    name, privileged, local, cameras = "follower", False, True, ()

    def __init__(self, sleep_s: float = 0.0) -> None:
        self.sleep_s = sleep_s

    def start(self, episode: str, seed: int) -> None: ...

    def end(self, episode: str) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        time.sleep(self.sleep_s)
        return [Decision(control=self._control(a.observation)) for a in requests]

    def _control(self, observation: Observation) -> Control:
        forward, left = observation.target
        steer = -2.0 * left / max(forward, 1.0)
        return Control(steer, 1.0 if observation.speed < 15 else 0.0).checked()


class TextFollower(Follower):
    """The same driver in the parent process: answers "steer throttle" as text and counts its batches."""

    name, local = "talker", False

    def __init__(self, sleep_s: float = 0.0) -> None:
        super().__init__(sleep_s)
        self.batches: list[int] = []
        self.open: set[str] = set()
        self.log: list[tuple[str, str]] = []

    def start(self, episode: str, seed: int) -> None:
        self.open.add(episode)
        self.log.append(("start", episode))

    def end(self, episode: str) -> None:
        self.open.discard(episode)
        self.log.append(("end", episode))

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        self.batches.append(len(requests))
        time.sleep(self.sleep_s)
        controls = [self._control(a.observation) for a in requests]
        return [Decision({"action": f"{c.steer!r} {c.throttle!r}"}, latency_s=self.sleep_s) for c in controls]


class WithoutStart(TextFollower):
    """Its start fails for one route."""

    def start(self, episode: str, seed: int) -> None:
        super().start(episode, seed)
        if episode.startswith("103"):
            raise RuntimeError("no weights")


class Reader:
    """Interprets "steer throttle"; any other text is unparsed."""

    name, mode, local = "reader", "cng", True

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        controls = []
        for _, decision in items:
            text = decision.texts["action"]
            try:
                steer, throttle = map(float, text.split())
                controls.append(InterpretedControl(Control(steer, throttle), text, mode="cng"))
            except ValueError:
                controls.append(InterpretedControl(None, text, "not two numbers", "cng"))
        return controls

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}


class RemoteReader(Reader):
    local = False


class Faulty(FakeWorld):
    """Fails at tick `at` of the episodes of `route` (empty: all); with a file `once`, only the first time.

    Episodes of the route `held` wait while the file `hold` exists.
    """

    def __init__(
        self, how: str, at: int = 20, once: str = "", step_s: float = 0.0, route: str = "", held: str = "",
        hold: str = "",
    ) -> None:  # fmt: skip
        super().__init__()
        self.how, self.at, self.once, self.step_s, self.only = how, at, once, step_s, route
        self.held, self.hold = held, Path(hold)

    def reset(self, setup: EpisodeSetup) -> Observation:
        self.mine = not self.only or (setup.route is not None and setup.route.id == self.only)
        if self.mine and self.how == "invalid":
            raise InvalidScene("two cars in one place")
        if self.mine and self.how == "map":
            raise MapError("corridor.xodr", "a reader", "no driving lane in it")
        if self.mine and self.how == "user":
            raise Ad2Error("Town99: no map; give --towns DIR")
        return super().reset(setup)

    def step(self, control: Control) -> Observation:
        time.sleep(self.step_s)
        while self._setup.route is not None and self._setup.route.id == self.held and self.hold.exists():
            time.sleep(0.01)
        observation = super().step(control)
        self._fail_at(observation.tick)
        return observation

    def _fail_at(self, tick: int) -> None:
        if self.mine and tick == self.at and self._fails_now():
            if self.how == "die":
                print("about to die", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "hang":
                time.sleep(3600)
            if self.how == "raise":
                raise WorldError("lost a frame")

    def _fails_now(self) -> bool:
        if not self.once:
            return True
        file = Path(self.once)
        first = not file.exists()
        file.touch()
        return first


class PlannedFaults(Faulty):
    """Fails once in each episode of `plan`, which maps its seed to (how, tick); tick 0 is the reset.

    Files in `marks`: the seeds of the episodes that failed, and `pid<N>` of a process that hangs.
    """

    def __init__(self, plan: Mapping[int, tuple[str, int]], marks: str) -> None:
        super().__init__(how="")
        self.plan, self.marks = plan, Path(marks)

    def reset(self, setup: EpisodeSetup) -> Observation:
        self.how, self.at = self.plan.get(setup.seed, ("", -1))
        self.once = str(self.marks / str(setup.seed))
        observation = super().reset(setup)
        self._fail_at(0)
        return observation

    def _fails_now(self) -> bool:
        first = super()._fails_now()
        if first and self.how == "hang":
            (self.marks / f"pid{os.getpid()}").touch()
        return first


def world_without_display() -> FakeWorld:
    raise WorldError("no display")


def _one_more(made: str) -> None:
    """Count in a file what was made."""
    file = Path(made)
    file.write_text(str(1 + int(file.read_text() if file.exists() else 0)))


def wrong_world(made: str) -> FakeWorld:
    _one_more(made)
    raise TypeError("no argument 'port'")


def driver_without_weights(made: str) -> Follower:
    _one_more(made)
    raise RuntimeError("no weights")


class PartOfWorld:
    """Has some of the members of a FakeWorld."""


def incomplete_world(without: str, made: str) -> Any:
    """A world without one member. `made`: a file with the number of worlds that were made."""
    _one_more(made)
    world, part = FakeWorld(), PartOfWorld()
    for name in ("backend", "version", "reset", "step", "truth", "close"):
        setattr(part, name, getattr(world, name))
    for name in ("road", "done", "weather", "drawn"):
        setattr(part, name, None)
    delattr(part, without)
    return part
