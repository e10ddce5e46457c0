"""`ad2 drive score`: compute the official closed-loop scores of result files, without a simulator."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.report.text_table import TextTable

if TYPE_CHECKING:
    from closedloop_plugin.core.routes import Route
    from closedloop_plugin.maps.towns.junction_shares import JunctionShares
    from closedloop_plugin.scenarios.suites.lookup import Suite
    from closedloop_plugin.scoring.official import OfficialResults
    from closedloop_plugin.scoring.official_record import OfficialRecord

NONE = "–"
NAMED = {  # facts of the run in the heading, besides world, driver and profile
    "interpreter": "interpreter", "policy": "policy", "comfort": "comfort mode", "version": "version", "seed": "seed",
}  # fmt: skip
FASTEST_HZ = 1000.0


@dataclass(frozen=True, kw_only=True)
class DriveScoreOptions:
    """`ad2 drive score`."""

    results: tuple[Path, ...] = option(metavar="RESULTS", positional=True)
    routes: str | None = option(
        "driven suite: its route file, folder of programs or route files, or demo (default: the suite that run folders "
        "name)",
        default=None, metavar="FILE|DIR|SUITE",
    )  # fmt: skip
    profile: str | None = option(
        "rules of scoring (default: those of the results; official files: bench2drive)", default=None, metavar="NAME"
    )
    repetitions: int | None = option(
        "repetitions of each route (default: by the numbers in the records)", default=None, metavar="N"
    )
    apart: bool = option("count each RESULTS as one repetition", default=False)
    metric_info: Path | None = option("folder of the metric_info.json files", default=None, metavar="DIR")
    metric_hz: float | None = option(
        "samples per second in metric_info.json of other programs (default: ticks at the profile's rate, 20 Hz for "
        "bench2drive)",
        default=None,
        metavar="HZ",
    )
    comfort: Literal["official", "corrected"] = option("rules of Comfortness (default official)", default="official")
    traffic_signs: Literal["v0.0.3", "v0.0.4"] | None = option(
        "variant of Traffic_Signs (default: v0.0.4 for bench2drive_0.0.4_val, else v0.0.3)", default=None
    )
    towns: Path | None = option(
        "OpenDRIVE files <town>.xodr, or CARLA's folder Maps, for the junction test of Traffic_Signs",
        default=None,
        metavar="DIR",
    )
    json: bool = option("print the figures as JSON", default=False)


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "score",
        run,
        DriveScoreOptions,
        help="print Driving Score, Success Rate, Efficiency, Comfortness and abilities of result files",
        description="RESULTS are official CARLA result files (merged or split), folders of them, run folders of "
        "`ad2 drive run`, or an episodes.jsonl. Routes without a record count 0; of two records of a route and "
        "repetition the last counts.",
    )


def run(options: DriveScoreOptions) -> int:
    from closedloop_plugin.cli.drive.results import routes_given
    from closedloop_plugin.cli.drive.route_checks import without
    from closedloop_plugin.cli.drive.selection import left_out_note
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.scoring import comfort, official, summary
    from closedloop_plugin.scoring.driving import MOST_REPETITIONS, repetitions_of
    from lmms_eval_ad2.core.errors import Ad2Error

    results = official.read_apart(options.results) if options.apart else official.read(options.results)
    what, changed = (routes_given(options.routes), ()) if options.routes else suite_of_runs(options.results)
    what = without(what, left_out_of(options.results))
    records = results.records
    repetitions = repetitions_of(records) if options.repetitions is None else options.repetitions
    if not 1 <= repetitions <= MOST_REPETITIONS:
        raise Ad2Error(f"--repetitions {repetitions}: expected 1 to {MOST_REPETITIONS}")
    motions = None
    if options.metric_hz is not None:
        _check_rate(options.metric_hz, options.metric_info)
    if options.metric_info:
        motions = comfort.find_motions(options.metric_info, {r.key: r.save_name for r in records})
    junctions = _junctions(options, what, records)
    found = summary.summarise(
        records,
        what.routes,
        profile(options.profile or records[0].origin.get("profile", "bench2drive")),
        repetitions,
        metric_info=motions,
        metric_hz=options.metric_hz,
        comfort_mode=options.comfort,
        junctions=junctions.share if junctions else None,
        traffic_signs=options.traffic_signs,
        identity=_identity(options.results),
    )
    found["n_lost"] = sum(n for _, n in results.lost)
    found["notes"] = _lost(results) + found["notes"] + _junction_notes(options, junctions, found)
    found["notes"] += [
        *_trained(options.results),
        *_other_programs(options.results, what),
        *left_out_note(what),
        *changed,
    ]
    found["junctions"] = asdict(junctions) if junctions else None
    found |= pairs_found(records, what.routes)
    if options.json:
        more = {"routes": options.routes or what.name, "files": list(results.files), "left_out": dict(what.left_out)}
        print(json.dumps({**found, **more}, indent=1))
    else:
        show(render(found, Path(options.routes or what.name).name, results.files))
    return 0


def _check_rate(metric_hz: float, folder: Path | None) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    if not 1.0 <= metric_hz <= FASTEST_HZ:
        raise Ad2Error(f"--metric-hz {metric_hz:g}: expected 1 to {FASTEST_HZ:g} samples per second")
    if folder is None:
        raise Ad2Error("--metric-hz is the rate of the files of --metric-info DIR: give that folder, too")


def _identity(results: Sequence[Path]) -> dict[str, Any] | None:
    """The identity of the run, if the only results are a run folder."""
    from lmms_eval_ad2.storage.identity import RUN, read_run

    if len(results) != 1 or not (results[0] / RUN).is_file():
        return None
    identity: dict[str, Any] = read_run(results[0])["identity"]
    return identity


def suite_of_runs(results: Sequence[Path]) -> tuple[Suite, tuple[str, ...]]:
    """The suite that the run folders name, and notes if its routes have changed since. Raises Ad2Error."""
    from closedloop_plugin.cli.drive.results import suite_of
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import RUN, read_run

    runs = {path: read_run(path)["identity"] for path in results if (path / RUN).is_file()}
    other = next((path for path in results if path not in runs), None)
    if other is not None:
        raise Ad2Error(f"{other}: only a run folder names its routes; give the driven route file: --routes FILE")
    first, *more = runs.values()
    if any(identity.get("suite_sha256") != first.get("suite_sha256") for identity in more):
        names = ", ".join(dict.fromkeys(str(identity.get("suite")) for identity in runs.values()))
        raise Ad2Error(
            f"the runs were driven on several suites ({names}); score them one by one, or give --routes FILE"
        )
    found, notes = suite_of(first, None)
    if found is None:
        raise Ad2Error(
            f"{results[0]}: driven on suite {first.get('suite')}, which is not here; name its routes: --routes FILE"
        )
    return found, notes


def pairs_found(records: Sequence[OfficialRecord], routes: Sequence[Route]) -> dict[str, Any]:
    """The gap between Fail2Drive's pairs as a part of the figures; {} for other routes."""
    from closedloop_plugin.scoring.route_pairs import pair_gap

    gap = pair_gap(records, routes)
    return {"pairs": gap} if gap else {}


