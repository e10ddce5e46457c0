"""All scores of a set of records over a route file: the data of `ad2 drive score`.

    driving_score, success_rate, efficiency, comfortness, abilities, skill_score     also the keys of "intervals"
    n_routes                      routes in the headline means
    n_episodes                    (route, repetition) pairs in the headline means: denominator of the first two
    n_missing, missing            (route, repetition) pairs without a record
    n_records, n_duplicates       records scored; duplicates dropped (of two records of an episode the later counts)
    n_crashed, crashed            records whose status is a crash, or which never ended
    n_faulted, faulted, as_zero   episodes not driven by somebody's fault, in no figure (run_records.py)
    n_outside                     records of other routes or repetitions
    n_experimental, experimental  routes excluded from the headline means, and their own scores
    n_replaced                    records whose program took the place of the standard scenario: they test no ability
    n_inconsistent, inconsistent  routes with a score that contradicts another or the listed infractions, and what
                                  differs; they count as the file says (consistency.py)
    unchecked                     reason -> routes of which this could not be checked
    repetitions, types            mean and standard deviation over repetitions; one row per scenario type
    partial, notes                figures that lack an input; remarks for readers
    metric_hz                     samples per second of the motion behind Comfortness; None if unknown or various
    profile, comfort_mode, traffic_signs, origin, versions, interval_method
    provenance                    facts of the run, see run_records.py
    ceiling                       what the task and the interpreter of the run allow, see ceilings.py; None without

A figure that cannot be computed is None, never 0, with the reason in "notes". Percentages are 0..100; efficiency may
exceed 100. Intervals have 95 % coverage and cluster by route (lmms_eval_ad2/scoring/metrics/intervals.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.scoring.ability import (
    AbilityScore,
    Junctions,
    known_bounds,
    of_type,
    partial_note,
    signs_variant,
    skill_score,
    skills,
)
from closedloop_plugin.scoring.ceilings import beside
from closedloop_plugin.scoring.comfort import EgoMotion, Key, comforts, sample_intervals
from closedloop_plugin.scoring.consistency import check
from closedloop_plugin.scoring.driving import driving_score, percents, route_efficiency, success_rate
from closedloop_plugin.scoring.official_record import REPLACED, OfficialRecord
from closedloop_plugin.scoring.run_records import (
    ChosenRecords,
    faulted_facts,
    faulted_notes,
    is_foreign,
    not_played_note,
    one_origin,
    provenance,
)
from lmms_eval_ad2.report.table import few
from lmms_eval_ad2.scoring.metrics.intervals import (
    METHOD,
    NOT_NEGATIVE,
    PERCENT,
    Bounds,
    ConfidenceInterval,
    mean_interval,
    mean_of_means_interval,
)
from lmms_eval_ad2.storage.identity import code_label


@dataclass(frozen=True)
class ScoringOptions:
    """Rules by which records are scored."""

    profile: Profile
    comfort_mode: str = "official"
    traffic_signs: str = "v0.0.3"
    junctions: Junctions | None = None


@dataclass
class _ScoreTable:
    """Records of a set of (route, repetition) pairs, and the values that enter the means."""

    routes: Mapping[str, Route]
    keys: Sequence[Key]  # all expected episodes
    records: Mapping[Key, OfficialRecord]
    comforts: Mapping[Key, float]  # share of comfortable segments, if known
    options: ScoringOptions
    skills: Mapping[str, AbilityScore] = field(init=False)
    efficiencies: Mapping[Key, float] = field(init=False)

    def __post_init__(self) -> None:
        pairs = [(self.routes[key[0]].scenario, r) for key, r in self.records.items() if r.tests_ability]
        self.skills = skills(pairs, self.options.traffic_signs, self.options.junctions)
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
    metric_hz: float | None = None,
    comfort_mode: str = "official",
    junctions: Junctions | None = None,
    traffic_signs: str | None = None,
    identity: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """All scores with intervals and counts as JSON values; keys: see the module.

    `metric_info`: motion by (route id, repetition); without it, the comfort stored in our own records is used.
    `metric_hz`: samples per second in `metric_info`, for records that do not store it (default: by the numbers of the
    ticks, at the profile's rate).
    `junctions`: see ability.Junctions; besides the known bounds. `identity`: of run.json, for "provenance".
    Raises Ad2Error for records of several runs, of another profile or route file.
    """
    origin = one_origin(records, profile)
    signs = traffic_signs or signs_variant(routes, origin.get("suite"))
    options = ScoringOptions(profile, comfort_mode, signs, {**known_bounds(routes), **(junctions or {})})
    chosen = ChosenRecords.of(records, routes, repetitions)
    driven = {key: record for key, record in chosen.records.items() if key not in chosen.faulted}
    intervals_s = sample_intervals(driven, metric_info, metric_hz, profile.hz)
    comfort, comfort_notes = comforts(driven, metric_info, comfort_mode, intervals_s)
    table = _table_of(chosen, False, comfort, options)
    scored, n_experimental = [*table.records.values()], len(chosen.experimental)
    crashed = [r for key in table.keys if (r := table.records.get(key)) and r.crashed]
    checked = check([*driven.values()], profile)
    faults = faulted_facts(scored, len(table.keys), chosen.faulted.values())
    partial = [name for name, skill in table.skills.items() if skill.partial]
    rates = {round(1.0 / intervals_s[key], 3) for key in comfort if key in intervals_s}
    return {
        **table.headline(),
        "metric_hz": rates.pop() if len(rates) == 1 else None,
        "n_routes": len({key[0] for key in table.keys}),
        "n_episodes": len(table.keys),
        "n_duplicates": chosen.duplicates,
        "n_outside": chosen.outside,
        "n_experimental": n_experimental,
        "n_records": len(scored),
        "n_missing": len(table.missing),
        "n_crashed": len(crashed),
        "n_replaced": sum(r.replaced for r in scored),
        "missing": [list(key) for key in table.missing],
        "crashed": [{"route": r.route_id, "repetition": r.repetition, "status": r.status} for r in crashed],
        "experimental": _experimental(chosen, comfort, options) if n_experimental else None,
        **faults,
        "intervals": table.intervals(),
        "interval_method": METHOD,
        "repetitions": _repetitions(table, chosen.routes_of(experimental=False), repetitions),
        "types": _types(table),
        "partial": [*partial, "skill_score"] if partial else [],
        "n_inconsistent": len(checked.routes),
        "inconsistent": [{**asdict(one), "text": str(one)} for one in checked.inconsistent],
        "unchecked": {reason: list(names) for reason, names in checked.unchecked.items()},
        "notes": faulted_notes(faults) + _notes(table, chosen) + comfort_notes + checked.notes(),
        "profile": profile.name,
        "comfort_mode": comfort_mode,
        "traffic_signs": signs,
        "origin": origin,
        "provenance": provenance(records, identity, profile.name, comfort_mode).facts(),
        "versions": {
            "lmms_eval_ad2": code_label(),
            "records": sorted({r.version for r in chosen.records.values() if r.version}),
        },
        "ceiling": ceiling.to_json() if (ceiling := beside(origin)) else None,
    }


def _table_of(
    chosen: ChosenRecords, experimental: bool, comforts: Mapping[Key, float], options: ScoringOptions
) -> _ScoreTable:
    """The table of the experimental routes, or of all others, without episodes that were not driven by a fault."""
    keys = [(route.id, k) for route in chosen.routes_of(experimental) for k in range(chosen.repetitions)]
    driven = [key for key in keys if key not in chosen.faulted]
    return _table({route.id: route for route in chosen.routes}, driven, chosen.records, comforts, options)


def _table(
    routes: Mapping[str, Route],
    keys: Sequence[Key],
    records: Mapping[Key, OfficialRecord],
    comforts: Mapping[Key, float],
    options: ScoringOptions,
) -> _ScoreTable:
    present = {key: records[key] for key in keys if key in records}
    return _ScoreTable(routes, keys, present, {key: comforts[key] for key in present if key in comforts}, options)


def _part(table: _ScoreTable, keys: Sequence[Key]) -> _ScoreTable:
    own = {*table.keys}
    return _table(table.routes, [key for key in keys if key in own], table.records, table.comforts, table.options)


def _experimental(chosen: ChosenRecords, comforts: Mapping[Key, float], options: ScoringOptions) -> dict[str, Any]:
    """Scores of the routes whose map topology is uncertain; they are excluded from the headline."""
    head = _table_of(chosen, True, comforts, options).headline()
    return {
        "routes": sorted(chosen.experimental),
        "driving_score": head["driving_score"],
        "success_rate": head["success_rate"],
    }


def _repetitions(table: _ScoreTable, routes: Sequence[Route], n: int) -> dict[str, Any] | None:
    """Mean and sample standard deviation (n - 1) over the scores of the repetitions; None for one repetition."""
    if n < 2:
        return None
    if table.skills["Traffic_Signs"].partial:  # successes / records in every repetition, to be comparable
        table = replace(table, options=replace(table.options, junctions={}))
    heads = [_part(table, [(route.id, k) for route in routes]).headline() for k in range(n)]
    flat = [{**{k: v for k, v in head.items() if k != "abilities"}, **head["abilities"]} for head in heads]
    return {"n": n, **{name: _spread([head[name] for head in flat]) for name in flat[0]}}


def _spread(values: Sequence[float | None]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    std = statistics.stdev(known) if len(known) > 1 else None
    return {"mean": _mean(known), "std": std, "values": list(values)}


def _types(table: _ScoreTable) -> list[dict[str, Any]]:
    """One row per scenario type, in alphabetical order."""
    rows = []
    for scenario in sorted({table.routes[key[0]].scenario for key in table.keys}):
        part = _part(table, [key for key in table.keys if table.routes[key[0]].scenario == scenario])
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


def _notes(table: _ScoreTable, chosen: ChosenRecords) -> list[str]:
    """Remarks on the figures, one sentence each."""
    duplicates, outside, experimental = chosen.duplicates, chosen.outside, chosen.experimental
    records, missing = table.records.values(), table.missing
    signs = table.skills["Traffic_Signs"]
    empty = [name for name, skill in table.skills.items() if not skill.values]
    gaps = sorted({gap for r in records for gap in r.gaps if gap != "town_name"})
    replaced = sum(r.replaced for r in records)
    foreign = [r.route_id for key, r in table.records.items() if is_foreign(r, table.routes[key[0]])]
    speeds = {r.route_id: r.infractions["min_speed_infractions"] for r in records}
    no_percent = [route for route, texts in speeds.items() if len(percents(texts)) < len(texts)]
    versions = sorted({r.version for r in records if r.version})
    notes = [
        (duplicates, f"{duplicates} duplicate record(s) removed: the last of a route and repetition counts"),
        (outside, f"{outside} record(s) left out: their route or repetition is not among those to score"),
        (experimental, f"{len(experimental)} experimental route(s) excluded from every figure, scored separately"),
        (missing, f"{len(missing)} episode(s) have no record: 0 in Driving Score and Success Rate, left out elsewhere"),
        (gaps, f"some records lack {', '.join(gaps)}: without a score they count 0, without lists they are no success"),
        (foreign, f"{len(foreign)} record(s) name another town or scenario than their route: {few(foreign, 5)}"),
        (len(versions) > 1, f"driven with {len(versions)} versions of the world or the code, whose differences the "
         f"figures may mix: {'; '.join(versions[:5])}"),
        (no_percent, f"{len(no_percent)} record(s) with a speed message without a percentage (such as 97.3%), left out "
         f"of Efficiency: {few(no_percent, 5)}"),
        (not table.efficiencies, "efficiency: no record has a speed message up to 1,000 %"),
        (replaced, f"{replaced} of {len(records)} record(s) test no ability: {REPLACED}"),
        (empty and replaced < len(records), f"no record tests {', '.join(empty)}: no figure there, and no Skill Score"),
        (signs.partial, partial_note(table.skills, table.options.traffic_signs)),
        (without := not_played_note({r.route_id: r.not_played for r in records}), without),
    ]  # fmt: skip
    return [text for condition, text in notes if condition]


def _mean(values: Any) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _interval(values: Sequence[float], clusters: Sequence[str], bounds: Bounds = PERCENT) -> list[float] | None:
    return _pair(mean_interval(values, clusters=clusters, bounds=bounds))


def _pair(interval: ConfidenceInterval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
