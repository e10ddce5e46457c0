"""Key-value parts of a driving reply: "Brake: none", "throttle = 0.4", "40 % throttle", {"stop": false}.

A key is a pedal, the speed, the steering, the direction, or any driving words. A value is a number, a denial (0, none,
no), a confirmation or a degree (yes, hard, gently). Values in words ("Speed: keep the speed") are left to words.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from closedloop_plugin.interpreters.parsing import lexicon as lex

TO_MS = {"m/s": 1.0, "mps": 1.0, "km/h": 1 / 3.6, "kmh": 1 / 3.6, "kph": 1 / 3.6, "mph": 0.44704}
SPEED_UNIT = r"(?:m/s|mps|km/h|kmh|kph|mph)(?![\w/²^])"
NUMBER = r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(?:e[+-]?\d{1,2})?"
FASTEST = 70.0  # m/s


class UnclearValue(Exception):
    """A value without a meaning; the message is a stable code."""


@dataclass
class PairFindings:
    """What key-value parts say. `pedals`: throttle, brake in [0, 1]; `speeds`: wanted speeds, m/s; `steer`: right > 0.

    paces, ways: names of the lexicon. denied: at least one part denies an action.
    """

    paces: set[str] = field(default_factory=set)
    ways: set[str] = field(default_factory=set)
    pedals: dict[str, float] = field(default_factory=dict)
    speeds: set[float] = field(default_factory=set)
    steer: float | None = None
    force: str = ""
    denied: bool = False


_COLONS = (":", "=", "->", "→")
_PEDALS = {"throttle": "faster", "brake": "brake"}
_KEYS: dict[str, str] = {
    "throttle": r"throttle|gas|accelerator",
    "acceleration": r"accelerat(?:e|ing|ion)",
    "brake": r"brak(?:e|es|ing)",
    "steer": r"steer(?:ing)?|(?:steering )?wheel",
    "speed": r"speed|velocity|pace",
    "lane": r"lane(?: change)?|lane changing",
    "direction": r"direction|heading|turn(?:ing)?",
}
_OURS = (
    r"(?:(?:the|my|our|your|emergency|ego|car|vehicle|target|desired|wanted|recommended|suggested|required|new|next|final|set"
    r"|control|longitudinal)(?:'s)? )*"
)
_PART = r"(?: (?:pedal|value|level|input|command|control|action|angle|position|force|intensity|percentage|amount))?"
_NAME = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _KEYS.items())
_KEY = re.compile(rf"{_OURS}(?:{_NAME}){_PART}(?: ?\([^()]{{0,30}}\))?")
_STATES = ("speed", "lane", "direction")  # "the speed is ..." is how things are, not what to do
_STATE = re.compile(r"(?:(?:the|my|our|ego|vehicle|car)(?:'s)? )*(?:current|present|speed limit|limit)\b")
_LEAD = re.compile(
    r"\A(?:(?:[-*•>]|\(?\d{1,2}[.)]|please|now|so|i(?:'d|'ll| would| will)"
    r"|(?:the )?(?:car|ego(?: vehicle)?|vehicle|we|you) (?:should|must)) +)+"
)
_BETWEEN = re.compile(
    r"\A(?P<key>[a-z][a-z' ()_-]{1,50}?)\s{0,3}(?P<sign>[:=]|->|→|\b(?:is|at|set to|(?:should|must|to) be)\b)"
    r"\s{0,3}(?P<value>.{0,60})\Z"
)
_SET = re.compile(  # "set the throttle to 0.5"; not "reduce the speed to 20 km/h", which words.py reads
    rf"\A(?:(?:set|put|reduce|increase|lower|raise|adjust|hold|keep) (?:the )?|the )"
    rf"(?P<key>throttle|gas|accelerator|brakes?|steering|wheel)(?: \w{{1,9}})? (?:to|at) "
    rf"(?P<value>{NUMBER}\s?%?|zero)\Z"
)
_BESIDE = re.compile(
    rf"\A(?P<key>[a-z][a-z' -]{{1,50}}?) (?P<value>{NUMBER}\s?(?:%|percent\b)?|none|zero|off|nil|no)\Z"
)
_BEFORE = re.compile(
    rf"\A(?:(?:apply|use|give|with) )?(?P<value>{NUMBER}\s?(?:%|percent)?|zero|no) (?:of )?"
    r"(?P<key>[a-z][a-z' -]{1,50})\Z"
)

_ASIDE = re.compile(r"\s?\([^()]{0,60}\)?\Z")  # "0.4 (gentle)"
_NUMERIC = re.compile(rf"(?P<number>{NUMBER})\s?(?P<unit>[^\s\d.,;]{{0,12}}[2²]?)")
_DENIAL = re.compile(
    r"none|no|nil|zero|off|false|null|n/a|never|released?|inactive|neutral|nothing|disengaged"
    r"|(?:do not|don't|not|avoid)(?: [a-z]+){0,4}"
    r"|(?:not |un)(?:needed|required|necessary|applied|pressed|used|active|engaged)|no (?:\w+ ){0,2}?"
    r"(?:brak(?:e|ing)|throttle|steering|acceleration|turn(?:ing)?|input)(?: (?:needed|required|necessary))?"
)
_YES = re.compile(r"yes|true|on|applied|pressed|active|engaged|needed|required|appl(?:y|ied)|press(?:ed)?")
_APPLIES = re.compile(r"(?:appl(?:y|ied)|press(?:ed)?|use|engaged?|push|step on)\b(?!.*\b(?:no|not|don't|without)\b)")
_DEGREES = {
    "hard": re.compile(r"(?:very )?(?:hard|full|max(?:imum)?|strong(?:ly)?|heavy|heavily|firm(?:ly)?|emergency|high)"),
    "soft": re.compile(
        r"(?:very |a )?(?:gent(?:le|ly)|light(?:ly)?|soft(?:ly)?|slight(?:ly)?|low|small|little|minimal|partial(?:ly)?)"
    ),
    "": re.compile(r"medium|moderate(?:ly)?|normal(?:ly)?|half"),
}
_KEEP = r"(?:maintain|keep|hold)(?:ed|ing)?|constant|steady|(?:the )?same|unchanged|no change"
_SPEEDS = {
    "keep": re.compile(_KEEP + "|current"),
    "slow": re.compile(r"slow(?:er|ly)?|low(?:er)?|reduced?|reducing|decreas(?:e|ed|ing)"),
    "faster": re.compile(r"fast(?:er)?|high(?:er)?|increas(?:e|ed|ing)"),
    "go": re.compile(r"normal|moderate|medium|cruis(?:e|ing)"),
}
_DIRECTIONS = {
    "straight": re.compile(r"(?:straight )?(?:ahead|forward|on)|straight|cent(?:er|re)(?:ed)?|neutral"),
    "left": re.compile(r"left(?:ward)?"),
    "right": re.compile(r"right(?:ward)?"),
    "follow": re.compile(_KEEP + r"|(?:keep|stay|current|same|own)(?: in)?(?: the)? ?(?:lane)?"),
}


def read_part(part: str, findings: PairFindings) -> bool:
    """Add what `part` (lower case, without line breaks) says to `findings`. False: it is no key-value part.

    Raises UnclearValue for a value without a meaning: no_unit, unknown_unit, off_scale, doubled_key, unclear_value.
    """
    text = _LEAD.sub("", part.strip()).strip(" .!\"'{}[]")
    found = _BETWEEN.match(text)
    if found and (_STATE.match(text) or (found["sign"] == "is" and _kind(_name(found["key"])) in _STATES)):
        return True  # "current speed: 5 m/s", "the speed is 5 m/s": how things are, not what to do
    found = found or _SET.match(text) or _BESIDE.match(text) or _BEFORE.match(text)
    if found is None:
        return False
    if read_pair(found["key"], found["value"], findings):
        return True
    kind = _kind(_name(found["key"]))
    if kind in _PEDALS and found.groupdict().get("sign") in _COLONS and found["value"]:
        raise UnclearValue(f"unclear_value {kind}")  # else words.py would read "Brake: as needed" as braking
    return False


def read_pair(key: str, value: str, findings: PairFindings) -> bool:
    """As read_part, for a pair that is separated already."""
    name = _name(key)
    text = _ASIDE.sub("", " ".join(value.lower().split())).strip(" .!\"'()")
    kind = _kind(name)
    if kind is None:
        return _acts(name, text, findings)
    if "emergency" in name and not _denies(text):
        findings.force = "hard"
    return _READERS[kind](kind, text, findings)


def names_driving(key: str) -> bool:
    """Whether a key of a JSON object is one that read_pair knows."""
    name = _name(key)
    return bool(_kind(name) or lex.PACE.fullmatch(name) or lex.WAY.fullmatch(name))


def _name(key: str) -> str:
    return key.replace("_", " ").strip(" \"'").lower()


def _kind(name: str) -> str | None:
    """The name in _KEYS of a key; None for another key."""
    known = _KEY.fullmatch(name)
    return known and known.lastgroup


def _acts(name: str, value: str, findings: PairFindings) -> bool:
    """Driving words as the key: "stop: no", "turn left: true"."""
    denied, confirmed = _denies(value), _YES.fullmatch(value) or value in ("1", "1.0")
    if not (denied or confirmed):
        return False
    for names, pattern, known in ((lex.PACES, lex.PACE, findings.paces), (lex.WAYS, lex.WAY, findings.ways)):
        match = pattern.fullmatch(name)
        if match and match.lastgroup:
            findings.denied |= denied
            if not denied:
                known.add(names[int(match.lastgroup[1:])])
            return True
    return False


def _denies(value: str) -> bool:
    number = _NUMERIC.fullmatch(value)
    return bool(_DENIAL.fullmatch(value)) or (number is not None and float(number["number"]) == 0)


def _pedal(name: str, value: str, findings: PairFindings) -> bool:
    if number := _NUMERIC.fullmatch(value):
        _set_pedal(name, _share(number), findings)
    elif name == "throttle" and re.fullmatch(_KEEP, value):
        findings.paces.add("keep")
    elif _denies(value):
        findings.denied = True
        findings.pedals.setdefault(name, 0.0)
    elif (degree := _degree(value)) is not None:
        findings.paces.add(_PEDALS[name])
        findings.force = findings.force or degree
    else:
        return False
    return True


def _acceleration(name: str, value: str, findings: PairFindings) -> bool:
    number = _NUMERIC.fullmatch(value)
    if number is None or float(number["number"]) == 0:
        if _denies(value):
            findings.denied = True
            return True
        return _pedal("throttle", value, findings)
    if number["unit"] not in ("m/s²", "m/s^2", "m/s2"):
        raise UnclearValue("unknown_unit" if number["unit"] else "no_unit")
    findings.paces.add("faster" if float(number["number"]) > 0 else "slow")
    return True


def _degree(value: str) -> str | None:
    """ "hard", "soft" or "" of a value that confirms an action; None for another value."""
    if _YES.fullmatch(value):
        return ""
    if _APPLIES.match(value):  # "apply gently"
        words = value.split()
        return next((name for name, pattern in _DEGREES.items() if any(map(pattern.fullmatch, words))), "")
    return next((name for name, pattern in _DEGREES.items() if pattern.fullmatch(value)), None)


def _set_pedal(name: str, value: float, findings: PairFindings) -> None:
    if not 0 <= value <= 1:
        raise UnclearValue(f"off_scale {name}")
    if findings.pedals.get(name, value) != value:
        raise UnclearValue(f"doubled_key {name}")
    findings.pedals[name] = value
    findings.denied |= value == 0


def _share(number: re.Match[str]) -> float:
    """A number without unit, or with %."""
    unit, value = number["unit"].strip(), float(number["number"])
    if unit and unit not in ("%", "percent") and value != 0:
        raise UnclearValue("unknown_unit")
    return value / 100 if unit in ("%", "percent") else value


def _steer(name: str, value: str, findings: PairFindings) -> bool:
    if number := _NUMERIC.fullmatch(value):
        steer = _share(number)
        if not -1 <= steer <= 1:
            raise UnclearValue("off_scale steer")
        if findings.steer not in (None, steer):
            raise UnclearValue("doubled_key steer")
        findings.steer = steer
        return True
    if value in ("left", "right"):
        findings.ways.add(f"slight_{value}")
        return True
    if value == "neutral":
        findings.ways.add("straight")
        return True
    return _direction(name, value, findings)


def _speed(name: str, value: str, findings: PairFindings) -> bool:
    number = _NUMERIC.fullmatch(value)
    if value in ("none", "zero", "nil") or (number and float(number["number"]) == 0):
        findings.paces.add("stop")
        return True
    if number:
        findings.speeds.add(speed_ms(number["number"], number["unit"].strip()))
        return True
    pace = next((pace for pace, pattern in _SPEEDS.items() if pattern.fullmatch(value)), None)
    if pace is not None:
        findings.paces.add(pace)
    return pace is not None


def speed_ms(number: str, unit: str) -> float:
    """A speed in m/s. Raises UnclearValue."""
    if not unit:
        raise UnclearValue("no_unit")
    if unit not in TO_MS:
        raise UnclearValue("unknown_unit")
    speed = float(number) * TO_MS[unit]
    if not 0 <= speed <= FASTEST or not math.isfinite(speed):
        raise UnclearValue("off_scale speed")
    return speed


def _lane(name: str, value: str, findings: PairFindings) -> bool:
    if value in ("left", "right"):
        findings.ways.add(f"change_{value}")
        return True
    return _direction(name, value, findings)


def _direction(name: str, value: str, findings: PairFindings) -> bool:
    if _denies(value):
        findings.denied = True
        return True
    if number := _NUMERIC.fullmatch(value):
        raise UnclearValue("unknown_unit" if number["unit"] else "no_unit")
    way = next((way for way, pattern in _DIRECTIONS.items() if pattern.fullmatch(value)), None)
    if way is not None:
        findings.ways.add(way)
    return way is not None


_READERS = {
    "throttle": _pedal, "acceleration": _acceleration, "brake": _pedal, "steer": _steer, "speed": _speed,
    "lane": _lane, "direction": _direction,
}  # fmt: skip
