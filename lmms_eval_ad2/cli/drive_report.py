"""The table at the end of `ad2 drive run`."""

from __future__ import annotations

from collections.abc import Sequence

from closedloop_plugin.profiles import Profile
from closedloop_plugin.record import EpisodeRecord
from closedloop_plugin.routes import Route
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.summary import summarise


def report(records: Sequence[EpisodeRecord], routes: Sequence[Route], profile: Profile, repetitions: int) -> str:
    """The scores as `ad2 drive score` prints them, and how the model's replies were read.

    A line an episode, and no scores, for a program (`routes` is empty) and for a slice of a run.
    """
    if not records:
        return "no episode was driven"
    if len(records) < len(routes) * repetitions or not routes:
        return "\n".join(_line(r) for r in records)
    from lmms_eval_ad2.cli.drive_score import render

    found = summarise([from_episode(r) for r in records], routes, profile, repetitions)
    return render(found, records[0].suite) + _replies(records)


def _replies(records: Sequence[EpisodeRecord]) -> str:
    """Counts that a reader of the scores must see: nothing where a driver needs no reading."""
    total = {
        name: sum(r.counts.get(name, 0) for r in records)
        for name in ("decisions", "unparsed", "agent_errors", "not_finite", "retries")
    }
    named = [f"{count} {name.replace('_', ' ')}" for name, count in total.items() if count]
    return "\n\n" + ", ".join(named)


def _line(record: EpisodeRecord) -> str:
    hits = sum(len(v) for k, v in record.infractions.items() if k.startswith("collisions"))
    why = f" ({record.reason})" if record.reason else ""
    return (
        f"{record.route_id} repetition {record.repetition}: {record.end}{why}, {record.game_s:.1f} s, "
        f"{record.score_route:.1f} % of the route, {hits} collisions, score {record.score_composed:.1f}"
    )
