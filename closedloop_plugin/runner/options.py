"""Options of drives, which several commands share; those of `ad2 drive run` are DriveRunOptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmms_eval_ad2.core.options import ExclusiveOptions, fixed, from_values, option


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
        identity="alone", expert=True,
    )  # fmt: skip
    no_traffic: bool = option("no background vehicles and pedestrians", default=False, identity="traffic", expert=True)
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
        identity="interpreter", expert=True,
    )  # fmt: skip
    mode: Literal["cng", "dcs", "hybrid", "rules"] | None = option(
        "the slow system's answers: cng generates numbers, dcs chooses from a set (default: cng; rules: rules)",
        default=None, identity="interpreter",
    )  # fmt: skip
    describer: str | None = option(
        "scene descriptions for a slow system without images: none, offline, endpoint:... or lmms:...", default=None,
        metavar="SPEC", identity="interpreter", expert=True,
    )  # fmt: skip
    situation: Literal["none", "speed", "full"] | None = option(
        "told to the slow system besides words and image: none, the speed, or full: speed, limit and route "
        "(default: the profile's; bench2advlm: none)", default=None, identity="interpreter", expert=True,
    )  # fmt: skip
    profile: str = option(
        "rules and limits: bench2advlm (default), bench2drive, longest6, leaderboard-2.0, leaderboard-2.1",
        default="bench2advlm", metavar="NAME", identity="profile",
    )  # fmt: skip
    tasks: str | None = option(
        "questions to the fast system: action (default), trajectory, reasoning", default=None, metavar="T,T",
        identity="agent", expert=True,
    )  # fmt: skip
    fine_grained: Literal["off", "prompt", "question"] | None = option(
        "speed suffixes of the action: offered in the prompt, or requested in a second question (default: off)",
        default=None, identity="agent", expert=True,
    )  # fmt: skip
    prompts: str | None = option(
        "file of own driving prompts", default=None, metavar="FILE", identity=("agent", "interpreter"), expert=True
    )
    history: int | None = option(
        "earlier decisions that an agent is told: frames, answers and controls (default: those that its prompts need)",
        default=None, metavar="N", least=0, most=64, identity="agent", expert=True,
    )  # fmt: skip
    camera: Literal["front", "surround"] | None = option(
        "cameras of the agent: front (default), or all six", default=None, identity=("agent", "cameras"), expert=True
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
        "decisions per second (default: the profile's rate)",
        default=None,
        metavar="HZ",
        identity="decision_hz",
        expert=True,
    )
    policy: Literal["official", "strict"] = option(
        "treatment of unreadable replies: official coasts (default), strict ends the episode", default="official",
        identity="policy", expert=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SimulatedDecisionOptions(DecisionOptions):
    """DecisionOptions with the simulated time of a decision."""

    latency: str | None = option(
        "simulated decision time: waits (default, none), SECONDS, FILE (seconds per line), or measured",
        default=None,
        metavar="L",
        identity="latency",
        expert=True,
    )


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Worlds that run in parallel, and when the run gives up."""

    workers: int | None = option(
        "number of parallel worlds (default 1; with --servers one each)", default=None, metavar="W", least=1
    )
    retries: int = option(
        "maximum retries of an episode whose world fails (default 2)", default=2, metavar="N", least=0, expert=True
    )
    world_timeout: float | None = option(
        "seconds without a message until a world counts as hung (default 180; CARLA 360)",
        default=None,
        metavar="S",
        least=1,
        expert=True,
    )
    stop_after_unread: int = option(
        "end the run after N replies in a row that cannot be read, over all worlds (default 20; 0: never)", default=20,
        metavar="N", least=0, expert=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WorldOptions:
    """--world and the options of CARLA servers."""

    world: str = option(
        "embedded (default), carla, or a custom world as MODULE:CALLABLE",
        default="embedded",
        metavar="NAME",
        identity="world",
    )
    servers: str | None = option(
        "CARLA servers, one worker each (default 127.0.0.1:2000); see ad2 carla", default=None, metavar="HOST:PORT,..."
    )
    server_wait: float | None = option(
        "seconds to wait for an answer of a CARLA server, e.g. while it restarts (default 60)", default=None,
        metavar="S", expert=True,
    )  # fmt: skip
    any_version: bool = option("accept a CARLA server of another version", default=False, expert=True)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where the worlds run. Results do not depend on it, so a folder may be resumed by another engine."""

    engine: Literal["local", "ray"] = option(
        "where the worlds run: local (default), in processes of this machine; ray, on the nodes of a Ray cluster",
        default="local",
        expert=True,
    )
    ray_address: str | None = option(
        "with engine ray: HOST:PORT of a cluster of which this machine is a node, or auto (default: Ray is started "
        "on this machine)", default=None, metavar="ADDRESS", expert=True,
    )  # fmt: skip


SUBJECT = ExclusiveOptions(required=True)


@dataclass(frozen=True, kw_only=True)
class DriveSelectionOptions(ProgramOptions):
    """Routes of a suite, or a program."""

    suite: str | None = option(
        "demo, embedded220, bench2drive220, a route file, or a folder of programs", default=None,
        metavar="NAME|FILE|DIR", exclusive=SUBJECT, identity=("suite", "suite_sha256"),
    )  # fmt: skip
    scenario: Path | None = option(
        "Scenic program", default=None, metavar="FILE.scenic", exclusive=SUBJECT,
        identity=("suite", "suite_sha256"),
    )  # fmt: skip
    routes_ids: str | None = option("only these routes of the suite, in this order", default=None, metavar="ID,ID")
    limit: int | None = option("only the first N routes", default=None, metavar="N", least=1)
    skip_unmapped: bool = option(
        "leave out routes that have no map, by name and out of every mean (default: they end the command before the "
        "drive)", default=False, expert=True,
    )  # fmt: skip
    shard: str | None = option(
        "only shard i of N (1/N to N/N); join shards with ad2 merge", default=None, metavar="i/N"
    )
    repetitions: int = option(
        "repetitions of each route, each with its own seed", default=1, metavar="N", least=1, most=1000
    )
    fresh_draws: int | None = option(
        "N other draws of each program of a folder, instead of the one that its check saw survived", default=None,
        metavar="N", least=1, most=1000, identity="draws", expert=True,
    )  # fmt: skip
    seed: int = option(
        "seed of the run; equal seeds give equal scores (default 0)", default=0, metavar="S", identity="seed"
    )


@dataclass(frozen=True, kw_only=True)
class DriveFolderOptions:
    """The run's folder and its contents."""

    out: Path = option("run folder; the same command resumes in it", metavar="DIR")
    frames: bool = option("save camera frames at 2 Hz", default=False)
    video: bool = option("save a video of each episode", default=False)
    dry_run: bool = option(
        "print episodes, requests, time and tokens to come, and what is wrong; drives nothing, and sends each endpoint "
        "one request", default=False,
    )  # fmt: skip
    no_probe: bool = option("with --dry-run: send no request", default=False, needs="dry_run", expert=True)
    retry_failed: bool = option("repeat episodes that were not driven, except by fault of their program", default=False)
    strict_contamination: bool = option(
        "refuse to drive routes that a model was trained on, as its ad2_training.json names them (default: they are "
        "counted in the results)",
        default=False,
        expert=True,
    )


@dataclass(frozen=True, kw_only=True)
class DriveRunOptions(
    DriveSelectionOptions, WorldOptions, DriveFolderOptions, PoolOptions, EngineOptions, DriverOptions,
    SimulatedDecisionOptions,
):  # fmt: skip
    """`ad2 drive run`."""


GROUPS = {
    "routes and world": (ProgramOptions, DriveSelectionOptions, WorldOptions),
    "driver": (DriverOptions, DecisionOptions, SimulatedDecisionOptions),
    "run": (DriveFolderOptions, PoolOptions, EngineOptions),
}


def drive_options(values: Mapping[str, Any]) -> DriveRunOptions:
    """The options of a drive from a caller's values, with the checks of the command line. Raises Ad2Error."""
    return from_values(DriveRunOptions, values)
