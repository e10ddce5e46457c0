"""Plain driving words (English) -> what is meant for this moment. No model and no guess.

Words that contradict themselves, hedge or only deny are Unclear, with a stable code. Read clause by clause; left out
of account are questions, conditions ("if", "when"), reasons and aims ("because", "to avoid"), what comes later ("then",
"after"), and clauses whose subject is somebody else ("the car ahead is braking").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from closedloop_plugin.interpreters.parsing import lexicon as lex
from lmms_eval_ad2.parsing.normalise import declines, plain, without_thoughts

REASONS = (
    "no_action", "negated_only", "contradiction", "hedged", "conditional", "several", "ambiguous_negation",
    "refusal", "reverse", "unfinished_thought",
)  # fmt: skip
LONGEST = 4000  # characters that are read
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = re.compile(r",\s*|;\s*|:\s+|\bbut\b|\bso\b(?! that| as)|\bwhile\b|\s-\s")
_AND = re.compile(r"\band\b")
_NEVER = float("inf")
_STRENGTH = {"slow": 1, "brake": 2, "stop": 3}


class UnclearInstruction(Exception):
    """The words give no one action; the message is one of REASONS."""


@dataclass(frozen=True)
class DrivingInstruction:
    """pace: stop | brake | slow | keep | faster | go (nothing else said); way: left | right | change_left |
    change_right | slight_left | slight_right | straight | follow | None; force: hard | soft | ""."""

    pace: str = "go"
    way: str | None = None
    force: str = ""


@dataclass
class _SentenceFindings:
    paces: set[str] = field(default_factory=set)
    ways: set[str] = field(default_factory=set)
    negated: bool = False
    conditional: bool = False
    hedged: bool = False
    force: str = ""


def understand(words: str) -> DrivingInstruction:
    """What the words ask for now. Raises Unclear."""
    said, unfinished = without_thoughts(words[:LONGEST])
    if unfinished:
        raise UnclearInstruction("unfinished_thought")
    text = re.sub(r" {2,}", " ", lex.THINGS.sub(" something ", plain(said).lower()))
    heard = _SentenceFindings()
    for sentence in _SENTENCE.split(text):
        _sentence(sentence.strip(), heard)
    if not heard.paces and not heard.ways:
        raise UnclearInstruction(_why_nothing(text, heard))
    return DrivingInstruction(_one_pace(heard.paces), _one_way(heard.ways), heard.force)


def _why_nothing(text: str, heard: _SentenceFindings) -> str:
    if declines(text):
        return "refusal"
    said = {"hedged": heard.hedged, "conditional": heard.conditional, "negated_only": heard.negated}
    return next((code for code, was_said in said.items() if was_said), "no_action")


def _sentence(sentence: str, heard: _SentenceFindings) -> None:
    if not sentence or sentence.endswith("?"):
        return
    if lex.CONDITION.match(sentence):
        heard.conditional = True  # "If a pedestrian appears, stop" says nothing about now
        return
    ours = True  # an imperative's subject is the car
    opens_with_reason = bool(lex.SUBORDINATE.match(sentence))
    for number, clause in enumerate(c.strip() for c in _CLAUSE.split(sentence)):
        if number == 0 and opens_with_reason:
            continue  # "As the light is red, ..."
        tail = lex.TAIL.search(clause)
        cut = tail.start() if tail else len(clause)
        condition = lex.CONDITION.search(clause, 0, cut)
        ours = _is_ours(clause, ours)
        if ours and condition:
            heard.conditional = True  # "turn right once the pedestrian has crossed"
        elif ours:
            _clause(clause[:cut], heard)
        if tail:
            return


def _is_ours(clause: str, before: bool) -> bool:
    """Whether the car itself is the subject; a clause without a subject keeps that of the one before it."""
    lead = lex.LEAD_IN.match(clause)
    bare = clause[lead.end() :] if lead else clause
    if lex.EGO_START.match(clause) or lex.EGO_START.match(bare):
        return True
    if lex.VERB_PART.match(clause):
        return before
    if any(p.match(bare) for p in (lex.ANY_ACTION, lex.NOT, lex.WITHOUT, lex.READY)):
        return True
    return False if lex.OTHER.match(bare) else before


def _clause(clause: str, heard: _SentenceFindings) -> None:
    if lex.EITHER_SIDE.search(clause):
        raise UnclearInstruction("several")
    mood = _ClauseQualifiers.of(clause)
    for names, pattern, known in ((lex.PACES, lex.PACE, heard.paces), (lex.WAYS, lex.WAY, heard.ways)):
        for match in pattern.finditer(clause):
            what = names[int((match.lastgroup or "a0")[1:])]
            if not _counts(mood, match, heard):
                continue
            if what == "reverse":
                raise UnclearInstruction("reverse")
            start = match.start()
            if known - {"go", what} and re.search(r"\bor\b[^,]{0,20}\Z", clause[max(0, start - 24) : start]):
                raise UnclearInstruction("several")
            known.add(what)
            heard.force = heard.force if heard.force == "hard" else mood.force or heard.force


@dataclass(frozen=True)
class _ClauseQualifiers:
    """Where in a clause each kind of reserve ends; looked for once, since a model in a loop repeats actions."""

    denied: float
    joined: float  # the "and" behind it
    without: float
    maybe: float
    ready: float
    force: str

    @classmethod
    def of(cls, clause: str) -> _ClauseQualifiers:
        ends = [_end(p, clause) for p in (lex.NOT, lex.WITHOUT, lex.MAYBE, lex.READY)]
        joined = _end(_AND, clause, int(ends[0])) if ends[0] <= len(clause) else _NEVER
        force = "hard" if lex.HARD.search(clause) else "soft" if lex.SOFT.search(clause) else ""
        return cls(ends[0], joined, ends[1], ends[2], ends[3], force)


def _end(pattern: re.Pattern[str], clause: str, start: int = 0) -> float:
    found = pattern.search(clause, start)
    return found.end() if found else _NEVER


def _counts(mood: _ClauseQualifiers, match: re.Match[str], heard: _SentenceFindings) -> bool:
    """Whether the action is asked for: not denied, not only possible, not to be ready for."""
    start = match.start()
    if mood.joined <= start:
        raise UnclearInstruction("ambiguous_negation")  # "do not stop and turn left": does the "not" reach so far?
    if mood.denied <= start or (mood.without <= start and lex.NAMES_AN_ACT.search(match.group())):
        heard.negated = True
        return False
    if mood.maybe <= start:
        heard.hedged = True
        return False
    return not mood.ready <= start


def _one_pace(paces: set[str]) -> str:
    """Going on is implied by anything else; of stop, brake and slow the strongest counts; the rest excludes itself."""
    said = paces - {"go"}
    down = said & set(_STRENGTH)
    if len(said - down) + bool(down) > 1:
        raise UnclearInstruction("contradiction")
    if down:
        return max(down, key=_STRENGTH.__getitem__)
    return next(iter(said), "go")


def _one_way(ways: set[str]) -> str | None:
    """A slight correction belongs to the manoeuvre of its side, lane keeping to any but a lane change."""
    said = set(ways)
    for side in ("left", "right"):
        if said & {side, f"change_{side}"}:
            said.discard(f"slight_{side}")
    others = said - {"follow"}
    if len(others) > 1 or (len(said) > len(others) and any(w.startswith("change") for w in others)):
        raise UnclearInstruction("contradiction")
    return next(iter(others or said), None)
