"""Verdict on a scenario from the records of a judge's draws, with the first failed condition as text.

The first draw that the judge survives becomes the played draw, which every agent drives. The judge then drives other
draws, of which it must survive a stated share.

A draw counts as survived only if the scenario acted near the ego: without a threat there is nothing to survive. Of a
spec with several actors, each must act.

Reasons of failed checks enter the prompts of later attempts: their wording is part of the measurement.

DIR/check.json holds, by scenario: fields of ScenarioVerdict, program_sha256, judge, world, seed, profile, alone,
version. `ad2 drive run` plays the draws in it (suites/played_draws.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import FAILED, EndReason
from closedloop_plugin.scenarios.suites.played_draws import VERDICTS
from closedloop_plugin.scenarios.suites.played_draws import read_verdicts as read_verdicts
from closedloop_plugin.scenarios.suites.programs import INDEX, index_of, programs_in
from closedloop_plugin.threats.spec import Adversary, AdversaryBehaviour, ThreatActor, ThreatSpec
from closedloop_plugin.threats.transcript import ScenarioVerdict
from closedloop_plugin.threats.words import Occluder
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.files import atomic_write_json, file_sha256
from lmms_eval_ad2.storage.identity import code_label, read_run
from lmms_eval_ad2.storage.untrusted_json import load

NEAR_M = 30.0  # largest distance of the centres of ego and actor for a threat
MOVED_M = 0.5
SEEN_S = 1.0  # a hidden actor may be shown so long before it acts: it comes out from behind its cover
KINDS = {Adversary.CONES: "cone"}  # names in state.ActorKind that differ
STANDING = frozenset(
    {AdversaryBehaviour.BLOCK, AdversaryBehaviour.HIDDEN_STOP, AdversaryBehaviour.OPEN_DOOR}
)  # behaviours of stationary adversaries


@dataclass(frozen=True)
class NearestActor:
    """The nearest actor of the scenario since it acted. `gap_m`: between centres; `moved_m`: distance it moved."""

    kind: str
    gap_m: float
    moved_m: float
    id: str = field(default="", compare=False)


@dataclass(frozen=True)
class ScenarioDraw:
    """One drive of one draw of the parameters.

    `nearest`: None if no actor of the scenario existed after it acted. `must_move`: the behaviour requires that the
    adversary moves (an obstacle in the lane need not). `idle`: of a spec with several actors, those that did not act
    near the ego, as "2. child". `seen_s`: how long before it acts the camera first shows the actor that may be hidden;
    0: not before, None: not measured. `hides`: the spec says that something hides it.
    """

    record: EpisodeRecord
    nearest: NearestActor | None = None
    must_move: bool = False
    idle: tuple[str, ...] = ()
    seen_s: float | None = None
    hides: bool = False

    @property
    def compiles(self) -> bool:
        """False for an invalid episode without a map; a failed world does not count against the program."""
        return bool(self.record.map) or self.record.end != EndReason.INVALID

    @property
    def runs(self) -> bool:
        return self.record.end not in FAILED

    @property
    def has_act_event(self) -> bool:
        return self._has("act")

    @property
    def triggered(self) -> bool:
        return self._has("trigger")

    @property
    def acts(self) -> bool:
        return self.has_act_event and is_threat(self.nearest, self.must_move) and not self.idle

    @property
    def moved(self) -> bool:
        return has_moved(self.nearest, self.must_move)

    @property
    def scored(self) -> bool:
        """False if the world failed, which says nothing about the scenario."""
        return self.record.end != EndReason.WORLD_FAILED

    @property
    def shown(self) -> bool:
        """Whether the camera shows an actor that is meant to be hidden."""
        return self.hides and self.seen_s is not None and self.seen_s > SEEN_S

    @property
    def survived(self) -> bool:
        return self.runs and self.acts and self.record.unharmed

    def _has(self, event: str) -> bool:
        return any(name == event for _, name in self.record.events)


def has_moved(nearest: NearestActor | None, must_move: bool) -> bool:
    """Whether there is an actor that moved after it acted, or need not."""
    return nearest is not None and (not must_move or nearest.moved_m >= MOVED_M)


def is_threat(nearest: NearestActor | None, must_move: bool) -> bool:
    """Whether an actor was near the ego after it acted, and moved if it must."""
    return nearest is not None and nearest.gap_m <= NEAR_M and has_moved(nearest, must_move)


def draw_of(record: EpisodeRecord, folder: Path, spec: ThreatSpec | None = None) -> ScenarioDraw:
    """The draw of a record with its track in the run's `folder`; with a spec, only its adversaries count."""
    must_move = spec is not None and _must_move(spec)
    times = {name: float(time) for time, name in reversed(record.events)}  # the first of each
    file = folder / "tracks" / f"{record.route_id}_rep{record.repetition}.json"
    if "act" not in times or not file.is_file():
        return ScenarioDraw(record, must_move=must_move)
    try:
        track = load(file)
        nearest = nearest_since(track, times["act"], kind_of(spec), must_move)
        idle = _idle_actors(spec, times, track) if spec is not None and spec.further else ()
        seen_s = _seen_before(folder / "moments" / file.name, spec, track)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
        hint = f"Remove {folder}; everything is then driven again"
        raise DataError(file, None, "file", "a track as `ad2 drive run` writes it", repr(exc), hint) from exc
    hides = spec is not None and any(actor.occluder is not Occluder.NONE for actor in spec.actors)
    return ScenarioDraw(record, nearest, must_move, idle, seen_s, hides)


