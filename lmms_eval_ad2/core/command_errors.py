"""How a command ends: one line for any exception, its exit code, and a log with the traceback of an unexpected one.

| exception | exit code | line |
|---|---|---|
| Ad2Error | 2 | its message |
| UnhealthyRun, an Ad2Error | 3 | why the drive was stopped: it would measure nothing |
| disk full, out of memory, a file without permission | 2 | what is missing, and what is kept |
| KeyboardInterrupt | 130 | that the command resumes |
| SigtermReceived (SIGTERM) | 143 | the same |
| closed standard output (`head` has ended) | 0 | none |
| any other | 1 | command, exception, place, and the path of the log |

Logs are in the folder `logs` of the data home, at most MOST_LOGS of them, without API keys. With AD2_DEBUG=1 the
traceback is printed too.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import select
import signal
import sqlite3
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.core.printed import one_line, show
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.storage.files import DISK_FULL, home
from lmms_eval_ad2.storage.redaction import environment_keys, redacted, without_keys

# SIGTERM as an interrupt, so that a command that is ended from outside cleans up as after Ctrl-C.


class SigtermReceived(KeyboardInterrupt):
    """SIGTERM was received."""


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Raise SigtermReceived on SIGTERM; outside of the main thread, which alone may set handlers, without effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def end(number: int, frame: Any) -> None:
        if os.getpid() != owner:  # a forked child, which must not run the cleanup of its parent
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise SigtermReceived

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


DEBUG_ENV = "AD2_DEBUG"
MOST_LOGS = 20
END_S = 5.0  # from an interrupt, after the cleanup, to the end of the process
RESUMES = "the same command resumes where this one stopped"
_LOG_CHARACTERS = 1_000_000
_MESSAGE_CHARACTERS = 300
# Errors of a file or folder that the user can correct.
_CHOOSE_ANOTHER = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip
_NO_HOME = "Could not determine home directory."  # of Path.expanduser and Path.home
_OWN = ("lmms_eval_ad2", "closedloop_plugin")


def run_command(command: str, call: Callable[[], int], resumes: str = RESUMES, process: bool = False) -> int:
    """Call `call` and return its exit code, or that of the exception it raises, which is printed as one line.

    command: how messages name it. resumes: what the line about an interrupt says after "interrupted; ". process: the
    interpreter ends with this command; after an interrupt it does so within END_S, although threads may still wait for
    the replies of a server, which the interpreter would wait for. SystemExit is not handled.
    """
    try:
        with ended_by_sigterm() if environment_number("WORLD_SIZE", 1) == 1 else contextlib.nullcontext():
            return call()
    except (Exception, KeyboardInterrupt) as exc:
        code = report_error(exc, command, resumes)
        if process and isinstance(exc, KeyboardInterrupt):
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            watchdog = threading.Timer(END_S, os._exit, (code,))
            watchdog.daemon = True
            watchdog.start()
        return code


def report_error(exc: BaseException, command: str, resumes: str = RESUMES) -> int:
    """Print one line about an exception that ends a command; returns the exit code."""
    if _output_is_closed(exc):
        return 0
    if os.environ.get(DEBUG_ENV, "") not in ("", "0"):
        traceback.print_exception(exc)
    code, line = _ending(exc, command, resumes)
    with contextlib.suppress(OSError):  # standard error is closed, or a file on the full disk
        show(line, file=sys.stderr, flush=True)
    return code


def _ending(exc: BaseException, command: str, resumes: str) -> tuple[int, str]:
    """(exit code, line) of an exception."""
    if isinstance(exc, SigtermReceived):
        return 143, f"ended by SIGTERM; {resumes}"
    if isinstance(exc, KeyboardInterrupt):
        return 130, f"interrupted; {resumes}"
    if isinstance(exc, Ad2Error):
        return exc.exit_code, f"error: {exc}"
    return _of_the_machine(exc, command) or (1, _unexpected(exc, command))


def _of_the_machine(exc: BaseException, command: str) -> tuple[int, str] | None:
    """(exit code, line) if the machine lacks space, memory or a permission."""
    cause = next((e for e in (exc, exc.__cause__) if _is_full_disk(e) or isinstance(e, MemoryError)), None)
    if isinstance(cause, MemoryError):
        text = "out of memory; what was finished is kept: with more memory the same command resumes"
        return 2, f"error: {command}: {text}{_log_note(exc, command)}"
    if cause is not None:
        file = getattr(cause, "filename", None)
        where = f"{file}: " if file else ""
        full = "the limit of file sizes is reached" if getattr(cause, "errno", 0) == errno.EFBIG else "the disk is full"
        text = "what was finished is kept: free some space, then the same command resumes"
        return 2, f"error: {one_line(where)}{full}; {text}"
    if isinstance(exc, OSError) and exc.filename and (exc.errno in _CHOOSE_ANOTHER or _is_absent_argument(exc)):
        text = f"{exc.filename}: {exc.strerror}; choose another path, or correct its permissions"
        return 2, f"error: {one_line(text)}"
    if isinstance(exc, RuntimeError) and str(exc) == _NO_HOME:
        return 2, "error: a path that begins with ~ names no user of this machine; write the whole path (or set HOME)"
    return None


def _is_absent_argument(exc: OSError) -> bool:
    """Whether a file does not exist, or cannot be made, that the command line names, or that is in its folder."""
    if exc.errno != errno.ENOENT or not isinstance(exc.filename, str):
        return False
    words = [*sys.argv[1:], os.environ.get("AD2_HOME", "")]
    named = [Path(word.partition("=")[2] if word.startswith("--") else word) for word in words if word]
    return Path(exc.filename) in named or Path(exc.filename).parent in [path.parent for path in named if path.name]


def _is_full_disk(exc: BaseException | None) -> bool:
    if isinstance(exc, sqlite3.Error):
        return getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(exc, OSError) and exc.errno in DISK_FULL


def _unexpected(exc: BaseException, command: str) -> str:
    """The line of an exception that is no known mistake."""
    text = one_line(_without_secrets(" ".join(str(exc).split())))
    if len(text) > _MESSAGE_CHARACTERS:
        text = text[: _MESSAGE_CHARACTERS - 3] + "..."
    message = f": {text}" if text else ""
    return f"error: {command} failed: {type(exc).__name__}{message}{_place(exc)}{_log_note(exc, command)}"


def _place(exc: BaseException) -> str:
    """The last line on the way to the exception that is ours or the user's, else its last line."""
    frames = traceback.extract_tb(exc.__traceback__)
    if not frames:
        return ""
    frame = ([frame for frame in frames if not _is_of_library(frame.filename)] or frames)[-1]
    return f" ({Path(frame.filename).name}, line {frame.lineno})"


