"""Records of a judge's draws -> a Verdict, with the first thing that does not hold in words. Reads, drives nothing.

A draw counts as survived only if the scenario acted in it, upon something that is there: whom nothing endangers has
survived nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner.episode import unharmed
from closedloop_plugin.runner.run import FAILED
from closedloop_plugin.threats.spec import Adversary, AdversaryBehaviour, ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict
from lmms_eval_ad2.errors import DataError

NEAR_M = 30.0  # from the ego's centre to the actor's: what acts farther away endangers nobody
MOVED_M = 0.5
KINDS = {Adversary.CONES: "cone"}  # of state.Kind; the others have the same name there
STANDING = frozenset(
    {AdversaryBehaviour.BLOCK, AdversaryBehaviour.HIDDEN_STOP, AdversaryBehaviour.OPEN_DOOR}
)  # what threatens there stands


@dataclass(frozen=True)
class NearestActor:
    """The actor of the scenario that came nearest since it acted: m from the ego's centre, and m that it moved."""

    kind: str
    gap_m: float
    moved_m: float


@dataclass(frozen=True)
class ScenarioDraw:
    """One drive of one sample. `reach` None: nothing of the scenario was on the stage since it acted. `moves`: a spec
    says that it must move then (what blocks the lane need not)."""

    record: EpisodeRecord
    reach: NearestActor | None = None
    moves: bool = False

    @property
    def compiles(self) -> bool:
        """An invalid episode has a map once its scene stood; a world that died says nothing of the program."""
        return bool(self.record.map) or self.record.end != EndReason.INVALID

    @property
    def runs(self) -> bool:
        return self.record.end not in FAILED

    @property
    def says_act(self) -> bool:
        return self._has("act")

    @property
    def triggered(self) -> bool:
        return self._has("trigger")

    @property
    def acts(self) -> bool:
        return self.says_act and self.reach is not None and self.reach.gap_m <= NEAR_M and self.moved

    @property
    def moved(self) -> bool:
        return self.reach is not None and (not self.moves or self.reach.moved_m >= MOVED_M)

    @property
    def survived(self) -> bool:
        return self.runs and self.acts and unharmed(self.record)

    def _has(self, event: str) -> bool:
        return any(name == event for _, name in self.record.events)


def draw_of(record: EpisodeRecord, folder: Path, spec: ThreatSpec | None = None) -> ScenarioDraw:
    """With what its track in the run's `folder` shows; with a spec, of the spec's adversary alone."""
    moves = spec is not None and spec.behaviour not in STANDING
    acted = next((float(time) for time, name in record.events if name == "act"), None)
    file = folder / "tracks" / f"{record.route_id}_rep{record.repetition}.json"
    if acted is None or not file.is_file():
        return ScenarioDraw(record, moves=moves)
    kind = None if spec is None else KINDS.get(spec.adversary, spec.adversary.value)
    try:
        reach = nearest_since(json.loads(file.read_bytes()), acted, kind, moves)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as exc:
        hint = f"Remove {folder}: everything is driven anew"
        raise DataError(file, None, "file", "a track as `ad2 drive run` writes it", repr(exc), hint) from exc
    return ScenarioDraw(record, reach, moves)


def of_scenario(name: str, role: str) -> bool:
    """Put there by the program. Where it leaves the traffic no lane, the embedded world counts the program's own cars
    as the traffic around (role "background"): there the name of the body tells, s1, s2 ... of the program's objects."""
    return role == "scenario" or (role == "background" and re.fullmatch(r"s\d+", name) is not None)


def nearest_since(
    track: Mapping[str, Any], since_s: float, kind: str | None = None, moves: bool = False
) -> NearestActor | None:
    """Of the scenario's actors (of one kind, if given) the one that came nearest at or after a time; if `moves`, of
    those that moved, where any did. `track`: show/track.py; its samples hold what has changed since the one before."""
    own = {
        name: body["kind"]
        for name, body in track["bodies"].items()
        if of_scenario(name, body["role"]) and kind in (None, body["kind"])
    }
    poses: dict[str, Sequence[float]] = {}
    first: dict[str, Sequence[float]] = {}  # as they stood just before it acted
    gaps: dict[str, float] = {}
    moved: dict[str, float] = {}
    for sample in track["samples"]:
        acted = sample["t"] >= since_s - 1e-6
        if acted and not gaps:
            first = dict(poses)
        for name, pose in sample["actors"].items():
            if name in own:
                poses.pop(name, None)
                if pose is not None:
                    poses[name] = pose
        for name, pose in poses.items() if acted else ():
            begin = first.setdefault(name, pose)
            gaps[name] = min(gaps.get(name, math.inf), math.dist(pose[:2], sample["ego"][:2]))
            moved[name] = max(moved.get(name, 0.0), math.dist(pose[:2], begin[:2]))
    if not gaps:
        return None
    best = min(gaps, key=lambda name: (moves and moved[name] < MOVED_M, gaps[name]))
    return NearestActor(own[best], round(gaps[best], 1), round(moved[best], 1))


