"""`ad2 threats gallery`: one self-contained page about a folder of scenarios, and which drivers failed in them.

The page loads no external resources. Text of models is untrusted: the template escapes all of it, control characters
and bidirectional overrides are shown as code points, and the content security policy (CSP) admits only the page's own
style and script, by hash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.threats.gallery import runs as gallery_runs
from closedloop_plugin.threats.gallery import scenarios as gallery_read
from closedloop_plugin.threats.gallery.driven import drive_line, moment_rows, round_chip, round_rows, round_tiles
from closedloop_plugin.threats.gallery.pictures import marks_of, moment_file, range_bar, thumbnail, top_view
from closedloop_plugin.threats.gallery.runs import FAILED, FAILED_WITH_THREAT, GalleryRun, SurvivalStatus, label_of
from closedloop_plugin.threats.gallery.scenarios import (
    GalleryScenario,
    ProgramParameter,
    ScenarioCheckState,
    ThreatGallery,
)
from closedloop_plugin.threats.gallery.texts import clip
from closedloop_plugin.threats.spec import ContradictorySign, ThreatSpec
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import ThreatAttempt
from lmms_eval_ad2.report.page.html_page import HtmlPage
from lmms_eval_ad2.storage.code_state import code_label

# Maximum bytes of a text, so that a page of 220 scenarios stays under 12 MB.
REPLY, PROGRAM = 2000, 6000
ATTEMPTS, PROBLEMS = 3, 4  # last attempts shown, and first problems of each
STATE_CLASSES = {
    ScenarioCheckState.PASSED: "good",
    ScenarioCheckState.FAILED: "bad",
    ScenarioCheckState.CHANGED: "warn",
    ScenarioCheckState.UNCHECKED: "quiet",
    ScenarioCheckState.NOT_MADE: "quiet",
}
STATUS_CLASSES = {
    SurvivalStatus.SURVIVED: "good",
    SurvivalStatus.FAILED_BY_THREAT: "bad",
    SurvivalStatus.FAILED_BY_BOTH: "bad",
    SurvivalStatus.FAILED_BY_STANDARD: "warn",
    SurvivalStatus.FAILED_BY_ITSELF: "warn",
    SurvivalStatus.NOT_SCORED: "quiet",
    SurvivalStatus.NOT_DRIVEN: "quiet",
}


PAGE = HtmlPage(__package__, "gallery", "the gallery")


def write(folder: Path, out: Path, runs: Sequence[Path] = ()) -> ThreatGallery:
    """Write the page of `folder` to `out` atomically; return the gallery. `runs`: see gallery/runs.py.

    Raises MissingExtra without Jinja2; Ad2Error for a folder without scenarios, a run of another suite, or an
    unwritable path.
    """
    gallery = gallery_read.read(folder)
    text = page(gallery, gallery_runs.read(folder, runs))
    PAGE.write(out, text)
    return gallery


def page(gallery: ThreatGallery, driven: Sequence[GalleryRun] = ()) -> str:
    """The page as HTML text."""
    cards = [card(s, gallery, driven) for s in gallery.scenarios]
    values = {
        "version": code_label(),
        "name": gallery.name, "facts": _facts(gallery.about), "tiles": _tiles(gallery), "cards": cards,
        "runs": [_run(d, gallery) for d in driven], "behaviours": _behaviours(gallery, driven),
        "not_driven": _not_driven(gallery),
        "filters": {key: sorted({c[key] for c in cards if c[key]}) for key in ("behaviour", "adversary", "weakness")},
        "states": [s for s in ScenarioCheckState if any(c["state"] == s for c in cards)],
    }  # fmt: skip
    return PAGE.render(values)


# -- header --------------------------------------------------------------------------------------------------------


def _facts(about: Mapping[str, Any]) -> dict[str, str]:
    """Facts of suite.json in display order; {} for a folder of the user's own programs."""
    found = {
        "base suite": about.get("base"),
        "interviewed": label_of(about["agent"]) if about.get("agent") else None,
        "fuser": label_of(about["fuser"]) if about.get("fuser") else None,
        "seed": about.get("seed"),
        "profile": about.get("profile"),
        "world": str(about["world"]).rsplit(":", 1)[-1] if about.get("world") else None,
        "made with": f"lmms-eval-ad2 {_made_with(about)}" if about.get("version") else None,
    }
    if about.get("finished") is False:
        found["state"] = "not finished: run the same ad2 threats generate again to resume"
    return {k: clip(str(v), 200) for k, v in found.items() if v not in (None, "")}


def _made_with(about: Mapping[str, Any]) -> str:
    return code_label(str(about["version"]), str(about.get("commit") or ""))


