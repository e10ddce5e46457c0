"""Terminal display of a running planner, with a key for the emergency stop."""

from __future__ import annotations

import os
import select
import sys
import termios
import textwrap
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from closedloop_plugin.robots.planner import control_socket, emergency
from closedloop_plugin.robots.vehicles.robot_config import RobotConfig
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.printed import one_line

PERIOD_S = 0.1
REASON = "key in the console"
_IDLE = threading.Thread()  # never started, so not alive
_KEYS = "SPACE emergency stop    r release    q quit"
_HOME, _CLEAR, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_WIDTH = 78


class PlannerConsole:
    """Displays the state until `q`. Stop, release and polling run in their own threads, so that keys are handled even
    while the planner hangs or ssh is slow."""

    def __init__(self, robot: RobotConfig, file: Path, out: TextIO) -> None:
        self.robot, self.file, self.out = robot, file, out
        self.note = ""
        self.confirmed: bool | None = None  # whether the last stop was confirmed
        self._stopping = self._releasing = _IDLE
        self._lines = ["waiting for the planner"]
        self._quit = threading.Event()

    def run(self, keys: int) -> bool:
        """`keys`: file descriptor of the terminal. False if the last stop was not confirmed."""
        before = termios.tcgetattr(keys)
        tty.setcbreak(keys)
        mode = termios.tcgetattr(keys)
        mode[0] &= ~termios.IXON  # Ctrl-S would stop the display, and with it the keys
        termios.tcsetattr(keys, termios.TCSANOW, mode)
        self.out.write("\x1b[2J")
        threading.Thread(target=self._poll, name="ad2-console", daemon=True).start()
        try:
            while True:
                self._draw()
                if select.select([keys], [], [], PERIOD_S)[0] and not self._press(os.read(keys, 64)):
                    break
        finally:
            self._quit.set()
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
            self.out.write("\n")
            if self._stopping.is_alive():  # a stop in progress is finished even after `q`
                self._stopping.join()
        return self.confirmed is not False

    def _press(self, typed: bytes) -> bool:
        """Handle keys; False: quit. A stop takes precedence over other keys."""
        if b" " in typed:
            if not self._stopping.is_alive():  # a repeated key is one stop
                self.confirmed = False
                self._stopping = self._do(self._stop, "stopping ...")
        elif b"r" in typed:
            if self._stopping.is_alive():
                self.note = "a stop is under way: release after it has finished"
            elif not self._releasing.is_alive():
                self._releasing = self._do(lambda: emergency.release(self.robot, self.file), "releasing ...")
        return b"q" not in typed and typed != b""

    def _stop(self) -> emergency.EmergencyStopOutcome:
        """Stop; repeated after a release that was still in progress, which might undo the first one."""
        releasing = self._releasing
        overlap = releasing.is_alive()
        done = emergency.stop(self.robot, self.file, REASON)
        if overlap:
            releasing.join()
            done = emergency.stop(self.robot, self.file, REASON)
        self.confirmed = done.confirmed
        return done

    def _do(self, action: Callable[[], emergency.EmergencyStopOutcome], note: str) -> threading.Thread:
        def act() -> None:
            try:
                self.note = action().message
            except Ad2Error as exc:
                self.note = str(exc)

        self.note = note
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        return thread

    def _poll(self) -> None:
        while not self._quit.is_set():
            try:
                self._lines = lines_of(control_socket.send_request(self.file, "state"))
            except Ad2Error as exc:
                self._lines = [f"{self.robot.name}: NO PLANNER", *textwrap.wrap(one_line(str(exc)), _WIDTH)]
            self._quit.wait(PERIOD_S)

    def _draw(self) -> None:
        lines = [*self._lines, "", *textwrap.wrap(one_line(self.note), _WIDTH), _KEYS]
        self.out.write(_HOME + "".join(f"{line}{_CLEAR}\n" for line in lines) + _BELOW)
        self.out.flush()


def lines_of(state: dict[str, Any]) -> list[str]:
    """The state of a planner as lines of text, without control characters from models or vehicles."""
    age, order = state["frame_age_s"], state["order"] or {}
    shown = f"{state['robot']}: {'STOPPED: ' + state['latched'] if state['latched'] else state['state']}"
    wheels = order.get("twist") or order.get("word")
    lines = [
        one_line(shown),
        "vehicle     " + "; ".join(_vehicle(state)),
        f"last frame  {'none' if age is None else f'{age:.1f} s ago'}",
        f"words       {one_line(state['words']) or '-'}",
        "control     " + (", ".join(f"{k} {order[k]:.2f}" for k in ("steer", "throttle", "brake")) if order else "-"),
        f"wheels      {_wheels(wheels)}",
        "thinking    " + ("-" if state["thinking_s"] is None else f"{1000 * state['thinking_s']:.0f} ms"),
        "counts      " + one_line(", ".join(f"{k} {v}" for k, v in sorted(state["counts"].items()))),
    ]
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent=" " * 12) or [""]]


def _vehicle(state: dict[str, Any]) -> list[str]:
    words = ["connected" if state["connected"] else "NOT CONNECTED"]
    words += ["it stands"] if state["stands"] else []
    return [*words, f"it said: {one_line(state['said'])}"] if state["said"] else words


def _wheels(wheels: Any) -> str:
    if isinstance(wheels, dict):
        return f"{wheels['vx']:.3f} m/s, {wheels['vy']:.3f} m/s left, {wheels['wz']:.3f} rad/s left"
    return one_line(str(wheels)) if wheels else "-"


def show(robot: RobotConfig, file: Path) -> bool:
    """Run the console on this terminal. False if the last stop was not confirmed."""
    if not sys.stdin.isatty():
        raise Ad2Error("the console needs a terminal; without one: ad2 robot stop")
    return PlannerConsole(robot, file, sys.stdout).run(sys.stdin.fileno())
