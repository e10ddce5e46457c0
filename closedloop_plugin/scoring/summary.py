"""All scores of a set of records over a route file: the table of `ad2 drive score`.

    driving_score, success_rate, efficiency, comfortness, abilities, skill_score     figures; "intervals" has the same
    n_routes                      routes in the headline means; x repetitions is the denominator of the first two
    n_missing, missing            (route, repetition)s without a record
    n_records, n_duplicates       after and beyond: of two records of one the later counts
    n_crashed, crashed            records whose status says that something broke, or that never ended
    n_outside                     records of no route or repetition to score
    n_experimental, experimental  routes kept out of the headline means, and their own scores
    repetitions, types            mean and deviation over repetitions; a row a scenario type
    partial, notes                figures that lack an input; what a reader must know
    profile, comfort_mode, traffic_signs, origin, versions, interval_method

What cannot be computed is None, never 0, with its reason in "notes". Percentages are 0..100, efficiency may pass 100.
Intervals are of 95 %, over routes (lmms_eval_ad2/metrics/intervals.py).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.ability import AbilityScore, Junctions, of_type, skill_score, skills
from closedloop_plugin.scoring.comfort import EgoMotion, share
from closedloop_plugin.scoring.driving import driving_score, latest, penalty_of, success_rate
from closedloop_plugin.scoring.efficiency import route_efficiency
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.metrics.intervals import (
    METHOD,
    NOT_NEGATIVE,
    PERCENT,
    Bounds,
    ConfidenceInterval,
    mean_interval,
    mean_of_means_interval,
)

Key = tuple[str, int]  # route id, repetition
_SCORE_SLACK = 0.05  # percent: messages round their numbers


@dataclass(frozen=True)
class ScoringOptions:
    """How to score."""

    profile: Profile
    comfort_mode: str = "official"
    traffic_signs: str = "v0.0.3"
    junctions: Junctions | None = None


@dataclass
class _ScoreTable:
    """The records of some (route, repetition)s and the values that the means are taken over."""

    routes: Mapping[str, Route]
    keys: Sequence[Key]  # all that should be there
    records: Mapping[Key, OfficialRecord]
    comforts: Mapping[Key, float]  # share of comfortable segments, where known
    asked: ScoringOptions
    skills: Mapping[str, AbilityScore] = field(init=False)
    efficiencies: Mapping[Key, float] = field(init=False)

    def __post_init__(self) -> None:
        pairs = [(self.routes[key[0]].scenario, record) for key, record in self.records.items()]
        self.skills = skills(pairs, self.asked.traffic_signs, self.asked.junctions)
        found = {k: route_efficiency(r.infractions["min_speed_infractions"]) for k, r in self.records.items()}
        self.efficiencies = {key: value for key, value in found.items() if value is not None}

    @property
    def missing(self) -> list[Key]:
        return [key for key in self.keys if key not in self.records]

    def headline(self) -> dict[str, Any]:
        records, n = list(self.records.values()), len(self.keys)
        return {
            "driving_score": driving_score(records, n) if n else None,  # every route may be experimental
            "success_rate": success_rate(records, n) if n else None,
            "efficiency": _mean(self.efficiencies.values()),
            "comfortness": _mean([100.0 * value for value in self.comforts.values()]),
            "abilities": {name: skill.percent for name, skill in self.skills.items()},
            "skill_score": skill_score(self.skills),
        }

    def intervals(self) -> dict[str, Any]:
        records = [self.records.get(key) for key in self.keys]
        clusters = [key[0] for key in self.keys]
        comforts = {key: 100.0 * value for key, value in self.comforts.items()}
        columns = [[100.0 * v for v in skill.values] for skill in self.skills.values()]
        groups = [list(skill.routes) for skill in self.skills.values()]
        whole = all(columns)
        return {
            "driving_score": _interval([r.score if r else 0.0 for r in records], clusters),
            "success_rate": _interval([100.0 * r.success if r else 0.0 for r in records], clusters),
            "efficiency": _interval(list(self.efficiencies.values()), [k[0] for k in self.efficiencies], NOT_NEGATIVE),
            "comfortness": _interval(list(comforts.values()), [k[0] for k in comforts]),
            "abilities": {
                name: _interval(column, group) for name, column, group in zip(self.skills, columns, groups, strict=True)
            },
            "skill_score": _pair(mean_of_means_interval(columns, clusters=groups, bounds=PERCENT)) if whole else None,
        }


def summarise(
    records: Sequence[OfficialRecord],
    routes: Sequence[Route],
    profile: Profile,
    repetitions: int = 1,
    metric_info: Mapping[Key, EgoMotion] | None = None,
    comfort_mode: str = "official",
    junctions: Junctions | None = None,
    traffic_signs: str = "v0.0.3",
) -> dict[str, Any]:
    """Every score with its interval and counts; JSON values only; keys above.
    `metric_info`: motion by (route id, repetition); without it the comfort that records of ours carry is taken.
    `junctions`: see ability.Junctions.
    """
    asked = ScoringOptions(profile, comfort_mode, traffic_signs, junctions)
    origin = _one_origin(records, profile)
    by_id = {route.id: route for route in routes}
    kept, doubled = latest(records)
    ours = {key: r for key, r in kept.items() if key[0] in by_id and key[1] < repetitions}
    _check_routes(kept, ours, by_id, repetitions)
    experimental = {key[0] for key, r in ours.items() if r.experimental}
    headline = [route for route in routes if route.id not in experimental]
    keys = [(route.id, k) for route in headline for k in range(repetitions)]
    comforts, comfort_notes = _comforts(ours, metric_info, comfort_mode, 1.0 / profile.hz)
    sheet = _sheet(by_id, keys, ours, comforts, asked)
    outside = len(kept) - len(ours)
    return {
        **sheet.headline(),
        "n_routes": len(headline),
        "n_duplicates": doubled,
        "n_outside": outside,
        "n_experimental": len(experimental),
        **_counted(sheet),
        "experimental": _experimental(routes, experimental, repetitions, ours, comforts, asked),
        **_broken_down(sheet, headline, repetitions),
        "notes": _notes(sheet, doubled, outside, experimental) + comfort_notes,
        **_rules(asked, origin),
        "versions": {"lmms_eval_ad2": __version__, "records": sorted({r.version for r in ours.values() if r.version})},
    }


def _sheet(
    routes: Mapping[str, Route],
    keys: Sequence[Key],
    records: Mapping[Key, OfficialRecord],
    comforts: Mapping[Key, float],
    asked: ScoringOptions,
) -> _ScoreTable:
    there = {key: records[key] for key in keys if key in records}
    return _ScoreTable(routes, keys, there, {key: comforts[key] for key in there if key in comforts}, asked)


def _broken_down(sheet: _ScoreTable, routes: Sequence[Route], repetitions: int) -> dict[str, Any]:
    return {
        "intervals": sheet.intervals(),
        "interval_method": METHOD,
        "repetitions": _repetitions(sheet, routes, repetitions),
        "types": _types(sheet),
        "partial": _partial(sheet),
    }


def _counted(sheet: _ScoreTable) -> dict[str, Any]:
    crashed = [r for key in sheet.keys if (r := sheet.records.get(key)) and r.crashed]
    return {
        "n_records": len(sheet.records),
        "n_missing": len(sheet.missing),
        "n_crashed": len(crashed),
        "missing": [list(key) for key in sheet.missing],
        "crashed": [{"route": r.route_id, "repetition": r.repetition, "status": r.status} for r in crashed],
    }


def _rules(asked: ScoringOptions, origin: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "profile": asked.profile.name,
        "comfort_mode": asked.comfort_mode,
        "traffic_signs": asked.traffic_signs,
        "origin": origin,
    }


def _part(sheet: _ScoreTable, keys: Sequence[Key]) -> _ScoreTable:
    return _sheet(sheet.routes, keys, sheet.records, sheet.comforts, sheet.asked)


def _one_origin(records: Sequence[OfficialRecord], profile: Profile) -> dict[str, Any]:
    """Where the records come from ({}: official files, which do not say); refused where they are of several runs."""
    origins = {json.dumps(dict(r.origin), sort_keys=True) for r in records}
    if len(origins) > 1:
        raise Ad2Error(f"results of different runs never go into one mean; here are {', '.join(sorted(origins))}")
    origin: dict[str, Any] = json.loads(origins.pop()) if origins else {}
    if origin.get("profile", profile.name) != profile.name:
        raise Ad2Error(
            f"these results were driven under profile {origin['profile']}, not {profile.name}: score them by it"
        )
    return origin


def _check_routes(
    kept: Mapping[Key, OfficialRecord], ours: Mapping[Key, OfficialRecord], routes: Mapping[str, Route], n: int
) -> None:
    """The wrong route file is refused: ids are unique only within one."""
    if kept and not ours:
        example = next(iter(kept.values()))
        raise Ad2Error(
            f"none of the {len(kept)} records is of a route in the route file within {n} repetition(s); the first is "
            f"route {example.route_id}, repetition {example.repetition}. Is it the route file that was driven?"
        )
    if ours and all(_foreign(r, routes[key[0]]) for key, r in ours.items()):
        raise Ad2Error("every record names another town or scenario than its route: this is not the route file driven")


def _foreign(record: OfficialRecord, route: Route) -> bool:
    other_type = record.scenario and record.scenario != route.scenario
    return bool(other_type or (record.town and record.town != route.town))


def _comforts(
    records: Mapping[Key, OfficialRecord], metric_info: Mapping[Key, EgoMotion] | None, mode: str, dt: float
) -> tuple[dict[Key, float], list[str]]:
    """Share of comfortable segments of each record that has one, and what to say of the others."""
    found: dict[Key, float | None] = {}
    for key, record in records.items():
        if metric_info is None:
            found[key] = record.comfort.get(mode)
        elif key in metric_info:
            found[key] = share(metric_info[key], mode, dt * _stride(metric_info[key]))
    known = {key: value for key, value in found.items() if value is not None}
    if len(known) == len(records):
        return known, []
    if not known:
        return known, ["comfortness: no metric_info.json of these episodes was given"]
    return known, [f"comfortness: over {len(known)} of {len(records)} records; the others have no usable metric_info"]


def _stride(motion: EgoMotion) -> float:
    """Ticks from one sample to the next (an agent may log every other tick)."""
    gaps = motion.steps[1:] - motion.steps[:-1]
    return float(statistics.median(gaps.tolist())) if len(gaps) else 1.0


def _experimental(
    routes: Sequence[Route],
    ids: set[str],
    repetitions: int,
    records: Mapping[Key, OfficialRecord],
    comforts: Mapping[Key, float],
    asked: ScoringOptions,
) -> dict[str, Any] | None:
    """Routes whose map's topology is not sound: scored apart."""
    if not ids:
        return None
    keys = [(route.id, k) for route in routes if route.id in ids for k in range(repetitions)]
    head = _sheet({r.id: r for r in routes}, keys, records, comforts, asked).headline()
    return {"routes": sorted(ids), "driving_score": head["driving_score"], "success_rate": head["success_rate"]}


