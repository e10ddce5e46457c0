"""The programs of verify_leaderboard.py: environment of the evaluator, model, `ad2 serve`, evaluator, scripts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
# what Bench2Drive imports besides carla; py_trees as in its requirements, whose interface later versions changed
PACKAGES = (
    "py_trees==0.8.3", "dictor", "xmlschema", "ephem", "tabulate", "pexpect", "transforms3d", "psutil", "six",
    "simple-watchdog-timer", "networkx", "shapely", "scipy", "setuptools<81",
)  # fmt: skip
SERVER_VERSION = "0.9.15"  # that of the leaderboard
START_S, EVALUATION_S, SCRIPT_S = 120.0, 1200.0, 300.0
FIRST_PORT = 30000


class EvaluationFailed(Exception):
    """A program failed; the text says which, and where its output is."""


@dataclass(frozen=True)
class LeaderboardRun:
    """Folders and routes. `agents`: with CARLA's package `agents`; `maps`: with <Town>.xodr; `out`: of all results."""

    checkout: Path
    agents: Path
    maps: Path
    out: Path
    venv: Path
    routes: tuple[str, ...]

    @property
    def route_file(self) -> Path:
        return self.checkout / "leaderboard" / "data" / "bench2drive220.xml"

    @property
    def results(self) -> Path:
        return self.out / "results"

    @property
    def saved(self) -> Path:
        """SAVE_PATH: the agent's folders."""
        return self.out / "save"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    def log(self, name: str) -> Path:
        folder = self.out / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.txt"

    def environment(self) -> dict[str, str]:
        """For Bench2Drive's programs: its packages, CARLA's `agents`, and a `carla` module that is the fake."""
        path = [
            REPO / "tests" / "fake_carla" / "site", REPO / "tests", REPO, self.checkout / "leaderboard",
            self.checkout / "scenario_runner", self.agents,
        ]  # fmt: skip
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "FAKE_CARLA_MAPS": str(self.maps),
            "CARLA_ROOT": str(self.out / "carla"),
            "SCENARIO_RUNNER_ROOT": str(self.checkout / "scenario_runner"),
            "LEADERBOARD_ROOT": str(self.checkout / "leaderboard"),
            "IS_BENCH2DRIVE": "True",
            "SAVE_PATH": str(self.saved),
            "PYTHONUNBUFFERED": "1",
        }


