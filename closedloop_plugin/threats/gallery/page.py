"""`ad2 threats gallery`: one self-contained page about a folder of scenarios, and which drivers failed in them.

The page loads no external resources and has no script. Text of models is untrusted: the template escapes all of it,
control characters and bidirectional overrides are shown as code points, and texts are cut here.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES
from closedloop_plugin.threats.gallery import runs as gallery_runs
from closedloop_plugin.threats.gallery import scenarios as gallery_read
from closedloop_plugin.threats.gallery.runs import GalleryRun, SurvivalStatus, label_of
from closedloop_plugin.threats.gallery.scenarios import GalleryScenario, ScenarioCheckState
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import ThreatAttempt, ThreatTranscript
from lmms_eval_ad2.report.page.html_page import HtmlPage, visible
from lmms_eval_ad2.storage.identity import code_label
from lmms_eval_ad2.storage.image_files import ImageOutsideError, locate, open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

# Maximum bytes of a program, of all answers and of a picture, so that a page of 220 scenarios stays under 12 MB.
PROGRAM, ANSWERS, PICTURE = 6000, 6000, 13_000
SIZE = (400, 225)  # px of a picture
LARGEST = 40_000_000  # px; larger pictures are not opened
STATE_CLASSES = {ScenarioCheckState.PASSED: "good", ScenarioCheckState.FAILED: "bad",
                 ScenarioCheckState.CHANGED: "warn"}  # fmt: skip
STATUS_CLASSES = {
    SurvivalStatus.SURVIVED: "good",
    SurvivalStatus.FAILED_BY_THREAT: "bad",
    SurvivalStatus.FAILED_BY_BOTH: "bad",
    SurvivalStatus.FAILED_BY_STANDARD: "warn",
    SurvivalStatus.FAILED_BY_ITSELF: "warn",
}
PAGE = HtmlPage(__package__, "gallery", "the gallery")


def write(folder: Path, out: Path, runs: Sequence[Path] = ()) -> int:
    """Write the page of `folder` to `out` atomically; return the number of scenarios. `runs`: see gallery/runs.py.

    Raises MissingExtra without Jinja2; Ad2Error for a folder without scenarios, a run of another suite, or an
    unwritable path.
    """
    about, scenarios = gallery_read.read(folder)
    PAGE.write(out, page(folder, about, scenarios, gallery_runs.read(folder, runs)))
    return len(scenarios)


def page(
    folder: Path, about: Mapping[str, Any], scenarios: Sequence[GalleryScenario], runs: Sequence[GalleryRun] = ()
) -> str:
    """The page as HTML text."""
    facts = {
        "base suite": about.get("base"),
        "interviewed": label_of(about["agent"]) if about.get("agent") else None,
        "fuser": label_of(about["fuser"]) if about.get("fuser") else None,
        "seed": about.get("seed"),
        "profile": about.get("profile"),
        "made with": f"lmms-eval-ad2 {about['version']}" if about.get("version") else None,
    }
    if about.get("finished") is False:
        facts["state"] = "not finished: run the same ad2 threats generate again to resume"
    states = Counter(s.state for s in scenarios)
    driven = [s.name for s in scenarios if s.program and not s.left_out]
    return PAGE.render({
        "version": code_label(), "name": about["name"], "runs": [_run(run, driven) for run in runs],
        "facts": {k: clip(str(v), 200) for k, v in facts.items() if v not in (None, "")},
        "counts": [(n, str(state), STATE_CLASSES.get(state, "quiet")) for state in ScenarioCheckState
                   if (n := states[state])] + [(len(scenarios) - len(driven), "not in the suite", "warn")],
        "cards": [_card(s, folder, runs) for s in scenarios],
    })  # fmt: skip


def _run(run: GalleryRun, driven: Sequence[str]) -> dict[str, Any]:
    """A row of the header's table: counts by status over the scenarios of the suite."""
    outcomes = [run.of(name) for name in driven]
    counts = Counter(o.status for o in outcomes)
    scores = [o.score for o in outcomes if o.score is not None]
    return {
        "label": clip(run.label, 80), "n": len(scores),
        "counts": [(str(status), counts[status], STATUS_CLASSES.get(status, "quiet")) for status in SurvivalStatus],
        "score": f"{sum(scores) / len(scores):.1f}" if scores else "–",
    }  # fmt: skip


