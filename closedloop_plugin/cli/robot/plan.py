"""`ad2 robot plan` and `ad2 robot stop`: the planner server of a vehicle, with the ssh tunnel; the emergency stop."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.robot.vehicle import RobotOptions, home, planner_socket, robot_of, token_file
from closedloop_plugin.runner.options import DecisionOptions, DriverOptions, SimulatedDecisionOptions
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, fixed, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.robots.planner.server import PlannerServer
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EXAMPLES = """examples:
  ad2 robot plan --robot limo-ackermann --agent endpoint:qwen@http://gpu7:8000/v1
  ad2 robot plan --robot my_limo.yaml --agent lmms:qwen2_5_vl,pretrained=... --interpreter endpoint:... --mode dcs
  ad2 robot plan --robot limo-ackermann --agent straight --out out/limo --frames
in another terminal (docs/robots-link.md):
  ad2 robot stop --robot limo-ackermann          emergency stop

exit code: 0 ended by Ctrl-C or SIGTERM (the vehicle is ordered to stop), 2 invalid arguments"""

STOP_EPILOG = """The stop is sent through the running planner. If no planner answers, or the vehicle does not confirm
within half a second, it is sent directly to the vehicle by ssh. It stays in effect until it is released, also for new
connections. A stop that was set on board is released on board: --release --on-board.

exit code: 0 confirmed by the vehicle, 1 not confirmed: switch the vehicle off"""


@dataclass(frozen=True, kw_only=True)
class VehicleDriverOptions(DriverOptions, SimulatedDecisionOptions):
    """The driver of a vehicle, which has one fixed camera and decides after each motion."""

    camera: None = fixed(None)
    size: None = fixed(None)
    latency: str = fixed("waits")
    decision_hz: None = fixed(None)


@dataclass(frozen=True, kw_only=True)
class TunnelOptions:
    host: str = option("address to listen on (default 127.0.0.1: end of the tunnel)", default="127.0.0.1", expert=True)
    port: int = option(
        "port to listen on (default 0: a free one, used by the tunnel)",
        default=0,
        least=0,
        most=65535,
        metavar="P",
        expert=True,
    )
    no_tunnel: bool = option("do not open a tunnel; the vehicle connects directly", default=False, expert=True)
    token_file: Path | None = option(
        "token (default: created by ad2 robot deploy)", default=None, metavar="FILE", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class PlanLogOptions:
    out: Path | None = option("folder of planner.jsonl, one JSON line per cycle", default=None, metavar="DIR")
    frames: bool = option("also save the pictures, in DIR/frames", default=False)
    seed: int = option(
        "seed of the agent random and of sampled replies (default 0)", default=0, metavar="S", expert=True
    )


@dataclass(frozen=True, kw_only=True)
class RobotPlanOptions(RobotOptions, TunnelOptions, PlanLogOptions, VehicleDriverOptions):
    """`ad2 robot plan`."""


@dataclass(frozen=True, kw_only=True)
class RobotStopOptions(RobotOptions):
    """`ad2 robot stop`."""

    reason: str = option("reason, recorded in the logs", default="ad2 robot stop", metavar="TEXT")
    on_board: bool = option("send it directly to the vehicle, not through the planner", default=False)
    release: bool = option("release the stop", default=False)


GROUPS = {
    "connection": (TunnelOptions,),
    "driver (as in ad2 drive run)": (DriverOptions, DecisionOptions),
    "log": (PlanLogOptions,),
}


def register_plan(parts: Any) -> None:
    add_command(
        parts,
        "plan",
        plan,
        RobotPlanOptions,
        GROUPS,
        help="run agent and interpreter for a vehicle, behind an ssh tunnel",
        description="Wait for the vehicle's client and answer each picture with the next motion.",
        epilog=EXAMPLES,
    )


def register_stop(parts: Any) -> None:
    add_command(parts, "stop", stop, RobotStopOptions, help="stop the vehicle in an emergency", epilog=STOP_EPILOG)


def plan(options: RobotPlanOptions) -> int:
    from closedloop_plugin.robots.deploy import read_token
    from closedloop_plugin.runner.driver import check_driver

    if options.frames and not options.out:
        raise Ad2Error("--frames requires --out DIR")
    check_driver(options)
    robot = robot_of(options.robot)
    token = read_token(options.token_file or token_file(robot))
    planner = _planner(options, robot, token)
    listening = planner.listening(options.host, options.port, planner_socket(robot))
    try:
        with listening as (host, port), _tunnel(options, robot, planner, port):
            print(f"planner of {robot.name} ready: {host}:{port}", flush=True)
            planner.work()
    except KeyboardInterrupt:
        counts = ", ".join(f"{k} {v}" for k, v in sorted((planner.journal.counts + planner.cycle.counts).items()))
        show(f"stopped; {counts or 'nothing happened'}", file=sys.stderr)
    return 0


def _planner(options: RobotPlanOptions, robot: RobotConfig, token: bytes) -> PlannerServer:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.robots.planner.journal import PlannerJournal
    from closedloop_plugin.robots.planner.server import PlannerServer
    from closedloop_plugin.runner.driver import driver_of

    rules = profile(options.profile)
    driver = driver_of(options, rules)
    if driver.agent.privileged:
        raise Ad2Error(
            f"--agent {options.agent} is privileged (it reads the simulation's state); a vehicle has only a camera"
        )
    return PlannerServer(
        agent=driver.agent,
        interpreter=driver.interpreter,
        profile=rules,
        vehicle=robot.vehicle,
        token=token,
        seed=options.seed,
        strict=options.policy == "strict",
        motion_s=robot.onboard.motion_s,
        journal=PlannerJournal(options.out, options.frames, lambda line: show(line, file=sys.stderr, flush=True)),
    )


@contextlib.contextmanager
def _tunnel(options: RobotPlanOptions, robot: RobotConfig, planner: PlannerServer, port: int) -> Iterator[None]:
    """The tunnel; it is reopened if the vehicle is silent although ssh reports no error."""
    from closedloop_plugin.robots.transport.ssh import SshTunnel

    if options.no_tunnel:
        yield
        return

    def report(line: str) -> None:
        state, _, reason = line.partition(": ")
        planner.journal.event("tunnel", state, detail=reason)

    with SshTunnel(robot, port, report) as tunnel:
        planner.on_lost.append(lambda reason: tunnel.renew() if reason.startswith("silent") else None)
        yield


def stop(options: RobotStopOptions) -> int:
    from closedloop_plugin.robots.planner import control

    try:
        robot = robot_of(options.robot)
    except Ad2Error as exc:
        if options.release or options.on_board:
            raise
        return _by_name(options, str(exc))
    if options.release:
        done = control.release(robot, planner_socket(robot), options.on_board)
    else:
        done = control.stop(robot, planner_socket(robot), options.reason, options.on_board)
    show(done.message)
    return 0 if done.confirmed else 1


def _by_name(options: RobotStopOptions, problem: str) -> int:
    """Stop through the planner, which needs only the robot's name: the file may be invalid while it is edited."""
    from closedloop_plugin.robots.planner import control

    try:
        confirmed = control.stop_by_planner(control.socket_path(home(), Path(options.robot).stem), options.reason)
    except Ad2Error as exc:
        confirmed, problem = False, f"{exc}; {problem}"
    show(f"{'stopped: the vehicle stands' if confirmed else control.OFF} ({problem})")
    return 0 if confirmed else 1
