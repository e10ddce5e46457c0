"""`ad2 robot run`: drive the segments of a course, and print the route completion."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.run import ArgumentFilter, register_driver
from closedloop_plugin.cli.robot.plan import ELSEWHERE
from closedloop_plugin.cli.robot.vehicle import hotline_of, robot_of, token_file
from lmms_eval_ad2.errors import Ad2Error, install_command

if TYPE_CHECKING:
    from closedloop_plugin.agents.base import Agent
    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.interpreters.base import Interpreter
    from closedloop_plugin.robots.course.runner import CoursePlan, CourseTransport
    from closedloop_plugin.robots.course.transports.linked import PlannerSetup
    from closedloop_plugin.robots.planner.server import PlannerServer
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EXPERT = "track-expert"
TRANSPORTS = ("local", "ros", "vehicle")
# Of `ad2 drive run`'s options: --policy too, since a run on a course goes on standing where a reply is not read.
HERE = {**ELSEWHERE, "policy": "official"}
EXAMPLES = """examples:
  ad2 robot run --course sandbox --segments all --runs 3 --agent track-expert --out out/course
  ad2 robot run --segments lap --agent track-expert --transport ros --out out/lap
  ad2 robot run --robot jetbot-waveshare --agent endpoint:qwen@http://gpu7:8000/v1 --out out/jetbot
  ad2 robot run --robot limo-ackermann --transport vehicle --agent endpoint:... --out out/limo     a real one

agents:
  track-expert                sees the track (privileged), and says in words how to drive it
  still, straight, random     baselines
  endpoint:..., lmms:...      models, as in ad2 drive run

transports:
  local      agent, interpreter and simulated vehicle in this process, in simulated time; no ROS (default)
  ros        the whole loop in real time: planner, on-board client, rospy, simulated vehicle; needs rospy
  vehicle    a real vehicle: its client runs there (ad2 robot deploy), a person puts it down and watches it

