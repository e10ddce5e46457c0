"""Parsing of English driving words, clause by clause: paces, ways and a wanted speed.

Ignored are questions, conditions ("if", "when"), reasons and purposes ("because", "to avoid"), later actions ("then",
"after"), and clauses with another subject ("the car ahead is braking"). Negated and hedged actions are noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from closedloop_plugin.driver.interpreters.parsing import lexicon as lex
from closedloop_plugin.driver.interpreters.parsing.key_values import (
    NUMBER,
    SPEED_UNIT,
    PairFindings,
    read_part,
    speed_ms,
)
from closedloop_plugin.driver.interpreters.parsing.layouts import with_colons
from lmms_eval_ad2.parsing.attributed import without_attributed
from lmms_eval_ad2.parsing.normalise import plain

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_CLAUSE = re.compile(r",\s*|;\s*|:\s+|\bbut\b|\bso\b(?! that| as)|\bwhile\b|\s-\s")
_AND = re.compile(r"\band\b")
_PART = re.compile(r"(\s*(?:(?<!\d),|,(?!\d)|[;|])\s*|\s+(?:/|-|and)(?:\s+|\Z))")  # not at the comma of "0,4"
_TARGET = re.compile(
    rf"\b(?:to|at|of|around|about|below|under)(?: (?:a (?:speed|pace) of|about|around))? "
    rf"(?:(?P<number>{NUMBER}) ?(?P<unit>{SPEED_UNIT})|(?P<zero>0|zero)(?![\w.]))"
)
_ROW = re.compile(r"(?m)^ {0,8}\| {0,20}([^|\n]{1,40}?) {0,20}\| {0,20}([^|\n]{1,60}?) {0,20}\|")  # of a Markdown table
_REPORTED = re.compile(r"(?:driving|going|moving|proceeding|cruising|heading)\Z")
_EXAMPLE = re.compile(r"\W*(?:for )?(?:example|instance)\b|\W*e\.g\.")
_OPTION = re.compile(r"(?:\A|(?<=[.;,\n] ))\W?(?:option|choice) ([a-d1-4]) ?[:.)-]")  # "Option A: stop. Option B: go."
# "Stop. No, wait, go." A bare "wait" is an action.
_TAKEN_BACK = re.compile(
    r"\b(?:no,? (?:wait|actually)|(?:wait|actually),? no|scratch that|correction|on second thoughts?|i meant?)\b"
    r"[,:.]?(?=\s*\w)"
)
STRENGTH = {"slow": 1, "brake": 2, "stop": 3}
_NEVER = float("inf")


class UnclearInstruction(Exception):
    """The text does not determine one action; the message is one of REASONS."""


@dataclass
class TextFindings:
    """What a text says so far. paces, ways: names of the lexicon. negated, conditional, hedged: some action is."""

    paces: set[str] = field(default_factory=set)
    ways: set[str] = field(default_factory=set)
    negated: bool = False
    conditional: bool = False
    hedged: bool = False
    force: str = ""
    pairs: PairFindings = field(default_factory=PairFindings)


def read_text(answer: str, findings: TextFindings) -> None:
    """Add what a text says to `findings`. Raises UnclearInstruction; UnclearValue for a value without a meaning."""
    text = without_attributed(plain(answer)).lower()
    text = text[max((found.end() for found in _TAKEN_BACK.finditer(text)), default=0) :]
    if len(set(_OPTION.findall(text))) > 1:
        raise UnclearInstruction("several")
    text = re.sub(r" {2,}", " ", lex.THINGS.sub(" something ", text))
    text = _ROW.sub(r"\1: \2\n", with_colons(text))
    for sentence in _SENTENCE.split(text):
        _sentence(sentence.strip(), findings)


def _sentence(sentence: str, findings: TextFindings) -> None:
    if not sentence or sentence.endswith("?") or _EXAMPLE.match(sentence):
        return
    if lex.CONDITION.match(sentence):
        findings.conditional = True  # "If a pedestrian appears, stop" is no instruction for now
        return
    sentence = _without_pairs(sentence, findings)
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


def _without_pairs(sentence: str, findings: TextFindings) -> str:
    """The sentence without its key-value parts, which are added to the findings.

    A reason or a later action ends them ("Brake: none because ..."), unless a reason opens the sentence. A part with a
    condition is noted only, and the pairs after it count only as denials ("Brake if needed, throttle: 0").
    """
    parts = _PART.split(sentence)
    kept, conditional = "", False
    for number, (part, sign) in enumerate(zip(parts[::2], [*parts[1::2], ""], strict=True)):
        if number == 0 and lex.SUBORDINATE.match(part):
            kept += part + sign
            continue
        tail, condition = lex.TAIL.search(part), lex.CONDITION.search(part)
        said = part[: tail.start()] if tail else part
        if condition:
            pair = read_part(part[: condition.start()], PairFindings())
            findings.conditional |= pair
            conditional = True
            kept += "" if pair else part + sign
        elif conditional:
            kept += "" if _denied_or_conditional(said, findings) else part + sign
        elif tail:
            return kept if read_part(said, findings.pairs) else kept + "".join(parts[2 * number :])
        elif not read_part(said, findings.pairs):
            kept += part + sign
    return kept


def _denied_or_conditional(part: str, findings: TextFindings) -> bool:
    """Whether a part after a condition is a pair. It is noted as a denial, or as what the condition may cover."""
    pairs = PairFindings()
    if not read_part(part, pairs):
        return False
    denies = pairs.denied and not (pairs.paces or pairs.ways or any(pairs.pedals.values()))
    findings.pairs.denied |= denies
    findings.conditional |= not denies
    return True


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


def _clause(clause: str, findings: TextFindings) -> None:
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
            if what in ("slow", "faster", "keep") or (what == "go" and not _REPORTED.match(match.group())):
                _target(clause[match.end() :], findings)
            findings.force = findings.force if findings.force == "hard" else qualifiers.force or findings.force


def _target(rest: str, findings: TextFindings) -> None:
    """The wanted speed after an action: "slow down to 20 km/h"."""
    found = _TARGET.search(rest[:80])
    if found:
        findings.pairs.speeds.add(0.0 if found["zero"] else speed_ms(found["number"], found["unit"]))


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


def _counts(qualifiers: _ClauseQualifiers, match: re.Match[str], findings: TextFindings) -> bool:
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