def left_out_of(results: Sequence[Path]) -> dict[str, str]:
    """Reasons of the routes that the run folders left out, by id: a fault of a route or map is no driver's 0."""
    from lmms_eval_ad2.storage.identity import RUN, read_run

    runs = [read_run(path)["selection"].get("left_out", {}) for path in results if (path / RUN).is_file()]
    return {route: reason for left_out in runs for route, reason in left_out.items()}


def _junctions(options: DriveScoreOptions, what: Suite, records: Sequence[OfficialRecord]) -> JunctionShares | None:
    """Shares up to the first junction, of the routes that Traffic_Signs needs them for; None without --towns."""
    from closedloop_plugin.cli.drive.selection import towns_of
    from closedloop_plugin.maps.towns.junction_shares import junction_shares
    from closedloop_plugin.scoring.ability import known_bounds, signs_variant, untested

    if options.towns is None:
        return None
    by_id = {route.id: route for route in what.routes}
    towns = towns_of(options.towns, what.routes, what.routes)
    known = [(by_id[r.route_id].scenario, r) for r in records if r.route_id in by_id and r.tests_ability]
    signs = options.traffic_signs or signs_variant(what.routes, records[0].origin.get("suite"))
    needed = untested(known, signs, known_bounds(what.routes))
    return junction_shares([by_id[route] for route in needed], towns)


def _junction_notes(options: DriveScoreOptions, found: JunctionShares | None, scores: dict[str, Any]) -> list[str]:
    """What the junction test was done with, and what it lacked."""
    if found is None:
        return ["junction test: give --towns DIR with the towns' OpenDRIVE files"] if scores["partial"] else []
    notes = [f"junction test: {len(found.share)} route(s) tested on the maps in {options.towns}"]
    if found.without_map:
        lacking = ", ".join(f"{town} {len(routes)}" for town, routes in found.without_map.items())
        notes.append(f"junction test: no map there for routes in {lacking}")
    if found.unknown:
        first = next(iter(found.unknown.values()))
        notes.append(f"junction test: unknown for route(s) {', '.join(found.unknown)}; the first: {first}")
    return notes


def _trained(results: Sequence[Path]) -> list[str]:
    """Notes on run folders whose model was trained on routes that they were to drive."""
    from closedloop_plugin.cli.drive.training_data import training_note
    from lmms_eval_ad2.storage.identity import read_run

    selections = {path: read_run(path)["selection"] for path in results if (path / "run.json").is_file()}
    notes = {path: training_note(one, one.get("asked") or one.get("routes") or ()) for path, one in selections.items()}
    return [f"{path}: {note}" for path, note in notes.items() if note]


