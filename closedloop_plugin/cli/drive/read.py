"""`ad2 drive read`: shows what a reply of a model would drive."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    import numpy as np

    from closedloop_plugin.core.profiles import Profile
    from closedloop_plugin.core.state import Control

COMMANDS = ("lane follow", "turn left", "turn right", "go straight", "change lane left", "change lane right")
_AHEAD = (10.0, 0.0)  # the route's target point, m forward and to the left: a straight route
_SHOWN = 100  # characters of a text


@dataclass(frozen=True, kw_only=True)
class DriveReadOptions:
    """`ad2 drive read`."""

    texts: tuple[str, ...] = option(
        "reply of a model; - reads one from standard input", metavar="TEXT", positional=True
    )
    interpreter: Literal["rules", "cng", "dcs"] = option(
        "rules: words of the fast system (default); cng, dcs: the slow system's reply with a control", default="rules"
    )
    task: Literal["action", "trajectory"] = option(
        "the question that the fast system answered (default action)", default="action"
    )
    profile: str = option("benchmark profile (default bench2advlm)", default="bench2advlm", metavar="NAME")
    speed: float = option("present speed, m/s (default 3)", default=3.0, metavar="V", least=0.0, most=70.0, expert=True)
    policy: Literal["official", "strict"] = option(
        "for cng and dcs: numbers off the sets and missing keys as in the public code (default), or unread",
        default="official",
        expert=True,
    )
    command: str = option(
        "navigation command (default: lane follow)", default="lane follow", choices=COMMANDS, expert=True
    )
    json: bool = option("print a JSON array with one object per text", default=False)


@dataclass(frozen=True)
class ReadReply:
    """What was read from one text. `control` is post-processed by the profile; None if the text is unread."""

    control: Control | None
    pace: str | None = None
    direction: str | None = None
    unread: str | None = None

    def to_json(self) -> dict[str, Any]:
        numbers = {
            axis: None if self.control is None else round(getattr(self.control, axis), 4) + 0.0  # no -0.0
            for axis in ("throttle", "steer", "brake")
        }
        return numbers | {"pace": self.pace, "direction": self.direction, "unread": self.unread}

    def __str__(self) -> str:
        if self.control is None:
            return f"unread: {self.unread}"
        c = self.control
        words = ", ".join(filter(None, (self.pace, self.direction)))
        return f"throttle {c.throttle:.2f}  steer {c.steer + 0.0:.2f}  brake {c.brake:.2f}" + (
            f"  ({words})" * bool(words)
        )


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "read",
        run,
        DriveReadOptions,
        help="show the control that a model's reply gives",
        description="The control after the profile's post-processing, on a straight route. Words without a direction, "
        "or with that of the navigation command, steer along the route.",
    )


def run(options: DriveReadOptions) -> int:
    from closedloop_plugin.core.profiles import profile

    rules = profile(options.profile)
    texts = [sys.stdin.read() if text == "-" else text for text in options.texts]
    found = [_read(text, options, rules) for text in texts]
    if options.json:
        show(json.dumps([reply.to_json() for reply in found], indent=1))
        return 0
    for text, reply in zip(texts, found, strict=True):
        line = " ".join(text.split())
        show(f"{line[:_SHOWN]}{'...' if len(line) > _SHOWN else ''}\n    {reply}")
    return 0


def _read(text: str, options: DriveReadOptions, rules: Profile) -> ReadReply:
    from closedloop_plugin.driver.interpreters.parsing.controls import UnreadableReply, read_cng, read_dcs

    if options.interpreter == "rules":
        return _by_rules(text, options, rules)
    adapted: list[str] | None = [] if options.policy == "official" else None
    try:
        control = read_cng(text, adapted) if options.interpreter == "cng" else read_dcs(text, rules, adapted)
    except UnreadableReply as exc:
        return ReadReply(None, unread=str(exc))
    return ReadReply(rules.post(control, options.speed))


def _by_rules(text: str, options: DriveReadOptions, rules: Profile) -> ReadReply:
    from closedloop_plugin.core.state import Decision, Observation, RouteCommand
    from closedloop_plugin.driver.agent import DecisionRequest
    from closedloop_plugin.driver.interpreters.rules import RuleInterpreter

    interpreter = RuleInterpreter(rules)
    observation = Observation(0, 0.0, options.speed, RouteCommand(options.command), _AHEAD, _no_image)
    found = interpreter.interpret([(DecisionRequest("read", observation), Decision({options.task: text}))])[0]
    if found.control is None:
        return ReadReply(None, unread=found.reason)
    control = rules.post(found.control, options.speed)
    if options.task == "trajectory":
        return ReadReply(control)
    instruction = interpreter.instruction(text, observation)
    pace = instruction.pace if instruction.throttle is None else None  # the pedals are numbers
    return ReadReply(control, pace, instruction.way)


def _no_image(camera: str) -> np.ndarray:
    raise ValueError(f"no image of camera {camera}: rules use words only")