def _repetitions(sheet: _ScoreTable, routes: Sequence[Route], n: int) -> dict[str, Any] | None:
    """Mean and sample standard deviation (n - 1) over the repetitions' own scores; None with one repetition."""
    if n < 2:
        return None
    heads = [_part(sheet, [(route.id, k) for route in routes]).headline() for k in range(n)]
    flat = [{**{k: v for k, v in head.items() if k != "abilities"}, **head["abilities"]} for head in heads]
    return {"n": n, **{name: _spread([head[name] for head in flat]) for name in flat[0]}}


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    std = statistics.stdev(known) if len(known) > 1 else None
    return {"mean": _mean(known), "std": std, "values": list(values)}


def _types(sheet: _ScoreTable) -> list[dict[str, Any]]:
    """A row a scenario type, in alphabetical order."""
    rows = []
    for scenario in sorted({sheet.routes[key[0]].scenario for key in sheet.keys}):
        part = _part(sheet, [key for key in sheet.keys if sheet.routes[key[0]].scenario == scenario])
        head = part.headline()
        rows.append(
            {
                "type": scenario,
                "abilities": list(of_type(scenario)),
                "n": len(part.keys),
                "n_missing": len(part.keys) - len(part.records),
                **{name: head[name] for name in ("driving_score", "success_rate", "efficiency", "comfortness")},
            }
        )
    return rows


