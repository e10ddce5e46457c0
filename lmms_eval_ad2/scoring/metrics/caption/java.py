"""Find and run the Java runtime of the caption metrics: version check, time limit, captured output."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

OLDEST = 8
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_HOW = (
    f"Install a Java runtime, version {OLDEST} or newer (Debian: apt-get install default-jre-headless), "
    "and put `java` on PATH"
)


class JavaError(Exception):
    """A Java tool gave no result: a stable `reason` code, and a `detail` with the remedy."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def find() -> str:
    """The path of a usable `java`; raises JavaError("java_missing")."""
    path = shutil.which("java")
    if path is None:
        raise JavaError("java_missing", f"No `java` on PATH. {_HOW}.")
    major = _major(path)
    if major is None:
        raise JavaError("java_missing", f"{path} does not answer `java -version`. {_HOW}.")
    if major < OLDEST:
        raise JavaError("java_missing", f"{path} is Java {major}, too old. {_HOW}.")
    return path


def version() -> int:
    """Major version of the `java` that `find` returns."""
    return _major(find()) or OLDEST


@functools.lru_cache(maxsize=8)
def _major(path: str) -> int | None:
    """Major version of the Java at `path` ("1.8.0" is 8, "17.0.15" is 17); None if it cannot be run."""
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def run(args: list[str], stdin: bytes = b"", *, what: str, timeout_s: float, cwd: Path | None = None) -> bytes:
    """Standard output of `java ARGS`; raises JavaError with the end of standard error if it fails.

    `what` names the tool in messages.
    """
    command = [find(), *args]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise JavaError("java_failed", f"{what} did not finish within {timeout_s:g} s") from None
    except OSError as exc:
        raise JavaError("java_failed", f"{what} could not be started: {exc}") from exc
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip()[-400:]
        raise JavaError("java_failed", f"{what} ended with status {done.returncode}: {tail}")
    return done.stdout


def start(args: list[str], cwd: Path) -> subprocess.Popen[bytes]:
    """Start `java ARGS` with pipes to all its streams; the caller ends it. Raises JavaError without Java, OSError."""
    pipe = subprocess.PIPE
    return subprocess.Popen([find(), *args], cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe)


def package_file(module: ModuleType, name: str) -> Path:
    """The file `name` in the folder of `module`, where pycocoevalcap keeps its jars."""
    return Path(str(module.__file__)).resolve().parent / name