exit code: 0 every run has a result, 1 the agent failed in some, 2 not as asked, 130 Ctrl-C"""


def register(parts: Any) -> None:
    cmd = parts.add_parser(
        "run",
        help="drive the segments of a course, and print the route completion",
        description="Drive every segment of a course so many times. Every finished run is on disk at once:\nafter "
        "Ctrl-C or a crash the same command goes on with those that are missing.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = cmd.add_argument_group("what is driven")
    what.add_argument("--course", default="sandbox", metavar="NAME", help="sandbox (default), the only one so far")
    what.add_argument(
        "--segments", default="all", metavar="S,S", help="all (default), lap, or names and numbers: 1,3,route7"
    )
    what.add_argument("--runs", type=int, default=3, metavar="N", help="of every segment (default 3, as in the paper)")
    what.add_argument("--robot", default="sandbox", metavar="NAME|FILE", help="which vehicle (default: sandbox)")
    what.add_argument("--seed", type=int, default=0, metavar="S", help="of placing, random, and sampled replies")
    register_driver(ArgumentFilter(cmd.add_argument_group("who drives (as in ad2 drive run)"), HERE))
    how = cmd.add_argument_group("how it runs")
    how.add_argument("--transport", choices=TRANSPORTS, default="local", help="how words come to wheels; see below")
    how.add_argument(
        "--tunnel", action="store_true", help="with --transport ros: through ssh, to the robot's link.host"
    )
    how.add_argument("--out", type=Path, required=True, metavar="DIR", help="the same command goes on in it")
    how.add_argument("--retry-failed", action="store_true", help="drive again where the agent failed")
    how.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    cmd.set_defaults(func=run, frames=False, **HERE)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.robots.course.published import published
    from closedloop_plugin.robots.course.records import SegmentRunStore, by_course
    from closedloop_plugin.robots.course.report import render
    from closedloop_plugin.robots.course.rosbag import available
    from closedloop_plugin.robots.course.runner import names, run_course
    from lmms_eval_ad2.storage.identity import check_folder, check_identity, write_run
    from lmms_eval_ad2.storage.lock import lock_folder

    _check(args)
    robot = robot_of(args.robot)
    check_folder(args.out, {"course": args.course, "transport": args.transport, "seed": args.seed})
    driver = _driver(args)
    plan = _plan(args, robot, driver)
    identity = _identity(args, plan)
    with contextlib.closing(lock_folder(args.out)):
        check_identity(args.out, identity)
        ledger = SegmentRunStore(args.out)
        write_run(args.out, identity, {"segments": args.segments, "runs": args.runs})
        with _transport(args, robot, driver) as transport:
            records = run_course(plan, transport, ledger, retry_failed=args.retry_failed, told=_tell)
    print(render(by_course(records, names(plan.segments)), names(plan.segments), published(), markdown=args.markdown))
    print(f"top views in {args.out / 'pictures'}, one line a run in {args.out / 'episodes.jsonl'}")
    if not available():
        print(f"no rosbags were written: {install_command('robots')}")
    return 1 if any(r.again for r in records) else 0


def _check(args: argparse.Namespace) -> None:
    from closedloop_plugin.agents.make import BUILT_IN
    from closedloop_plugin.cli.drive.prepared_run import check_driver

    if ":" not in args.agent and args.agent not in (EXPERT, *BUILT_IN):
        raise Ad2Error(
            f"no agent {args.agent!r}; on a course: {EXPERT}, still, straight, random, endpoint:... or lmms:..."
        )
    if args.course != "sandbox":
        raise Ad2Error(f"--course {args.course}: no such course; known: sandbox")
    if args.runs < 1:
        raise Ad2Error(f"--runs {args.runs}: 1 or more")
    if args.tunnel and args.transport != "ros":
        raise Ad2Error("--tunnel belongs to --transport ros; a real vehicle is always reached through one")
    if args.agent == EXPERT and args.transport == "vehicle":
        raise Ad2Error(f"--agent {EXPERT} sees the simulated track, and nothing of a real one")
    check_driver(args)


def _driver(args: argparse.Namespace) -> tuple[Agent, Interpreter | None, Profile]:
    """The track expert is a talker like any model: it gets the interpreter that was asked for."""
    from closedloop_plugin.cli.drive.prepared_run import driver_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.interpreters.make import make_interpreter
    from closedloop_plugin.robots.track_expert import TrackExpert

    rules = profile(args.profile)
    if args.agent == EXPERT:
        spec = args.interpreter or "rules"
        mode = args.mode or ("rules" if spec == "rules" else "cng")
        more = {"describer": args.describer, "prompts": args.prompts, "seed": args.seed}
        return TrackExpert(), make_interpreter(spec, mode, rules, **more), rules
    driver = driver_of(args, rules)
    if driver.agent.privileged:
        raise Ad2Error(f"--agent {args.agent} sees a simulated town, and here is none; on a course: {EXPERT}")
    return driver.agent, driver.interpreter, rules


def _plan(
    args: argparse.Namespace, robot: RobotConfig, driver: tuple[Agent, Interpreter | None, Profile]
) -> CoursePlan:
    from closedloop_plugin.robots.course.runner import CoursePlan, segments_of
    from closedloop_plugin.robots.sandbox.body import FOOTPRINTS
    from closedloop_plugin.robots.sandbox.track import sandbox
    from lmms_eval_ad2 import __version__

    agent, interpreter, rules = driver
    track = sandbox()
    return CoursePlan(
        track, segments_of(track, args.segments), args.runs, FOOTPRINTS[robot.vehicle.platform], args.seed,
        _about(robot),
        agent.describe(), interpreter.describe() if interpreter else None, rules.name,
        {"lmms-eval-ad2": __version__, "python": sys.version.split()[0]},
    )  # fmt: skip


def _about(robot: RobotConfig) -> dict[str, Any]:
    """All of a robot that its driving depends on."""
    vehicle = robot.vehicle
    return {
        "name": robot.name, "vehicle": vehicle.to_onboard(), "calibration": asdict(vehicle.calibration),
        "scale": vehicle.scale, "motion_s": robot.onboard.motion_s,
    }  # fmt: skip


def _identity(args: argparse.Namespace, plan: CoursePlan) -> dict[str, Any]:
    """What two runs into one folder must share. Segments and runs may grow."""
    return {
        "course": args.course, "transport": args.transport, "tunnel": args.tunnel, "seed": args.seed,
        "robot": dict(plan.robot), "agent": dict(plan.agent),
        "interpreter": dict(plan.interpreter) if plan.interpreter else None, "profile": plan.profile,
    }  # fmt: skip


def _tell(record: Any) -> None:
    what = f": {record.what}" if record.what and record.what != record.end else ""
    print(f"{record.segment} run {record.run}: {record.end}{what}, {record.completion:.0f} %", flush=True)


@contextlib.contextmanager
def _transport(
    args: argparse.Namespace, robot: RobotConfig, driver: tuple[Agent, Interpreter | None, Profile]
) -> Iterator[CourseTransport]:
    agent, interpreter, rules = driver
    if args.transport == "local":
        from closedloop_plugin.robots.course.transports.local import LocalTransport
        from closedloop_plugin.robots.planner.decision_cycle import DecisionCycle
        from closedloop_plugin.robots.sandbox.track import sandbox

        cycle = DecisionCycle(agent, interpreter, rules, robot.vehicle, seed=args.seed)
        yield LocalTransport(cycle, sandbox(), robot.onboard.motion_s)
        return
    from closedloop_plugin.robots.course.transports.linked import PlannerSetup

    def reachable(planner: PlannerServer) -> contextlib.AbstractContextManager[None]:
        from closedloop_plugin.robots.planner.control_socket import answering

        return answering(planner, hotline_of(robot))

    link = PlannerSetup(robot, agent, interpreter, rules, token=b"", reachable=reachable)  # each way brings its token
    made = _through_ros(args, link) if args.transport == "ros" else _to_vehicle(link)
    with made as transport:
        yield transport


@contextlib.contextmanager
def _through_ros(args: argparse.Namespace, link: PlannerSetup) -> Iterator[CourseTransport]:
    from closedloop_plugin.robots.course.transports.ros import RosTransport, on_this_machine

    @contextlib.contextmanager
    def tunnel(port: int) -> Iterator[int]:
        with _tunnelled(link.robot, port):
            yield link.robot.link.planner_port

    more = {"way": tunnel} if args.tunnel else {}
    with contextlib.closing(RosTransport(on_this_machine(link), args.out / "logs" / "client.log", **more)) as transport:
        yield transport


@contextlib.contextmanager
def _to_vehicle(link: PlannerSetup) -> Iterator[CourseTransport]:
    from closedloop_plugin.robots.course.transports.ros import free_port
    from closedloop_plugin.robots.course.transports.vehicle import OperatorKeyboard, VehicleTransport
    from closedloop_plugin.robots.deploy import read_token

    if not sys.stdin.isatty():
        raise Ad2Error("--transport vehicle needs somebody at a terminal, beside the vehicle")
    link = replace(link, token=read_token(token_file(link.robot)), port=free_port())
    with _tunnelled(link.robot, link.port):
        yield VehicleTransport(link, OperatorKeyboard())


@contextlib.contextmanager
def _tunnelled(robot: RobotConfig, port: int) -> Iterator[None]:
    """An ssh tunnel for the whole course; a run's planner comes and goes behind it."""
    from closedloop_plugin.robots.transport.tunnel import READY_S, SshTunnel

    with SshTunnel(robot, port, lambda line: print(f"tunnel {line}", file=sys.stderr)) as way:
        if not way.wait_up(READY_S):
            raise Ad2Error(
                f"no tunnel to {robot.link.host} port {robot.link.port}: {way.reason}. `ssh` there must work without a "
                "question (an sshd, your key, a known host); link.host, user, port and key of the robot's file say how"
            )
        yield
