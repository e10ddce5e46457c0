"""The text that `ad2 drive run` prints at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.record import PROGRAM, PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import FAILED
from closedloop_plugin.runner.decision_costs import decision_costs
from closedloop_plugin.scoring.failure_cause import cause_of, counts_text
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.run_records import not_played_note
from closedloop_plugin.scoring.summary import summarise

JOINT_GAP_M = 5.0  # of a route that was traced again through points of the path ahead


def report(
    records: Sequence[EpisodeRecord],
    routes: Sequence[Route],
    profile: Profile,
    repetitions: int,
    identity: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    traffic_signs: str | None = None,
) -> str:
    """Return the scores as `ad2 drive score` prints them, the maps, and counts of the model's replies.

    `folder`: of the run, for the time and tokens of its decisions; `traffic_signs`: as for summarise. One line per
    episode, without scores, for a program (`routes` is empty) and for a shard of a run.
    """
    if not records:
        return "no episode was driven: there are fewer episodes than shards"
    if not routes:
        lines = [_line(r) for r in records]
        return "\n".join(["A custom program: not a benchmark, no benchmark scores", *lines, *_how(records, folder)])
    if len(records) < len(routes) * repetitions:
        without = not_played_note({r.route_id: r.world.get("not_played", {}) for r in records})
        return "\n".join([*(_line(r) for r in records), *filter(None, [without]), *_how(records, folder)])
    from closedloop_plugin.cli.drive.score import pairs_found, render

    official = [from_episode(r) for r in records]
    found = summarise(official, routes, profile, repetitions, identity=identity, traffic_signs=traffic_signs)
    found |= pairs_found(official, routes)
    return "\n\n".join([render(found, records[0].suite), *_experimental(found), *_how(records, folder)])


def _experimental(found: dict[str, Any]) -> list[str]:
    """Routes on experimental maps, which no figure above includes, with their own scores."""
    apart = found["experimental"]
    if not apart:
        return []
    return [
        f"Experimental maps, not in the figures above: route {', '.join(apart['routes'])}: Driving Score "
        f"{apart['driving_score']:.2f}, Success Rate {apart['success_rate']:.2f} %"
    ]


def _how(records: Sequence[EpisodeRecord], folder: Path | None) -> list[str]:
    costs = decision_costs(folder, records) if folder else None
    return [text for text in (_causes(records), _maps(records), _replies(records), str(costs or "")) if text]


def _causes(records: Sequence[EpisodeRecord]) -> str:
    """Failures in scenarios on top of standard ones by cause; ad2 report compare adds the standard drives."""
    causes = [cause_of(r) for r in records if r.world.get("standard") == "kept" and r.end not in FAILED]
    return f"failures of {len(causes)} episodes with a program: {counts_text(causes)}" if causes else ""


def _maps(records: Sequence[EpisodeRecord]) -> str:
    """Counts of corridor maps and real towns, whose scores are not comparable."""
    corridors = sum(r.map.get("source") == "corridor" for r in records)
    towns = Counter(r.town for r in records if r.map.get("source") == "town")
    named = [f"{corridors} corridor"] if corridors else []
    if towns:
        each = ", ".join(f"{town} {n}" for town, n in sorted(towns.items()))
        named.append(f"{sum(towns.values())} real town ({each})")
    return f"maps of the episodes: {', '.join(named)}" if named else ""


# Counts of a record, and how they are printed.
_COUNTS = {
    "decisions": "decisions", "unparsed": "unparsed", "snapped": "numbers snapped to their sets",
    "missing_as_zero": "missing keys taken as 0", "agent_errors": "agent errors", "not_finite": "not finite",
    "retries": "retries",
}  # fmt: skip


def _replies(records: Sequence[EpisodeRecord]) -> str:
    """Counts of decisions and of replies that could not be used."""
    total = {name: sum(r.counts.get(name, 0) for r in records) for name in _COUNTS}
    named = [f"{count} {_COUNTS[name]}" for name, count in total.items() if count]
    return ", ".join(named)


def short_route(record: EpisodeRecord) -> str:
    """For a program without a route: ", ..." if the path ahead of its ego ends early; "" otherwise."""
    from closedloop_plugin.worlds.bridge.program_setup import TOWN_ROUTE_M

    if not 0 < record.route_length_m < TOWN_ROUTE_M - JOINT_GAP_M:
        return ""
    return f", route of {record.route_length_m:.0f} m: no lane begins at its end"


def _line(record: EpisodeRecord) -> str:
    hits = sum(len(v) for k, v in record.infractions.items() if k.startswith("collisions"))
    end = record.status.lower() if record.status == PROGRAM_ENDED else record.end
    why = f" ({record.reason})" if record.reason else ""
    values = ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in record.drawn.items())
    drawn = f" [{values}]" if values else ""
    if record.scenario == PROGRAM:  # route completion has no meaning for a program
        others = sum(len(v) for k, v in record.infractions.items() if not k.startswith(("collisions", "min_speed")))
        return (
            f"{record.route_id} repetition {record.repetition}: {end}{why}, {record.game_s:.1f} s, {hits} collisions, "
            f"{others} other infractions{short_route(record)}{drawn}"
        )
    return (
        f"{record.route_id} repetition {record.repetition}: {end}{why}, {record.game_s:.1f} s, "
        f"{record.score_route:.1f} % of the route, {hits} collisions, score {record.score_composed:.1f}{drawn}"
    )
