"""The target's drives on a card of the gallery: moments of the interview, and the rounds of its scenarios.

Texts are cut here and escaped in the template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES
from closedloop_plugin.threats.driven.summary import DriveSummary
from closedloop_plugin.threats.gallery.pictures import frame_picture
from closedloop_plugin.threats.gallery.scenarios import GalleryScenario, ThreatGallery
from closedloop_plugin.threats.gallery.texts import clip
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import InterviewMoment, ThreatAttempt, ThreatTranscript

QUESTION, ANSWERS = 1200, 6000  # maximum bytes of a question, and of all answers
MAX_MOMENTS, REPLIES = 4, 3  # shown


def drive_line(drive: DriveSummary | None) -> str:
    """The drive on the standard route in one line; "" for a transcript without one."""
    if drive is None:
        return ""
    how = "failed" if drive.failed else "no failure"
    parts = [f"{drive.status}, {how}, score {drive.score:.0f}", f"{drive.driven_m:.0f} of {drive.route_m:.0f} m"]
    parts.append(f"at most {drive.top_speed:.1f} m/s" if drive.moved else "it never moved")
    parts += [_infraction(x.kind, x.time_s, x.s) for x in drive.infractions[:3]]
    return clip("; ".join(parts), 500)


def _infraction(kind: str, time_s: float | None, s: float | None) -> str:
    where = "" if time_s is None else f" at {time_s:.1f} s" + ("" if s is None else f", {s:.0f} m")
    return kind.replace("_", " ") + where


def moment_rows(folder: Path, transcript: ThreatTranscript) -> list[dict[str, Any]]:
    """The moments with a picture of the last frame, the target's words until then, and its answers."""
    moments = transcript.interview.moments
    room = ANSWERS // max(3 * min(len(moments), MAX_MOMENTS), 1)
    return [_moment(folder, moment, room, first=i == 0) for i, moment in enumerate(moments[:MAX_MOMENTS])]


def _moment(folder: Path, moment: InterviewMoment, room: int, first: bool) -> dict[str, Any]:
    cameras = max(len(moment.frames) // max(len(moment.frame_s), 1), 1)
    shown = moment.frames[-cameras] if len(moment.frames) >= cameras else ""
    return {
        "head": f"{moment.time_s:.1f} s, {moment.s:.0f} m, {moment.speed:.1f} m/s",
        "picture": frame_picture(folder, shown) if shown else "",
        "replies": [
            clip(f"{r.time_s:.1f} s, {r.speed:.1f} m/s: {'; '.join(r.texts.values())}", 200)
            for r in moment.replies[-REPLIES:]
        ],
        "answers": [
            (a.stage, clip(a.question, QUESTION) if first else "", clip(a.text, room), clip(a.error or "", 400))
            for a in moment.answers
        ],
    }


def round_rows(transcript: ThreatTranscript) -> list[dict[str, Any]]:
    """One row per round: the threat, its check, and what the target did."""
    return [_round(a) for a in transcript.rounds]


def _round(attempt: ThreatAttempt) -> dict[str, Any]:
    spec, outcome = attempt.spec, attempt.outcome
    if spec is None:
        text, css = f"no scenario: {attempt.refused}", "quiet"
    elif attempt.verdict is not None and not attempt.verdict.passed:
        text, css = f"fails the check: {attempt.verdict.reason}", "quiet"
    elif outcome is None:
        text, css = "not driven by the target", "quiet"
    else:
        text, css = _outcome(outcome), "bad" if outcome.by_threat else "warn" if outcome.failed else "good"
    result = "" if outcome is None else _result(outcome)
    return {
        "number": attempt.round, "result": result, "css_class": css, "text": clip(text, 400),
        "sentence": clip(sentence(spec), 300) if spec else "",
    }  # fmt: skip


def _result(outcome: DriveSummary) -> str:
    """Text such as "failed by both"; "failed" if the cause is not known."""
    if not outcome.failed:
        return "survived"
    return "failed" if outcome.cause is None else f"failed {CAUSE_TITLES[outcome.cause.by]}"


def _outcome(outcome: DriveSummary) -> str:
    parts = [_infraction(x.kind, x.time_s, x.s) for x in outcome.infractions if x.kind != "min_speed_infractions"][:2]
    if outcome.cause is not None and outcome.cause.new is False:
        parts.append("the first as on the standard route")
    if outcome.min_gap_m is not None:
        parts.append(f"{outcome.min_gap_m:.1f} m to the {outcome.nearest}")
    if outcome.min_ttc_s is not None:
        parts.append(f"{outcome.min_ttc_s:.1f} s to a collision")
    reaction = outcome.reaction
    if reaction is not None:
        late = "no brake" if reaction.seconds is None else f"brake after {reaction.seconds:.1f} s"
        parts.append(f"act at {reaction.speed:.1f} m/s, {late}")
    return "; ".join(parts) or outcome.status


def round_chip(transcript: ThreatTranscript | None) -> tuple[str, str]:
    """(text, CSS class) about the rounds; ("", "") if the target has driven none."""
    if transcript is None or not any(a.outcome for a in transcript.attempts):
        return "", ""
    if failed := transcript.failed_attempt:
        assert failed.outcome is not None
        return f"target {_result(failed.outcome)} in round {failed.round}", "bad"
    n = sum(a.survived for a in transcript.attempts)
    last = transcript.last
    if last is not None and last.outcome is not None and last.outcome.failed:
        return f"target {_result(last.outcome)}, as on the standard route ({n} round{'s' * (n > 1)})", "warn"
    return f"target survived {n} round{'s' * (n > 1)}", "good"


def round_tiles(gallery: ThreatGallery) -> list[tuple[str, str, str]]:
    """Counts of the threats that made the target fail, by round; [] if it drove none."""
    transcripts: Sequence[ThreatTranscript] = [s.transcript for s in _sound(gallery) if s.transcript]
    driven = [t for t in transcripts if any(a.outcome for a in t.attempts)]
    if not driven:
        return []
    counts = Counter(t.failed_attempt.round for t in driven if t.failed_attempt)
    by_round = ", ".join(f"round {number}: {n}" for number, n in sorted(counts.items()))
    label = f"threats that made the target fail, of {len(driven)} driven" + (f" ({by_round})" if by_round else "")
    return [(str(sum(counts.values())), label, "bad" if counts else "")]


def _sound(gallery: ThreatGallery) -> list[GalleryScenario]:
    return [s for s in gallery.scenarios if s.program and not s.left_out]
