"""Parsing of English driving words to a DrivingInstruction for the current moment, by rules and without guessing.

Contradictory, hedged and purely negated texts raise UnclearInstruction with a stable code. The text is processed clause
by clause. Ignored are questions, conditions ("if", "when"), reasons and purposes ("because", "to avoid"), later actions
("then", "after"), and clauses with another subject ("the car ahead is braking").
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
LONGEST = 4000  # characters that are parsed
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = re.compile(r",\s*|;\s*|:\s+|\bbut\b|\bso\b(?! that| as)|\bwhile\b|\s-\s")
_AND = re.compile(r"\band\b")
_NEVER = float("inf")
_STRENGTH = {"slow": 1, "brake": 2, "stop": 3}


class UnclearInstruction(Exception):
    """The text does not determine one action; the message is one of REASONS."""


@dataclass(frozen=True)
class DrivingInstruction:
    """A parsed driving instruction.

    pace: stop | brake | slow | keep | faster | go (unspecified). way: left | right | change_left | change_right |
    slight_left | slight_right | straight | follow | None. force: hard | soft | "".
    """

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


def parse_instruction(words: str) -> DrivingInstruction:
    """The instruction in a text. Raises UnclearInstruction."""
    answer, unfinished = without_thoughts(words[:LONGEST])
    if unfinished:
        raise UnclearInstruction("unfinished_thought")
    text = re.sub(r" {2,}", " ", lex.THINGS.sub(" something ", plain(answer).lower()))
    findings = _SentenceFindings()
    for sentence in _SENTENCE.split(text):
        _sentence(sentence.strip(), findings)
    if not findings.paces and not findings.ways:
        raise UnclearInstruction(_why_nothing(text, findings))
    return DrivingInstruction(_one_pace(findings.paces), _one_way(findings.ways), findings.force)


def _why_nothing(text: str, findings: _SentenceFindings) -> str:
    if declines(text):
        return "refusal"
    codes = {"hedged": findings.hedged, "conditional": findings.conditional, "negated_only": findings.negated}
    return next((code for code, applies in codes.items() if applies), "no_action")


def _sentence(sentence: str, findings: _SentenceFindings) -> None:
    if not sentence or sentence.endswith("?"):
        return
    if lex.CONDITION.match(sentence):
        findings.conditional = True  # "If a pedestrian appears, stop" is no instruction for now
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
            findings.conditional = True  # "turn right once the pedestrian has crossed"
        elif ours:
            _clause(clause[:cut], findings)
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


def _clause(clause: str, findings: _SentenceFindings) -> None:
    if lex.EITHER_SIDE.search(clause):
        raise UnclearInstruction("several")
    qualifiers = _ClauseQualifiers.of(clause)
    for names, pattern, known in ((lex.PACES, lex.PACE, findings.paces), (lex.WAYS, lex.WAY, findings.ways)):
        for match in pattern.finditer(clause):
            what = names[int((match.lastgroup or "a0")[1:])]
            if not _counts(qualifiers, match, findings):
                continue
            if what == "reverse":
                raise UnclearInstruction("reverse")
            start = match.start()
            if known - {"go", what} and re.search(r"\bor\b[^,]{0,20}\Z", clause[max(0, start - 24) : start]):
                raise UnclearInstruction("several")
            known.add(what)
            findings.force = findings.force if findings.force == "hard" else qualifiers.force or findings.force


@dataclass(frozen=True)
class _ClauseQualifiers:
    """End of the first match of each kind of qualifier in a clause, inf if there is none.

    Searched once per clause, since degenerate replies repeat actions many times.
    """

    denied: float
    joined: float  # the "and" after it
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


def _counts(qualifiers: _ClauseQualifiers, match: re.Match[str], findings: _SentenceFindings) -> bool:
    """Whether the action is instructed: not negated, not merely possible, not something to be ready for."""
    start = match.start()
    if qualifiers.joined <= start:
        raise UnclearInstruction("ambiguous_negation")  # "do not stop and turn left": the scope of "not" is unclear
    if qualifiers.denied <= start or (qualifiers.without <= start and lex.NAMES_AN_ACT.search(match.group())):
        findings.negated = True
        return False
    if qualifiers.maybe <= start:
        findings.hedged = True
        return False
    return not qualifiers.ready <= start


def _one_pace(paces: set[str]) -> str:
    """ "go" is implied by any other pace; of stop, brake and slow the strongest counts; others exclude each other."""
    found = paces - {"go"}
    down = found & set(_STRENGTH)
    if len(found - down) + bool(down) > 1:
        raise UnclearInstruction("contradiction")
    if down:
        return max(down, key=_STRENGTH.__getitem__)
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
