"""How a vehicle is reached: one ssh command for the tunnel, the deployment and the stop on board."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmms_eval_ad2.errors import Ad2Error

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import LinkSettings

# Nobody is asked for anything, no unknown host is believed, and a dead link is noticed: 3 s after its last sign.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=1",
    "ServerAliveCountMax=3",
    "ConnectTimeout=5",
    "ControlMaster=no",  # a shared connection would outlive the tunnel
    "ControlPath=none",
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")  # never an option, never a shell's business


def command(link: LinkSettings, *more: str, remote: str = "") -> list[str]:
    """ssh to the vehicle: `more` options of its own, `remote` what its shell is to run. The user's settings come
    first, and the first one holds."""
    for what, value in (("host", link.host), ("user", link.user)):
        if value and not _NAME.fullmatch(value):
            raise Ad2Error(f"link.{what} {value!r}: expected a plain name or address")
    if not link.host:
        raise Ad2Error("the robot's file names no link.host: which vehicle is meant?")
    words = [_program(), "-T", "-p", str(link.port)]
    if link.key:
        words += ["-i", str(link.key), "-o", "IdentitiesOnly=yes"]
    for option in (*link.ssh_options, *OPTIONS):
        words += ["-o", option]
    target = f"{link.user}@{link.host}" if link.user else link.host
    return [*words, *more, "--", target, *([remote] if remote else [])]


def run(link: LinkSettings, remote: str, stdin: bytes = b"", limit_s: float = 60.0) -> str:
    """Run one command on the vehicle; its standard output. Ad2Error says what ssh or the command said."""
    try:
        done = subprocess.run(command(link, remote=remote), input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Ad2Error(f"{link.host}: no answer within {limit_s:g} s to: {remote}") from None
    if done.returncode:
        raise Ad2Error(f"{link.host}: {last_words(done.stderr) or f'code {done.returncode}'} (at: {remote})")
    return done.stdout.decode("utf-8", "replace")


def last_words(stderr: bytes, most: int = 300) -> str:
    """The end of what a program complained of, as one harmless line."""
    text = " ".join(stderr.decode("utf-8", "replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[-most:]


def shown(words: Sequence[str]) -> str:
    """As a user would type it."""
    import shlex

    return shlex.join(words)


def _program() -> str:
    found = shutil.which("ssh")
    if not found:
        raise Ad2Error("ssh is not installed: apt-get install openssh-client")
    return found
