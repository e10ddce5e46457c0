"""The run kind of `ad2 report`: run folders of `ad2 drive run` and official result files, in any combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.cli.drive.merge import merge
from closedloop_plugin.cli.drive.results import DriveResults, find, is_drive_run, is_results, read_results, short_names
from closedloop_plugin.cli.drive.unread_replies import unread
from lmms_eval_ad2.core.plugins import RunKind

if TYPE_CHECKING:
    from closedloop_plugin.scoring.compare import DrivingComparison
    from closedloop_plugin.scoring.measures import ComparedRun
    from closedloop_plugin.scoring.official_record import OfficialRecord
    from lmms_eval_ad2.report.sections import ReportSection

# Keys of a run's identity: the driver, and keys that may differ between any two runs.
DRIVER = ("agent", "interpreter", "cameras")
FREE = ("suite", "suite_sha256", "map_sha256", "towns_sha256", "version", "commit")
DRIVEN = ("values", "alone", "draws")  # how free parameters and programs are played: it belongs to the suite


def report(
    paths: Sequence[Path], *, routes: str | None, published: bool, traffic_signs: str | None = None
) -> ReportSection:
    """The section of these results, each one of `find`."""
    from closedloop_plugin.cli.drive.report_section import report_section

    named = zip(paths, short_names(paths), strict=True)
    results = [read_results(path, routes, name) for path, name in named]
    return report_section(results, published=published, traffic_signs=traffic_signs)


def compare(
    a: Path, b: Path, *, force: bool, routes: str | None, published: bool, traffic_signs: str | None = None
) -> ReportSection:
    """Compare two results by route; raises Ad2Error if they are not comparable, except with `force`."""
    from closedloop_plugin.cli.drive.compare_section import compare_section
    from closedloop_plugin.scoring.compare import compare as compared
    from closedloop_plugin.scoring.consistency import check
    from closedloop_plugin.scoring.published import published as papers
    from lmms_eval_ad2.core.errors import Ad2Error

    sides = [read_results(p, routes, name) for p, name in zip((a, b), short_names((a, b)), strict=True)]
    one, two = (side.identity for side in sides)
    whole = one is None or two is None  # an official file: Bench2Drive's own rule
    one_suite = whole or (one or {}).get("suite_sha256") == (two or {}).get("suite_sha256")
    clashes = _rules_unlike(sides) if one is None or two is None else unlike(one, two, one_suite)
    if clashes and not force:
        scope = "" if one_suite else " (only the suite may differ)"
        raise Ad2Error(
            f"not comparable: {'; '.join(clashes)}. Use the same settings for both runs{scope}; "
            "to compare them all the same: --force"
        )
    runs = [_side(side, name) for side, name in zip(sides, _names(sides, one_suite), strict=True)]
    signs = traffic_signs or _one_variant(sides)
    found = compared(runs[0], runs[1], rule="whole" if whole else "common", signs=signs)
    types = {route.id: route.scenario for side in sides if side.suite for route in side.suite.routes}
    # A route without a record in both has no scenario yet.
    by_route = [replace(one, scenario=one.scenario or types.get(one.route, "")) for one in found.by_route]
    found = replace(found, by_route=by_route)
    attention = clashes + [f"{side.name}: {side.training}" for side in sides if side.training]
    attention += _versions(sides) + _unknown(sides) + [f"{s.name}: {note}" for s in sides for note in s.notes]
    attention += [text for side, run in zip(sides, runs, strict=True) if (text := _over_all(side, run, found))]
    return compare_section(
        found,
        [_about(side, run) for side, run in zip(sides, runs, strict=True)],
        attention,
        papers() if published and not one_suite else None,
        [check(_driven(run), side.profile) for side, run in zip(sides, runs, strict=True)],
        causes=_causes(runs, one_suite),
        signs=signs,
    )


def _one_variant(sides: Sequence[DriveResults]) -> str:
    """The variant of Traffic_Signs of both suites. Raises Ad2Error if they have different ones."""
    from lmms_eval_ad2.core.errors import Ad2Error

    variants = [side.signs for side in sides]
    if len(set(variants)) > 1:
        named = " and ".join(f"{variant} for {side.name}" for variant, side in zip(variants, sides, strict=True))
        raise Ad2Error(f"Traffic_Signs is that of {named}: choose one for both with --traffic-signs")
    return variants[0]


def _causes(runs: Sequence[ComparedRun], one_suite: bool) -> list[dict[str, Any]]:
    """Failures on threat scenarios by cause. Of two suites the one without programs is the standard drive."""
    from closedloop_plugin.cli.drive.cause_table import cause_shares

    names = ["A", "B"] if one_suite else [run.name for run in runs]
    sides = [_counted(run) for run in runs]
    standard = next((side for side in sides if not any(e.program for e in side)), None)
    return cause_shares(list(zip(names, sides, strict=True)), standard)


def parts(path: Path) -> list[Path]:
    """The run folders at or below a path, also those of a single program or without an episode."""
    if is_drive_run(path) or not path.is_dir():
        return [path] if is_drive_run(path) else []
    return sorted(file.parent for file in path.rglob("run.json") if is_drive_run(file.parent))


RUN_KIND = RunKind(
    name="drive",
    about="a run folder of `ad2 drive run` (run.json and episodes.jsonl) or an official Bench2Drive result file",
    recognises=is_results,
    find=find,
    report=report,
    compare=compare,
    unread=unread,
    parts=parts,
    merge=merge,
)


def unlike(a: Mapping[str, Any], b: Mapping[str, Any], one_suite: bool) -> list[str]:
    """Differences that prevent a comparison, each as "name is A in the first and B in the second".

    With two suites the driver must be the same; with one suite the drivers are compared.
    """
    from lmms_eval_ad2.storage.identity import differences

    free = (*FREE, *(DRIVER if one_suite else DRIVEN))
    kept = [{key: value for key, value in identity.items() if key not in free} for identity in (a, b)]
    places = ("in the first", "in the second")
    found = differences(kept[0], kept[1], places=places, unset={"decision_hz": "the profile's rate"})
    towns = [identity.get("towns_sha256") or {} for identity in (a, b)]
    shared = towns[0].keys() & towns[1].keys()
    if any(towns[0][town] != towns[1][town] for town in shared):
        found.append("towns_sha256: the same towns have other maps in the first and in the second")
    elif bool(towns[0]) != bool(towns[1]):
        found.append(f"maps are {_maps(towns[0])} {places[0]} and {_maps(towns[1])} {places[1]}")
    return found


def _maps(towns: Mapping[str, str]) -> str:
    return "real towns" if towns else "corridors"


def _rules_unlike(sides: Sequence[DriveResults]) -> list[str]:
    """Profiles with other penalties cannot be compared; an official file states nothing else that could be."""
    a, b = (side.profile for side in sides)
    return [] if a.penalties == b.penalties else [f"profile is {a.name} in the first and {b.name} in the second"]


def _unknown(sides: Sequence[DriveResults]) -> list[str]:
    """What limits a comparison with an official file."""
    files = [side.name for side in sides if side.identity is None]
    profiles = list(dict.fromkeys(side.profile.name for side in sides))
    found = [f"{', '.join(files)}: settings of the drive are not in an official file and were not compared"]
    if len(profiles) > 1:
        found.append(f"other rates and time limits: profiles {' and '.join(profiles)}")
    return found if files else []


def _over_all(side: DriveResults, run: ComparedRun, found: DrivingComparison) -> str:
    """The figures of an official file over its whole route file, if fewer routes are paired."""
    from closedloop_plugin.scoring.driving import driving_score, success_rate

    own = [e.official for e in _counted(run) if e.official.route_id in {*run.routes}]
    records = [record for record in own if not record.fault]
    n = len(run.routes) * run.repetitions - (len(own) - len(records))
    if side.identity is not None or len(found.routes) == len(run.routes) or not n:
        return ""
    return (
        f"{run.name}: over all {len(run.routes)} routes of {side.suite.name if side.suite else '?'}: Driving Score "
        f"{driving_score(records, n):.2f}, Success Rate {success_rate(records, n):.2f} %"
    )


def _versions(sides: Sequence[DriveResults]) -> list[str]:
    from lmms_eval_ad2.storage.code_state import code_label

    known = [side.identity for side in sides if side.identity is not None]
    labels = [code_label(str(identity.get("version")), str(identity.get("commit") or "")) for identity in known]
    return [f"driven with lmms-eval-ad2 {' and '.join(labels)}"] if len(set(labels)) == len(sides) else []


def _names(sides: Sequence[DriveResults], one_suite: bool) -> tuple[str, str]:
    """Headers of the columns: the names of the suites, or A and B for one suite."""
    if one_suite:
        return "A", "B"
    one, two = (str((side.identity or {}).get("suite", "")) for side in sides)
    return (one, two) if one != two else (f"A: {one}", f"B: {two}")


def _side(results: DriveResults, name: str) -> ComparedRun:
    from closedloop_plugin.scoring.measures import ComparedRun

    return ComparedRun(name, results.asked, results.episodes, results.repetitions)


def _counted(run: ComparedRun) -> list[Any]:
    """The last of each episode."""
    return list({e.official.key: e for e in run.episodes}.values())


def _driven(run: ComparedRun) -> list[OfficialRecord]:
    """The last record of each episode, without those that were not driven by a fault."""
    return [e.official for e in _counted(run) if not e.official.fault]


def _about(results: DriveResults, run: ComparedRun) -> dict[str, Any]:
    """One side for text, page and JSON."""
    from closedloop_plugin.cli.drive.report_section import COMFORT, elsewhere, facts_of
    from closedloop_plugin.scoring.ceilings import beside
    from closedloop_plugin.scoring.run_records import provenance

    identity = results.identity or {}
    ceiling = beside(results.records[0].origin) if results.records else None
    found = provenance(results.records, results.identity, results.profile.name, COMFORT)
    n = len(_counted(run))
    return {
        "name": run.name,
        "label": results.name,
        "folder": str(results.path),
        "suite": identity.get("suite") or (results.suite.name if results.suite else None),
        "suite_sha256": identity.get("suite_sha256") or (results.suite.sha256 if results.suite else None),
        "agent": identity.get("agent"),
        "interpreter": identity.get("interpreter"),
        "profile": results.profile.name,
        "seed": identity.get("seed"),
        "backend": None if found.official else found.backend,
        "provenance": found.facts(),
        "ceiling": ceiling.to_json() if ceiling else None,
        "routes": len(run.routes),
        "episodes": n,
        "line": f"{found.line()}, {n} episodes",
        "facts": facts_of(results, found),
        "warnings": elsewhere([(run.name, found)]),
    }