def _card(s: GalleryScenario, folder: Path, runs: Sequence[GalleryRun]) -> dict[str, Any]:
    """The template's data of a scenario; the template escapes every text."""
    kept = s.transcript
    last = kept.last if kept else None
    spec, verdict = last.spec if last else None, s.verdict
    place = (kept.site.scenario, kept.site.town) if kept else s.route or ()
    survived = ""
    if verdict and verdict.tries:
        others = f", {verdict.others_survived} of {verdict.others} others" if verdict.others else ""
        survived = f"the driver of the check survived {verdict.survived} of {verdict.tries} draws{others}"
    outcomes = []
    for run in runs:
        o = run.of(s.name)
        text = f"{o.status} {o.failures} of {o.scored}" if o.failures and o.scored > 1 else str(o.status)
        outcomes.append({
            "label": clip(run.label, 60), "css_class": STATUS_CLASSES.get(o.status, "quiet"), "text": text,
            "first": clip(o.first, 200), "score": "" if o.score is None else f"{o.score:.1f}",
        })  # fmt: skip
    image, caption = _picture(s, folder)
    return {
        "name": s.name, "place": " · ".join(clip(p, 60) for p in place), "image": image, "caption": caption,
        "state": s.state, "css_class": STATE_CLASSES.get(s.state, "quiet"), "survived": survived,
        "notes": [clip(t, 500) for t in dict.fromkeys((s.reason, s.left_out, *s.problems)) if t],
        "left_out": bool(s.left_out),
        "sentence": sentence(spec) if spec else "A program without a specification.",
        # The description of a fuser without a model repeats the sentence.
        "words": [clip(t, 600) for t in (spec.description, spec.why) if t and not t.startswith(sentence(spec))]
        if spec else [],
        "tag": f"probes {spec.weakness.value}" if spec else "",
        "parameters": [(name, clip(value, 80), clip(note, 120)) for name, value, note in s.parameters],
        "outcomes": outcomes, "rounds": [_round(a) for a in kept.rounds] if kept else [],
        "who": clip(label_of(kept.interview.agent), 60) if kept else "", "answers": _answers(kept) if kept else [],
        "fuser": clip(label_of(last.fuser), 60) if last else "", "program": clip(s.program, PROGRAM),
    }  # fmt: skip


def _answers(kept: ThreatTranscript) -> list[tuple[str, str, str]]:
    """(moment and stage, answer, error) of the interview."""
    room = ANSWERS // max(len(kept.interview.answers), 1)
    return [
        (f"{moment.time_s:.1f} s, {moment.speed:.1f} m/s, {a.stage}", clip(a.text, room), clip(a.error or "", 400))
        for moment in kept.interview.moments
        for a in moment.answers
    ]


def _round(attempt: ThreatAttempt) -> tuple[int, str, str]:
    """(number, the threat, what became of it: its check, and the target's drive)."""
    outcome, verdict = attempt.outcome, attempt.verdict
    if attempt.spec is None:
        text = f"no scenario: {attempt.refused}"
    elif verdict is not None and not verdict.passed:
        text = f"fails the check: {verdict.reason}"
    elif outcome is None:
        text = "not driven by the target"
    elif not outcome.failed:
        text = "the target survived"
    else:
        text = "the target failed" + (f" {CAUSE_TITLES[outcome.cause.by]}" if outcome.cause else "")
    if outcome is not None and outcome.min_gap_m is not None:
        text += f"; {outcome.min_gap_m:.1f} m to the {outcome.nearest}"
    return attempt.round, clip(sentence(attempt.spec), 300) if attempt.spec else "", clip(text, 400)


def _picture(s: GalleryScenario, folder: Path) -> tuple[str, str]:
    """(data: URL, caption) of the check's snapshot of this version of the program, else of the interview's first frame;
    ("", why there is none)."""
    candidates = []
    if s.verdict:
        played = s.verdict.tries - 1 if s.verdict.survived else 0
        candidates = [(f"check/moments/{s.name}_rep{k}.jpg", "as it acts, in the check") for k in (played, 0)]
    if s.transcript:
        candidates += [(name, "what the interview showed") for name in s.transcript.interview.frames[:1]]
    problem = "no picture yet: ad2 threats check draws one"
    for name, caption in candidates:
        try:
            return _jpeg(locate(folder, name)), caption
        except (FileNotFoundError, ImageOutsideError):
            continue
        except OSError:
            problem = f"{Path(name).name} cannot be read as a picture"
    return "", problem


def _jpeg(file: Path) -> str:
    with open_image(file, formats=("JPEG", "PNG"), most_pixels=LARGEST) as opened:
        opened.draft("RGB", SIZE)
        small = shown_rgb(opened)
    small.thumbnail(SIZE)
    for quality in (82, 70, 55, 40, 25):
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= PICTURE:
            break
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def clip(text: str, most: int) -> str:
    """The text cut to at most `most` bytes of escaped HTML, with a note if it is cut; see `visible`."""
    shown, room = visible(text[: 2 * most]), most
    for i, character in enumerate(shown):
        room -= len(escape(character).encode(errors="replace"))
        if room < 0:
            return f"{shown[:i]} … ({len(text)} characters, cut here)"
    return shown
