"""The on-board client onto its vehicle: what is copied, what is run there, and the token that both ends share."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path as File
from typing import Any

import closedloop_plugin
from closedloop_plugin.robots.transport import ssh
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error

TOKEN = "token"  # its name on the vehicle, beside the settings
SETTINGS = "settings.json"
_ONBOARD = "closedloop_plugin.robots.onboard"
_NEW = ".ad2_new"  # where everything is unpacked and tried before it replaces what was there


def settings(robot: RobotConfig) -> dict[str, Any]:
    """What the client on board reads (onboard/settings.py). Its planner is the tunnel's end on its own loopback."""
    onboard = {name: value for name, value in asdict(robot.onboard).items() if name not in ("python", "backend")}
    return {
        "planner": {"host": "127.0.0.1", "port": robot.link.planner_port, "token_file": TOKEN},
        "vehicle": robot.vehicle.to_onboard(),
        "backend": robot.backend,
        **onboard,
        **asdict(robot.camera),
    }


def files(robot: RobotConfig) -> dict[str, bytes]:
    """Name below the vehicle's folder -> content; everything but the token."""
    package = File(closedloop_plugin.__file__).parent
    sources = [package / "__init__.py", package / "robots" / "__init__.py"]
    sources += sorted((package / "robots" / "onboard").glob("*.py"))
    copied = {str(file.relative_to(package.parent)): file.read_bytes() for file in sources}
    return {**copied, SETTINGS: (json.dumps(settings(robot), indent=1) + "\n").encode()}


def on_board(robot: RobotConfig, module: str, *words: str) -> str:
    """A shell's line that runs one of the copied programs on the vehicle."""
    run = shlex.join([robot.onboard.python, "-m", f"{_ONBOARD}.{module}", *words])
    return f"cd {_folder(robot)} && exec {run}"


def install(robot: RobotConfig) -> str:
    """The shell's line that takes the archive, tries it with the vehicle's own Python, and puts it into its place.

    What lies there beside (an emergency stop that is set, logs) stays.
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
    """A tar of it: the same content gives the same bytes; all of it for its owner alone."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (*sorted(content.items()), (TOKEN, token.hex().encode() + b"\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def deploy(robot: RobotConfig, token: bytes) -> None:
    """Copy and try; Ad2Error says what ssh, tar or Python said there."""
    said = ssh.run(robot.link, install(robot), archive(files(robot), token))
    if "installed" not in said.split():
        raise Ad2Error(f"{robot.link.host}: expected 'installed', found {said[-200:]!r}")


def read_token(file: File) -> bytes:
    """Ad2Error: there is none, or others can read it."""
    try:
        if file.stat().st_mode & 0o077:
            raise Ad2Error(f"{file} can be read by others: chmod 600 {file}")
        token = file.read_text("ascii").strip()
    except FileNotFoundError:
        raise Ad2Error(f"there is no token {file}: ad2 robot deploy makes it and copies it to the vehicle") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise Ad2Error(f"cannot read the token {file}: {exc}") from None
    if not re.fullmatch(r"[0-9a-f]{64}", token):
        raise Ad2Error(f"{file}: expected 64 hexadecimal digits; delete it, and ad2 robot deploy makes a new one")
    return bytes.fromhex(token)


def make_token(file: File) -> bytes:
    """The token there, or a new one: 32 random bytes, for the user's eyes only."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(secrets.token_hex(32) + "\n")
    return read_token(file)


def _folder(robot: RobotConfig) -> str:
    folder = robot.link.folder
    if not re.fullmatch(r"[A-Za-z0-9_./-]+", folder) or folder.startswith("-") or ".." in folder.split("/"):
        raise Ad2Error(f"link.folder {folder!r}: expected a plain folder's name")
    if not [part for part in folder.split("/") if part not in ("", ".")]:  # what is there before would be replaced
        raise Ad2Error(f"link.folder {folder!r}: expected a folder of its own, such as ad2_robot")
    return folder