def _other_programs(results: Sequence[Path], what: Suite) -> list[str]:
    """Notes on run folders whose programs differ from the folder's current ones of the same names."""
    from lmms_eval_ad2.storage.identity import read_run

    if not what.programs:
        return []
    runs = {path: read_run(path)["identity"] for path in results if (path / "run.json").is_file()}
    return [
        f"{path}: driven on other programs (suite {run.get('suite')}, sha256 {str(run.get('suite_sha256'))[:12]}) "
        f"than the folder's current ones ({what.sha256[:12]}); the scores belong to the driven ones"
        for path, run in runs.items()
        if run.get("suite_sha256") != what.sha256
    ]


def render(found: dict[str, Any], routes: str, files: tuple[str, ...] = ()) -> str:
    """The summary as text: heading, scores with intervals, gap of pairs, counts, scenario types, notes."""
    notes = "\n".join(textwrap.fill(f"- {note}", 120, subsequent_indent="  ") for note in found["notes"])
    from closedloop_plugin.scoring.route_pairs import gap_text

    pairs = gap_text(found["pairs"]) if found.get("pairs") else ""
    blocks = [heading(found, routes, files), _scores(found), pairs, _counts(found), _repetitions(found), _types(found)]
    blocks.append(notes)
    return "\n\n".join(block for block in blocks if block)


def heading(found: dict[str, Any], routes: str, files: tuple[str, ...]) -> str:
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
        + textwrap.fill(", ".join(f"{name} {about[key]}" for key, name in NAMED.items()), 120)
    )


def _scores(found: dict[str, Any]) -> str:
    ci = found["intervals"]
    rate = "" if found["metric_hz"] is None else f", metric_info at {found['metric_hz']:g} Hz"
    modes = {"comfortness": f" ({found['comfort_mode']}{rate}, % of segments)"}
    rows = [_row(name, found, ci, unit) for name, unit in (("driving_score", ""), ("success_rate", " %"))]
    rows += [_row(name, found, ci, modes.get(name, " %")) for name in ("efficiency", "comfortness")]
    if not tests_none(found):
        names = found["abilities"]
        rows += [_row(name, names, ci["abilities"], " %", name in found["partial"]) for name in names]
        rows.append(_row("skill_score", found, ci, " %", "skill_score" in found["partial"]))
    below = [textwrap.fill(found["ceiling"]["text"], 120)] if found["ceiling"] else []
    return "\n\n".join([TextTable(("score", "value", "95 % interval"), rows, "lrl").plain(), *below])


def tests_none(found: Mapping[str, Any]) -> bool:
    """Whether every record of a summary is of a program that replaced the standard scenario; a note says so."""
    return 0 < found["n_records"] == found["n_replaced"]


def _row(name: str, values: dict[str, Any], intervals: dict[str, Any], unit: str, partial: bool = False) -> list[str]:
    title = name.replace("_", " ") if name[0].isupper() else name.replace("_", " ").title()
    span = intervals[name]
    text = NONE if span is None else f"[{span[0]:.2f}, {span[1]:.2f}]"
    return [title + unit + (" (partial)" if partial else ""), _number(values[name], 4), text]


_COUNTED = ("records", "missing", "crashed", "faulted", "duplicates", "lost", "outside", "experimental", "inconsistent")


def _counts(found: dict[str, Any]) -> str:
    line = ", ".join(f"{found.get('n_' + name, 0)} {name}" for name in _COUNTED)
    crashed = "".join(f"\n  crashed: route {c['route']} rep {c['repetition']}: {c['status']}" for c in found["crashed"])
    missing = found["missing"]
    names = ", ".join(f"{route} rep {k}" for route, k in missing[:10]) + (" ..." if len(missing) > 10 else "")
    faulted = "".join(
        f"\n  fault of the {f['fault']}: route {f['route']} rep {f['repetition']}: {f['reason']}"
        for f in found["faulted"]
    )
    return line + (f"\n  missing: {names}" if missing else "") + crashed + faulted


def _repetitions(found: dict[str, Any]) -> str:
    spread = found["repetitions"]
    if not spread:
        return ""
    texts = [
        f"{name} {_number(value['mean'], 2)} ± {_number(value['std'], 2)}"
        for name, value in spread.items()
        if name != "n" and value["mean"] is not None
    ]
    line = f"Over {spread['n']} repetitions (mean ± standard deviation): " + ", ".join(texts)
    return textwrap.fill(line, 120, subsequent_indent="  ")


def _types(found: dict[str, Any]) -> str:
    figures = ("driving_score", "success_rate", "efficiency", "comfortness")
    rows = [
        [row["type"] or "(none, or several)", row["n"], row["n_missing"], *(_number(row[name], 1) for name in figures)]
        for row in found["types"]
    ]
    headers = ["scenario type", "n", "missing", "DS", "SR %", "Eff. %", "Comf. %"]
    return TextTable(headers, rows, "lrrrrrr").plain()


def _number(value: float | None, decimals: int) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def _lost(results: OfficialResults) -> list[str]:
    return [f"{file} is cut off: {n} record(s) lost, all complete ones are scored" for file, n in results.lost]