def _seen_before(file: Path, spec: ThreatSpec | None, track: Mapping[str, Any]) -> float | None:
    """ScenarioDraw.seen_s from a snapshot (snapshot.py): of the actor that a spec hides, else of the nearest that
    moves."""
    sight = load(file).get("sight") if file.is_file() else None
    if sight is None:
        return None
    hidden = None if spec is None else next((a for a in spec.actors if a.occluder is not Occluder.NONE), None)
    nearest = nearest_since(track, sight["act_s"], kind_of(hidden), must_move=True)
    if nearest is None:
        return None
    first = sight["first"].get(nearest.id)
    return 0.0 if first is None else round(sight["act_s"] - first, 2)


def _idle_actors(spec: ThreatSpec, times: Mapping[str, float], track: Mapping[str, Any]) -> tuple[str, ...]:
    """The actors of a spec that did not act near the ego. `times`: of the first event of each name, s."""
    found = []
    for number, actor in enumerate(spec.actors, 1):
        acted = times.get(f"act {number}")
        nearest = None if acted is None else nearest_since(track, acted, kind_of(actor), _must_move(actor))
        if not is_threat(nearest, _must_move(actor)):
            found.append(f"{number}. {actor.adversary.value}")
    return tuple(found)


def _must_move(actor: ThreatActor) -> bool:
    return actor.behaviour not in STANDING


def kind_of(actor: ThreatActor | None) -> str | None:
    """The actor's name in state.ActorKind; None: any."""
    return None if actor is None else KINDS.get(actor.adversary, actor.adversary.value)


def is_scenario_actor(name: str, role: str) -> bool:
    """Whether a body was created by the program, not by the standard scenario under it (role "standard", r1, r2 ...).

    If the scenario leaves no lane for background traffic, the worlds give its cars that role; the program's are then
    recognised by their names s1, s2 ...
    """
    return role == "scenario" or (role == "background" and re.fullmatch(r"s\d+", name) is not None)


def nearest_since(
    track: Mapping[str, Any], since_s: float, kind: str | None = None, must_move: bool = False
) -> NearestActor | None:
    """The actor of the scenario (of one kind, if given) that came nearest to the ego at or after `since_s`.

    `must_move`: actors that moved take precedence. `track`: see show/track_log.py; samples store only changes.
    """
    own = {
        name: body["kind"]
        for name, body in track["bodies"].items()
        if is_scenario_actor(name, body["role"]) and kind in (None, body["kind"])
    }
    poses: dict[str, Sequence[float]] = {}
    first: dict[str, Sequence[float]] = {}  # poses just before it acted
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
    best = min(gaps, key=lambda name: (must_move and moved[name] < MOVED_M, gaps[name]))
    return NearestActor(own[best], round(gaps[best], 1), round(moved[best], 1), best)


def verdict_of(
    draws: Sequence[ScenarioDraw], judge: str = "expert", others: Sequence[ScenarioDraw] = (), needed: int = 0
) -> ScenarioVerdict:
    """The verdict on a scenario. `draws`: those up to the first survived one, at least one; `others`: those driven
    after it; `needed`: how many of these must be survived."""
    compiles, runs, acts = (any(getattr(d, name) for d in draws) for name in ("compiles", "runs", "acts"))
    survived = [d for d in draws if d.survived]
    good = sum(d.survived for d in others)
    shown = bool(survived) and survived[0].shown
    passed = bool(survived) and good >= needed and not shown
    return ScenarioVerdict(
        passed=passed,
        compiles=compiles,
        runs=runs,
        acts=acts,
        survivable=bool(survived),
        tries=len(draws),
        survived=len(survived),
        draw_seed=survived[0].record.seed if survived else None,
        drawn=dict(survived[0].record.drawn) if survived else {},
        seen_before_act_s=survived[0].seen_s if survived else None,
        others=sum(d.scored for d in others),
        others_survived=good,
        others_failed=sum(not d.scored for d in others),
        others_needed=needed,
        reason="" if passed else _why(survived, others, needed) if survived else reason_of(draws, judge),
    )


