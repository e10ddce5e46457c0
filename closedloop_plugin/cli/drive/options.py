"""Options that several commands share: what is driven, by which driver, how often it decides, in how many worlds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmms_eval_ad2.options import fixed, option


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """Where a Scenic program is played. `ad2 drive run` offers the fixed ones, too."""

    route: str | None = option(
        "where the program is played, instead of the route it names", default=None, metavar="SUITE:ID",
        identity=("suite_sha256", "towns_sha256"),
    )  # fmt: skip
    set: tuple[str, ...] = option(
        "fix a free parameter of the program; may be repeated", default=(), metavar="NAME=VALUE", repeated=True,
        identity="values",
    )  # fmt: skip
    map: Path | None = option(
        "the map of a program without a route", default=None, metavar="FILE.xodr", identity="map_sha256"
    )
    towns: Path | None = option(
        "OpenDRIVE files <town>.xodr, instead of corridor maps", default=None, metavar="DIR", identity="towns_sha256"
    )
    no_traffic: bool = option("no background vehicles and pedestrians", default=False, identity="traffic")
    routes_ids: str | None = fixed(None)
    limit: int | None = fixed(None)
    shard: str | None = fixed(None)
    repetitions: int = fixed(1)


@dataclass(frozen=True, kw_only=True)
class DriverOptions:
    """The agent, and the interpreter that turns its words into controls."""

    agent: str = option("who drives; see below", metavar="SPEC", identity="agent")
    interpreter: str | None = option(
        "slow system, for an agent's words: rules (default, no model), endpoint:..., lmms:...", default=None,
        metavar="SPEC", identity="interpreter",
    )  # fmt: skip
    interpreter2: str | None = option(
        "with --mode hybrid: the one that answers where there is a threat", default=None, metavar="SPEC",
        identity="interpreter",
    )  # fmt: skip
    mode: Literal["cng", "dcs", "hybrid", "rules"] | None = option(
        "how the slow system answers: cng gives numbers, dcs chooses from a set (default: cng; rules for rules)",
        default=None, identity="interpreter",
    )  # fmt: skip
    describer: str | None = option(
        "words for a slow system that cannot see: offline, endpoint:... or lmms:...", default=None, metavar="SPEC",
        identity="interpreter",
    )  # fmt: skip
    profile: str = option(
        "rules and limits: bench2advlm (default), bench2drive, leaderboard-2.0, leaderboard-2.1",
        default="bench2advlm", metavar="NAME", identity="profile",
    )  # fmt: skip
    tasks: str | None = option(
        "what the fast system is asked: action (default), trajectory, reasoning", default=None, metavar="T,T",
        identity="agent",
    )  # fmt: skip
    fine_grained: Literal["off", "prompt", "question"] | None = option(
        "speed suffixes to the action: offered in the prompt, or asked for in a second question (default: off)",
        default=None, identity="agent",
    )  # fmt: skip
    prompts: str | None = option(
        "driving prompts of your own", default=None, metavar="FILE", identity=("agent", "interpreter")
    )
    camera: Literal["front", "surround"] | None = option(
        "what the agent sees: front (default), or all six", default=None, identity=("agent", "cameras")
    )
    size: str | None = option(
        "of the cameras (default: the profile's)", default=None, metavar="WxH", identity=("agent", "cameras")
    )
    seed: int = fixed(0)  # of sampled replies, and of the agent "random"
    frames: bool = fixed(False)
    video: bool = fixed(False)


@dataclass(frozen=True, kw_only=True)
class DecisionOptions:
    """How often the driver is asked, and what an unreadable reply does."""

    decision_hz: float | None = option(
        "ask less often than the profile does", default=None, metavar="HZ", identity="decision_hz"
    )
    policy: Literal["official", "strict"] = option(
        "for unreadable replies: official coasts (default), strict ends the episode", default="official",
        identity="policy",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SimulatedDecisionOptions(DecisionOptions):
    """With the time that a decision takes in the simulation."""

    latency: str | None = option(
        "waits (default), SECONDS, FILE (seconds a line), or measured", default=None, metavar="L", identity="latency"
    )


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """The worlds that run side by side."""

    workers: int | None = option(
        "worlds side by side (default 1; with --servers one each)", default=None, metavar="W", least=1
    )
    retries: int = option("of an episode whose world fails (default 2)", default=2, metavar="N", least=0)
    world_timeout: float | None = option(
        "silence that counts as a hang (default 180; CARLA 360)", default=None, metavar="S", least=1
    )
