"""`ad2 robot run`: drive the segments of a course and print the route completion."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from closedloop_plugin.cli.robot.plan import VehicleDriverOptions
from closedloop_plugin.cli.robot.vehicle import robot_of
from closedloop_plugin.runner.options import DriverOptions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, fixed, identity_of, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.driver.agent import Agent
    from closedloop_plugin.driver.interpreter import Interpreter
    from closedloop_plugin.robots.course.runner import CoursePlan
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EXPERT = "track-expert"
EXAMPLES = """examples:
  ad2 robot run --config course=sandbox --segments all --runs 3 --agent track-expert --out out/course
  ad2 robot run --segments lap --agent track-expert --out out/lap
  ad2 robot run --robot jetbot-waveshare --agent endpoint:qwen@http://gpu7:8000/v1 --out out/jetbot

agents:
  track-expert                reads the track (privileged) and answers in text like a model
  still, straight, random     baselines
  endpoint:..., lmms:...      models, as in ad2 drive run

The vehicle is simulated, in this process and in simulated time; a real one is driven by ad2 robot plan.

exit code: 0 all runs have a result, 1 the agent failed in some, 2 invalid arguments, 130 Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class CourseOptions:
    course: str = option(
        "course; only sandbox (default) exists", default="sandbox", metavar="NAME", identity="course", expert=True
    )
    segments: str = option(
        "segments: all (default), lap, or names and numbers: 1,3,route7", default="all", metavar="S,S"
    )
    runs: int = option("runs of each segment (default 3, as in the paper)", default=3, metavar="N", least=1)
    robot: str = option("vehicle (default: sandbox)", default="sandbox", metavar="NAME|FILE", identity="robot")
    seed: int = option(
        "seed of start poses, of the agent random and of sampled replies (default 0)",
        default=0,
        metavar="S",
        identity="seed",
    )


@dataclass(frozen=True, kw_only=True)
class CourseRunningOptions:
    out: Path = option("run folder; the same command resumes in it", metavar="DIR")
    retry_failed: bool = option("repeat runs in which the agent failed", default=False)
    markdown: bool = option("print the tables as Markdown", default=False, expert=True)


@dataclass(frozen=True, kw_only=True)
class RobotRunOptions(CourseOptions, CourseRunningOptions, VehicleDriverOptions):
    """`ad2 robot run`. It has no `policy`: a run on a course continues after a reply that cannot be read."""

    policy: Literal["official"] = fixed("official")


GROUPS = {
    "course": (CourseOptions,),
    "driver (as in ad2 drive run)": (DriverOptions,),
    "run": (CourseRunningOptions,),
}


def register(parts: Any) -> None:
    add_command(
        parts,
        "run",
        run,
        RobotRunOptions,
        GROUPS,
        help="drive the segments of a course and print the route completion",
        description="Drive each segment of a course several times. Each finished run is saved at once:\nafter "
        "Ctrl-C or a crash the same command drives only the missing ones.",
        epilog=EXAMPLES,
    )


def run(options: RobotRunOptions) -> int:
    from closedloop_plugin.robots.course.records import SegmentRunStore, by_course
    from closedloop_plugin.robots.course.report import published, render
    from closedloop_plugin.robots.course.runner import SimulatedDrive, run_course
    from closedloop_plugin.robots.planner.decision_cycle import DecisionCycle
    from lmms_eval_ad2.storage.identity import check_folder, check_identity, write_run
    from lmms_eval_ad2.storage.lock import lock_folder

    _check(options)
    robot = robot_of(options.robot)
    known = _known_identity(options, robot)
    check_folder(options.out, known)  # before a model is loaded, which takes minutes
    driver = _driver(options)
    plan = _plan(options, robot, driver)
    identity = known | {"agent": plan.agent, "interpreter": plan.interpreter}
    with contextlib.closing(lock_folder(options.out)):
        check_identity(options.out, identity)
        ledger = SegmentRunStore(options.out)
        write_run(options.out, identity, {"segments": options.segments, "runs": options.runs})
        agent, interpreter, rules = driver
        cycle = DecisionCycle(agent, interpreter, rules, robot.vehicle, seed=options.seed)
        drive = SimulatedDrive(cycle, plan.track, robot.onboard.motion_s).drive
        records = run_course(plan, drive, ledger, retry_failed=options.retry_failed, on_record=_print_record)
    print(render(by_course(records, plan.names), plan.names, published(), markdown=options.markdown))
    print(f"top views in {options.out / 'pictures'}, one line per run in {options.out / 'episodes.jsonl'}")
    return 1 if any(r.retryable for r in records) else 0


