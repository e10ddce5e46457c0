"""EpisodeTask: one episode to run, its seed, and shards of tasks; EvaluationConditions of all of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.worlds.base import EpisodeSetup
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.storage.shards import RunShard

if TYPE_CHECKING:
    pass


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")


@dataclass(frozen=True)
class EpisodeTask:
    """One episode to run."""

    suite: str
    route_id: str
    repetition: int
    setup: EpisodeSetup
    one_of_many: bool = False  # a program of a suite: if it is wrong, the episode is invalid and the run continues
    draw: str = ""  # of a checked program: "played", the draw that its check saw survived, or "fresh", another one
    driver: int | None = None  # seed of the driver, if it is not that of the scene

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.route_id):  # it becomes a file name
            raise Ad2Error(f"route {self.route_id!r}: an id of letters, digits, '_', '-' and '.' is needed")

    @property
    def driver_seed(self) -> int:
        """Seed of the agent and of simulated decision times; differs between repetitions of the same scene."""
        return self.setup.seed if self.driver is None else self.driver

    @property
    def key(self) -> str:
        """Name of the episode's files: <route>_rep<k>."""
        return f"{self.route_id}_rep{self.repetition}"


def episode_seed(seed: int, route_id: str, repetition: int) -> int:
    """31-bit seed from the run's seed and the episode's name: independent of order, shard and number of workers."""
    text = f"{seed}:{route_id}:{repetition}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def fresh_seed(seed: int, route_id: str, k: int, played: int | None) -> int:
    """Seed of the k-th draw of a scenario besides those of its check. `played`: the seed of its played draw."""
    found = episode_seed(seed, f"{route_id}:fresh", k)
    return found if found != played else found ^ 1


def shard(tasks: Sequence[EpisodeTask], which: str | None) -> list[EpisodeTask]:
    """Shard "i/N" (i from 1): every N-th task, so that scenario types are spread over the shards."""
    if which is None:
        return list(tasks)
    part = RunShard.parse(which)
    return list(tasks)[part.index - 1 :: part.of]


@dataclass(frozen=True)
class EvaluationConditions:
    """Driver and rules, the same for all episodes of a run."""

    profile: Profile
    rules: DecisionRules = field(default_factory=DecisionRules)
    agent: Mapping[str, Any] = field(default_factory=dict)  # Agent.describe()
    interpreter: Mapping[str, Any] | None = None
    privileged: bool = False
    version: str = __version__  # of this package, with the commit if it is known
