"""A fake world for tests of the check: comments in a program define the events.

    # acts 1.5       the event "act" at 1.5 s (and "trigger" before it)
    # hit 2.0        a collision with the ego at 2 s, independent of its driving
    # odd            the collision only happens for odd seeds
    # wrong          the program does not compile
    # held           it does not move while a file `hold` is beside the program

Every drive writes a file to the folder `log`, if given.
"""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import replace
from pathlib import Path

from closedloop_plugin.core.state import ActorKind, Control, EgoContact, GroundTruth, Observation
from closedloop_plugin.worlds.base import EpisodeSetup
from closedloop_plugin.worlds.testing.fake_world import FakeWorld
from lmms_eval_ad2.core.errors import Ad2Error


class ActingWorld(FakeWorld):
    """`log`: folder to which each drive writes a file <program>_<id>."""

    def __init__(self, log: Path | None = None) -> None:
        super().__init__()
        self.log = log

    def reset(self, setup: EpisodeSetup) -> Observation:
        assert setup.program is not None
        if self.log is not None:
            self.log.mkdir(parents=True, exist_ok=True)
            (self.log / f"{setup.program.stem}_{uuid.uuid4().hex}").touch()
        text = setup.program.read_text("utf-8")
        if "# wrong" in text:
            raise Ad2Error(f"{setup.program}, line 2: NameError: no such thing")
        self._intrusion = -4.0
        no_collision = "# odd" in text and setup.seed % 2 == 0
        self._hit = None if no_collision else _number(text, "hit")
        self._acts = _number(text, "acts")
        self._hold = setup.program.with_name("hold") if "# held" in text else None
        return super().reset(setup)

    def step(self, control: Control) -> Observation:
        while self._hold is not None and self._hold.exists():
            time.sleep(0.01)
        return super().step(control)

    def truth(self) -> GroundTruth:
        truth = super().truth()
        if self._hit is not None and abs(truth.time_s - self._hit) < 0.01:
            ego = truth.ego
            truth = replace(truth, contacts=(EgoContact("parked", ActorKind.CAR, ego.x, ego.y, 3000.0),))
        if self._acts is not None and truth.time_s >= self._acts:
            truth = replace(truth, events=((0.5, "trigger"), (self._acts, "act")))
        return truth


def _number(text: str, name: str) -> float | None:
    found = re.search(rf"# {name} ([\d.]+)", text)
    return float(found[1]) if found else None
