"""What the target did, in words for a model fuser: its answers by moment, its drive, and the rounds that it survived.

The wording is part of the measurement. Texts of models come out cut, and are fenced by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence

from closedloop_plugin.driver.agents.model_backend import LONGEST
from closedloop_plugin.scoring.failure_cause import CAUSE_TITLES
from closedloop_plugin.threats.driven.summary import DriveSummary, ScenarioActorTrack
from closedloop_plugin.threats.fuser.slots import BEFORE_M
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import Stage, ThreatAttempt, ThreatTranscript

PROFILE_POINTS = 12  # of the speed profile in a prompt
REPLIES = 3  # of the target about the act


def stage_text(transcript: ThreatTranscript, stage: Stage) -> str:
    """The answers of a stage, those of several moments under a line each."""
    moments = transcript.interview.moments
    room = LONGEST // max(len(moments), 1) - 100
    parts = []
    for moment in moments:
        text = "\n".join(a.text for a in moment.answers if a.stage == stage)[: max(room, 200)]
        figures = f"{moment.time_s:.1f} s, {moment.s:.0f} m on its route, {moment.speed:.1f} m/s"
        parts.append(text if len(moments) == 1 else f"[at {figures}]\n{text}")
    return "\n".join(parts)


def drive_text(drive: DriveSummary | None) -> str:
    """The drive on the standard route; "" without one."""
    if drive is None:
        return ""
    if not drive.moved:
        return f"On the route the driver never moved: {drive.status}, {drive.game_s:.0f} s."
    step = max(1, -(-len(drive.profile) // PROFILE_POINTS))
    speeds = ", ".join(f"{v:.1f} at {s:.0f} m" for _, s, v in drive.profile[::step])
    lines = [
        f"What the driver did on this route ({drive.status}, {drive.driven_m:.0f} of {drive.route_m:.0f} m, "
        f"{drive.game_s:.0f} s; the place of the threat is measured from {drive.trigger_s:.0f} m on):",
        f"- speed in m/s: {speeds}",
    ]
    lines += [f"- it stood at {x.s:.0f} m for {x.seconds:.0f} s" for x in drive.stops[:3]]
    lines += [
        f"- {x.kind.replace('_', ' ')}" + ("" if x.time_s is None else f" at {x.time_s:.1f} s, {x.s or 0:.0f} m")
        for x in drive.infractions[:4]
    ]
    lines.append(f"- {_closest(drive.min_gap_m, drive.nearest, drive.min_ttc_s)}")
    lines += _taken(drive.actors)
    return "\n".join(lines)


def _taken(actors: Sequence[ScenarioActorTrack]) -> list[str]:
    """Where the route's own scenario leaves no place for another one."""
    stands = ", ".join(f"{a.kind} at {a.low:.0f} m" for a in actors if not a.moves)
    moves = [a for a in actors if a.moves]
    lines = []
    if stands:
        lines.append(f"- standing objects of the route's own scenario: {stands}; keep {BEFORE_M:g} m away from them")
    if moves:
        low, high = min(a.low for a in moves), max(a.high for a in moves)
        lines.append(f"- {len(moves)} actors of the route's own scenario move there, {low:.0f} to {high:.0f} m on")
    return lines


def _closest(gap_m: float | None, nearest: str | None, ttc_s: float | None) -> str:
    if gap_m is None:
        return "nobody was near"
    ttc = "" if ttc_s is None else f", least time to collision {ttc_s:.1f} s"
    return f"smallest distance {gap_m:.1f} m ({nearest}){ttc}"


def survived_lines(attempts: Sequence[ThreatAttempt]) -> list[str]:
    """One line per scenario that the target survived: the threat, what it did, and its words then."""
    return [f"{sentence(a.spec)} {outcome_text(a.outcome)}" for a in attempts if a.survived and a.spec and a.outcome]


def outcome_text(outcome: DriveSummary) -> str:
    """What the target did in a scenario that it survived."""
    margins = outcome.margins
    parts = [_closest(margins.gap_m, margins.nearest, margins.ttc_s)]
    if outcome.failed and outcome.cause is not None:
        parts.append(f"it failed {CAUSE_TITLES[outcome.cause.by]}, as without this threat")
    reaction = outcome.reaction
    if reaction is not None:
        gap = "" if reaction.gap_m is None else f", {reaction.gap_m:.1f} m from it"
        parts.append(f"when it began the driver went {reaction.speed:.1f} m/s{gap}")
        late = reaction.seconds
        parts.append("it did not brake" if late is None else f"it braked {late:.1f} s later")
        said = [r for r in outcome.replies if r.time_s >= reaction.act_s - 1.0][:REPLIES]
        parts += [f'it said: "{short("; ".join(r.texts.values()), 120)}"' for r in said]
    return f"Outcome: {'; '.join(parts)}."
