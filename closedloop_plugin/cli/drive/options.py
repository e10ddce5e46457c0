"""Options shared by several commands: program, driver, decision rate, number of worlds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmms_eval_ad2.core.options import fixed, option


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """Place and parameters of a Scenic program. `ad2 drive run` also offers the fixed ones."""

    route: str | None = option(
        "route of the program (default: the one it names)", default=None, metavar="SUITE:ID",
        identity=("suite_sha256", "towns_sha256"),
    )  # fmt: skip
    set: tuple[str, ...] = option(
        "value of a free parameter of the program; may be repeated", default=(), metavar="NAME=VALUE", repeated=True,
        identity="values",
    )  # fmt: skip
    map: Path | None = option(
        "map of a program without a route", default=None, metavar="FILE.xodr", identity="map_sha256"
    )
    towns: Path | None = option(
        "OpenDRIVE files <town>.xodr, instead of corridor maps", default=None, metavar="DIR", identity="towns_sha256"
    )
    alone: bool = option(
        "programs replace the standard scenarios of their routes (default: they play on top of them)", default=False,
        identity="alone",
    )  # fmt: skip
    no_traffic: bool = option("no background vehicles and pedestrians", default=False, identity="traffic")
    routes_ids: str | None = fixed(None)
    limit: int | None = fixed(None)
    shard: str | None = fixed(None)
    repetitions: int = fixed(1)


@dataclass(frozen=True, kw_only=True)
class DriverOptions:
    """The agent, and the interpreter that converts its text into controls."""

    agent: str = option("agent; see below", metavar="SPEC", identity="agent")
    interpreter: str | None = option(
        "slow system, which converts an agent's text: rules (default, no model), endpoint:..., lmms:...", default=None,
        metavar="SPEC", identity="interpreter",
    )  # fmt: skip
    interpreter2: str | None = option(
        "with --mode hybrid: slow system for situations with a threat", default=None, metavar="SPEC",
        identity="interpreter",
    )  # fmt: skip
    mode: Literal["cng", "dcs", "hybrid", "rules"] | None = option(
        "the slow system's answers: cng generates numbers, dcs chooses from a set (default: cng; rules: rules)",
        default=None, identity="interpreter",
    )  # fmt: skip
    describer: str | None = option(
        "scene descriptions for a slow system without images: none, offline, endpoint:... or lmms:...", default=None,
        metavar="SPEC", identity="interpreter",
    )  # fmt: skip
    situation: Literal["none", "speed", "full"] | None = option(
        "told to the slow system besides words and image: none, the speed, or full: speed, limit and route "
        "(default: the profile's; bench2advlm: none)", default=None, identity="interpreter",
    )  # fmt: skip
    profile: str = option(
        "rules and limits: bench2advlm (default), bench2drive, longest6, leaderboard-2.0, leaderboard-2.1",
        default="bench2advlm", metavar="NAME", identity="profile",
    )  # fmt: skip
    tasks: str | None = option(
        "questions to the fast system: action (default), trajectory, reasoning", default=None, metavar="T,T",
        identity="agent",
    )  # fmt: skip
    fine_grained: Literal["off", "prompt", "question"] | None = option(
        "speed suffixes of the action: offered in the prompt, or requested in a second question (default: off)",
        default=None, identity="agent",
    )  # fmt: skip
    prompts: str | None = option(
        "file of own driving prompts", default=None, metavar="FILE", identity=("agent", "interpreter")
    )
    history: int | None = option(
        "earlier decisions that an agent is told: frames, answers and controls (default: those that its prompts need)",
        default=None, metavar="N", least=0, most=64, identity="agent",
    )  # fmt: skip
    camera: Literal["front", "surround"] | None = option(
        "cameras of the agent: front (default), or all six", default=None, identity=("agent", "cameras")
    )
    size: str | None = option(
        "image size of the cameras (default: the profile's)", default=None, metavar="WxH", identity=("agent", "cameras")
    )
    seed: int = fixed(0)  # of sampled replies, and of the agent "random"
    frames: bool = fixed(False)
    video: bool = fixed(False)


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """Decision rate, and the treatment of unreadable replies."""

    decision_hz: float | None = option(
        "decisions per second (default: the profile's rate)", default=None, metavar="HZ", identity="decision_hz"
    )
    policy: Literal["official", "strict"] = option(
        "treatment of unreadable replies: official coasts (default), strict ends the episode", default="official",
        identity="policy",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SimulatedDecisionOptions(DecisionOptions):
    """DecisionOptions with the simulated time of a decision."""

    latency: str | None = option(
        "simulated decision time: waits (default, none), SECONDS, FILE (seconds per line), or measured",
        default=None,
        metavar="L",
        identity="latency",
    )


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Worlds that run in parallel, and when the run gives up."""

    workers: int | None = option(
        "number of parallel worlds (default 1; with --servers one each)", default=None, metavar="W", least=1
    )
    retries: int = option(
        "maximum retries of an episode whose world fails (default 2)", default=2, metavar="N", least=0
    )
    world_timeout: float | None = option(
        "seconds without a message until a world counts as hung (default 180; CARLA 360)",
        default=None,
        metavar="S",
        least=1,
    )
    stop_after_unread: int = option(
        "end the run after N replies in a row that cannot be read, over all worlds (default 20; 0: never)", default=20,
        metavar="N", least=0,
    )  # fmt: skip