def _tiles(gallery: ThreatGallery) -> list[tuple[str, str, str]]:
    """(figure, label, CSS class) of the header's counts."""
    states = Counter(s.state for s in gallery.scenarios)
    made = len(gallery.scenarios) - states[ScenarioCheckState.NOT_MADE]
    checked = states[ScenarioCheckState.PASSED] + states[ScenarioCheckState.FAILED]
    share = f" ({100 * states[ScenarioCheckState.PASSED] / checked:.1f} % of {checked} checked)" if checked else ""
    left_out = sum(bool(s.left_out) for s in gallery.scenarios if s.state is not ScenarioCheckState.NOT_MADE)
    refused = sum(a.spec is None for s in gallery.scenarios if s.transcript for a in s.transcript.attempts)
    tiles = [
        (str(made), f"scenarios made, of {len(gallery.scenarios)}", ""),
        (str(states[ScenarioCheckState.PASSED]), f"pass the check{share}", "good"),
        (str(left_out), "left out of the suite", "warn" if left_out else ""),
        (str(states[ScenarioCheckState.NOT_MADE]), "not made", "warn" if states[ScenarioCheckState.NOT_MADE] else ""),
        (str(refused), "attempts refused", ""),
        *round_tiles(gallery),
    ]
    pending = states[ScenarioCheckState.UNCHECKED] + states[ScenarioCheckState.CHANGED]
    return [*tiles, (str(pending), "not checked, or changed since", "warn")] if pending else tiles


def _not_driven(gallery: ThreatGallery) -> list[tuple[str, str, str]]:
    """(scenario, reason, kind) of the scenarios that are not part of the suite."""
    found = []
    for s in gallery.scenarios:
        if s.state is ScenarioCheckState.NOT_MADE:
            found.append((s.name, clip(s.reason, 400) or "no reason stored", "not made"))
        elif s.left_out:
            found.append((s.name, clip(s.left_out, 400), "left out"))
    return found


def _run(driven: GalleryRun, gallery: ThreatGallery) -> dict[str, Any]:
    """A row of the header's table: counts by status over the scenarios of the suite."""
    scenarios = _in_suite(gallery)
    outcomes = [driven.of(s.name) for s in scenarios]
    counts = Counter(o.status for o in outcomes)
    scores = [o.score for o in outcomes if o.score is not None]
    edge, bars = 0.0, []
    for status in SurvivalStatus:
        width = 100 * counts[status] / max(len(scenarios), 1)
        bars.append((round(edge, 2), round(width, 2), STATUS_CLASSES[status]))
        edge += width
    return {
        "label": clip(driven.label, 80), "setting": clip(driven.setting, 200), "bars": bars, "n": len(scores),
        "counts": [(status.value, counts[status], STATUS_CLASSES[status]) for status in SurvivalStatus],
        "score": f"{sum(scores) / len(scores):.1f}" if scores else "–",
    }  # fmt: skip


def _in_suite(gallery: ThreatGallery) -> list[GalleryScenario]:
    return [s for s in gallery.scenarios if s.program and not s.left_out]


def _behaviours(gallery: ThreatGallery, driven: Sequence[GalleryRun]) -> list[dict[str, Any]]:
    """Failures of each driver by behaviour; a cell is (failed by the threat or by both, scored, share in tenths, None
    if none was scored)."""
    groups: dict[str, list[GalleryScenario]] = {}
    for s in _in_suite(gallery):
        groups.setdefault(word(s.spec.behaviour.value) if s.spec else "custom", []).append(s)
    rows = []
    largest = max((len(members) for members in groups.values()), default=1)
    for name, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        cells = []
        for d in driven:
            scored = [o for o in (d.of(s.name) for s in members) if o.scored]
            failed = sum(o.status in FAILED_WITH_THREAT for o in scored)
            cells.append((failed, len(scored), round(10 * failed / len(scored)) if scored else None))
        share = round(100 * len(members) / largest, 1)
        rows.append({"name": name, "n": len(members), "share": share, "cells": cells})
    return rows


# -- cards: texts are cut here and escaped in the template -------------------------------------------------------------


def card(s: GalleryScenario, gallery: ThreatGallery, driven: Sequence[GalleryRun]) -> dict[str, Any]:
    """The template's data of a scenario; the template escapes every text."""
    spec, site = s.spec, s.transcript.site if s.transcript else None
    outcomes = [_outcome(d, s) for d in driven]
    # A verdict is of this version of the program, like the check's pictures.
    moment = moment_file(gallery.folder, s.name, s.verdict) if s.verdict else None
    frames = s.transcript.interview.frames if s.transcript else ()
    place = (site.scenario, site.town) if site else (f"{s.route[0]} {s.route[1]}",) if s.route else ()
    return {
        "name": s.name, "place": " · ".join(clip(p, 60) for p in place),
        "state": s.state, "css_class": STATE_CLASSES[s.state],
        "reason": clip(s.reason, 500), "left_out": clip(s.left_out, 300),
        "problems": [clip(t, 400) for t in s.problems], "survived": _survived(s),
        "picture": thumbnail(gallery.folder, s.name, moment, frames),
        "rounds": round_chip(s.transcript),
        "top": top_view(moment) if moment else "",
        "sentence": sentence(spec) if spec else clip(s.docstring, 400) or "No description.",
        "behaviour": word(spec.behaviour.value) if spec else "",
        "adversary": word(spec.adversary.value) if spec else "",
        "weakness": spec.weakness.value if spec else "",
        "more": _more(spec) if spec else [],
        "occluder": word(spec.occluder.value) if spec and spec.occluder.value != "none" else "",
        "words": _words(s), "parameters": [_parameter(p, s, driven) for p in s.parameters], "outcomes": outcomes,
        "failed": " ".join(str(i) for i, o in enumerate(outcomes) if o["status"] in FAILED_WITH_THREAT),
        "driven": any(o["status"] in {*FAILED, SurvivalStatus.SURVIVED} for o in outcomes),
        "scores": " ".join(o["sort"] for o in outcomes), "program": clip(s.program, PROGRAM),
        "details": _details(s, gallery.folder),
    }  # fmt: skip