def _partial(sheet: _ScoreTable) -> list[str]:
    found = [name for name, skill in sheet.skills.items() if skill.partial]
    return [*found, "skill_score"] if found else []


def _notes(sheet: _ScoreTable, doubled: int, outside: int, experimental: set[str]) -> list[str]:
    """What a reader of the figures must know, a sentence each."""
    records, missing = sheet.records.values(), sheet.missing
    signs = sheet.skills["Traffic_Signs"]
    empty = [name for name, skill in sheet.skills.items() if not skill.values]
    gaps = sorted({gap for r in records for gap in r.gaps if gap != "town_name"})
    foreign = [r.route_id for key, r in sheet.records.items() if _foreign(r, sheet.routes[key[0]])]
    other = [r.route_id for r in records if _other_penalty(r, sheet.asked.profile)]
    said = [
        (doubled, f"{doubled} duplicate record(s) removed: of one route and repetition the last counts"),
        (outside, f"{outside} record(s) left out: their route or repetition is not among those to score"),
        (experimental, f"{len(experimental)} experimental route(s) kept out of every figure, scored apart"),
        (missing, f"{len(missing)} episode(s) have no record: 0 in Driving Score and Success Rate, left out elsewhere"),
        (gaps, f"some records lack {', '.join(gaps)}: without a score they count 0, without lists they are no success"),
        (foreign, f"{len(foreign)} record(s) name another town or scenario than their route: {_few(foreign)}"),
        (other, f"{len(other)} record(s) have a score that profile {sheet.asked.profile.name} would not give; left as "
         f"it stands: {_few(other)}"),
        (not sheet.efficiencies, "efficiency: no record has a speed message up to 1,000 %"),
        (empty, f"no record tests {', '.join(empty)}: no figure there, and no Skill Score"),
        (signs.partial, _junction_note(signs, sheet.asked.traffic_signs)),
    ]  # fmt: skip
    return [text for condition, text in said if condition]


def _junction_note(signs: AbilityScore, variant: str) -> str:
    best = "" if signs.at_most is None else f"; if all of them passed it would be {signs.at_most:.4f}"
    return (
        "Traffic_Signs is partial, and Skill Score with it: successes / records, because the junction test of "
        f"{variant} needs the towns' maps for {signs.untested} record(s){best}"
    )


def _other_penalty(record: OfficialRecord, profile: Profile) -> bool:
    """The score is not what the record's own infractions cost under the profile."""
    if record.score_route is None or record.score_composed is None or "infractions" in record.gaps:
        return False
    expected = record.score_route * penalty_of(record.infractions, profile.penalties)
    return abs(expected - record.score) > _SCORE_SLACK


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")


def _mean(values: Any) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _interval(values: Sequence[float], clusters: Sequence[str], bounds: Bounds = PERCENT) -> list[float] | None:
    return _pair(mean_interval(values, clusters=clusters, bounds=bounds))


def _pair(interval: ConfidenceInterval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
