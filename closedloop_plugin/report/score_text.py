"""Scores of drives as text: of `ad2 drive score`, and what `ad2 drive run` and `ad2 merge` print at their end."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.record import PROGRAM, PROGRAM_ENDED, EpisodeRecord
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import FAILED
from closedloop_plugin.runner.decision_costs import decision_costs
from closedloop_plugin.runner.merge import merge as merge_runs
from closedloop_plugin.runner.store import asked_repetitions
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.scoring.failure_cause import cause_of, counts_text
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.route_pairs import gap_text, pair_gap
from closedloop_plugin.scoring.run_records import not_played_note
from closedloop_plugin.scoring.summary import summarise
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report.cell_text import NONE, number
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.storage.identity import read_run

JOINT_GAP_M = 5.0  # of a route that was traced again through points of the path ahead
WIDTH = 120  # of lines of prose
NAMED = {  # facts of the run in the heading, besides world, driver and profile
    "interpreter": "interpreter", "policy": "policy", "comfort": "comfort mode", "version": "version", "seed": "seed",
}  # fmt: skip


def score_text(found: Mapping[str, Any], routes: str, files: Sequence[str] = ()) -> str:
    """The summary as text: heading, scores with intervals, gap of pairs, counts, scenario types, notes."""
    notes = "\n".join(textwrap.fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in found["notes"])
    pairs = gap_text(found["pairs"]) if found.get("pairs") else ""
    blocks = [heading(found, routes, files), _scores(found), pairs, _counts(found), _repetitions(found)]
    blocks += [_types(found), notes]
    return "\n\n".join(block for block in blocks if block)


def heading(found: Mapping[str, Any], routes: str, files: Sequence[str]) -> str:
    """Origin of the figures. Only files without a record of our worlds get the official heading."""
    origin, about = found["origin"], found["provenance"]
    changed = f", but {origin['changed']}" if origin.get("changed") else ""
    rules = f"profile {found['profile']}{changed}, {found['n_routes']} routes of {routes}"
    if not origin:
        named = files[0] if len(files) == 1 else f"{len(files)} files"
        return f"Official result file(s): {named}\n{rules}, comfort mode {found['comfort_mode']}"
    fast = origin.get("agent") or "agent without a name"
    slow = " ".join(dict.fromkeys(str(origin[k]) for k in ("interpreter", "mode") if origin.get(k)))
    warning = "" if origin.get("backend") == "carla" else "; NOT comparable with figures driven in CARLA"
    return (
        f"Suite {origin.get('suite')} in the {origin.get('backend') or 'unnamed'} world{warning}\n"
        f"{fast}{' + ' + slow if slow else ''}; the world: {origin.get('waiting') or 'unknown'}\n{rules}\n"
        + textwrap.fill(", ".join(f"{name} {about[key]}" for key, name in NAMED.items()), WIDTH)
    )


def _scores(found: Mapping[str, Any]) -> str:
    ci = found["intervals"]
    rate = "" if found["metric_hz"] is None else f", metric_info at {found['metric_hz']:g} Hz"
    modes = {"comfortness": f" ({found['comfort_mode']}{rate}, % of segments)"}
    rows = [_row(name, found, ci, unit) for name, unit in (("driving_score", ""), ("success_rate", " %"))]
    rows += [_row(name, found, ci, modes.get(name, " %")) for name in ("efficiency", "comfortness")]
    if not tests_none(found):
        names = found["abilities"]
        rows += [_row(name, names, ci["abilities"], " %", name in found["partial"]) for name in names]
        rows.append(_row("skill_score", found, ci, " %", "skill_score" in found["partial"]))
    below = [textwrap.fill(found["ceiling"]["text"], WIDTH)] if found["ceiling"] else []
    return "\n\n".join([Table(("score", "value", "95 % interval"), rows, "lrl").plain(), *below])


def tests_none(found: Mapping[str, Any]) -> bool:
    """True if every record of a summary is of a program that replaced the standard scenario; a note says so."""
    return 0 < found["n_records"] == found["n_replaced"]


def _row(
    name: str, values: Mapping[str, Any], intervals: Mapping[str, Any], unit: str, partial: bool = False
) -> list[str]:
    title = name.replace("_", " ") if name[0].isupper() else name.replace("_", " ").title()
    span = intervals[name]
    text = NONE if span is None else f"[{span[0]:.2f}, {span[1]:.2f}]"
    return [title + unit + (" (partial)" if partial else ""), number(values[name], 4), text]


_COUNTED = ("records", "missing", "crashed", "faulted", "duplicates", "lost", "outside", "experimental", "inconsistent")


def _counts(found: Mapping[str, Any]) -> str:
    line = ", ".join(f"{found.get('n_' + name, 0)} {name}" for name in _COUNTED)
    crashed = "".join(f"\n  crashed: route {c['route']} rep {c['repetition']}: {c['status']}" for c in found["crashed"])
    missing = found["missing"]
    names = ", ".join(f"{route} rep {k}" for route, k in missing[:10]) + (" ..." if len(missing) > 10 else "")
    faulted = "".join(
        f"\n  fault of the {f['fault']}: route {f['route']} rep {f['repetition']}: {f['reason']}"
        for f in found["faulted"]
    )
    return line + (f"\n  missing: {names}" if missing else "") + crashed + faulted


def _repetitions(found: Mapping[str, Any]) -> str:
    spread = found["repetitions"]
    if not spread:
        return ""
    texts = [
        f"{name} {number(value['mean'], 2)} ± {number(value['std'], 2)}"
        for name, value in spread.items()
        if name != "n" and value["mean"] is not None
    ]
    line = f"Over {spread['n']} repetitions (mean ± standard deviation): " + ", ".join(texts)
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")


def _types(found: Mapping[str, Any]) -> str:
    figures = ("driving_score", "success_rate", "efficiency", "comfortness")
    rows = [
        [row["type"] or "(none, or several)", row["n"], row["n_missing"], *(number(row[name], 1) for name in figures)]
        for row in found["types"]
    ]
    headers = ["scenario type", "n", "missing", "DS", "SR %", "Eff. %", "Comf. %"]
    return Table(headers, rows, "lrrrrrr").plain()


def closing_text(
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
    official = [from_episode(r) for r in records]
    found = summarise(official, routes, profile, repetitions, identity=identity, traffic_signs=traffic_signs)
    if gap := pair_gap(official, routes):
        found["pairs"] = gap
    blocks = [score_text(found, records[0].suite)]
    if apart := found["experimental"]:
        blocks.append(
            f"Experimental maps, not in the figures above: route {', '.join(apart['routes'])}: Driving Score "
            f"{apart['driving_score']:.2f}, Success Rate {apart['success_rate']:.2f} %"
        )
    return "\n\n".join([*blocks, *_how(records, folder)])


def _how(records: Sequence[EpisodeRecord], folder: Path | None) -> list[str]:
    """Failures in scenarios on top of standard ones by cause (ad2 report compare adds the standard drives), maps,
    counts of decisions and of replies that could not be used, time and tokens."""
    costs = decision_costs(folder, records) if folder else None
    causes = [cause_of(r) for r in records if r.world.get("standard") == "kept" and r.end not in FAILED]
    failures = f"failures of {len(causes)} episodes with a program: {counts_text(causes)}" if causes else ""
    total = {name: sum(r.counts.get(name, 0) for r in records) for name in _COUNTS}
    replies = ", ".join(f"{count} {_COUNTS[name]}" for name, count in total.items() if count)
    return [text for text in (failures, _maps(records), replies, str(costs or "")) if text]


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


def merge(out: Path, folders: Sequence[Path], *, partial: bool) -> str:
    """Join folders of one run in `out`, for `ad2 merge`; the text to print. Frames and videos are not copied.

    Raises Ad2Error as runner.merge.merge.
    """
    found = merge_runs(out, folders, partial=partial)
    duplicates = f", {found.duplicates} duplicates removed" if found.duplicates else ""
    lines = [f"{len(found.records)} episodes in {out}{duplicates}, {len(found.missing)} missing"]
    lines += [f"  missing: route {route_id} repetition {repetition}" for route_id, repetition in found.missing]
    if found.not_asked:
        lines.append(f"{len(found.not_asked)} episodes of the suite were not selected in any of the folders")
    return "\n".join([*lines, _merged_scores(out, found.records)])


def _merged_scores(out: Path, records: Sequence[EpisodeRecord]) -> str:
    """The closing text of a merged run, or the command that prints it if the driven routes are not known."""
    run = read_run(out)
    identity, repetitions = run["identity"], asked_repetitions(out, run["selection"])
    if records and records[0].scenario == PROGRAM:
        return "\n" + closing_text(records, (), profile(str(identity.get("profile"))), repetitions, folder=out)
    try:
        found = suite(str(identity.get("suite")))
    except Ad2Error:
        found = None
    if not records or found is None or found.sha256 != identity.get("suite_sha256"):
        what = f"the route file, or folder of programs, of suite {identity.get('suite')}"
        return f"scores: ad2 drive score {out} --routes FILE|DIR ({what})"
    rules = profile(str(identity.get("profile")))
    return "\n" + closing_text(records, found.routes, rules, repetitions, identity, out)
