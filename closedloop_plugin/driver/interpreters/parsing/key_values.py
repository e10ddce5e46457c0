"""Key-value parts of a driving reply: "Brake: none", "throttle = 0.4", "40 % throttle", {"stop": false}.

A key is a pedal, the speed, the steering, the direction, or any driving words. A value is a number, a denial (0, none,
no), a confirmation or a degree (yes, hard, gently). Values in words ("Speed: keep the speed") are left to words.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from closedloop_plugin.driver.interpreters.parsing import lexicon as lex

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


_COLONS = (":", "=", "->")
CROSS = "❌✗✘×"  # signs of a denial
_PEDALS = {"throttle": "faster", "brake": "brake"}
_KEYS: dict[str, str] = {
    "throttle": r"throttle|gas|accelerator",
    "acceleration": r"accelerat(?:e|ing|ion)",
    "handbrake": r"hand ?brakes?|parking brakes?",
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
_PART = (
    r"(?: (?:pedal|value|level|input|command|control|action|angle|position|force|intensity|amount|rate|ratio"
    r"|pressure))?"
)
_NAME = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _KEYS.items())
_KEY = re.compile(rf"{_OURS}(?:{_NAME}){_PART}")
# What stands beside the name of a key: "speed (km/h)", "throttle_pct", "brake (0-1)".
_ABOUT = re.compile(
    r"(?: ?\((?P<inside>[^()]{0,30})\)| (?P<suffix>pct|percent(?:age)?|deg(?:rees)?|rad|kmh|km h|kph|mph|mps|m s|ms))\Z"
)
_UNITS = {
    "%": re.compile(r"%|in %|pct|percent(?:age)?|0 ?%? ?(?:-|to|\.\.) ?100 ?%?"),
    "km/h": re.compile(r"km/?h|km h|kph"),
    "m/s": re.compile(r"m/s|mps|m s|ms"),
    "mph": re.compile("mph"),
    "degrees": re.compile(r"°|(?:in )?deg(?:ree)?s?"),
    "rad": re.compile(r"(?:in )?rad(?:ian)?s?"),
}
_LEFT_IS_POSITIVE = re.compile(r"(?:positive|\+)[^,;]*left|left[^,;]*(?:positive|\+)")
# Names of the three controls, with their attributes, as a pattern without groups.
AXIS_KEY = (
    f"{_OURS.removesuffix('*')}{{0,4}}(?:{_KEYS['throttle']}|{_KEYS['brake']}|{_KEYS['steer']})"
    rf"{_PART}"
)
_CONTROLS = ("throttle", "brake", "steer")
_STATES = ("speed", "lane", "direction")  # "the speed is ..." is how things are, not what to do
_STATE = re.compile(r"(?:(?:the|my|our|ego|vehicle|car)(?:'s)? )*(?:current|present|speed limit|limit)\b")
_LEAD = re.compile(
    r"\A(?:(?:[-*•>]|\(?\d{1,2}[.)]|please|now|so|and|also|but|i(?:'d|'ll| would| will)"
    r"|(?:the )?(?:car|ego(?: vehicle)?|vehicle|we|you) (?:should|must)) +)+"
)
_BETWEEN = re.compile(
    r"\A(?P<key>[a-z][a-z' _-]{1,50}?(?: ?\([^()]{0,30}\))?)\s{0,3}"
    r"(?P<sign>[:=]|->|\b(?:is|at|set to|(?:should|must|to) be)\b)"
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
_SIDED = re.compile(
    r"(?:[a-z]+ )?(?:to the )?(?:(?P<before>left|right)(?:ward)?(?: by| at)? )?"
    rf"(?P<number>{NUMBER}) ?(?P<percent>%|percent)?"
    r"(?: (?:(?:(?:slight|gent|sharp)(?:ly|le)?|hard|to the|a (?:little|bit)) ){0,3}(?P<after>left|right)"
    r"| straight(?: ahead)?)?"
)
_NUMERIC = re.compile(rf"(?P<number>{NUMBER})\s?(?P<unit>[^\s\d.,;]{{0,12}}[2²]?)")
_DENIAL = re.compile(
    rf"[{CROSS}]|(?:none|no|nil|zero|off)(?: (?:at all|whatsoever|needed|required|necessary|need))?"
    r"|false|null|n/a|never|released?|inactive|neutral|nothing|disengaged|unpressed|untouched"
    r"|(?:do not|don't|not|avoid)(?: [a-z]+){0,4}"
    r"|(?:not |un)(?:needed|required|necessary|applied|pressed|used|active|engaged)(?: at all)?|no (?:\w+ ){0,2}?"
    r"(?:brak(?:e|ing)|throttle|steering|acceleration|turn(?:ing)?|stop(?:ping)?|input)"
    r"(?: (?:needed|required|necessary))?"
)
_BEGINS_WITH_DENIAL = re.compile(r"(?:none|no|not|nil|zero|off|un\w+)\b|0(?![.\d])")
_YES = re.compile(r"[✓✔✅]|yes|true|on|applied|pressed|active|engaged|needed|required|appl(?:y|ied)|press(?:ed)?")
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
    text = _LEAD.sub("", part.strip()).strip(" .!\"'{}[]<>").rstrip(" -")
    if text.count(")") > text.count("("):
        text = text.rstrip(" )")
    found = _BETWEEN.match(text)
    if found and (_STATE.match(text) or (found["sign"] == "is" and _kind(_name(found["key"])) in _STATES)):
        return True  # "current speed: 5 m/s", "the speed is 5 m/s": how things are, not what to do
    found = _SET.match(text) or found or _BESIDE.match(text) or _BEFORE.match(text)
    if found is None:
        return False
    if read_pair(found["key"], found["value"], findings):
        return True
    kind = _kind(_name(found["key"]))
    sign = found.groupdict().get("sign")
    if kind in _CONTROLS and (sign in _COLONS or (sign and _BEGINS_WITH_DENIAL.match(found["value"]))):
        # Else words.py would read "Brake: as needed" as braking, and drop "Steer: as needed".
        raise UnclearValue(f"unclear_value {kind}")
    return False


def read_pair(key: str, value: str, findings: PairFindings) -> bool:
    """As read_part, for a pair that is separated already."""
    name, kind = _name(key), _kind(_name(key))
    about = _ABOUT.search(_spelled(key))
    text = " ".join(value.lower().split())
    if kind == "steer":
        text = _with_side(text, (about and about["inside"]) or "")
    text = _ASIDE.sub("", text).strip(" .!\"'()")
    if about and re.fullmatch(NUMBER, text):
        text = f"{text} {_unit(about['inside'] or about['suffix'] or '')}".strip()
    if kind is None:
        return _acts(name, text, findings)
    if "emergency" in name and not _denies(text):
        findings.force = "hard"
    return _READERS[kind]("pace" if name == "pace" else kind, text, findings)


def _unit(about: str) -> str:
    """The unit in the name of a key, as values have it; "" for other text, such as "0-1"."""
    return next((unit for unit, pattern in _UNITS.items() if pattern.fullmatch(about.strip())), "")


def _with_side(value: str, about: str) -> str:
    """The value of steering with the number or the side that stands in brackets: "-0.1 (left)", "left (0.1)"."""
    if _LEFT_IS_POSITIVE.search(about):
        raise UnclearValue("unclear_value steer")
    aside = re.search(r"\(([^()]{1,60})\)\Z", value)
    if aside and re.search(r"left|right|\d", aside[1]):
        return f"{value[: aside.start()].strip()} {aside[1].strip()}"
    return value


def names_driving(key: str) -> bool:
    """Whether a key of a JSON object is one that read_pair knows."""
    name = _name(key)
    return bool(_kind(name) or lex.PACE.fullmatch(name) or lex.WAY.fullmatch(name))


def _spelled(key: str) -> str:
    return key.replace("_", " ").strip(" \"'").lower()


def _name(key: str) -> str:
    return _ABOUT.sub("", _spelled(key))


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
    """A number on the axis, also with a side ("0.2 left", "left 0.2", "-0.2 slightly left"), or words of a direction.

    An angle has no meaning on the axis, since the profiles do not define the wheel's largest angle.
    """
    if value in ("neutral", "zero"):
        findings.ways.add("straight")
        return True
    if sided := _SIDED.fullmatch(value):
        return _set_steer(sided, findings)
    if re.search(r"\d", value):
        raise UnclearValue("unknown_unit" if re.search(r"\d ?(?:[^\W\d_]|°)", value) else "unclear_value steer")
    # "hard left" is what "steer hard left" is among words
    for words in (value, f"steer {value}"):
        ways = {lex.WAYS[int((match.lastgroup or "a0")[1:])] for match in lex.WAY.finditer(words)}
        if len(ways) == 1 and not any(pattern.search(words) for pattern in (lex.NOT, lex.MAYBE, lex.CONDITION)):
            findings.ways |= ways
            return True
    return _direction(name, value, findings)


def _set_steer(sided: re.Match[str], findings: PairFindings) -> bool:
    number, side = sided["number"], sided["before"] or sided["after"]
    steer = float(number) / (100 if sided["percent"] else 1)
    if side == {"-": "right", "+": "left"}.get(number[0], ""):
        raise UnclearValue("unclear_value steer")
    steer = -abs(steer) if side == "left" else steer
    if not -1 <= steer <= 1:
        raise UnclearValue("off_scale steer")
    if findings.steer not in (None, steer):
        raise UnclearValue("doubled_key steer")
    findings.steer = steer
    return True


def _speed(name: str, value: str, findings: PairFindings) -> bool:
    number = _NUMERIC.fullmatch(value)
    if name == "pace" and _denies(value) and not number and value != "zero":
        findings.denied = True  # no pace is named, whereas "speed: none" is standing
        return True
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
    if side := re.fullmatch(r"(?:(?:change|switch|move) )?(?:to (?:the )?)?(left|right)(?: lane)?", value):
        findings.ways.add(f"change_{side[1]}")
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


def _handbrake(name: str, value: str, findings: PairFindings) -> bool:
    """Released, it says nothing about the brake pedal."""
    if not _denies(value):
        raise UnclearValue(f"unclear_value {name}")
    return True


_READERS = {
    "throttle": _pedal, "acceleration": _acceleration, "brake": _pedal, "steer": _steer, "speed": _speed,
    "lane": _lane, "direction": _direction, "handbrake": _handbrake,
}  # fmt: skip
