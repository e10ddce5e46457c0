"""A real sshd on loopback with its own keys and configuration, for tests of the link to a vehicle."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALL = "apt-get install -y --no-install-recommends openssh-server openssh-client"


@dataclass
class Sshd:
    """`folder`: keys and log. `options` make a client accept the key of this host only."""

    folder: Path
    port: int
    user: str
    process: subprocess.Popen[bytes]

    @property
    def key(self) -> Path:
        return self.folder / "user_key"

    @property
    def options(self) -> tuple[str, ...]:
        return (f"UserKnownHostsFile={self.folder / 'known_hosts'}", "GlobalKnownHostsFile=none")

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")


def program() -> str:
    """Path of sshd. Without it, skip the test; under CI, fail it."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found and shutil.which("ssh"):
        return found
    reason = f"sshd or ssh not found: {INSTALL}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """Run sshd for the block; at its end, end it with all its connections."""
    server = program()
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # privilege separation directory, if started by root
    port = free_port()
    public = (folder / "host_key.pub").read_text("ascii").strip()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n", "ascii")
    with (folder / "log").open("wb") as log:
        config = _config(folder, port)
        process = subprocess.Popen([server, "-D", "-e", "-f", str(config)], stderr=log, start_new_session=True)
    try:
        _wait(process, folder / "log")
        yield Sshd(folder, port, getpass.getuser(), process)
    finally:
        children = _children(process.pid)
        process.kill()
        process.wait()
        for child in children:
            _kill(child)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _config(folder: Path, port: int) -> Path:
    file = folder / "sshd_config"
    lines = [
        "ListenAddress 127.0.0.1", f"Port {port}", f"HostKey {folder / 'host_key'}", "PidFile none",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}", "PasswordAuthentication no", "UsePAM no",
        "StrictModes no",  # the folder of a test is below /tmp, which is world-writable
        "PermitRootLogin prohibit-password", "LogLevel VERBOSE", "MaxStartups 100",
    ]  # fmt: skip
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until its log says that it listens."""
    while b"Server listening" not in log.read_bytes():
        if process.poll() is not None:
            raise RuntimeError(log.read_text("utf-8", "replace"))
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            continue


def _children(pid: int) -> list[int]:
    """Ids of all descendants: each connection has a process, and one more below it unless it is root's."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    direct = [int(word) for word in listed.split()]
    return [*direct, *(below for child in direct for below in _children(child))]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 9)
