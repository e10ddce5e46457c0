"""Shared state of the steps of verify_carla.py: server, processes and findings."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STEP_S = 300.0  # time limit of a step
BACK_S = 90.0  # wait for a server that stopped answering: `ad2 carla up` restarts one
END_S = 15.0  # wait for a command to end after SIGINT


class Failed(Exception):
    """The step failed; the text is its finding."""


class Skipped(Exception):
    """The step cannot be run here; the text is the reason."""


@dataclass
class Check:
    """Address of the server, output folder, and the findings of earlier steps."""

    host: str
    port: int
    out: Path
    town: str = ""  # town to use; empty: chosen by the first step that needs one
    loaded: bool = False  # whether the server has loaded it
    quick: bool = False
    far_edge_m: float = 0.0  # from the straight route to the far edge of its road
    figures: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[str, str, float, str]] = field(default_factory=list)  # status, step, seconds, finding
    hang: tuple[str, str] = ("", "")  # finding of the hang probe during the first episode, and its first failure
    gone: bool = False  # whether the last probe of the server failed

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def routes(self) -> Path:
        if not (file := self.out / "verify.xml").is_file():
            raise Skipped("no route could be traced")
        return file

    # -- processes -------------------------------------------------------------------------------------------------
    def start(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        """Start Python in a new session, so that its whole process group can be ended; output goes to logs/."""
        log = self.out / "logs" / f"{name.replace(' ', '_')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        known = {"AD2_HOME": str(self.out / "home"), "TQDM_DISABLE": "1", "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as handle:
            return subprocess.Popen(
                [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, **known},
            )  # fmt: skip

    def finish(self, name: str, process: subprocess.Popen[bytes]) -> str:
        """Wait for the process and return its output; raises Failed if it hangs or its client crashes."""
        until = time.monotonic() + STEP_S
        try:
            while process.poll() is None:
                if time.monotonic() > until:
                    raise Failed(f"no end within {STEP_S:.0f} s")
                time.sleep(0.1)
        finally:
            _end(process)
        text = (self.out / "logs" / f"{name.replace(' ', '_')}.txt").read_text("utf-8", "replace")
        if process.returncode < 0:
            raise Failed(f"the client was killed by {signal.Signals(-process.returncode).name}")
        return text

    def ask(self, query: str, server: bool = True, **arguments: Any) -> dict[str, Any]:
        """The result of a query of verify_carla_ask.py."""
        address = {"host": self.host, "port": self.port} if server else {}
        command = [str(HERE / "verify_carla_ask.py"), query, json.dumps({**address, **arguments})]
        text = self.finish(f"ask {query}", self.start(f"ask {query}", command))
        try:
            answer = dict(json.loads(text.strip().rpartition("\n")[2]))
        except ValueError:
            raise Failed(_last(text) or "no answer") from None
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def ad2(self, name: str, *arguments: str) -> str:
        """Run an `ad2` command and return its output; raises Failed with its error unless the exit code is 0."""
        process = self.start(name, ["-m", "lmms_eval_ad2.cli.main", *arguments])
        text = self.finish(name, process)
        if process.returncode:
            raise Failed(next((x for x in text.splitlines() if x.startswith(("error:", "failed:"))), _last(text)))
        return text

    def drive(self, name: str, *arguments: str) -> dict[str, Any]:
        """Run one episode and return its record."""
        out = self.out / "runs" / name.replace(" ", "_")
        self.ad2(
            name, "drive", "run", "--world", "carla", "--servers", self.server, "--config", "any_version=true",
            "--config", "retries=0",
            "--out", str(out), *arguments,
        )  # fmt: skip
        (line,) = (out / "episodes.jsonl").read_text("utf-8").splitlines()
        return dict(json.loads(line))

    # -- steps -----------------------------------------------------------------------------------------------------
    def step(self, name: str, run: Callable[[Check], str], server: bool = True) -> None:
        """Run a step and print its line. `server`: the step needs a server that answers."""
        started = time.monotonic()
        try:
            if server and not self.alive():
                raise Failed("the server does not answer any more")
            status, finding = "PASS", run(self)
        except (Failed, Skipped) as exc:
            status, finding = ("FAIL" if isinstance(exc, Failed) else "SKIP"), str(exc)
        except Exception as exc:  # an error in a step must not end the report
            status, finding = "FAIL", f"the step itself: {type(exc).__name__}: {exc}"
        line = (status, name, time.monotonic() - started, self.scrub(finding))
        self.lines.append(line)
        print(shown(line), flush=True)

    def alive(self) -> bool:
        """Whether the server answers; waits for one that has just stopped, since it may be restarted."""
        from closedloop_plugin.carla.servers.probe import probe

        until = time.monotonic() + (0.0 if self.gone else 3.0 if self.quick else BACK_S)
        while not (found := asyncio.run(probe(self.host, self.port, 10.0))).answers and time.monotonic() < until:
            time.sleep(1.0)
        self.gone = not found.answers
        return found.answers

    def scrub(self, text: str) -> str:
        """`text` on one line, without names of hosts, users and folders."""
        places = {str(self.out): "OUT", str(HERE.parent): "REPO", str(Path.home()): "~", self.server: "SERVER"}
        for private, word in places.items():
            if len(private) > 1:  # a home may be /
                text = text.replace(private, word)
        generic = {"", "localhost", "127.0.0.1", "root", "carla", "ubuntu"}
        for private, word in ((platform.node(), "HOST"), (self.host, "HOST"), (_user(), "USER")):
            if private not in generic:
                text = re.sub(rf"\b{re.escape(private)}\b", word, text)
        return re.sub(r"(?<![\w.])(/[\w.@+-]+){2,}", "PATH", " ".join(text.split()))[:240]


def shown(line: tuple[str, str, float, str]) -> str:
    status, name, seconds, finding = line
    return f"{status}  {name:<22} {seconds:6.1f} s  {finding}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process group if it still runs; first by SIGINT, so that it cleans up the server."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "no user"
