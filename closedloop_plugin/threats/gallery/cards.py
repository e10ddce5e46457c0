"""A card of the gallery: all that the template shows of one scenario. Texts are cut here, and escaped there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

from closedloop_plugin.threats.gallery.pictures import marks_of, moment_file, range_bar, thumbnail, top_view
from closedloop_plugin.threats.gallery.read import Gallery, Parameter, Scenario, State
from closedloop_plugin.threats.gallery.runs import Driven, Fate, label_of
from closedloop_plugin.threats.transcript import Attempt
from closedloop_plugin.threats.words import sentence

# Bytes shown at most, so that 220 scenarios stay under 12 MB whatever was said.
QUESTION, ANSWER, PROGRAM = 1200, 2000, 6000
ATTEMPTS, PROBLEMS = 3, 4  # the last attempts, and of each the first problems
# Those that turn the direction of writing, and those that nobody sees.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
LOOKS = {
    State.PASSED: "good", State.FAILED: "bad", State.CHANGED: "warn", State.UNCHECKED: "quiet", State.NOT_MADE: "quiet",
}  # fmt: skip
FATES = {Fate.SURVIVED: "good", Fate.FAILED: "bad", Fate.NOT_SCORED: "warn", Fate.NOT_DRIVEN: "quiet"}


def card(s: Scenario, gallery: Gallery, driven: Sequence[Driven]) -> dict[str, Any]:
    """All that the template shows of a scenario; every text in it is escaped there."""
    spec, site = s.spec, s.transcript.site if s.transcript else None
    fates = [_fate(d, s) for d in driven]
    judged = s.verdict is not None  # of this very program: so are the check's pictures
    place = (site.scenario, site.town) if site else (f"{s.route[0]} {s.route[1]}",) if s.route else ()
    return {
        "name": s.name, "place": " · ".join(clip(p, 60) for p in place), "state": s.state, "looks": LOOKS[s.state],
        "reason": clip(s.reason, 500), "left_out": clip(s.left_out, 300),
        "troubles": [clip(t, 400) for t in s.troubles], "survived": _survived(s),
        "picture": thumbnail(gallery.folder, s.name, judged),
        "top": top_view(moment_file(gallery.folder, s.name)) if judged else "",
        "sentence": sentence(spec) if spec else clip(s.said_first, 400) or "No description.",
        "behaviour": word(spec.behaviour.value) if spec else "",
        "adversary": word(spec.adversary.value) if spec else "",
        "weakness": spec.weakness.value if spec else "",
        "occluder": word(spec.occluder.value) if spec and spec.occluder.value != "none" else "",
        "words": _words(s), "parameters": [_parameter(p, s, driven) for p in s.parameters], "fates": fates,
        "failed": " ".join(str(i) for i, f in enumerate(fates) if f["fate"] is Fate.FAILED),
        "driven": any(f["fate"] in (Fate.FAILED, Fate.SURVIVED) for f in fates),
        "scores": " ".join(f["sort"] for f in fates), "program": clip(s.program, PROGRAM), "details": _details(s),
    }  # fmt: skip


def _survived(s: Scenario) -> str:
    if s.verdict is None or not s.verdict.tries:
        return ""
    return f"{clip(s.judge, 60)} survived {s.verdict.survived} of {s.verdict.tries} draws"


def _words(s: Scenario) -> dict[str, str] | None:
    """What the fuser wrote, and who that is."""
    last = s.transcript.last if s.transcript else None
    if last is None:
        return None
    text = (last.spec.description if last.spec else last.description).strip()
    why = last.spec.why.strip() if last.spec else ""
    who = label_of(last.fuser)
    rules = who == "rules"
    by = "Why, by the rules (no model)" if rules else f"In the words of the model {clip(who, 80)}"
    if rules and last.spec:  # it repeats our own sentence
        text = ""
    return {"by": by, "text": clip(text, 600), "why": clip(why, 600)} if text or why else None


def _fate(driven: Driven, s: Scenario) -> dict[str, Any]:
    outcome = driven.of(s.name)
    several = f" {outcome.failures} of {outcome.scored}" if outcome.scored > 1 and outcome.failures else ""
    return {
        "label": clip(driven.label, 60), "fate": outcome.fate, "looks": FATES[outcome.fate],
        "text": outcome.fate.value + several, "first": clip(outcome.first, 200),
        "score": "" if outcome.score is None else f"{outcome.score:.1f}",
        "sort": "-" if outcome.score is None else f"{outcome.score:.3f}",
    }  # fmt: skip


def _parameter(p: Parameter, s: Scenario, driven: Sequence[Driven]) -> dict[str, str]:
    marks = marks_of(p.name, s.verdict.drawn if s.verdict else {}, "expert")
    drawn = [(d.label, draw, survived) for d in driven for draw, survived in d.of(s.name).draws]
    tips = [f"{s.judge} survived with {mark.value:.4g}" for mark in marks]
    for label, draw, survived in drawn:
        own = marks_of(p.name, draw, "survived" if survived else "failed")
        marks += own
        tips += [f"{label} {mark.looks} with {mark.value:.4g}" for mark in own]
    free = p.low is not None and p.high is not None
    text = f"{p.low:g} to {p.high:g}" if free else p.value
    bar = range_bar(p.low, p.high, marks) if p.low is not None and p.high is not None else ""
    return {
        "name": p.name,
        "note": clip(p.note, 120),
        "text": clip(text, 80),
        "bar": bar,
        "tip": clip("; ".join(tips), 600),
    }


# -- what opens below it -------------------------------------------------------------------------------------------


def _details(s: Scenario) -> dict[str, Any] | None:
    t = s.transcript
    if t is None:
        return None
    return {
        "file": f"transcripts/{s.name}.json",
        "who": label_of(t.interview.agent),
        "said": t.interview.source == "said",
        "answers": [
            (a.stage, clip(a.question, QUESTION), clip(a.text, ANSWER), clip(a.error or "", 400))
            for a in t.interview.answers
        ],
        "attempts": [_attempt(a) for a in t.attempts[-ATTEMPTS:]],
        "earlier": max(len(t.attempts) - ATTEMPTS, 0),
    }  # fmt: skip


def _attempt(a: Attempt) -> dict[str, Any]:
    came = f"refused: {a.refused or 'no reason is kept'}" if a.spec is None else "made"
    if a.spec is not None and a.verdict is not None:
        came = "made, passes the check" if a.verdict.passed else f"made, fails the check: {a.verdict.reason}"
    last = a.exchanges[-1] if a.exchanges else None
    calls = Counter(e.purpose for e in a.exchanges)
    return {
        "head": f"{a.number + 1}. {label_of(a.fuser)}, seed {a.seed}",
        "came": clip(came, 500),
        "calls": ", ".join(f"{n} × {purpose}" for purpose, n in calls.items()),
        "reply": clip(last.reply, ANSWER) if last else "",
        "problems": [clip(p, 300) for p in last.problems[:PROBLEMS]] if last else [],
        "error": clip(last.error or "", 300) if last else "",
    }


def clip(text: str, most: int) -> str:
    """At most so many bytes as the page will hold them, and what is lacking. Hidden characters are spelt out."""
    shown, room = visible(text[: 2 * most]), most
    for i, character in enumerate(shown):
        room -= len(escape(character).encode(errors="replace"))
        if room < 0:
            return f"{shown[:i]} … ({len(text)} characters, cut here)"
    return shown


def visible(value: Any) -> Any:
    """Text with control characters and those that turn the writing direction spelt out, as in "[U+202E]"."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", value.replace("\r\n", "\n"))


def word(value: str) -> str:
    """An enum's value as one reads it."""
    return value.replace("_", " ")