def _check(options: RobotRunOptions) -> None:
    from closedloop_plugin.driver.agents.make import BUILT_IN
    from closedloop_plugin.runner.driver import check_driver

    if ":" not in options.agent and options.agent not in (EXPERT, *BUILT_IN):
        raise Ad2Error(
            f"no agent {options.agent!r}; on a course: {EXPERT}, still, straight, random, endpoint:... or lmms:..."
        )
    if options.course != "sandbox":
        raise Ad2Error(f"--config course={options.course}: no such course; known: sandbox")
    check_driver(options)


def _driver(options: RobotRunOptions) -> tuple[Agent, Interpreter | None, Profile]:
    """Agent, interpreter and profile. The track expert answers in text like a model: it gets an interpreter."""
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.driver.interpreters.make import make_interpreter
    from closedloop_plugin.robots.course.guidance import TrackExpert
    from closedloop_plugin.runner.driver import driver_of

    rules = profile(options.profile)
    if options.agent == EXPERT:
        spec = options.interpreter or "rules"
        mode = options.mode or ("rules" if spec == "rules" else "cng")
        more: dict[str, Any] = {"describer": options.describer, "prompts": options.prompts, "seed": options.seed}
        more["situation"] = options.situation
        return TrackExpert(), make_interpreter(spec, mode, rules, **more), rules
    driver = driver_of(options, rules)
    if driver.agent.privileged:
        raise Ad2Error(f"--agent {options.agent} reads the state of a simulated town; on a course use {EXPERT}")
    return driver.agent, driver.interpreter, rules


def _plan(
    options: RobotRunOptions, robot: RobotConfig, driver: tuple[Agent, Interpreter | None, Profile]
) -> CoursePlan:
    from closedloop_plugin.robots.course.runner import CoursePlan, segments_of
    from closedloop_plugin.robots.sandbox.scene import FOOTPRINTS
    from closedloop_plugin.robots.sandbox.track import sandbox
    from lmms_eval_ad2.storage.identity import code_label

    agent, interpreter, rules = driver
    track = sandbox()
    return CoursePlan(
        track=track,
        segments=segments_of(track, options.segments),
        runs=options.runs,
        footprint=FOOTPRINTS[robot.vehicle.platform],
        seed=options.seed,
        robot=_about(robot),
        agent=agent.describe(),
        interpreter=interpreter.describe() if interpreter else None,
        profile=rules.name,
        versions={"lmms-eval-ad2": code_label(), "python": sys.version.split()[0]},
    )


def _about(robot: RobotConfig) -> dict[str, Any]:
    """The settings of a robot that influence its driving."""
    vehicle = robot.vehicle
    return {
        "name": robot.name, "vehicle": vehicle.to_onboard(), "calibration": asdict(vehicle.calibration),
        "scale": vehicle.scale, "motion_s": robot.onboard.motion_s,
    }  # fmt: skip


def _known_identity(options: RobotRunOptions, robot: RobotConfig) -> dict[str, Any]:
    """The part of the run's identity that is known before a model is loaded."""
    from lmms_eval_ad2.storage.identity import code_identity

    found = identity_of(options, {"robot": _about(robot)}) | code_identity()
    return {key: value for key, value in found.items() if key not in ("agent", "interpreter")}


def _print_record(record: Any) -> None:
    what = f": {record.what}" if record.what and record.what != record.end else ""
    show(f"{record.segment} run {record.run}: {record.end}{what}, {record.completion:.0f} %", flush=True)
