"""Layouts of keys and values in a text, rewritten to "key: value, key: value", which key_values.py reads.

Layouts: a blank, a dash or brackets between key and value ("brake 0", "brake - none", "brake(0)"), the value before the
key ("0.4 throttle"), quoted keys, pairs without a separator ("throttle 0.4 brake 0"), rows of keys over rows of values,
check boxes. Without a colon only a value with a meaning makes a pair: "brake 10 m before the line" has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from closedloop_plugin.driver.interpreters.parsing import lexicon as lex
from closedloop_plugin.driver.interpreters.parsing.key_values import AXIS_KEY, CROSS, NUMBER

_NEAR = 40  # characters before a pair that are searched for what it follows
_END = r"(?=\s*(?:[.,;!|)\]}\n]|\Z|and\b)|\s-(?:\s|\Z))"
# Not followed by a unit, by the other end of a range, or by more digits.
_COMPLETE = (
    r"(?![\w%])(?!\.\d|,\d| ?(?:-|~|/|\.\.|to|or) ?[\d.])"
    r"(?! ?(?:°|m/s|km/h|(?:m|met(?:er|re)s?|s|secs?|seconds?|km|ft|feet|yards?|g|n|nm|bar|psi|deg\w*|rad\w*|mph|kmh"
    r"|kph|mps|x|times?)\b))"
)
_PERCENT = r"(?: ?%| percent\b)"
_RANGE = rf"{NUMBER}{_PERCENT}? ?(?:-|~|\.\.|to|or) ?{NUMBER}{_PERCENT}?{_COMPLETE}"  # written with a colon: unread
_ZERO = rf"[+-]?0+(?:\.0+)?{_PERCENT}?{_COMPLETE}"
_SHARE = rf"[+-]?(?:\d?\.\d+{_PERCENT}?|\d{{1,3}}(?:\.\d+)?{_PERCENT}|[01]){_COMPLETE}"
_KEY = rf"(?<![\w'-])(?<!hand )(?<!parking ){AXIS_KEY}(?!\w)"
_LIMITS = r"(?: ?\([^()\n]{0,30}\))?"  # "throttle (0-1)"
_ACT = re.sub(r"\?P<\w+>", "?:", f"(?:{lex.PACE.pattern}|{lex.WAY.pattern})")
# What follows a value is another pair or action; "no braking" and "no throttle" are one phrase.
_NEXT = (
    rf" (?:(?:please |now |just )?(?!\w+ing\b|\w+ion\b|brak|stops?\b|lane|left|right){_ACT}"
    rf"|{_KEY}{_LIMITS}(?: ?[:=(\[]|->| [\d.]))"
)
_END_OR_NEXT = rf"(?:{_END}|(?={_NEXT}))"
# Without words that begin a longer phrase, as "not safe to go" and "no time to lose".
_DENIED = (
    rf"(?:{_ZERO}|(?:none|zero|nil|null|false|off|n/a|never|inactive|unused|released|disengaged|unpressed|untouched"
    r"|not (?:needed|required|necessary|applied|pressed|used|active|engaged))\b"
    rf"(?: (?:at all|whatsoever|needed|required|necessary)\b)?|[{CROSS}]|no(?: need)?\b{_END_OR_NEXT})"
)
_QUOTES = re.compile(r"\"|(?<![a-z])'(?=[^'\n]{1,40}'(?![a-z]))|(?<=[\w.%])'(?=\s?[:=,;}])")
_ARROWS = re.compile(r"\s?(?:→|[=-]+>)\s?")
_EQUALS = re.compile(r"\s?(?::=|==+|≈)\s?")
_IS_NOT = re.compile(r"\b(is|are)n'?t\b")
_STAYS = re.compile(rf"({_KEY}) (?:stays?|remains?|equals?|(?:is |be |stays )?(?:kept|held))(?: at)? ")
_NEXT_LINE = re.compile(rf"({_KEY}{_LIMITS} ?[:=](?= ?\n+ ?\S)|{_ACT} ?[:=](?= ?\n+ ?{_DENIED})) ?\n+ ?")
_MEMBER = re.compile(rf"(?<=[a-z])\.(?={AXIS_KEY}\b)")  # "vehicle.brake = 0"
_OPENED = re.compile(rf"[(\[{{<] ?(?={_KEY}{_LIMITS}(?: ?[:=]| {_DENIED}| {_SHARE}))")
_BOX = re.compile(
    r"(?m)^ {0,3}(?:[-*+•] |\d{1,2}[.)] )?(?:\[(?P<tick>[ x✓✔]?)\]|☐|□|(?P<on>[☑☒✅])) ?(?P<what>[^\n]{1,60})$"
)

_CELL = rf"(?:{NUMBER} ?%?|none|zero|off)"
_NEXT_CELL = r"(?: ?[,/|;] ?| and | )"
_ROWS = re.compile(
    rf"[(\[|]? ?(?P<keys>{_KEY}(?:{_NEXT_CELL}{_KEY}){{1,3}}) ?[)\]|]?(?: ?[:=] ?| are | ?\n[-|: ]*\n?)"
    rf"[(\[|]? ?(?P<cells>{_CELL}(?:{_NEXT_CELL}{_CELL}){{1,3}})(?![\w.%]) ?[)\]|]?"
)
_WITH = re.compile(
    rf"\bwith (?=(?:an? |the )?(?:\d?\.\d+|\d+{_PERCENT}|0|zero|no) (?:of )?{_KEY}|{_KEY}{_LIMITS} ?(?:[:=]|is\b|at\b))"
)
_STEER_BY = re.compile(
    r"\bsteer(?:ing)? (?:(?:slight|gent|sharp)(?:ly|le)? |hard |a (?:bit|little) )?(?:to the )?"
    rf"(?:(?P<side>left|right)(?: by| at)? ?\(?(?P<number>{NUMBER} ?%?)"
    rf"|(?:by |at )?(?P<first>{NUMBER} ?%?) (?:to the )?(?P<then>left|right)){_COMPLETE}\)?"
)
_STEER_ANGLE = re.compile(
    r"\b(?:steer(?:ing)?|(?:steering )?wheel)(?= )"
    rf"(?P<angle>[^,.;:\n]{{0,30}}?{NUMBER} ?(?:°|deg(?:ree)?s?\b|rad(?:ian)?s?\b))"
)
_PAIR = re.compile(
    rf"(?<![\w.:=-])(?<![:=] )(?P<value_first>\d?\.\d+|\d{{1,3}}{_PERCENT}|0|zero) (?:of )?(?P<key_after>{_KEY})"
    rf"|(?P<key>{_KEY})(?:"
    rf"{_LIMITS} ?(?::|=|->|is\b|at\b) ?(?P<denied>{_DENIED})"
    rf"| ?[(\[{{<] ?(?:[a-z]{{1,12}} ?[=:] ?)?(?P<inside>{_DENIED}|{NUMBER}{_PERCENT}?) ?[)\]}}>](?! ?[:=])"
    rf"|(?: - |- ?| -(?=[a-z]))(?P<dashed>{_DENIED}|{_SHARE})"
    rf"|\s(?P<beside>{_DENIED}|{_SHARE}|{_RANGE}))"
    rf"|(?P<act>{_ACT})(?: ?[(\[] ?(?P<act_inside>{_DENIED}) ?[)\]]"
    rf"|(?: - ?| ?(?::|=|->) ?| is | )(?P<act_beside>{_DENIED}){_END_OR_NEXT})"
)
_SIGN = re.compile(rf"(?P<key>{_KEY}{_LIMITS}) ?(?::|=|->) ?(?!{_DENIED})")
_BEFORE_AN_ACT = re.compile(rf"(?P<pair>{_KEY} ?(?::|=|->) ?(?:{_DENIED}|{_SHARE})|{_ACT}: {_DENIED})(?={_NEXT})")

_SEPARATED = re.compile(r"(?:[,;|.!?:\n(\[{<>*•-]|\d[.)]|\band)\s*\Z")
_NEGATED = re.compile(r"(?:\b(?:not|no|never|without|avoid|or|nor|than)|n't)\s\Z")
_VALUE_BEFORE = re.compile(
    r"(?:\d\.?|%|°|/[sh]|\b(?:percent|none|no|zero|off|on|yes|true|false|left|right|straight|ahead|forward|hard|full"
    r"|gent(?:le|ly)|light(?:ly)?|medium|moderate(?:ly)?|maintain|keep|constant|steady|slow(?:ly)?|fast|deg(?:ree)?s?|neutral|with))\)?\s\Z"
)
_ACTS = re.compile(_ACT)
_FOLLOWED = re.compile(_NEXT)


def with_colons(text: str) -> str:
    """Lower-case plain text with its pairs as "key: value", set apart from each other and from actions by commas."""
    text = _EQUALS.sub(": ", _ARROWS.sub(" -> ", _IS_NOT.sub(r"\1 not", _QUOTES.sub("", text.replace("_", " ")))))
    text = _WITH.sub("and ", text.replace("&", " and "))
    text = _NEXT_LINE.sub(r"\1 ", _MEMBER.sub(". ", _BOX.sub(_box, text)))
    text = _STAYS.sub(r"\1 is ", _OPENED.sub(", ", _ROWS.sub(_row, text)))
    text = _STEER_BY.sub(lambda m: f"steer: {m['number'] or m['first']} {m['side'] or m['then']}", text)
    text = _rewritten(_PAIR, _STEER_ANGLE.sub(r", steer: \g<angle>", text), _pair)
    text = _rewritten(_SIGN, text, lambda match: (match.group(), False))
    return _BEFORE_AN_ACT.sub(r"\g<pair>,", text)


def _box(match: re.Match[str]) -> str:
    ticked = match["on"] or (match["tick"] or "").strip()
    return match["what"] if ticked else f"{match['what'].rstrip(' .')}: no"


def _row(match: re.Match[str]) -> str:
    keys = re.findall(_KEY, match["keys"])
    cells = re.findall(_CELL, match["cells"])
    if len(keys) != len(cells):
        return match.group()
    return ", " + ", ".join(f"{key}: {cell}" for key, cell in zip(keys, cells, strict=True)) + ", "


def _pair(match: re.Match[str]) -> tuple[str, bool]:
    """The pair with a colon, and whether it may be set apart from any text: a denial denies its own key only."""
    # Another pair may follow at once: "stop (no) throttle: 0.4". So may a condition, which stays in this part.
    comma = "," * bool(_FOLLOWED.match(match.string, match.end()))
    if match["key_after"]:
        return f"{match['key_after']}: {match['value_first']}", True
    if match["act"]:
        return f"{match['act']}: {match['act_inside'] or match['act_beside']}{comma}", True
    if match["denied"]:
        return f"{match.group()}{comma}", True
    value = match["inside"] or match["dashed"] or match["beside"]
    denied = re.fullmatch(_DENIED, value) is not None
    if match["dashed"] and match["key"].startswith("steer") and not denied and value[0] not in "+-":
        value = f"- {value}"  # "steer - 0.1": a dash or a minus sign; unread
    return f"{match['key']}: {value}{comma}", denied


def _rewritten(pattern: re.Pattern[str], text: str, write: Callable[[re.Match[str]], tuple[str, bool]]) -> str:
    """The text with each match as `write` gives it, after a comma where a pair begins within a part of the text."""

    def one(match: re.Match[str]) -> str:
        before = text[max(0, match.start() - _NEAR) : match.start()]
        if _NEGATED.search(before):
            return match.group()
        written, apart = write(match)
        if not before or _SEPARATED.search(before):
            return written
        return ", " + written if apart or _VALUE_BEFORE.search(before) or _ends_with_act(before) else written

    return pattern.sub(one, text)


def _ends_with_act(before: str) -> bool:
    return any(match.end() == len(before.rstrip()) for match in _ACTS.finditer(before))