def _why(survived: Sequence[ScenarioDraw], others: Sequence[ScenarioDraw], needed: int) -> str:
    """Why a scenario of which one draw is survived does not pass: it is not hidden, or too few other draws are."""
    if survived[0].shown:
        return f"not hidden: the camera shows its actor {survived[0].seen_s:.1f} s before it acts"
    scored = [d for d in others if d.scored]
    text = f"survives {sum(d.survived for d in others)} of {len(scored)} other draws, {needed} needed"
    lost = len(others) - len(scored)
    text += f"; {lost} could not be scored: the world failed" if lost else ""
    return "; ".join([text, *_harms([d for d in scored if not d.survived])])


def reason_of(draws: Sequence[ScenarioDraw], judge: str) -> str:
    """The first failed condition of: compiles, runs, acts, survivable."""
    n = f"in {len(draws)} of {len(draws)} draws" if len(draws) > 1 else "in its only draw"
    if not any(d.compiles for d in draws):
        return draws[0].record.reason or "no scene could be drawn"
    running = [d for d in draws if d.runs]
    if not running:
        return f"does not run: {draws[0].record.reason or draws[0].record.status}"
    if not any(d.acts for d in draws):
        return _no_act(running, n)
    return f"the {judge} does not survive it {n}: " + "; ".join(_harms(draws))


def _no_act(draws: Sequence[ScenarioDraw], n: str) -> str:
    acting = [d for d in draws if d.has_act_event]
    if acting:
        return f'says "act", but {_idle(acting)}'
    first = draws[0].record
    progress = f"{first.status.lower()}, {first.score_route:.0f} % of the way in {first.game_s:.0f} s"
    if any(d.triggered for d in draws):
        return f'triggered, but never acts {n}: no event "act" ({progress})'
    if all(d.record.score_route >= 99 for d in draws):
        return f'never triggered {n}: the ego went its whole way, and there was no event "trigger" or "act"'
    return f"never triggered {n}: the ego did not get to where it begins ({progress})"


def _idle(draws: Sequence[ScenarioDraw]) -> str:
    """Why an "act" event does not count, for the draw that came closest to acting."""
    present = [d for d in draws if d.nearest is not None]
    if not present:
        return f"nothing of it is on the stage then ({_when(draws[0], 'act')})"
    draw = min(present, key=lambda d: (not d.moved, d.nearest.gap_m if d.nearest else math.inf))
    assert draw.nearest is not None
    if not draw.moved:
        return f"its {draw.nearest.kind} does not move after that ({_when(draw, 'act')})"
    if draw.nearest.gap_m <= NEAR_M:
        return f"of its actors {' and '.join(draw.idle)} does not act near the ego"
    return (
        f"nothing of it comes within {NEAR_M:g} m of the ego after that ({_when(draw, 'act')}; nearest: "
        f"{draw.nearest.kind} at {draw.nearest.gap_m:g} m)"
    )


def _when(draw: ScenarioDraw, event: str) -> str:
    return next(f"at {time:.1f} s" for time, name in draw.record.events if name == event)


def _harms(draws: Sequence[ScenarioDraw]) -> list[str]:
    """What ended the draws, counted by kind; each kind with its first message."""
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


def write_verdicts(
    folder: Path, verdicts: Mapping[str, ScenarioVerdict], out: Path | None = None, files: Sequence[Path] | None = None
) -> None:
    """Update folder/check.json. Earlier verdicts of unchanged programs are kept.

    `out`: the run folder of the check (default: folder/check); `files`: the programs (default: the folder's).
    """
    out = out or folder / "check"
    identity = read_run(out)["identity"] if (out / "run.json").is_file() else {}
    agent = identity.get("agent") or {}
    facts = {
        "judge": agent.get("name"),
        "world": identity.get("world"),
        "seed": identity.get("seed"),
        "profile": identity.get("profile"),
        "alone": identity.get("alone"),
        "version": code_label(),
    }
    shas = {file.stem: file_sha256(file) for file in (programs_in(folder) if files is None else files)}
    before = {n: v for n, v in read_verdicts(folder).items() if n in shas and v.get("program_sha256") == shas[n]}
    now = {n: {**v.model_dump(), "program_sha256": shas.get(n, ""), **facts} for n, v in verdicts.items()}
    atomic_write_json(folder / VERDICTS, {**before, **now})


def update_left_out(folder: Path, verdicts: Mapping[str, ScenarioVerdict]) -> None:
    """Update "left_out" of suite.json: add failed scenarios, remove passed ones. Does nothing without suite.json."""
    index = index_of(folder)
    if not index:
        return
    left_out = {n: why for n, why in index.get("left_out", {}).items() if n not in verdicts}
    left_out |= {n: v.reason for n, v in verdicts.items() if not v.passed}
    atomic_write_json(folder / INDEX, {**index, "left_out": left_out})
