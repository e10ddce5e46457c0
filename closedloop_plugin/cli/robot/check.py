"""`ad2 robot check`: whether a vehicle is ready to drive, without motion."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.robot.vehicle import addressed, robot_of, token_file
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import one_line, show

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EPILOG = """Looks over ssh at Python, the deployed files and token, the emergency stop, ROS, the base, camera, odometry,
status and mode. Topics are observed for some seconds; nothing is published, and nothing moves. Start the vehicle's
drivers and `ad2 robot deploy` first; a file that brings ROS into the environment is named in onboard.setup.

exit code: 0 ready, 1 something is missing"""
MOST_LINES = 50


@dataclass(frozen=True, kw_only=True)
class RobotCheckOptions:
    """`ad2 robot check`."""

    robot: str = option("name of a file in configs/robots, or a YAML file", metavar="NAME|FILE", positional=True)
    host: str | None = option(
        "address of the vehicle; default: link.host of the file", default=None, metavar="[USER@]HOST", positional=True
    )
    seconds: float = option("how long topics are observed", default=3.0, metavar="S")
    json: bool = option("print JSON", default=False)


@dataclass(frozen=True)
class VehicleCheck:
    """name: what was looked at; good: as needed to drive; found: what was found, and what to do."""

    name: str
    good: bool
    found: str


def register(parts: Any) -> None:
    add_command(
        parts, "check", run, RobotCheckOptions, help="look whether a vehicle is ready, without motion", epilog=EPILOG
    )


def run(options: RobotCheckOptions) -> int:
    from closedloop_plugin.robots import deploy
    from closedloop_plugin.robots.transport import ssh

    if not 0.5 <= options.seconds <= 60.0:
        raise Ad2Error(f"--seconds {options.seconds:g}: expected 0.5 to 60")
    robot = addressed(robot_of(options.robot), options.host)
    command = deploy.ros_command(robot, "check", deploy.SETTINGS, f"{options.seconds:g}")
    try:
        printed = ssh.run(robot.link, command, limit_s=30.0 + options.seconds)
    except Ad2Error as exc:
        raise Ad2Error(f"{exc}; not deployed yet? ad2 robot deploy {options.robot} {options.host or 'host'}") from None
    checks = [_compared(robot, check) for check in _read(printed)]
    if options.json:
        show(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            show(f"{'ok  ' if check.good else 'FAIL'} {check.name}: {check.found}")
    return 0 if all(check.good for check in checks) else 1


def _read(printed: str) -> list[VehicleCheck]:
    """The lines of onboard/check.py; the vehicle's shell may print others before."""
    checks = []
    for line in printed.splitlines()[-MOST_LINES:]:
        try:
            raw = json.loads(line)
            name, good, found = raw["name"], raw["good"], raw["found"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        checks.append(VehicleCheck(one_line(str(name))[:40], good is True, one_line(str(found))[:400]))
    if not checks:
        raise Ad2Error(f"the vehicle printed no result, but {one_line(printed[-200:])!r}")
    return checks


def _compared(robot: RobotConfig, check: VehicleCheck) -> VehicleCheck:
    """The check of settings or token, compared with this machine's."""
    from closedloop_plugin.robots import deploy

    again = "ad2 robot deploy copies them again"
    if check.name == "settings" and check.good:
        same = check.found == deploy.deployed_digest(robot)
        return VehicleCheck("files", same, "those of this version" if same else f"not those of this version: {again}")
    if check.name == "token" and check.good:
        try:
            ours = hashlib.sha256(deploy.read_token(token_file(robot))).hexdigest()
        except Ad2Error as exc:
            return VehicleCheck("token", False, str(exc))
        same = check.found == ours
        return VehicleCheck("token", same, "the same here" if same else f"not the one of this machine: {again}")
    return check
