"""What the steps of verify_carla.py share: the server, its processes, and what was found."""

from __future__ import annotations

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
STEP_S = 300.0  # for a step: then it has hung
BACK_S = 90.0  # for a server that went away to come back: ad2 carla up restarts one
END_S = 15.0  # for a step's command to end by itself when it is told to


class Failed(Exception):
    """The step did not find what must be; its text is the finding."""


class Skipped(Exception):
    """The step cannot be made here; its text says why."""


@dataclass
class Check:
    """What the steps share: where the server is, where files go, and what earlier steps found."""

    host: str
    port: int
    out: Path
    town: str = ""  # to check with; empty: the first step that needs one chooses
    loaded: bool = False  # and it is the server's now
    quick: bool = False
    figures: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[str, str, float, str]] = field(default_factory=list)  # status, step, seconds, finding
    hang: tuple[str, str] = ("", "")  # what the hang probe found during the first episode, and why it failed if it did
    gone: bool = False  # the server did not answer the last time

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def routes(self) -> Path:
        if not (file := self.out / "verify.xml").is_file():
            raise Skipped("no route could be traced")
        return file

    # -- processes -------------------------------------------------------------------------------------------------
    def start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        """In a session of its own, so that all of it can be ended; its output goes into logs/."""
        log = self.out / "logs" / f"{name.replace(' ', '_')}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        known = {"AD2_HOME": str(self.out / "home"), "TQDM_DISABLE": "1", "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as handle:
            return subprocess.Popen(
                [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, **known},
            )  # fmt: skip

    def finish(
        self, name: str, process: subprocess.Popen[bytes], while_waiting: Callable[[], None] | None = None
    ) -> str:
        """What it printed; Failed where it hangs or its client dies."""
        until = time.monotonic() + STEP_S
        try:
            while process.poll() is None:
                if time.monotonic() > until:
                    raise Failed(f"no end within {STEP_S:.0f} s")
                if while_waiting:
                    while_waiting()
                time.sleep(0.1)
        finally:
            _end(process)
        text = (self.out / "logs" / f"{name.replace(' ', '_')}.txt").read_text("utf-8", "replace")
        if process.returncode < 0:
            raise Failed(f"the client died of {signal.Signals(-process.returncode).name}")
        return text

    def ask(self, question: str, server: bool = True, **arguments: Any) -> dict[str, Any]:
        """One of verify_carla_ask.py's questions."""
        where = {"host": self.host, "port": self.port} if server else {}
        words = [str(HERE / "verify_carla_ask.py"), question, json.dumps({**where, **arguments})]
        text = self.finish(f"ask {question}", self.start(f"ask {question}", words))
        try:
            answer = dict(json.loads(text.strip().rpartition("\n")[2]))
        except ValueError:
            raise Failed(_last(text) or "no answer") from None
        if "error" in answer:
            raise Failed(answer["error"])
        if "skip" in answer:
            raise Skipped(answer["skip"])
        return answer

    def ad2(self, name: str, *words: str, while_waiting: Callable[[], None] | None = None) -> str:
        """An `ad2` command; Failed with its last line where it ends with another code than 0."""
        process = self.start(name, ["-m", "lmms_eval_ad2.cli.main", *words])
        text = self.finish(name, process, while_waiting)
        if process.returncode:
            raise Failed(next((x for x in text.splitlines() if x.startswith(("error:", "failed:"))), _last(text)))
        return text

    def drive(self, name: str, *words: str, while_waiting: Callable[[], None] | None = None) -> dict[str, Any]:
        """One episode; its record."""
        out = self.out / "runs" / name.replace(" ", "_")
        self.ad2(
            name, "drive", "run", "--world", "carla", "--servers", self.server, "--any-version", "--retries", "0",
            "--out", str(out), *words, while_waiting=while_waiting,
        )  # fmt: skip
        (line,) = (out / "episodes.jsonl").read_text("utf-8").splitlines()
        return dict(json.loads(line))

    # -- steps -----------------------------------------------------------------------------------------------------
    def step(self, name: str, what: Callable[[Check], str], server: bool = True) -> None:
        begun = time.monotonic()
        try:
            if server and not self.alive():
                raise Failed("the server does not answer any more")
            status, finding = "PASS", what(self)
        except (Failed, Skipped) as exc:
            status, finding = ("FAIL" if isinstance(exc, Failed) else "SKIP"), str(exc)
        except Exception as exc:  # a step that we got wrong must not cost the report
            status, finding = "FAIL", f"the step itself: {type(exc).__name__}: {exc}"
        line = (status, name, time.monotonic() - begun, self.scrub(finding))
        self.lines.append(line)
        print(shown(line), flush=True)

    def alive(self) -> bool:
        """Answers; one that has just gone away gets time to be started anew."""
        from closedloop_plugin.carla.servers.probe import probe

        until = time.monotonic() + (0.0 if self.gone else 3.0 if self.quick else BACK_S)
        while not (found := probe(self.host, self.port, 10.0)).answers and time.monotonic() < until:
            time.sleep(1.0)
        self.gone = not found.answers
        return found.answers

    def scrub(self, text: str) -> str:
        """Without what tells who and where you are, on one line."""
        places = {str(self.out): "OUT", str(HERE.parent): "REPO", str(Path.home()): "~", self.server: "SERVER"}
        for private, word in places.items():
            if len(private) > 1:  # a home may be /
                text = text.replace(private, word)
        known = {"", "localhost", "127.0.0.1", "root", "carla", "ubuntu"}  # tell nothing of anybody
        for private, word in ((platform.node(), "HOST"), (self.host, "HOST"), (_user(), "USER")):
            if private not in known:
                text = re.sub(rf"\b{re.escape(private)}\b", word, text)
        return re.sub(r"(?<![\w.])(/[\w.@+-]+){2,}", "PATH", " ".join(text.split()))[:240]


def shown(line: tuple[str, str, float, str]) -> str:
    status, name, seconds, finding = line
    return f"{status}  {name:<22} {seconds:6.1f} s  {finding}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """All of what was started, if it still runs; first as Ctrl-C would, so that it tidies up the server."""
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
