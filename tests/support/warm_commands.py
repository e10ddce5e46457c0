"""Runs lmms-eval commands in processes forked from a server that has lmms-eval imported.

`python -m lmms_eval` spends 10 CPU-seconds on imports and on the index of its own tasks before the evaluation. The
server (this file as a script) does that once per pytest worker and forks a child for each command. The child is set up
like a new interpreter: arguments, environment, working directory, `sys.path`, `__main__`, standard streams, exit code.
Four things differ from a new process: libraries are imported before the command imports them, their output at import is
lost, all commands share one hash seed, and modules are not torn down at exit.

Libraries read environment variables at import. A command whose environment differs from the server's in anything but
`RUN_TIME` variables is not served: the caller then starts a new process. The same holds for commands other than
an evaluation: lmms-eval's sub-commands find our tasks only if its evaluator is imported, and the commands of `ad2`
import little (0.2 to 1.2 CPU-seconds).
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import copy
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
HOST = "lmms_eval.__main__"
RUN_TIME = ("AD2_", "OPENAI_", "PYTEST_")  # prefixes of variables that are read when a command runs, never at import


def served(command: Sequence[str]) -> bool:
    """Whether `command` is an evaluation in this environment: lmms-eval as a script or module, or `ad2 eval`."""
    program, arguments = Path(command[0]), list(command[1:])
    if program.parent != BIN:
        return False
    if program.name == "ad2":
        return arguments[:1] == ["eval"]
    if program.name.startswith("python") and arguments[:2] == ["-m", "lmms_eval"]:
        arguments = arguments[2:]
    elif program.name not in ("lmms_eval", "lmms-eval"):
        return False
    return bool(arguments) and (arguments[0] == "eval" or arguments[0].startswith("-"))


class WarmServer:
    """The client's side. The server starts with the first command, in `environment`, and imports `modules`."""

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = (HOST,)) -> None:
        self._environment = dict(environment)
        self._modules = modules
        self._busy = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str] | None:
        """The finished `command`: a Python script or `python -m NAME`, and its arguments. As from subprocess.run.

        None: it was not started, because its environment differs or the server is busy (another thread).
        """
        if _import_time(environment) != _import_time(self._environment) or not self._busy.acquire(blocking=False):
            return None
        sys.audit("subprocess.Popen", command[0], command, str(cwd), environment)  # for the guard in conftest.py
        try:
            with tempfile.TemporaryDirectory(prefix="warm_command_") as folder:
                out, err = Path(folder, "stdout"), Path(folder, "stderr")
                request = {
                    "command": list(command), "cwd": str(cwd), "environment": dict(environment),
                    "stdout": str(out), "stderr": str(err),
                }  # fmt: skip
                code = self._ask(request, timeout_s)
                return subprocess.CompletedProcess(list(command), code, out.read_text(), err.read_text())
        finally:
            self._busy.release()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 -- lives as long as the server
        self._connection, server_end = Pipe()
        fd = server_end.fileno()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(fd), *self._modules], env=self._environment, pass_fds=[fd],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log, start_new_session=True,
        )  # fmt: skip
        server_end.close()

    def _ask(self, request: Mapping[str, Any], timeout_s: float) -> int:
        if self._process is None:
            self._start()
        try:
            self._connection.send(request)
            pid = self._connection.recv()
        except (EOFError, OSError) as exc:
            self._log.seek(0)
            raise RuntimeError(f"the server of warm commands ended:\n{self._log.read().decode()[-4000:]}") from exc
        try:
            if self._connection.poll(timeout_s):
                return int(self._connection.recv())
            raise subprocess.TimeoutExpired(request["command"], timeout_s)
        except BaseException:  # also a test's own time limit, and Ctrl-C
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._connection.recv()
            raise

    def stop(self) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.wait()
            self._log.close()
            self._process = None


def _import_time(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(RUN_TIME)}


# --- the server ---


def serve(connection: Connection, modules: Sequence[str]) -> None:
    """Import `modules`, then fork a child for each request; answer with its process id, then with its exit code."""
    for name in modules:
        importlib.import_module(name)
    if sys.modules.pop(HOST, None):  # imported for its imports only; each command executes it again, as `-m` does
        _index_host_tasks()
    if threading.active_count() > 1:
        raise RuntimeError(f"a fork needs a process without other threads, found {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # else garbage collection in a child writes to every page and so copies it
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(request)
        connection.send(pid)
        connection.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _index_host_tasks() -> None:
    """Keep the index of lmms-eval's own folder of tasks: 2,000 files that no test writes, 3 CPU-seconds a command."""
    from lmms_eval import tasks

    folder = f"{Path(tasks.__file__).parent}/"  # as TaskManager spells it
    original = tasks.TaskManager._get_task_and_group
    index = original(tasks.TaskManager(include_defaults=False), folder)

    def _get_task_and_group(self: Any, task_dir: str) -> Any:
        return copy.deepcopy(index) if task_dir == folder else original(self, task_dir)

    tasks.TaskManager._get_task_and_group = _get_task_and_group


def _become(request: Mapping[str, Any]) -> None:
    """Turn this process into that of the command; never returns."""
    code = 1
    try:
        _set_up(request)
        code = exit_code(_program(request["command"]))
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        if code == -signal.SIGINT:  # as the interpreter ends after a KeyboardInterrupt
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


def _set_up(request: Mapping[str, Any]) -> None:
    os.setpgid(0, 0)
    # The file objects in sys stay, and with them the log handlers that hold them.
    for fd, name in ((1, "stdout"), (2, "stderr")):
        opened = os.open(request[name], os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, fd)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # `random` does so itself after a fork
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main


def _program(command: Sequence[str]) -> Callable[[], object]:
    """The function that executes `command` in `__main__`, as the interpreter does."""
    if command[1:2] == ["-m"]:
        sys.argv = list(command[2:])
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 -- a string, as the interpreter does
        return lambda: runpy._run_module_as_main(command[2])  # type: ignore[attr-defined]
    path = command[0]
    sys.argv = list(command)
    sys.path.insert(0, str(Path(path).parent))
    scope = sys.modules["__main__"].__dict__
    scope["__file__"] = path
    return lambda: exec(compile(Path(path).read_bytes(), path, "exec"), scope)


def exit_code(main: Callable[[], object]) -> int:
    """Call `main` and treat its exceptions as the interpreter does; -SIGINT: it ends by that signal."""
    try:
        main()
    except SystemExit as exc:
        if exc.code is None or isinstance(exc.code, int):
            return (exc.code or 0) & 0xFF
        print(exc.code, file=sys.stderr)
        return 1
    except BaseException as exc:
        trace = exc.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(exc), exc.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(exc, KeyboardInterrupt) else 1
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its `carla` and others would hide libraries
    _fd = int(sys.argv[1])
    os.set_inheritable(_fd, False)
    serve(Connection(_fd), sys.argv[2:])