def make_venv(run: LeaderboardRun) -> None:
    """Create the evaluator's environment, unless it is complete; carla and numpy are those of this project."""
    done = run.venv / "complete.txt"
    if done.is_file() and done.read_text("utf-8").split() == list(PACKAGES) and run.python.exists():
        return
    venv.EnvBuilder(with_pip=True, clear=True).create(run.venv)
    run_logged(run, "install", [str(run.python), "-m", "pip", "install", "--quiet", *PACKAGES], seconds=EVALUATION_S)
    base = {"base": str(run.venv), "platbase": str(run.venv)}
    own = Path(sysconfig.get_path("purelib", scheme="venv", vars=base))
    (own / "project.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    done.write_text("\n".join(PACKAGES), "utf-8")


def make_carla_root(run: LeaderboardRun) -> None:
    """CARLA_ROOT: a CarlaUE4.sh that starts the fake server, and the maps where ability_benchmark.py reads them."""
    root = run.out / "carla"
    maps = root / "CarlaUE4" / "Content" / "Carla" / "Maps" / "OpenDrive"
    maps.mkdir(parents=True)
    for file in run.maps.glob("*.xodr"):
        shutil.copy(file, maps)
    script = root / "CarlaUE4.sh"
    script.write_text(
        f'#!/bin/sh\necho $$ > "{root}/server.pid"\nexport PYTHONPATH="{REPO / "tests"}{os.pathsep}{REPO}"\n'
        f'exec "{run.python}" -m fake_carla.server --version {SERVER_VERSION} "$@"\n',
        "utf-8",
    )
    script.chmod(0o755)


def evaluate(run: LeaderboardRun) -> None:
    """Run leaderboard_evaluator.py over the routes with our agent, a model of our own and `ad2 serve`."""
    run.results.mkdir(parents=True)
    make_carla_root(run)
    with ExitStack() as stack:
        model = stack.enter_context(model_server(run))
        driver = stack.enter_context(driver_server(run, model))
        stack.callback(end_server, run)
        program = run.checkout / "leaderboard" / "leaderboard" / "leaderboard_evaluator.py"
        leaderboard_agent = REPO / "closedloop_plugin" / "carla" / "leaderboard_agent" / "agent.py"
        options = {
            "routes": run.route_file, "routes-subset": ",".join(run.routes), "agent": leaderboard_agent,
            "agent-config": REPO / "configs" / "bench2drive" / "agent.json", "track": "SENSORS", "timeout": 60,
            "checkpoint": run.results / "eval.json", "debug-checkpoint": run.out / "live.txt", "port": FIRST_PORT,
            "traffic-manager-port": FIRST_PORT + 20000, "gpu-rank": 0,
        }  # fmt: skip
        words = [f"--{name}={value}" for name, value in options.items()]
        env = {**run.environment(), "AD2_BASE_URL": driver}
        run_official(run, program, words, seconds=EVALUATION_S, env=env)


@contextmanager
def model_server(run: LeaderboardRun) -> Iterator[str]:
    """advlm_server.py with verify_leaderboard_model.py; yields its address."""
    adapter = REPO / "closedloop_plugin" / "carla" / "leaderboard_agent" / "advlm_server.py"
    entry = f"{HERE / 'verify_leaderboard_model.py'}:answer"
    words = [sys.executable, str(adapter), entry, "--name", "follower", "--port", "0"]
    with served(run, "model", words, r"http://[\w.]+:\d+/v1") as address:
        yield address


@contextmanager
def driver_server(run: LeaderboardRun, model: str) -> Iterator[str]:
    """`ad2 serve` with that model; yields its address. Small pictures and 5 Hz, since the model looks at none."""
    prompts = HERE / "verify_leaderboard_prompts.yaml"
    words = [
        sys.executable, "-m", "lmms_eval_ad2.cli.main", "serve", "--model", f"endpoint:follower@{model}", "--port", "0",
        "--profile", "bench2advlm", "--size", "160x90", "--config", "decision_hz=5", "--config", f"prompts={prompts}",
    ]  # fmt: skip
    with served(run, "serve", words, r"http://[\w.]+:\d+/v1(?=: ready)") as address:
        yield address


@contextmanager
def served(run: LeaderboardRun, name: str, words: list[str], pattern: str) -> Iterator[str]:
    """Start a server and yield the address that it prints; end it afterwards."""
    log = run.log(name)
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(REPO)}
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
    try:
        until = time.monotonic() + START_S
        while not (found := re.search(pattern, log.read_text("utf-8", "replace"))):
            if process.poll() is not None or time.monotonic() > until:
                raise EvaluationFailed(f"{name} did not start: {log}")
            time.sleep(0.05)
        yield found[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def end_server(run: LeaderboardRun) -> None:
    """End the fake CARLA server if the evaluator left it, which it does if it is killed."""
    file = run.out / "carla" / "server.pid"
    if not file.is_file():
        return
    pid = int(file.read_text("utf-8"))
    arguments = Path(f"/proc/{pid}/cmdline")
    if arguments.is_file() and b"fake_carla.server" in arguments.read_bytes():
        os.kill(pid, signal.SIGKILL)


def run_official(
    run: LeaderboardRun, program: Path, words: list[str], seconds: float = SCRIPT_S, env: dict[str, str] | None = None
) -> str:
    """Run a program of Bench2Drive and return its output; raises EvaluationFailed."""
    command = [str(run.python), str(HERE / "verify_leaderboard_official.py"), str(program), *words]
    return run_logged(run, program.stem, command, seconds, env or run.environment())


def run_logged(
    run: LeaderboardRun, name: str, command: list[str], seconds: float, env: dict[str, str] | None = None
) -> str:
    """Run a command in the checkout, with its output in a log; raises EvaluationFailed unless the exit code is 0."""
    log = run.log(name)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=run.checkout, start_new_session=True
        )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise EvaluationFailed(f"{name}: no end within {seconds:.0f} s: {log}") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = log.read_text("utf-8", "replace")
    if code:
        raise EvaluationFailed(f"{name}: exit code {code}: {log}: {(text.strip().splitlines() or [''])[-1]}")
    return text
