"""How commands end after an exception: exit code, one line, and the log of an unexpected one."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.running import run

from lmms_eval_ad2.core import command_errors
from lmms_eval_ad2.core.command_errors import MOST_LOGS, SigtermReceived, run_command
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.home import home


def raising(exc: BaseException) -> Callable[[], int]:
    def call() -> int:
        raise exc

    return call


def full_database() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def caused_by(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


FULL = OSError(errno.ENOSPC, "No space left on device", "/data/x.json")


@pytest.mark.parametrize(
    ("exc", "code", "line"),
    [
        (Ad2Error("no model 'x'"), 2, "error: no model 'x'"),
        (KeyboardInterrupt(), 130, "interrupted; the same command resumes where this one stopped"),
        (SigtermReceived(), 143, "ended by SIGTERM; the same command resumes where this one stopped"),
        (FULL, 2, "error: /data/x.json: the disk is full; what was finished is kept: free some space, then"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), 2, "error: the disk is full; what was finished is kept"),
        (OSError(errno.EFBIG, "File too large", "f"), 2, "error: f: the limit of file sizes is reached; what was"),
        (full_database(), 2, "error: the disk is full; what was finished is kept"),
        (caused_by(ValueError("not written"), FULL), 2, "error: /data/x.json: the disk is full"),
        (MemoryError(), 2, "error: ad2 x: out of memory; what was finished is kept: with more memory the same"),
        (PermissionError(errno.EACCES, "Permission denied", "/root/f"), 2,
         "error: /root/f: Permission denied; choose another path, or correct its permissions"),
        (OSError(errno.EROFS, "Read-only file system", "a\nb"), 2, "error: a\\nb: Read-only file system; choose"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), 2, "error: xxx"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "l"), 2, "error: l: Too many levels of symbolic"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "/ours/f"), 1, "error: ad2 x failed: FileNotF"),
        (RuntimeError("Could not determine home directory."), 2, "error: a path that begins with ~ names no user of"),
        (PermissionError(errno.EACCES, "Permission denied"), 1, "error: ad2 x failed: PermissionError: [Errno 13]"),
        (KeyError("a\nb"), 1, "error: ad2 x failed: KeyError: 'a\\nb' (test_command_errors.py, line "),
        (AssertionError(), 1, "error: ad2 x failed: AssertionError (test_command_errors.py, line "),
        (ValueError("a\n   b\x1b[2J"), 1, "error: ad2 x failed: ValueError: a b\\x1b[2J (test_"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "error: ad2 x failed: BrokenPipeError"),
    ],
)  # fmt: skip
def test_an_exception_is_one_line_and_a_code(
    exc: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("ad2 x", raising(exc)) == code
    output = capsys.readouterr()
    assert output.err.startswith(line) and output.err.count("\n") == 1 and not output.out


@pytest.mark.parametrize(
    ("words", "file", "code"),
    [
        (["--out", "/proc/x.png"], "/proc/x.png", 2),
        (["--out=/proc/x.png"], "/proc/.x.png.1-ab.tmp", 2),
        (["data"], "/given/home", 2),
        (["--out", "/proc/x.png"], "/ours/table.json", 1),
    ],
)
def test_an_absent_file_is_a_mistake_if_the_user_named_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], file: str, code: int
) -> None:
    monkeypatch.setenv("AD2_HOME", "/given/home")
    monkeypatch.setattr(sys, "argv", ["ad2", *words])
    absent = FileNotFoundError(errno.ENOENT, "No such file or directory", file)
    monkeypatch.setattr(command_errors, "write_log", lambda text: Path("log"))
    assert run_command("ad2 x", raising(absent)) == code
    line = f"error: {file}: No such file or directory; choose another path" if code == 2 else "error: ad2 x failed: "
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(("value", "code"), [("abc", 2), ("1.5", 2), ("-1", 2), ("", 0), (" 2 ", 0)])
def test_a_wrong_world_size_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str, code: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    assert run_command("ad2 x", lambda: 0) == code
    line = f"error: environment variable WORLD_SIZE={value!r}: expected a whole number; correct or unset it\n"
    assert capsys.readouterr().err == line * (code == 2)


def test_a_home_of_an_unknown_user_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AD2_HOME", "~no_such_user/x")
    assert run_command("ad2 x", lambda: len(str(home()))) == 2
    assert capsys.readouterr().err.startswith("error: a path that begins with ~ names no user")
    assert run_command("ad2 x", raising(KeyError("a"))) == 1
    assert "; traceback: " in capsys.readouterr().err


def test_the_log_of_an_unexpected_error_has_its_traceback_without_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "abc123def456ghi789jkl")
    monkeypatch.setattr(sys, "argv", ["ad2", "eval", "--model-args", "api_key=sk-secret-of-the-user"])
    fault = ValueError("refused abc123def456ghi789jkl at http://me:pw@host/")
    assert run_command("ad2 eval", raising(caused_by(fault, KeyError("first")))) == 1
    line = capsys.readouterr().err
    log = Path(line.strip().rpartition("; traceback: ")[2])
    text = log.read_text("utf-8")
    assert log.parent == home() / "logs" and log.stat().st_mode & 0o777 == 0o600
    assert text.startswith("ad2 eval, ") and "Traceback (most recent call last)" in text
    assert "KeyError: 'first'" in text and "direct cause" in text, "the chain is in it"
    for secret in ("abc123def456ghi789jkl", "sk-secret", "me:pw@"):
        assert secret not in text + line


def test_the_number_of_logs_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(MOST_LOGS + 5):
        run_command("ad2 x", raising(ValueError("v")))
    last = Path(capsys.readouterr().err.strip().splitlines()[-1].rpartition("; traceback: ")[2])
    logs = list((home() / "logs").glob("*.log"))
    assert len(logs) == MOST_LOGS and last in logs


def test_without_a_data_home_the_log_is_in_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AD2_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_command("ad2 x", raising(ValueError("v"))) == 1
    log = Path(capsys.readouterr().err.strip().rpartition("; traceback: ")[2])
    assert log.parent == tmp_path and "ValueError: v" in log.read_text("utf-8")


def test_if_no_log_can_be_written_the_traceback_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(text: str) -> Path:
        raise FULL

    monkeypatch.setattr(command_errors, "write_log", full)
    assert run_command("ad2 x", raising(ValueError("v"))) == 1
    *trace, line = capsys.readouterr().err.strip().splitlines()
    assert any(part.startswith("Traceback") for part in trace) and line.startswith("error: ad2 x failed: ValueError: v")


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False), ("", False)])
def test_the_traceback_is_printed_on_request(
    value: str, shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AD2_DEBUG", value)
    assert run_command("ad2 x", raising(Ad2Error("wrong"))) == 2
    assert ("Traceback" in capsys.readouterr().err) == shown


@pytest.mark.integration
def test_a_closed_output_is_quiet(tmp_path: Path) -> None:
    """As of `ad2 tasks --json | head -1`, also at the last flush of the interpreter."""
    program = (
        "from lmms_eval_ad2.core.command_errors import run_command\n"
        "raise SystemExit(run_command('ad2 x', lambda: print('x\\n' * 10**6) or 0))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.integration
def test_an_error_of_a_command_has_its_name(tmp_path: Path) -> None:
    """A plugin's command that raises, as a user sees it."""
    program = (
        "import lmms_eval_ad2.cli.tasks as t, sys\n"
        "def broken(*a, **k): raise ZeroDivisionError('division by zero')\n"
        "t.run = broken\n"
        "from lmms_eval_ad2.cli.main import main\n"
        "sys.exit(main(['tasks', 'ad2_cot']))"
    )
    done = run(sys.executable, "-c", program, cwd=tmp_path, code=1)
    assert done.stderr.startswith(
        "error: ad2 tasks failed: ZeroDivisionError: division by zero (<string>, line 2); trace"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.integration
def test_sigterm_ends_with_143_and_the_cleanup_and_a_forked_child_has_none(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from lmms_eval_ad2.core.command_errors import run_command
def call():
    if (child := os.fork()) == 0:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            print("child", flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        print("cleaned", flush=True)
sys.exit(run_command("ad2 x", call))
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path, code=143)
    assert done.stdout == f"{-signal.SIGTERM}\ncleaned\n"
    assert done.stderr == "ended by SIGTERM; the same command resumes where this one stopped\n"


@pytest.mark.integration
def test_threads_that_wait_do_not_keep_an_interrupted_process(tmp_path: Path) -> None:
    program = """
import os, signal, sys, threading
from lmms_eval_ad2.core import command_errors
command_errors.END_S = 0.1
def call():
    threading.Thread(target=threading.Event().wait).start()  # a reply that never comes
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(command_errors.run_command("ad2 x", call, process=True))
"""
    done = run(sys.executable, "-c", program, cwd=tmp_path, code=143)
    assert done.stderr.count("\n") == 1
