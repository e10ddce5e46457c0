"""ThreatGenerationConfig: the options of `ad2 threats generate`, and the identity of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.early_stop import STOP_AFTER_UNREAD
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.scenarios.suites.lookup import Suite
from closedloop_plugin.threats.base import Fuser, Interviewee
from closedloop_plugin.threats.draws import DrawPlan
from closedloop_plugin.threats.driven.target import TargetDrives
from lmms_eval_ad2.storage.code_state import code_identity


@dataclass(frozen=True)
class ThreatGenerationConfig:
    """Options of a generation. `routes`: those requested of the suite; `base_file`: the suite's route file, if any.

    `driver`, `rules`, `limits`: of the target's drives, as for `ad2 drive run`. `cameras`: of the interview's frames.
    """

    folder: Path
    suite: Suite
    routes: Sequence[Route]
    world: FactoryRecipe
    profile: Profile
    driver: DriverSetup
    cameras: Sequence[Camera]
    rules: DecisionRules = field(default_factory=DecisionRules)
    base_file: Path | None = None
    towns: Mapping[str, Path] = field(default_factory=dict)
    seed: int = 0
    moments: int = 3
    frames: int = 3  # at each moment, 1 s apart
    limits: PoolLimits = field(default_factory=PoolLimits)
    engine: WorldEngine = field(default_factory=LocalEngine)
    stop_after_unread: int = STOP_AFTER_UNREAD
    reflect: int = 2  # maximum number of rounds that the target drives; 0: none, and one round of scenarios
    attempts: int = 6  # maximum number of scenarios generated for one route and round
    tries: int = 2  # maximum number of draws of each that the judge drives
    others: int = DrawPlan.others  # number of other draws of each that the judge drives
    share: Fraction = DrawPlan.share  # of these, to be survived
    alone: bool = False  # threats replace the standard scenarios of their routes
    checked: bool = True
    prompts_sha256: str = ""
    quiet: bool = False

    def identity(self, interviewee: Interviewee, fuser: Fuser) -> dict[str, Any]:
        """Facts that must be equal at every start in one folder.

        The set of requested routes and the numbers of rounds, attempts and draws may grow: what is stored stays.
        """
        latency = self.rules.latency
        return {
            "base": self.suite.name,
            "base_sha256": self.suite.sha256,
            "agent": interviewee.describe(),
            "driver": self.driver.agent.describe(),
            "interpreter": self.driver.interpreter.describe() if self.driver.interpreter else None,
            "policy": self.rules.policy,
            "decision_hz": self.rules.decision_hz,
            "latency": {"label": latency.label, "values": list(latency.values)},
            "fuser": fuser.describe(),
            "seed": self.seed,
            "moments": self.moments,
            "frames": self.frames,
            "cameras": [camera.sized_name for camera in self.cameras],
            "world": self.world.target,
            "towns": sorted(self.towns),
            "profile": self.profile.name,
            "prompts_sha256": self.prompts_sha256,
            "alone": self.alone,
            **code_identity(),
        }

    def drives(self) -> TargetDrives:
        """The target's drives in this folder."""
        return TargetDrives(
            folder=self.folder, suite=self.suite, driver=self.driver, world=self.world, profile=self.profile,
            rules=self.rules, towns=self.towns, alone=self.alone,
            seed=self.seed, limits=self.limits, engine=self.engine,
            stop_after_unread=self.stop_after_unread, quiet=self.quiet,
        )  # fmt: skip
