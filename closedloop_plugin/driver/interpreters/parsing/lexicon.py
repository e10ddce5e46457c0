"""English driving words of the rule interpreter, as patterns over lower-case text."""

from __future__ import annotations

import re


def _any(*patterns: str) -> str:
    return rf"(?:{'|'.join(patterns)})"


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile(rf"\b{_any(*patterns)}\b")


def _table(rows: dict[str, str]) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Names, and one pattern in which group `a<i>` is name i. At the same position the first alternative matches."""
    return tuple(rows), re.compile("|".join(rf"(?P<a{i}>\b{p}(?!\w))" for i, p in enumerate(rows.values())))


_FEW = r"(?:[\w-]+ ){0,2}?"  # up to two words between
_SOME = r"(?:[\w-]+ ){0,4}?"
_PACE_NOUN = r"(?:speed|pace|velocity)"
_CAR = r"(?:the |our |my )?(?:car|vehicle)"

PACES, PACE = _table(
    {
        "reverse": _any(r"back(?:ing)? up", r"driv(?:e|ing) backwards?", r"revers(?:e|ing)"),
        "keep": _any(
            rf"(?:keep|maintain|hold|continu|retain|stay)(?:e|ing)? {_SOME}{_PACE_NOUN}",
            rf"(?:constant|same|steady|current) {_PACE_NOUN}",
        ),
        "stop": _any(
            rf"com(?:e|ing) to (?:a |an )?{_FEW}(?:stop|halt|standstill)",
            r"stop(?:ping|ped|s)?",
            r"halt(?:ing|ed)?",
            r"standstill",
            r"(?:remain|stay|keep|be)(?:ing)? (?:\w+ )?(?:stationary|still|put|in place)",
            r"stationary",
            r"wait(?:ing)?",
            r"not (?:be )?mov(?:e|ing)",
            r"hold(?:ing)? (?:the |its |your |my )?position",
            r"pull(?:ing)? over",
        ),
        "slow": _any(
            rf"slow(?:ing)?(?: (?:it|{_CAR}))?(?: down)?",
            r"decelerat(?:e|ing|ion)",
            rf"(?:reduc|lower|decreas|drop)(?:e|p?ing)? {_FEW}{_PACE_NOUN}",
            r"eas(?:e|ing) off",
            r"giv(?:e|ing) way",
            r"yield(?:ing)?",
            r"coast(?:ing)?",
            r"(?:releas(?:e|ing)|lift(?:ing)? off) (?:the )?(?:throttle|gas|accelerator)",
        ),
        "brake": _any(r"brak(?:e|es|ing)"),
        "faster": _any(
            r"accelerat(?:e|ing|ion)",
            r"speed(?:ing)? up",
            rf"(?:increas|rais|pick|gain)(?:e|ing)?(?: up)? {_FEW}{_PACE_NOUN}",
            r"(?:go|driv|mov)(?:e|ing)? (?:\w+ )?faster",
            r"full throttle",
        ),
        "go": _any(
            r"(?:go|keep) (?:on|going|driving|moving)",
            r"(?:go|driv|mov|proceed|continu|cruis|advanc|resum|head)(?:e|ing)?",
            r"carry on",
        ),
    }
)

_TO = r"(?:chang|switch|merg|mov|shift|pull)(?:e|es|ing)?"
_AIM = r"(?:steer|veer|drift|nudg|edg|swerv|bear|mov|shift)(?:e|ing)?"
_TURN = r"(?:turn|tak|mak|go)(?:e|ing)?"


def _change(side: str) -> str:
    hand = rf"{side}(?:most)?(?:-hand)?"
    return _any(
        rf"{_TO} {_SOME}(?:lanes? {_FEW}{side}|{hand} lane)",
        rf"{side} lane change",
        rf"lane change {_FEW}{side}",
        rf"merg(?:e|ing) {side}",
        rf"(?:overtak|pass)(?:e|ing)? {_SOME}(?:on|from|via) the {side}",
    )


_SHARP = r"(?:hard|sharp(?:ly)?|full(?:y)?|strong(?:ly)?|all the way|max(?:imum)?)"


def _slight(side: str) -> str:
    return (
        _any(
            rf"{_AIM} (?!(?:[\w-]+ )?{_SHARP}\b){_FEW}{side}(?! {_SHARP}\b)",
            rf"(?:slight(?:ly)?|a (?:little|bit)|gently) {_FEW}{side}",
        )
        + "(?!-hand| lane)"
    )


def _turn(side: str) -> str:
    return _any(
        rf"{_TURN} (?!slight|gently|a (?:little|bit)){_FEW}{side}(?! of way|-hand| lane)(?: turn)?",
        rf"{side} turn",
        rf"{_AIM} {_FEW}{side} {_SHARP}\b",
        rf"(?:{_AIM} )?(?<!brake )(?<!braking )(?<!stop ){_SHARP} (?:to the )?{side}(?! lane|-hand)",
    )


_STRAIGHT_VERB = r"(?:go|driv|keep|continu|proceed|mov|head|stay|steer)(?:e|ing)?"

WAYS, WAY = _table(
    {
        "change_left": _change("left"),
        "change_right": _change("right"),
        "slight_left": _slight("left"),
        "slight_right": _slight("right"),
        "left": _turn("left"),
        "right": _turn("right"),
        "straight": rf"(?:{_STRAIGHT_VERB} {_FEW})?straight(?: (?:ahead|on|forward))?",
        "follow": r"(?:follow|keep|stay|remain|track)(?:ing)?(?: to| in| within)? (?:the |its |this |your |my |our )?"
        r"(?:current |same |own )?(?:road|lane|route|path)",
    }
)
ANY_ACTION = re.compile(f"{PACE.pattern}|{WAY.pattern}".replace("?P<a", "?P<p", len(PACES)))

# --- parts of a sentence that are no command for now ---

# From here to the end of the sentence: an explanation, a purpose or a later action.
TAIL = _words(
    r"because", r"since", r"due to", r"owing to", r"so that", r"so as to", r"in order (?:to|not to|that)",
    r"given (?:that|the)", r"as (?:the|there|it|a|an|we|i|our|no|this)",
    r"to (?:avoid|allow|let|prevent|ensure|give|make sure|be safe|react|reach|comply)", r"for (?:the )?safety",
    r"which", r"who", r"whose", r"until", r"till", r"unless", r"(?:and )?then", r"after(?:wards| that)", r"before",
    r"the reason", r"reason(?:ing)?:",
    r"allowing", r"ensuring", r"otherwise",
    r"later", r"(?<!the )next(?! (?:action|step|man))",
)  # fmt: skip
# "when turning" is a circumstance, "when it is clear" a condition.
CONDITION = _words(
    r"if", r"when(?! (?:approach|turn|pass|driv|enter|cross|near)ing)", r"whenever", r"as soon as", r"once", r"after",
    r"in case", r"provided", r"should (?:the|a|an|any)", r"(?:at|take) the (?:next|upcoming|following|second|third)",
    r"in (?:about )?\d+ ?(?:m|meters?|metres?|km|s|seconds?)",
)  # fmt: skip
SUBORDINATE = re.compile(
    r"\A(?:because|since|as|given|due to|after|before|once|while|with (?:the|a|an|no)|in order to"
    r"|to (?:avoid|allow|let|prevent|ensure|give|be safe))\b"
)
NOT = _words(
    r"(?:do|does|did|should|must|need|can|will) ?not", r"(?:do|does|did|should|must|need|ca|wo|is|are)n't",
    r"not (?:necessary|needed|required|safe|allowed|advisable|recommended|possible|yet)(?: to)?", r"never",
    r"no (?:need|reason|necessity) (?:to|for)", r"unable to", r"not to", r"not", r"no longer", r"refrain from", r"nor",
    r"neither", r"no",
)  # fmt: skip
WITHOUT = _words(
    r"without",
    r"off (?:of )?the(?= brak)",
    r"instead of",
    r"rather than",
    r"avoid(?:ing)?",
    r"prevent(?:ing)?",
    r"than",
    r"releas(?:e|es|ing)",
)
NAMES_AN_ACT = re.compile(r"(?:ing|stops?|brakes?|acceleration|deceleration)\Z")  # can follow WITHOUT
READY = _words(r"(?:be |get )?(?:prepared?|preparing|ready|plan|planning) (?:to|for)")
MAYBE = _words(
    r"maybe", r"perhaps", r"possibly", r"might", r"may", r"could", r"consider(?:ing)?", r"would like", r"probably",
    r"either", r"not sure", r"unsure", r"it depends",
    r"(?:was|were) (?:going|about) to", r"(?:had )?(?:wanted|planned) to",
)  # fmt: skip
EITHER_SIDE = re.compile(r"\b(?:left|right)(?: turn)? or (?:\w+ ){0,3}?(?:left|right)\b")

# --- the subject of a clause ---

_EGO = _any(
    r"(?:the |my |our |your |this )?(?:ego|self-driving|autonomous|own)(?:[- ]?(?:vehicle|car))?",
    r"(?:i|we|you|it)",
    r"(?:the|my|our|your|this) (?:car|vehicle|driver)"
    r"(?= (?:should|must|needs? to|has to|ought to|will|can|is to)\b)",
)
EGO_START = re.compile(rf"\A(?:so |therefore |thus |hence |now |and |also )*{_EGO}(?:'ll|'m|'re)?(?!\w)")
_DEED = (
    r"(?:(?:course of )?action|option|choice|plan|manoeuvre|maneuver|decision|answer|behaviou?r|step|command|control"
    r"|speed|direction)"
)
LEAD_IN = re.compile(
    r"\A(?:"
    + _any(
        r"(?:so|therefore|thus|hence|now|and|also|please|immediately|just|safely|carefully|cautiously|slowly|gently"
        r"|smoothly|gradually|quickly|firmly|hard|first|finally|currently|okay|ok|yes|both|simply|only|still)",
        r"in this (?:situation|case|scene)",
        r"(?:at this moment|right now)",
        rf"(?:the |my |our )?(?:next |safe |best |correct |right |appropriate |safest |final )*{_DEED}"
        r"(?: (?:here|now|to take|at this moment))?(?: (?:is|would be|should be|will be))?:?",
        r"(?:should|must|will|needs? to|has to|have to|ought to|can|is|to)",
        r"let(?:'s| us)",
        r"i(?:'d|'ll| will| would)",
        r"\(?[a-z]\)",
        r"\d{1,2}[.)]",
        r"[-*>\"'(\[]",
    )
    + r"[,:]?(?:\s+|\Z|(?<=[-*>\"'(\[])))+"
)
VERB_PART = re.compile(r"\A(?:should|must|will|needs? to|has to|can|is)\b")
OTHER = re.compile(
    r"\A(?:the|a|an|that|this|these|those|there|another|other|some|any|all|no|one|two|three|several|many|its|his|her"
    r"|their|traffic|oncoming|pedestrians?|vehicles?|cars?|trucks?|cyclists?|people|someone|nobody|lights?|he|she|they)\b"
)
# Objects whose names contain an action.
THINGS = _words(
    r"(?:traffic|the|a) stop (?:sign|line|bar)s?", r"stop(?:ping)? (?:signs?|lines?|distance|bar)",
    r"brak(?:e|ing) (?:lights?|lamps?|distance)",
    r"(?:parked|stopped|stationary|waiting|slow(?:er)?|braking|turning|slow-moving|moving) (?:[a-z]+ )?"
    r"(?:vehicles?|cars?|trucks?|bus(?:es)?|vans?|traffic|pedestrians?|cyclists?)",
    r"waiting (?:area|zone|line)", r"turn(?:ing)? (?:signals?|indicators?|lanes?)", r"speed (?:limit|bump)s?",
    r"straight (?:road|lane|line|section)", r"next to",
)  # fmt: skip
HARD = _words(
    r"hard", r"sudden(?:ly)?", r"immediate(?:ly)?", r"emergency", r"full(?:y)?", r"sharp(?:ly)?", r"abrupt(?:ly)?",
    r"strongly", r"firmly", r"quickly", r"rapid(?:ly)?", r"at once",
)  # fmt: skip
SOFT = _words(
    r"gent(?:ly|le)", r"slight(?:ly)?", r"gradual(?:ly)?", r"soft(?:ly)?", r"smooth(?:ly)?", r"light(?:ly)?",
    r"a (?:little|bit)", r"slowly", r"cautiously", r"carefully", r"(?:with )?caution",
)  # fmt: skip
