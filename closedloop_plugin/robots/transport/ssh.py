"""The ssh command line for tunnel, deployment and emergency stop on board."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from closedloop_plugin.robots.vehicles.robot_config import LinkSettings

# No prompts, unknown host keys are rejected, and a dead link is detected after 3 s.
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
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")  # cannot be read as an option or by a shell


def command(link: LinkSettings, *more: str, remote: str = "") -> list[str]:
    """The ssh arguments. `more`: further options; `remote`: the command for the vehicle's shell. The user's options
    come first, because ssh uses the first value of each."""
    for what, value in (("host", link.host), ("user", link.user)):
        if value and not _NAME.fullmatch(value):
            raise Ad2Error(f"link.{what} {value!r}: expected a plain name or address")
    if not link.host:
        raise Ad2Error("the robot's file has no link.host, the address of the vehicle")
    words = [_program(), "-T", "-p", str(link.port)]
    if link.key:
        words += ["-i", str(link.key), "-o", "IdentitiesOnly=yes"]
    for option in (*link.ssh_options, *OPTIONS):
        words += ["-o", option]
    target = f"{link.user}@{link.host}" if link.user else link.host
    return [*words, *more, "--", target, *([remote] if remote else [])]


def run(link: LinkSettings, remote: str, stdin: bytes = b"", limit_s: float = 60.0) -> str:
    """Run a command on the vehicle; returns its stdout. Ad2Error with the stderr of ssh or the command."""
    try:
        done = subprocess.run(command(link, remote=remote), input=stdin, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Ad2Error(f"{link.host}: no answer within {limit_s:g} s to: {_brief(remote)}") from None
    if done.returncode:
        raise Ad2Error(f"{link.host}: {last_words(done.stderr) or f'code {done.returncode}'} (at: {_brief(remote)})")
    return done.stdout.decode("utf-8", "replace")


def _brief(remote: str, most: int = 100) -> str:
    """The command's begin; `ad2 robot deploy --dry-run` prints whole ones."""
    return remote if len(remote) <= most else f"{remote[:most]}..."


def last_words(stderr: bytes, most: int = 300) -> str:
    """The end of a program's stderr, as one line of printable characters."""
    text = " ".join(stderr.decode("utf-8", "replace").split())
    return "".join(c if c.isprintable() else "?" for c in text)[-most:]


def shown(words: Sequence[str]) -> str:
    """The command quoted for a shell."""
    import shlex

    return shlex.join(words)


def _program() -> str:
    found = shutil.which("ssh")
    if not found:
        raise Ad2Error("ssh is not installed: apt-get install openssh-client")
    return found
