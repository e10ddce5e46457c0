"""`ad2 robot deploy`: install the on-board client; look whether the vehicle is ready to drive."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from closedloop_plugin.cli.robot.vehicle import addressed, robot_of, token_file
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import one_line, show

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EPILOG = """examples:
  ad2 robot deploy limo-ackermann --dry-run           print what would be copied and run
  ad2 robot deploy my_limo.yaml agilex@192.168.1.20   copy and install
  ad2 robot deploy my_limo.yaml host                  the same, to link.host of the file
  ad2 robot deploy my_limo.yaml host --check          is it ready?

The vehicle needs sshd, Python 3.6 or newer and ROS; no packages are installed there. It must accept your ssh key, and
its host key must be known here (ssh to it once). The first deployment creates a token shared by planner and vehicle.

--check looks over ssh at Python, the deployed files and token, the emergency stop, ROS, the base, camera, odometry,
status and mode. Topics are observed for some seconds; nothing is published, and nothing moves. Start the vehicle's
drivers and deploy first; a file that brings ROS into the environment is named in onboard.setup.

exit code of --check: 0 ready, 1 something is missing"""

MOST_LINES = 50  # of the output of onboard/check.py


@dataclass(frozen=True, kw_only=True)
class RobotDeployOptions:
    """`ad2 robot deploy`."""

    robot: str = option("name of a file in configs/robots, or a YAML file", metavar="NAME|FILE", positional=True)
    host: str | None = option(
        "address of the vehicle; 'host': link.host of the file", default=None, metavar="[USER@]HOST", positional=True
    )
    dry_run: bool = option("print what would be done", default=False)
    check: bool = option("copy nothing; look whether the vehicle is ready, without motion", default=False)
    seconds: float = option(
        "how long topics are observed (default 3)", default=3.0, metavar="S", needs="check", expert=True
    )
    json: bool = option("with --check: print JSON", default=False, needs="check")


def register(parts: Any) -> None:
    about = "copy the client to the vehicle; look whether it is ready"
    add_command(parts, "deploy", deploy, RobotDeployOptions, help=about, epilog=EPILOG)


def deploy(options: RobotDeployOptions) -> int:
    from closedloop_plugin.robots import deploy as files
    from closedloop_plugin.robots.transport import ssh

    robot = addressed(robot_of(options.robot), options.host)
    if options.check:
        return _check(options, robot)
    if options.dry_run:
        _show(robot)
        return 0
    if not options.host:
        known = f" (host: {robot.link.host}, from the file)" if robot.link.host else ""
        raise Ad2Error(
            f"name the vehicle: ad2 robot deploy {options.robot} [USER@]HOST{known}, or --dry-run to print the steps"
        )
    files.deploy(robot, files.make_token(token_file(robot)))
    print(f"installed on {robot.link.host}, in {robot.link.folder}; try it without motion:")
    print(f"  ad2 robot deploy {options.robot} {options.host} --check")
    print(f"start it{_sourcing(robot)}:")
    print("  " + ssh.shown(ssh.command(robot.link, remote=files.ros_command(robot, "client", files.SETTINGS))))
    print(f"and here: ad2 robot plan --robot {options.robot} --agent ...")
    return 0


def _show(robot: RobotConfig) -> None:
    from closedloop_plugin.robots import deploy as files
    from closedloop_plugin.robots.transport import ssh

    file = token_file(robot)
    content = files.files(robot)
    print(f"# would be copied into {robot.link.folder} on {robot.link.host or '(no link.host)'}:")
    for name, data in sorted(content.items()):
        print(f"{len(data):>8}  {name}")
    print(f"{65:>8}  {files.TOKEN}  (mode 600, from {file}, {'exists' if file.exists() else 'will be created'})")
    print(f"\n# {files.SETTINGS}:\n{content[files.SETTINGS].decode()}")
    if robot.link.host:
        print("# would be run, with the files as a tar archive on its standard input:")
        print(ssh.shown(ssh.command(robot.link, remote=files.install_command(robot))))
        print(f"\n# starts the client{_sourcing(robot)}:")
        print(ssh.shown(ssh.command(robot.link, remote=files.ros_command(robot, "client", files.SETTINGS))))


def _sourcing(robot: RobotConfig) -> str:
    return "" if robot.onboard.setup else ", with ROS sourced on the vehicle (or name its setup files: onboard.setup)"


class VehicleCheck(NamedTuple):
    """name: what was looked at; good: as needed to drive; found: what was found, and what to do."""

    name: str
    good: bool
    found: str


def _check(options: RobotDeployOptions, robot: RobotConfig) -> int:
    from closedloop_plugin.robots import deploy as files
    from closedloop_plugin.robots.transport import ssh

    if not 0.5 <= options.seconds <= 60.0:
        raise Ad2Error(f"--config seconds={options.seconds:g}: expected 0.5 to 60")
    command = files.ros_command(robot, "check", files.SETTINGS, f"{options.seconds:g}")
    try:
        printed = ssh.run(robot.link, command, limit_s=30.0 + options.seconds)
    except Ad2Error as exc:
        raise Ad2Error(f"{exc}; not deployed yet? ad2 robot deploy {options.robot} {options.host or 'host'}") from None
    checks = [_compared(robot, found) for found in _read(printed)]
    if options.json:
        show(json.dumps([found._asdict() for found in checks], indent=1))
    else:
        for name, good, found in checks:
            show(f"{'ok  ' if good else 'FAIL'} {name}: {found}")
    return 0 if all(good for _, good, _ in checks) else 1


def _read(printed: str) -> list[VehicleCheck]:
    """The lines of onboard/check.py; the vehicle's shell may print others before."""
    checks: list[VehicleCheck] = []
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


def _compared(robot: RobotConfig, printed: VehicleCheck) -> VehicleCheck:
    """The check of settings or token, compared with this machine's."""
    from closedloop_plugin.robots import deploy as files

    again = "ad2 robot deploy copies them again"
    if printed.name == "settings" and printed.good:
        same = printed.found == files.deployed_digest(robot)
        return VehicleCheck("files", same, "those of this version" if same else f"not those of this version: {again}")
    if printed.name == "token" and printed.good:
        try:
            ours = hashlib.sha256(files.read_token(token_file(robot))).hexdigest()
        except Ad2Error as exc:
            return VehicleCheck("token", False, str(exc))
        same = printed.found == ours
        return VehicleCheck("token", same, "the same here" if same else f"not the one of this machine: {again}")
    return printed
