"""Run commands as a user does: in processes of their own, from an empty folder, with a data home of their own.

Our commands and `python -m lmms_eval` run in a process forked from one that has their imports done (warm_commands.py);
`cold=True` starts a new interpreter.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, AnyStr

from support import warm_commands

BIN = Path(sys.executable).parent
TESTS = Path(__file__).resolve().parents[1]
REPO = TESTS.parent
PATIENCE_S = 1500  # with a process that takes a minute: a machine may be ten times as slow, and stand still

# What lmms-eval, OpenCV and ms-swift set in a process that uses them: no part of the environment of a command.
SET_BY_LIBRARIES = (
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "LD_LIBRARY_PATH", "TOKENIZERS_PARALLELISM", "TORCHINDUCTOR_CACHE_DIR",
    "USE_HF",
)  # fmt: skip
BEFORE = {name: os.environ[name] for name in SET_BY_LIBRARIES if name in os.environ}


def environment(**changes: str) -> dict[str, str]:
    """This environment with AD2_HOME of the running test (conftest), offline."""
    mine = {name: value for name, value in os.environ.items() if name not in SET_BY_LIBRARIES}
    return {**mine, **BEFORE, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "AD2_JUDGE": "lexical", **changes}


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


def host(*words: str | Path, cwd: Path, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """`python -m lmms_eval`: the host itself, not our script."""
    return run(sys.executable, "-m", "lmms_eval", *words, cwd=cwd, **kwargs)


@contextmanager
def ending(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """As `with process`, but a test that fails does not wait for what nobody ends."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextmanager
def nobody() -> Iterator[int]:
    """A port of 127.0.0.1 at which nobody listens, and no other process can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def run_folder(out: Path) -> Path:
    """The one finished run below `out`."""
    (summary,) = out.rglob("summary.json")
    return summary.parent


def tables(out: Path) -> dict[str, Any]:
    """summary.json's tables without what may differ between two equal runs."""
    data = json.loads((run_folder(out) / "summary.json").read_text("utf-8"))
    for table in data["tasks"].values():
        table["data"].pop("image_root")
    return dict(data["tasks"])


def listed(text: str) -> set[str]:
    """Task names in the output of `--tasks list`."""
    return set(re.findall(r"^\s*- (\S+)$", text, re.M))