def verdict_of(draws: Sequence[ScenarioDraw], judge: str = "expert") -> ScenarioVerdict:
    """Of all draws of one scenario, in their order; at least one."""
    compiles, runs, acts = (any(getattr(d, name) for d in draws) for name in ("compiles", "runs", "acts"))
    survived = [d for d in draws if d.survived]
    passed = bool(survived)
    return ScenarioVerdict(
        passed=passed,
        compiles=compiles,
        runs=runs,
        acts=acts,
        survivable=passed,
        tries=len(draws),
        survived=len(survived),
        drawn=dict(survived[0].record.drawn) if survived else {},
        reason="" if passed else reason_of(draws, judge),
    )


def not_compiled(reason: str) -> ScenarioVerdict:
    """Of a program that could not even be tried."""
    return ScenarioVerdict(passed=False, reason=reason)


def reason_of(draws: Sequence[ScenarioDraw], judge: str) -> str:
    """The first thing that does not hold: compiles, runs, acts, survivable."""
    n = f"in {len(draws)} of {len(draws)} draws" if len(draws) > 1 else "in its only draw"
    if not any(d.compiles for d in draws):
        return draws[0].record.reason or "no scene could be drawn"
    running = [d for d in draws if d.runs]
    if not running:
        return f"does not run: {_first(d.record.reason or d.record.status for d in draws)}"
    if not any(d.acts for d in draws):
        return _no_act(running, n)
    return f"the {judge} does not survive it {n}: " + "; ".join(_harms(draws))


def _no_act(draws: Sequence[ScenarioDraw], n: str) -> str:
    said = [d for d in draws if d.says_act]
    if said:
        return f'says "act", but {_idle(said)}'
    first = draws[0].record
    way = f"{first.status.lower()}, {first.score_route:.0f} % of the way in {first.game_s:.0f} s"
    if any(d.triggered for d in draws):
        return f'triggered, but never acts {n}: no event "act" ({way})'
    if all(d.record.score_route >= 99 for d in draws):
        return f'never triggered {n}: the ego went its whole way, and there was no event "trigger" or "act"'
    return f"never triggered {n}: the ego did not get to where it begins ({way})"


def _idle(said: Sequence[ScenarioDraw]) -> str:
    """Why an "act" is none; of the draw that came nearest to one."""
    reached = [d for d in said if d.reach is not None]
    if not reached:
        return f"nothing of it is on the stage then ({_when(said[0], 'act')})"
    draw = min(reached, key=lambda d: (not d.moved, d.reach.gap_m if d.reach else math.inf))
    assert draw.reach is not None
    if not draw.moved:
        return f"its {draw.reach.kind} does not move after that ({_when(draw, 'act')})"
    return (
        f"nothing of it comes within {NEAR_M:g} m of the ego after that ({_when(draw, 'act')}; nearest: "
        f"{draw.reach.kind} at {draw.reach.gap_m:g} m)"
    )


def _when(draw: ScenarioDraw, event: str) -> str:
    return next(f"at {time:.1f} s" for time, name in draw.record.events if name == event)


def _harms(draws: Sequence[ScenarioDraw]) -> list[str]:
    """What ended each draw, counted; the first of a kind with its message."""
    harms = [_harm(d) for d in draws]
    kinds = Counter(kind for kind, _ in harms)
    details = dict(reversed(harms))
    return [f"{kind} in {count}" + (f" ({details[kind]})" if details[kind] else "") for kind, count in kinds.items()]


def _harm(draw: ScenarioDraw) -> tuple[str, str]:
    record = draw.record
    if not draw.runs:
        return ("no scene" if not draw.compiles else "does not run"), record.reason
    for name, messages in record.infractions.items():
        if messages and name != "min_speed_infractions":
            place = next((p for p in record.places if p.get("kind") == name), None)
            when = f"at {place['time_s']:.1f} s: " if place and "time_s" in place else ""
            return name.replace("_", " "), when + str(messages[0])
    if not draw.acts:
        return "nothing acts", ""
    return record.status.lower(), record.reason


def _first(reasons: Any) -> str:
    return next(iter(reasons))
