"""Fake CARLA servers in separate processes, towns for them, and `ad2` commands on them."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_carla
import pytest
from fake_carla.server import state_of
from support.carla.fake_towns import town_of
from support.running import TESTS

from closedloop_plugin.core.routes import read_routes
from closedloop_plugin.scenarios.suites.lookup import DEMO
from lmms_eval_ad2.cli.main import main

PATIENCE_S = 120.0  # upper bound for events that always happen, on a busy machine


class Fleet:
    """Servers by port; each reads from a file in `folder` how it is to fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self.controls: dict[int, Path] = {}
        self._number = itertools.count()

    def start(self, *words: str, port: int = 0) -> int:
        """Start a server; returns its port, at least three away from the others (`ad2` requires that)."""
        while True:
            control = self.folder / f"{next(self._number)}.json"
            control.write_text("{}")
            command = [sys.executable, "-m", "fake_carla.server", "--port", str(port), "--control", str(control)]
            path = os.pathsep.join(p for p in (str(TESTS), *sys.path) if p and Path(p) != fake_carla.SITE)
            env = {**os.environ, "PYTHONPATH": path}
            process = subprocess.Popen(
                [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
            )
            actual_port = int(process.stdout.readline().removeprefix("listening "))  # type: ignore[union-attr]
            if port or all(abs(actual_port - other) >= 3 for other in self.processes):
                self._control(actual_port, control, words)
                self.processes[actual_port] = process
                return actual_port
            process.kill()
            process.wait()

    def _control(self, port: int, control: Path, words: tuple[str, ...]) -> None:
        """Write the options `words` into the control file, which replaces all settings of the server."""
        self.controls[port] = control
        values = {key[2:].replace("-", "_"): value for key, value in zip(words[::2], words[1::2], strict=True)}
        self.fail(port, **{k: v if k == "version" else int(v) for k, v in values.items()})

    def fail(self, port: int, **mode: Any) -> None:
        """Fail as set by `mode` from now on; without arguments, work normally again."""
        new = self.controls[port].with_suffix(".new")
        new.write_text(json.dumps(mode))
        new.replace(self.controls[port])

    def restart_when_dead(self, port: int) -> threading.Thread:
        """Start a new server on the same port as soon as this one has ended, as `ad2 carla up` does."""

        def watch() -> None:
            self.processes[port].wait()
            self.start(port=port)

        thread = threading.Thread(target=watch)
        thread.start()
        return thread

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@contextmanager
def fleet(folder: Path) -> Iterator[Fleet]:
    folder.mkdir(parents=True, exist_ok=True)
    servers = Fleet(folder)
    try:
        yield servers
    finally:
        servers.stop()


def towns(folder: Path) -> Path:
    """Write the towns of the demo routes."""
    for route in read_routes(DEMO):
        town_of(route, folder)
    return folder


def use_fake_carla(patch: pytest.MonkeyPatch, maps: Path) -> None:
    """Let world processes started by this process import the fake CARLA."""
    patch.syspath_prepend(str(fake_carla.SITE))
    patch.setenv("FAKE_CARLA_MAPS", str(maps))


def at(*ports: int) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def drive(out: Path, ports: tuple[int, ...], *words: object) -> int:
    """`ad2 drive run` of the demo routes with the expert, unless `words` select others."""
    arguments = list(map(str, words))
    if not {"--suite", "--scenario"} & set(arguments):
        arguments += ["--suite", "demo"]
    if "--agent" not in arguments:
        arguments += ["--agent", "expert"]
    return main(["drive", "run", "--world", "carla", "--servers", at(*ports), "--out", str(out), *arguments])


def records(out: Path) -> list[dict[str, Any]]:
    """The records of episodes.jsonl, sorted by route and repetition."""
    found = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return sorted(found, key=lambda r: (r["route_id"], r["repetition"]))


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    """The record without values that depend on servers and clocks."""
    counts = {name: n for name, n in record["counts"].items() if name != "retries"}
    return {**record, "system_s": 0.0, "counts": counts}


def is_idle(port: int) -> bool:
    """Whether the server runs asynchronously and has no actors."""
    state = state_of(port)
    return not state["synchronous"] and not state["actors"]


def is_silent(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b'{"call": "state"}\n')
        connection.settimeout(0.5)
        try:
            return not connection.recv(1)
        except TimeoutError:
            return True


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.02)
