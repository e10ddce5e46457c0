"""`ad2 robot plan`: the planner server of one vehicle, with the tunnel to it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.run import ArgumentFilter, register_driver
from closedloop_plugin.cli.robot.vehicle import add_robot, hotline_of, robot_of, token_file
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.sigterm import ended_by_sigterm

if TYPE_CHECKING:
    from closedloop_plugin.robots.planner.server import PlannerServer
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

# Of `ad2 drive run`'s options: a vehicle has one camera of its own, and its pace is that of its motions.
ELSEWHERE = {"camera": None, "size": None, "latency": "waits", "decision_hz": None, "video": False}
EXAMPLES = """examples:
  ad2 robot plan --robot limo-ackermann --agent endpoint:qwen@http://gpu7:8000/v1
  ad2 robot plan --robot my_limo.yaml --agent lmms:qwen2_5_vl,pretrained=... --interpreter endpoint:... --mode dcs
  ad2 robot plan --robot limo-ackermann --agent straight --out out/limo --frames
meanwhile, in other terminals (docs/robots-link.md):
  ad2 robot console --robot limo-ackermann       what it sees, says and does; the space bar stops it
  ad2 robot stop --robot limo-ackermann          emergency stop

exit code: 0 ended by Ctrl-C or SIGTERM (the vehicle is told to stand), 2 not as asked"""


def register(parts: Any) -> None:
    cmd = parts.add_parser(
        "plan",
        help="think for a vehicle: agent and interpreter behind a tunnel",
        description="Wait for the vehicle's client, answer each of its pictures with an order for its next motion.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_robot(cmd)
    where = cmd.add_argument_group("the way to it")
    where.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: the tunnel's end)")
    where.add_argument("--port", type=int, default=0, help="default 0: any free one, the tunnel knows")
    where.add_argument("--no-tunnel", action="store_true", help="somebody else brings the vehicle here")
    where.add_argument("--token-file", type=Path, metavar="FILE", help="default: the one that ad2 robot deploy made")
    register_driver(ArgumentFilter(cmd.add_argument_group("who drives (as in ad2 drive run)"), ELSEWHERE))
    how = cmd.add_argument_group("what is kept")
    how.add_argument("--out", type=Path, metavar="DIR", help="a line of JSON for every cycle, in DIR/planner.jsonl")
    how.add_argument("--frames", action="store_true", help="the pictures too, in DIR/frames")
    how.add_argument("--seed", type=int, default=0, metavar="S", help="of random, and of sampled replies (default 0)")
    cmd.set_defaults(func=run, **ELSEWHERE)


def run(args: argparse.Namespace) -> int:
    from closedloop_plugin.cli.drive.prepared_run import check_driver
    from closedloop_plugin.robots.deploy import read_token
    from closedloop_plugin.robots.planner.control_socket import answering

    if args.frames and not args.out:
        raise Ad2Error("--frames needs a place: --out DIR")
    if not 0 <= args.port <= 65535:
        raise Ad2Error(f"--port {args.port}: from 0 to 65535")
    check_driver(args)
    robot = robot_of(args.robot)
    token = read_token(args.token_file or token_file(robot))
    planner = _planner(args, robot, token)
    with ended_by_sigterm(), answering(planner, hotline_of(robot)):
        try:
            with planner.listening(args.host, args.port) as (host, port), _tunnel(args, robot, planner, port):
                print(f"planner of {robot.name} ready: {host}:{port}", flush=True)
                planner.work()
        except KeyboardInterrupt:
            counts = ", ".join(f"{k} {v}" for k, v in sorted((planner.journal.counts + planner.cycle.counts).items()))
            print(f"stopped; {counts or 'nothing happened'}", file=sys.stderr)
    return 0


def _planner(args: argparse.Namespace, robot: RobotConfig, token: bytes) -> PlannerServer:
    from closedloop_plugin.cli.drive.prepared_run import driver_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.robots.planner.journal import PlannerJournal
    from closedloop_plugin.robots.planner.server import PlannerServer

    rules = profile(args.profile)
    driver = driver_of(args, rules)
    if driver.agent.privileged:
        raise Ad2Error(f"--agent {args.agent} sees everything (privileged), and of a vehicle only its camera is seen")
    return PlannerServer(
        driver.agent,
        driver.interpreter,
        rules,
        robot.vehicle,
        token,
        seed=args.seed,
        strict=args.policy == "strict",
        motion_s=robot.onboard.motion_s,
        journal=PlannerJournal(args.out, args.frames, lambda line: print(line, file=sys.stderr, flush=True)),
    )


@contextlib.contextmanager
def _tunnel(args: argparse.Namespace, robot: RobotConfig, planner: PlannerServer, port: int) -> Iterator[None]:
    """The tunnel, made anew where the vehicle was lost though ssh sees nothing wrong."""
    from closedloop_plugin.robots.transport.tunnel import SshTunnel

    if args.no_tunnel:
        yield
        return

    def tell(line: str) -> None:
        state, _, reason = line.partition(": ")
        planner.journal.event("tunnel", state, detail=reason)

    with SshTunnel(robot, port, tell) as tunnel:
        planner.on_lost.append(lambda why: tunnel.renew() if why.startswith("silent") else None)
        yield