def _is_of_library(file: str) -> bool:
    path = Path(file)
    if "site-packages" in path.parts:
        return not any(part in _OWN for part in path.parts)
    compiled = file.startswith("<frozen") or not (path.is_absolute() or file.startswith("<"))
    return compiled or Path(os.__file__).parent in path.parents


def _log_note(exc: BaseException, command: str) -> str:
    """The end of a line: where the log is that this writes; without one the traceback is printed before."""
    text = _log_text(exc, command)
    try:
        return f"; traceback: {write_log(text)}"
    except (OSError, MemoryError):
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)
        return ""


def _log_text(exc: BaseException, command: str) -> str:
    try:
        trace = "".join(traceback.format_exception(exc))
    except Exception as fault:  # an exception whose text cannot be made
        trace = f"{type(exc).__name__}; its traceback cannot be formatted: {type(fault).__name__}"
    if len(trace) > _LOG_CHARACTERS:
        trace = f"{trace[: _LOG_CHARACTERS // 2]}\n[...]\n{trace[-_LOG_CHARACTERS // 2 :]}"
    head = (
        f"{command}, {dt.datetime.now(dt.UTC).isoformat(timespec='seconds')}, lmms-eval-ad2 {__version__}, Python "
        f"{sys.version.split()[0]}, {sys.platform}\n{' '.join(sys.argv)}\n\n"
    )
    return _without_secrets(head + trace)


def _without_secrets(text: str) -> str:
    return without_keys(redacted(text), environment_keys())


def write_log(text: str) -> Path:
    """Write a log for this user only and remove the oldest ones; raises OSError if no folder can be written."""
    name = f"{dt.datetime.now():%Y%m%d-%H%M%S}-"
    try:
        folder = home() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        logs = sorted(folder.glob("*.log"))  # by age
        for log in logs[: max(0, len(logs) - MOST_LOGS + 1)]:
            with contextlib.suppress(OSError):
                log.unlink()
        handle, path = tempfile.mkstemp(".log", name, folder)
    except (OSError, RuntimeError):  # RuntimeError: AD2_HOME begins with the ~ of an unknown user
        handle, path = tempfile.mkstemp(".log", f"ad2-{name}")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return Path(path)


def _output_is_closed(exc: BaseException) -> bool:
    """Whether the reader of standard output (head, less) has ended, which is no error; other broken pipes are."""
    if not isinstance(exc, BrokenPipeError):
        return False
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    watched = select.poll()
    watched.register(output, 0)  # the closed other end is always reported
    if not watched.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)  # else the interpreter's last flush fails
    return True
