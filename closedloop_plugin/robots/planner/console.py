"""One screen about a running planner, and the key that stops the vehicle. A plain terminal is enough."""

from __future__ import annotations

import os
import select
import sys
import termios
import textwrap
import threading
import tty
from collections.abc import Callable
from pathlib import Path as File
from typing import Any, TextIO

from closedloop_plugin.robots.planner import control_socket, emergency
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error

PERIOD_S = 0.1
REASON = "key in the console"
_NOTHING = threading.Thread()  # that was never started: not alive
_KEYS = "SPACE emergency stop    r release    q quit"
_HOME, _CLEAR, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_WIDTH = 78


class PlannerConsole:
    """Shows until `q`. Stops, releases and looks at the planner have threads of their own: a screen that waits for a
    planner that hangs, or for ssh, would take no key."""

    def __init__(self, robot: RobotConfig, file: File, out: TextIO) -> None:
        self.robot, self.file, self.out = robot, file, out
        self.note = ""
        self.sure: bool | None = None  # whether the last stop was confirmed
        self._stopping = self._releasing = _NOTHING
        self._lines = ["waiting for the planner's word"]
        self._quit = threading.Event()

    def run(self, keys: int) -> bool:
        """`keys`: the terminal's descriptor. False where the last stop was never confirmed."""
        before = termios.tcgetattr(keys)
        tty.setcbreak(keys)
        mode = termios.tcgetattr(keys)
        mode[0] &= ~termios.IXON  # Ctrl-S would hold the screen, and with it the keys
        termios.tcsetattr(keys, termios.TCSANOW, mode)
        self.out.write("\x1b[2J")
        threading.Thread(target=self._look, name="ad2-console", daemon=True).start()
        try:
            while True:
                self._draw()
                if select.select([keys], [], [], PERIOD_S)[0] and not self._press(os.read(keys, 64)):
                    break
        finally:
            self._quit.set()
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
            self.out.write("\n")
            if self._stopping.is_alive():  # a stop that has begun is not given up because somebody quits
                self._stopping.join()
        return self.sure is not False

    def _press(self, typed: bytes) -> bool:
        """False: quit. A stop among several keys comes first."""
        if b" " in typed:
            if not self._stopping.is_alive():  # a key that is held down is one stop
                self.sure = False
                self._stopping = self._do(self._stop, "stopping ...")
        elif b"r" in typed:
            if self._stopping.is_alive():
                self.note = "a stop is under way: release it once that is over"
            elif not self._releasing.is_alive():
                self._releasing = self._do(lambda: emergency.release(self.robot, self.file), "releasing ...")
        return b"q" not in typed and typed != b""

    def _stop(self) -> emergency.EmergencyStopOutcome:
        """A release that was pressed before it, and is still on its way, must not have the last word."""
        releasing = self._releasing
        overlap = releasing.is_alive()
        done = emergency.stop(self.robot, self.file, REASON)
        if overlap:
            releasing.join()
            done = emergency.stop(self.robot, self.file, REASON)
        self.sure = done.sure
        return done

    def _do(self, action: Callable[[], emergency.EmergencyStopOutcome], note: str) -> threading.Thread:
        def act() -> None:
            try:
                self.note = action().told
            except Ad2Error as exc:
                self.note = str(exc)

        self.note = note
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        return thread

    def _look(self) -> None:
        while not self._quit.is_set():
            try:
                self._lines = lines_of(control_socket.ask(self.file, "state"))
            except Ad2Error as exc:
                self._lines = [f"{self.robot.name}: NO PLANNER", *textwrap.wrap(plain(str(exc)), _WIDTH)]
            self._quit.wait(PERIOD_S)

    def _draw(self) -> None:
        lines = [*self._lines, "", *textwrap.wrap(plain(self.note), _WIDTH), _KEYS]
        self.out.write(_HOME + "".join(f"{line}{_CLEAR}\n" for line in lines) + _BELOW)
        self.out.flush()


def lines_of(state: dict[str, Any]) -> list[str]:
    """A planner's state for a person. Words of models and vehicles cannot move the cursor."""
    age, order = state["frame_age_s"], state["order"] or {}
    shown = f"{state['robot']}: {'STOPPED: ' + state['latched'] if state['latched'] else state['state']}"
    wheels = order.get("twist") or order.get("word")
    lines = [
        plain(shown),
        "vehicle     " + "; ".join(_vehicle(state)),
        f"last frame  {'none' if age is None else f'{age:.1f} s ago'}",
        f"words       {plain(state['words']) or '-'}",
        "control     " + (", ".join(f"{k} {order[k]:.2f}" for k in ("steer", "throttle", "brake")) if order else "-"),
        f"wheels      {_wheels(wheels)}",
        "thinking    " + ("-" if state["thinking_s"] is None else f"{1000 * state['thinking_s']:.0f} ms"),
        "counts      " + plain(", ".join(f"{k} {v}" for k, v in sorted(state["counts"].items()))),
    ]
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 12) or [""]]


def _vehicle(state: dict[str, Any]) -> list[str]:
    told = ["connected" if state["connected"] else "NOT CONNECTED"]
    told += ["it stands"] if state["stands"] else []
    return [*told, f"it said: {plain(state['said'])}"] if state["said"] else told


def plain(text: str) -> str:
    """Without control characters: a terminal obeys them."""
    return "".join(c if c.isprintable() else " " for c in text)


def _wheels(wheels: Any) -> str:
    if isinstance(wheels, dict):
        return f"{wheels['vx']:.3f} m/s, {wheels['vy']:.3f} m/s left, {wheels['wz']:.3f} rad/s left"
    return plain(str(wheels)) if wheels else "-"


def show(robot: RobotConfig, file: File) -> bool:
    """On this terminal."""
    if not sys.stdin.isatty():
        raise Ad2Error("the console needs a terminal; without one: ad2 robot stop")
    return PlannerConsole(robot, file, sys.stdout).run(sys.stdin.fileno())
