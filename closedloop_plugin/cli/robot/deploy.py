"""`ad2 robot deploy`: install the on-board client on the vehicle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.robot.vehicle import addressed, robot_of, token_file
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import add_command, option

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import RobotConfig

EPILOG = """examples:
  ad2 robot deploy limo-ackermann --dry-run           print what would be copied and run
  ad2 robot deploy my_limo.yaml agilex@192.168.1.20   copy and install
  ad2 robot deploy my_limo.yaml host                  the same, to link.host of the file

The vehicle needs sshd, Python 3.6 or newer and ROS; no packages are installed there. It must accept your ssh key, and
its host key must be known here (ssh to it once). The first deployment creates a token shared by planner and vehicle."""


@dataclass(frozen=True, kw_only=True)
class RobotDeployOptions:
    """`ad2 robot deploy`."""

    robot: str = option("name of a file in configs/robots, or a YAML file", metavar="NAME|FILE", positional=True)
    host: str | None = option(
        "address of the vehicle; 'host': link.host of the file", default=None, metavar="[USER@]HOST", positional=True
    )
    dry_run: bool = option("print what would be done", default=False)


def register(parts: Any) -> None:
    add_command(
        parts,
        "deploy",
        run,
        RobotDeployOptions,
        help="copy the client to the vehicle",
        epilog=EPILOG,
    )


def run(options: RobotDeployOptions) -> int:
    from closedloop_plugin.robots import deploy
    from closedloop_plugin.robots.transport import ssh

    robot = addressed(robot_of(options.robot), options.host)
    if options.dry_run:
        _show(robot)
        return 0
    if not options.host:
        known = f" (host: {robot.link.host}, from the file)" if robot.link.host else ""
        raise Ad2Error(
            f"name the vehicle: ad2 robot deploy {options.robot} [USER@]HOST{known}, or --dry-run to print the steps"
        )
    deploy.deploy(robot, deploy.make_token(token_file(robot)))
    print(f"installed on {robot.link.host}, in {robot.link.folder}; try it without motion:")
    print(f"  ad2 robot check {options.robot} {options.host}")
    print(f"start it{_sourcing(robot)}:")
    print("  " + ssh.shown(ssh.command(robot.link, remote=deploy.ros_command(robot, "client", deploy.SETTINGS))))
    print(f"and here: ad2 robot plan --robot {options.robot} --agent ...")
    return 0


def _show(robot: RobotConfig) -> None:
    from closedloop_plugin.robots import deploy
    from closedloop_plugin.robots.transport import ssh

    file = token_file(robot)
    content = deploy.files(robot)
    print(f"# would be copied into {robot.link.folder} on {robot.link.host or '(no link.host)'}:")
    for name, data in sorted(content.items()):
        print(f"{len(data):>8}  {name}")
    print(f"{65:>8}  {deploy.TOKEN}  (mode 600, from {file}, {'exists' if file.exists() else 'will be created'})")
    print(f"\n# {deploy.SETTINGS}:\n{content[deploy.SETTINGS].decode()}")
    if robot.link.host:
        print("# would be run, with the files as a tar archive on its standard input:")
        print(ssh.shown(ssh.command(robot.link, remote=deploy.install_command(robot))))
        print(f"\n# starts the client{_sourcing(robot)}:")
        print(ssh.shown(ssh.command(robot.link, remote=deploy.ros_command(robot, "client", deploy.SETTINGS))))


def _sourcing(robot: RobotConfig) -> str:
    return "" if robot.onboard.setup else ", with ROS sourced on the vehicle (or name its setup files: onboard.setup)"
