"""Commands that are forked from a warm server (support/warm_commands.py) end as in a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.running import BIN, environment
from support.warm_commands import WarmServer, served

SURROUNDINGS = """
import os, sys
print(__name__, globals().get("__file__"), globals().get("__spec__") and __spec__.name)
print(sys.argv, sys.path, os.getcwd(), sorted(os.environ.items()))
print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], repr(sys.stdin.read()))
print(sys.modules["__main__"].__dict__ is globals(), sys.stdout.encoding, sys.stdout.line_buffering)
"""
AT_EXIT = """
import atexit, logging, subprocess, sys, threading, time
atexit.register(print, "handler")
logging.warning("logged")
print("error", file=sys.stderr)
print("main", flush=True)
subprocess.run([sys.executable, "-c", "print('child')"])
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
"""
SPAWNED = """
import multiprocessing
def double(x): return 2 * x
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [1, 2]))
"""
PROGRAMS = {
    "surroundings": SURROUNDINGS,
    "at exit": AT_EXIT,
    "a spawned process": SPAWNED,
    "a code": "raise SystemExit(3)",
    "a code beyond a byte": "raise SystemExit(-1)",
    "a message": "import sys\nprint('out')\nsys.exit('no such thing')",
    "an exception": "def f():\n    raise ValueError('wrong')\ntry:\n    f()\nfinally:\n    print('out')",
    "Ctrl-C": "raise KeyboardInterrupt",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "no syntax": "f(",
}


@pytest.fixture(scope="module")
def server() -> Iterator[WarmServer]:
    started = WarmServer(environment(), modules=["logging"])
    yield started
    started.stop()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("as_module", [False, True], ids=["script", "module"])
def test_a_forked_command_ends_as_in_its_own_interpreter(
    server: WarmServer, name: str, as_module: bool, tmp_path: Path
) -> None:
    script = tmp_path / "scripts" / "program.py"
    script.parent.mkdir()
    script.write_text(PROGRAMS[name])
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    arguments = ["--one", "two words"]
    cold = [sys.executable, "-m", "program", *arguments] if as_module else [sys.executable, str(script), *arguments]
    variables = environment(AD2_HOME="elsewhere")
    alone = subprocess.run(
        cold, cwd=tmp_path, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    forked = server.run(cold if as_module else cold[1:], tmp_path, variables, 60)
    assert forked is not None
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_a_command_that_times_out_is_killed(server: WarmServer, tmp_path: Path) -> None:
    (tmp_path / "slow").write_text("import time\ntime.sleep(1000)")
    with pytest.raises(subprocess.TimeoutExpired):
        server.run([str(tmp_path / "slow")], tmp_path, environment(), 0.1)
    assert still_works(server, tmp_path)


def test_an_interrupted_test_kills_its_command_and_the_children(server: WarmServer, tmp_path: Path) -> None:
    (tmp_path / "slow").write_text(
        "import pathlib, subprocess, time\n"
        "pathlib.Path('part').write_text(str(subprocess.Popen(['sleep', '1000']).pid))\n"
        "pathlib.Path('part').rename('pid')\n"
        "time.sleep(1000)"
    )

    def interrupt() -> None:
        wait_until(lambda: (tmp_path / "pid").exists())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        server.run([str(tmp_path / "slow")], tmp_path, environment(), 120)
    child = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    wait_until(lambda: ended(child))
    assert still_works(server, tmp_path)


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, "never got so far"
        time.sleep(0.01)


def ended(stat: Path) -> bool:
    """Whether the process has ended; a zombie counts as ended."""
    try:
        return stat.read_text().split()[2] == "Z"
    except OSError:
        return True


def still_works(server: WarmServer, folder: Path) -> bool:
    (folder / "quick").write_text("print('well')")
    done = server.run([str(folder / "quick")], folder, environment(), 60)
    return done is not None and done.stdout == "well\n"


def test_another_environment_is_not_served(server: WarmServer, tmp_path: Path) -> None:
    assert server.run(["x"], tmp_path, environment(PYTHONPATH="elsewhere"), 60) is None
    assert server.run(["x"], tmp_path, {k: v for k, v in environment().items() if k != "HF_HUB_OFFLINE"}, 60) is None


def test_a_server_that_cannot_start_reports_the_reason(tmp_path: Path) -> None:
    broken = WarmServer(environment(), modules=["no_such_module"])
    try:
        with pytest.raises(RuntimeError, match="No module named 'no_such_module'"):
            broken.run(["x"], tmp_path, environment(), 60)
    finally:
        broken.stop()


def test_only_evaluations_of_this_installation_are_served() -> None:
    program = [str(BIN / name) for name in ("python", "lmms_eval", "lmms-eval", "ad2")]
    python, ours, theirs, ad2 = program
    assert served([python, "-m", "lmms_eval", "--tasks", "list"]) and served(
        [sys.executable, "-m", "lmms_eval", "eval"]
    )
    assert served([ours, "--model", "x"]) and served([theirs, "--model", "x"]) and served([ad2, "eval", "--help"])
    for other in ([python, "-c", "pass"], [python, "-m", "lmms_eval", "tasks"], [ours], [ad2, "report"], [ad2]):
        assert not served(other)
    assert not served([os.fspath(BIN.parent / "other" / "bin" / "lmms_eval"), "--model", "x"])
