"""Parsing of a driving reply to a DrivingInstruction for the current moment, by rules and without guessing.

Of a reply with a JSON object only the object counts. Otherwise key-value parts are read by key_values.py and the rest
by words.py. A text that does not determine one action raises UnclearInstruction with a stable code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from closedloop_plugin.core.state import Control
from closedloop_plugin.driver.interpreters.parsing import controls
from closedloop_plugin.driver.interpreters.parsing.chinese import UnknownWords, in_english
from closedloop_plugin.driver.interpreters.parsing.controls import UnreadableReply, is_axis, values_of
from closedloop_plugin.driver.interpreters.parsing.key_values import UnclearValue, names_driving, read_pair
from closedloop_plugin.driver.interpreters.parsing.objects import ReplyFields, reply_objects
from closedloop_plugin.driver.interpreters.parsing.words import STRENGTH, TextFindings, UnclearInstruction, read_text
from lmms_eval_ad2.parsing import FAILURES
from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, last_object, leaves
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.refusals import declines
from lmms_eval_ad2.parsing.wrappers import unwrapped

REASONS = (
    "no_action", "negated_only", "contradiction", "hedged", "conditional", "several", "ambiguous_negation",
    "refusal", "reverse", "unfinished_thought", "several_speeds", "no_unit", "unknown_unit", "off_scale",
    "unclear_value", "doubled_key", "missing_key", "not_a_number", "not_finite", "truncated", "malformed",
    "unknown_words", *FAILURES,
)  # fmt: skip
LONGEST = 4000  # characters of prose that are parsed, from the start
_DEED = re.compile(
    r"(?:\w+ )?(?:action|man(?:oeuvre|euver)|decision|command|instruction|plan|answer|behaviou?r|controls?|output)s?"
)


@dataclass(frozen=True)
class DrivingInstruction:
    """A parsed driving instruction.

    pace: stop | brake | slow | keep | faster | go (unspecified). way: left | right | change_left | change_right |
    slight_left | slight_right | straight | follow | None. force: hard | soft | "". throttle and brake: both in [0, 1],
    if the text has numbers for the pedals. steer: in [-1, 1], right > 0. speed: wanted speed, m/s.
    """

    pace: str = "go"
    way: str | None = None
    force: str = ""
    throttle: float | None = None
    brake: float | None = None
    steer: float | None = None
    speed: float | None = None


def parse_instruction(words: str) -> DrivingInstruction:
    """The instruction in a text. Raises UnclearInstruction."""
    answer, missing = unwrapped(words)
    if missing and missing != "empty":
        raise UnclearInstruction(missing)
    try:
        answer = in_english(answer)
    except UnknownWords:
        raise UnclearInstruction("refusal" if declines(plain(answer)) else "unknown_words") from None
    objects, _ = reply_objects(answer[-controls.LONGEST :], _is_wanted)
    findings = TextFindings()
    try:
        control = _control_object(objects)
        if control is not None:
            return control
        found = _object_in_words(objects)
        if found is not None:
            _object(found, findings)
        else:
            read_text(reply_objects(answer[:LONGEST], _is_wanted)[1], findings)
        return _instruction(answer, findings, cut=any(item.begun is not None for item in objects))
    except (UnclearValue, UnreadableReply) as exc:
        raise UnclearInstruction(str(exc)) from None


def _is_wanted(key: str) -> bool:
    return names_driving(key) or _is_deed(key)


def _is_deed(key: str) -> bool:
    return bool(_DEED.fullmatch(key.strip().lower().replace("_", " ")))


def _control_object(objects: list[ReplyFields]) -> DrivingInstruction | None:
    """The last object with the keys of a control, if it has numbers for throttle, steer and brake."""
    item = next((item for item in reversed(objects) if last_object([item.value], is_axis) is not None), None)
    found = last_object([item.value], is_axis) if item else None
    if item is None or found is None:
        return None
    if item.malformed:
        raise UnclearInstruction("malformed")
    if any(key.strip().lower() == "reverse" and value is True for key, value in found):
        raise UnclearInstruction("reverse")
    try:
        numbers = values_of(found)
    except UnreadableReply as exc:
        if str(exc).startswith(("not_finite", "doubled_key")):
            raise
        return None
    control = Control(numbers["steer"], numbers["throttle"], numbers["brake"]).checked()
    return DrivingInstruction(throttle=control.throttle, brake=control.brake, steer=control.steer)


def _object_in_words(objects: list[ReplyFields]) -> KeyValuePairs | None:
    """The last object with a wanted key. Raises UnclearInstruction if the end of the reply cuts off what it says.

    An unfinished object is read if it names the action and ends in something else: {"action": "stop", "reason": "the l
    """
    for item in reversed(objects):
        keys = [key for key, _ in item.value] if isinstance(item.value, KeyValuePairs) else []
        wanted = any(map(_is_wanted, keys))
        if item.begun is not None and (
            not item.begun or _is_wanted(item.begun) or (wanted and not any(map(_is_deed, keys)))
        ):
            raise UnclearInstruction("truncated")
        if wanted and item.malformed:
            raise UnclearInstruction("malformed")
        if wanted:
            return item.value
    return None


_LEVELS = ("value", "level", "amount", "percent", "percentage", "action", "direction")
_JSON_WORDS = {True: "yes", False: "no", None: "none"}


def _object(found: KeyValuePairs, findings: TextFindings) -> None:
    """The parts of an object in words, or without steering. Keys that do not name driving are ignored."""
    for key, value in leaves(_without_levels(found), _is_wanted):
        text = _JSON_WORDS[value] if value is None or isinstance(value, bool) else str(value)
        if names_driving(key):
            if read_pair(key, text, findings.pairs):
                continue
            if is_axis(key):
                raise UnclearValue(f"not_a_number {key.strip().lower()}")
            read_text(f"{key.replace('_', ' ')}: {text}", findings)
        else:
            read_text(text, findings)
    pressed = {name for name, value in findings.pairs.pedals.items() if value}
    for missing in {"throttle", "brake"} - findings.pairs.pedals.keys() if pressed else ():
        raise UnclearValue(f"missing_key {missing}")


def _without_levels(found: KeyValuePairs) -> KeyValuePairs:
    """The object with {"brake": {"value": 0}} as {"brake": 0}."""
    flat = KeyValuePairs()
    for key, value in found:
        if is_axis(key) and isinstance(value, KeyValuePairs):
            levels = [inner for name, inner in value if name.strip().lower() in _LEVELS]
            if len(levels) != 1:
                raise UnclearValue(f"not_a_number {key.strip().lower()}")
            value = levels[0]
        flat.append((key, value))
    return flat


def _instruction(answer: str, findings: TextFindings, *, cut: bool) -> DrivingInstruction:
    pairs = findings.pairs
    paces, ways = findings.paces | pairs.paces, findings.ways | pairs.ways
    findings.negated |= pairs.denied
    if len(pairs.speeds) > 1:
        raise UnclearInstruction("several_speeds")
    speed = next(iter(pairs.speeds), None)
    pedals = _pedals(pairs.pedals, paces)
    if not paces and not ways and pedals is None and speed is None:
        if pairs.steer is not None:
            raise UnclearInstruction("missing_key throttle")
        raise UnclearInstruction("truncated" if cut else _why_nothing(plain(answer).lower(), findings))
    pace, way = _one_pace(paces), _one_way(ways)
    if pace == "stop" and speed:
        raise UnclearInstruction("contradiction")
    if pairs.steer and way and _side(way) == ("left" if pairs.steer > 0 else "right"):
        raise UnclearInstruction("contradiction")
    force = findings.force if findings.force == "hard" else pairs.force or findings.force
    throttle, brake = pedals or (None, None)
    return DrivingInstruction(pace, way, force, throttle=throttle, brake=brake, steer=pairs.steer, speed=speed)


def _pedals(numbers: dict[str, float], paces: set[str]) -> tuple[float, float] | None:
    """(throttle, brake) of the numbers, None if they only deny one pedal. They must agree with the words."""
    throttle, brake = numbers.get("throttle", 0.0), numbers.get("brake", 0.0)
    if not numbers or (len(numbers) == 1 and not throttle and not brake):
        return None
    slowing, rest = paces & set(STRENGTH), paces - {"go", *STRENGTH}
    coasting = not throttle and not brake
    if (
        (throttle and brake)
        or (throttle and slowing)
        or (brake and rest)
        or (coasting and (slowing - {"slow"} or "faster" in rest))
    ):
        raise UnclearInstruction("contradiction")
    return throttle, brake


def _side(way: str) -> str:
    return way.rpartition("_")[2]


def _why_nothing(text: str, findings: TextFindings) -> str:
    if declines(text):
        return "refusal"
    codes = {"hedged": findings.hedged, "conditional": findings.conditional, "negated_only": findings.negated}
    return next((code for code, applies in codes.items() if applies), "no_action")


def _one_pace(paces: set[str]) -> str:
    """ "go" is implied by any other pace; of stop, brake and slow the strongest counts; others exclude each other."""
    found = paces - {"go"}
    down = found & set(STRENGTH)
    if len(found - down) + bool(down) > 1:
        raise UnclearInstruction("contradiction")
    if down:
        return max(down, key=STRENGTH.__getitem__)
    return next(iter(found), "go")


def _one_way(ways: set[str]) -> str | None:
    """A slight correction is part of a manoeuvre to its side; lane keeping is compatible with all but lane changes."""
    found = set(ways)
    for side in ("left", "right"):
        if found & {side, f"change_{side}"}:
            found.discard(f"slight_{side}")
    others = found - {"follow"}
    if len(others) > 1 or (len(found) > len(others) and any(w.startswith("change") for w in others)):
        raise UnclearInstruction("contradiction")
    return next(iter(others or found), None)
