"""Deploys the on-board client: files to copy, commands to run on the vehicle, and the token that both ends share."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import closedloop_plugin
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.core.errors import Ad2Error

TOKEN = "token"  # file name on the vehicle, beside the settings
SETTINGS = "settings.json"
_ONBOARD = "closedloop_plugin.robots.onboard"
_NEW = ".ad2_new"  # everything is unpacked and tested here before it replaces the old files


def settings(robot: RobotConfig) -> dict[str, Any]:
    """The settings of the on-board client (onboard/settings.py), which reaches the planner through the tunnel."""
    onboard = {
        name: value for name, value in asdict(robot.onboard).items() if name not in ("python", "setup", "backend")
    }
    return {
        "planner": {"host": "127.0.0.1", "port": robot.link.planner_port, "token_file": TOKEN},
        "vehicle": robot.vehicle.to_onboard(),
        "backend": robot.backend,
        **onboard,
        **asdict(robot.camera),
    }


def files(robot: RobotConfig) -> dict[str, bytes]:
    """Path name below the vehicle's folder -> content; without the token."""
    package = Path(closedloop_plugin.__file__).parent
    sources = [package / "__init__.py", package / "robots" / "__init__.py"]
    sources += sorted((package / "robots" / "onboard").glob("*.py"))
    copied = {str(file.relative_to(package.parent)): file.read_bytes() for file in sources}
    return {**copied, SETTINGS: (json.dumps(settings(robot), indent=1) + "\n").encode()}


def onboard_command(robot: RobotConfig, module: str, *words: str) -> str:
    """The shell command that runs one of the copied programs on the vehicle, without ROS."""
    run = shlex.join([robot.onboard.python, "-m", f"{_ONBOARD}.{module}", *words])
    return f"cd {_folder(robot)} && exec {run}"


def ros_command(robot: RobotConfig, module: str, *words: str) -> str:
    """Like onboard_command, with the files of onboard.setup sourced before: a command over ssh reads no ~/.bashrc."""
    run = onboard_command(robot, module, *words)
    files = [part.replace("~", "$HOME", 1) for part in robot.onboard.setup.split(":") if part]
    if not files:
        return run
    sourced = " && ".join(f'. "{file}"' for file in files)
    return f"exec bash -c {shlex.quote(f'{sourced} && {run}')}"


def deployed_digest(robot: RobotConfig) -> str:
    """What onboard/check.py prints as `settings` if the vehicle has these files and settings."""
    content = files(robot)
    found = hashlib.sha256(content.pop(SETTINGS))
    for path in sorted((Path(name) for name in content if "/onboard/" in name), key=lambda path: path.name):
        found.update(path.name.encode() + b"\0" + content[str(path)])
    return found.hexdigest()


def install_command(robot: RobotConfig) -> str:
    """The shell command that unpacks the archive from stdin, tests it with the vehicle's Python, and installs it.

    Other files in the folder (a latched emergency stop, logs) are kept.
    """
    python = shlex.quote(robot.onboard.python)
    version = "import sys; sys.exit(sys.version_info < (3, 6) and 'Python 3.6 or newer is needed, not ' + sys.version)"
    check = (
        f"from pathlib import Path; from {_ONBOARD} import client, settings; "
        f"found = settings.read_settings(Path('{SETTINGS}')); settings.read_token(found['planner']['token_file'])"
    )
    steps = [
        "umask 077", f"mkdir -p {_folder(robot)}", f"cd {_folder(robot)}", f"rm -rf {_NEW}", f"mkdir {_NEW}",
        f"tar -xf - -C {_NEW}", f"cd {_NEW}", f"{python} -c {shlex.quote(version)}",
        f"{python} -c {shlex.quote(check)}", "cd ..", "rm -rf closedloop_plugin",
        f"mv {_NEW}/closedloop_plugin {_NEW}/{SETTINGS} {_NEW}/{TOKEN} .", f"rm -rf {_NEW}", "echo installed",
    ]  # fmt: skip
    return f"exec sh -c {shlex.quote(' && '.join(steps))}"


def archive(content: Mapping[str, bytes], token: bytes) -> bytes:
    """A reproducible tar of the files and the token, all with mode 0600."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (*sorted(content.items()), (TOKEN, token.hex().encode() + b"\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def deploy(robot: RobotConfig, token: bytes) -> None:
    """Copy, test and install. Ad2Error with the message of ssh, tar or Python."""
    output = ssh.run(robot.link, install_command(robot), archive(files(robot), token))
    if "installed" not in output.split():
        raise Ad2Error(f"{robot.link.host}: expected 'installed', found {output[-200:]!r}")


def read_token(file: Path) -> bytes:
    """Read the token. Ad2Error if it is missing, invalid or readable by others."""
    try:
        if file.stat().st_mode & 0o077:
            raise Ad2Error(f"{file} can be read by others: chmod 600 {file}")
        token = file.read_text("ascii").strip()
    except FileNotFoundError:
        raise Ad2Error(f"there is no token {file}: ad2 robot deploy creates it and copies it to the vehicle") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise Ad2Error(f"cannot read the token {file}: {exc}") from None
    if not re.fullmatch(r"[0-9a-f]{64}", token):
        raise Ad2Error(f"{file}: expected 64 hexadecimal digits; delete it, and ad2 robot deploy creates a new one")
    return bytes.fromhex(token)


def make_token(file: Path) -> bytes:
    """Read the token, or create one: 32 random bytes, readable by the user only."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_hex(32) + "\n")
    return read_token(file)


def _folder(robot: RobotConfig) -> str:
    folder = robot.link.folder
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", folder) or folder.startswith("-") or ".." in folder.split("/"):
        raise Ad2Error(f"link.folder {folder!r}: expected a plain folder name")
    if not [part for part in folder.split("/") if part not in ("", ".")]:  # its contents would be replaced
        raise Ad2Error(f"link.folder {folder!r}: expected a folder of its own, such as ad2_robot")
    return folder
