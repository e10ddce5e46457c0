"""Run commands as a user does: in separate processes, from an empty folder, with a separate data home.

Our commands and `python -m lmms_eval` run in a process forked from one with their imports done (warm_commands.py);
`cold=True` starts a new interpreter.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, AnyStr

from support import warm_commands

BIN = Path(sys.executable).parent
TESTS = Path(__file__).resolve().parents[1]
REPO = TESTS.parent
PATIENCE_S = 1500  # for a process of about a minute: a machine may be ten times slower, and stall

# Fixtures of modules run before the one that gives a test its data home: they must not read that of the user either.
_SESSION_HOME = tempfile.TemporaryDirectory(prefix="ad2home")
os.environ["AD2_HOME"] = _SESSION_HOME.name
os.environ.pop("AD2_BENCH2DRIVE_ROUTES", None)

SESSION = dict(os.environ)
SET_FOR_LONGER = (*warm_commands.RUN_TIME, "FAKE_CARLA_")  # variables set by module fixtures
_by_libraries: dict[str, str | None] = {}


def note_variables_of_libraries() -> None:
    """Record the variables that libraries have set in this process. Call before a test sets variables.

    lmms-eval, OpenCV, decord and ms-swift set variables when used: KMP_..., LD_LIBRARY_PATH, PATH, USE_HF.
    """
    current = dict(os.environ)
    names = [name for name in {**SESSION, **current} if not name.startswith(SET_FOR_LONGER)]
    _by_libraries.clear()
    _by_libraries.update({name: current.get(name) for name in names if current.get(name) != SESSION.get(name)})


def environment(**changes: str) -> dict[str, str]:
    """This environment with AD2_HOME of the running test (conftest), offline, without variables set by libraries."""
    current = dict(os.environ)
    for name, value in _by_libraries.items():
        if current.get(name) == value:  # else the test has set it since
            current.pop(name, None)
            if name in SESSION:
                current[name] = SESSION[name]
    return {**current, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "AD2_JUDGE": "lexical", **changes}


WARM = warm_commands.WarmServer(environment())


def run(
    *words: str | Path, cwd: Path, code: int | None = 0, cold: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run and check the exit code (None: any). stdout and stderr as text. `cold`: in a new interpreter."""
    command, variables = [str(w) for w in words], environment(**env)
    warm = not cold and warm_commands.served(command)
    done = WARM.run(command, cwd, variables, PATIENCE_S) if warm else None
    if done is None:
        done = subprocess.run(
            command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    if code is not None and done.returncode != code:
        raise AssertionError(f"code {done.returncode}, expected {code}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done


def run_lmms_eval(*words: str | Path, cwd: Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """`python -m lmms_eval`: the host program, not our script."""
    return run(sys.executable, "-m", "lmms_eval", *words, cwd=cwd, **kwargs)


@contextmanager
def kill_on_error(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Like `with process`, but kill the process if the block raises: otherwise a failing test would wait for it."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def kill_when(command: Sequence[str], cwd: Path, reached: Callable[[], bool], **env: str) -> None:
    """Start `python -m lmms_eval` in a new interpreter, and kill -9 it as soon as `reached()`."""
    with (cwd / "killed.log").open("w") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "lmms_eval", *command],
            cwd=cwd,
            env=environment(**env),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert child.poll() is None, (cwd / "killed.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "never got so far"
            time.sleep(0.005)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port of 127.0.0.1 on which no process listens or can start to listen."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def run_folder(out: Path) -> Path:
    """The one finished run below `out`."""
    (summary,) = out.rglob("summary.json")
    return summary.parent


def tables(out: Path) -> dict[str, Any]:
    """The tables of summary.json without values that may differ between equal runs."""
    data = json.loads((run_folder(out) / "summary.json").read_text("utf-8"))
    for table in data["tasks"].values():
        table["data"].pop("image_root")
    return dict(data["tasks"])


def listed_tasks(text: str) -> set[str]:
    """Task names in the output of `--tasks list`."""
    return set(re.findall(r"^\s*- (\S+)$", text, re.M))