def _more(spec: ThreatSpec) -> list[str]:
    """Further actors, and conditions of the pictures."""
    sign = spec.perception.contradictory_sign
    further = [f"and {word(actor.behaviour.value)}: {word(actor.adversary.value)}" for actor in spec.further]
    plate = [] if sign is ContradictorySign.NONE else [f"sign: {word(sign.value)}"]
    return further + [word(name) for name in spec.perception.numbers] + plate


def _survived(s: GalleryScenario) -> str:
    if s.verdict is None or not s.verdict.tries:
        return ""
    others = f", {s.verdict.others_survived} of {s.verdict.others} others" if s.verdict.others else ""
    return f"{clip(s.judge, 60)} survived {s.verdict.survived} of {s.verdict.tries} draws{others}"


def _words(s: GalleryScenario) -> dict[str, str] | None:
    """The fuser's description and reason, with the fuser's name."""
    last = s.transcript.last if s.transcript else None
    if last is None:
        return None
    text = (last.spec.description if last.spec else last.description).strip()
    why = last.spec.why.strip() if last.spec else ""
    fuser = label_of(last.fuser)
    rules = fuser == "rules"
    by = "Why, by the rules (no model)" if rules else f"In the words of the model {clip(fuser, 80)}"
    if rules and last.spec:  # the description repeats the sentence shown above
        text = ""
    return {"by": by, "text": clip(text, 600), "why": clip(why, 600)} if text or why else None


def _outcome(driven: GalleryRun, s: GalleryScenario) -> dict[str, Any]:
    outcome = driven.of(s.name)
    several = f" {outcome.failures} of {outcome.scored}" if outcome.scored > 1 and outcome.failures else ""
    return {
        "label": clip(driven.label, 60), "status": outcome.status, "css_class": STATUS_CLASSES[outcome.status],
        "text": outcome.status.value + several, "first": clip(outcome.first, 200),
        "score": "" if outcome.score is None else f"{outcome.score:.1f}",
        "sort": "-" if outcome.score is None else f"{outcome.score:.3f}",
    }  # fmt: skip


def _parameter(p: ProgramParameter, s: GalleryScenario, driven: Sequence[GalleryRun]) -> dict[str, str]:
    marks = marks_of(p.name, s.verdict.drawn if s.verdict else {}, "expert")
    drawn = [(d.label, draw, survived) for d in driven for draw, survived in d.of(s.name).draws]
    tips = [f"{s.judge} survived with {mark.value:.4g}" for mark in marks]
    for label, draw, survived in drawn:
        own = marks_of(p.name, draw, "survived" if survived else "failed")
        marks += own
        tips += [f"{label} {mark.css_class} with {mark.value:.4g}" for mark in own]
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


# -- details -------------------------------------------------------------------------------------------------------


def _details(s: GalleryScenario, folder: Path) -> dict[str, Any] | None:
    t = s.transcript
    if t is None:
        return None
    return {
        "file": f"transcripts/{s.name}.json",
        "who": label_of(t.interview.agent),
        "asked": t.interview.source == "said",
        "drive": drive_line(t.interview.drive),
        "moments": moment_rows(folder, t),
        "rounds": round_rows(t) if any(a.outcome for a in t.attempts) else [],
        "attempts": [_attempt(a) for a in t.attempts[-ATTEMPTS:]],
        "earlier": max(len(t.attempts) - ATTEMPTS, 0),
    }  # fmt: skip


def _attempt(a: ThreatAttempt) -> dict[str, Any]:
    result = f"refused: {a.refused or 'no reason stored'}" if a.spec is None else "made"
    if a.spec is not None and a.verdict is not None:
        result = "made, passes the check" if a.verdict.passed else f"made, fails the check: {a.verdict.reason}"
    last = a.exchanges[-1] if a.exchanges else None
    calls = Counter(e.purpose for e in a.exchanges)
    return {
        "head": f"{a.number + 1}{f' of round {a.round}' if a.round > 1 else ''}. {label_of(a.fuser)}, seed {a.seed}",
        "result": clip(result, 500),
        "calls": ", ".join(f"{n} × {purpose}" for purpose, n in calls.items()),
        "reply": clip(last.reply, REPLY) if last else "",
        "problems": [clip(p, 300) for p in last.problems[:PROBLEMS]] if last else [],
        "error": clip(last.error or "", 300) if last else "",
    }


def word(value: str) -> str:
    """An enum's value with spaces."""
    return value.replace("_", " ")
