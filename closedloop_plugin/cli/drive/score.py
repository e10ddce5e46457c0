"""`ad2 drive score`: compute the official closed-loop scores of result files, without a simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.maps.towns.junction_shares import JunctionShares
    from closedloop_plugin.scenarios.suites.lookup import Suite
    from closedloop_plugin.scoring.official_record import OfficialRecord

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
    apart: bool = option("count each RESULTS as one repetition", default=False, expert=True)
    metric_info: Path | None = option("folder of the metric_info.json files", default=None, metavar="DIR")
    metric_hz: float | None = option(
        "samples per second in metric_info.json of other programs (default: ticks at the profile's rate, 20 Hz for "
        "bench2drive)",
        default=None,
        metavar="HZ",
        expert=True,
    )
    comfort: Literal["official", "corrected"] = option(
        "rules of Comfortness (default official)", default="official", expert=True
    )
    traffic_signs: Literal["v0.0.3", "v0.0.4"] | None = option(
        "variant of Traffic_Signs (default: v0.0.4 for bench2drive_0.0.4_val, else v0.0.3)", default=None, expert=True
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
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.report.results import routes_given
    from closedloop_plugin.report.score_text import score_text
    from closedloop_plugin.runner.routes import left_out_note, without
    from closedloop_plugin.scoring import comfort, official, summary
    from closedloop_plugin.scoring.driving import MOST_REPETITIONS, repetitions_of
    from closedloop_plugin.scoring.route_pairs import pair_gap
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import RUN, read_run

    results = official.read_apart(options.results) if options.apart else official.read(options.results)
    runs = {path: read_run(path) for path in options.results if (path / RUN).is_file()}
    what, changed = (routes_given(options.routes), ()) if options.routes else suite_of_runs(options.results, runs)
    what = without(what, left_out_of(runs))
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
        # The figures are of one run only if the only results are its folder.
        identity=runs[options.results[0]]["identity"] if runs and len(options.results) == 1 else None,
    )
    found["n_lost"] = sum(n for _, n in results.lost)
    found["notes"] = [
        *(f"{file} is cut off: {n} record(s) lost, all complete ones are scored" for file, n in results.lost),
        *found["notes"],
        *_junction_notes(options, junctions, found),
        *_notes_on_runs(runs, what),
        *left_out_note(what),
        *changed,
    ]
    found["junctions"] = asdict(junctions) if junctions else None
    if gap := pair_gap(records, what.routes):
        found["pairs"] = gap
    if options.json:
        more = {"routes": options.routes or what.name, "files": list(results.files), "left_out": dict(what.left_out)}
        print(json.dumps({**found, **more}, indent=1))
    else:
        show(score_text(found, Path(options.routes or what.name).name, results.files))
    return 0


def _check_rate(metric_hz: float, folder: Path | None) -> None:
    from lmms_eval_ad2.core.errors import Ad2Error

    if not 1.0 <= metric_hz <= FASTEST_HZ:
        raise Ad2Error(f"--config metric_hz={metric_hz:g}: expected 1 to {FASTEST_HZ:g} samples per second")
    if folder is None:
        raise Ad2Error("--config metric_hz is the rate of the files of --metric-info DIR: give that folder, too")


def suite_of_runs(results: Sequence[Path], runs: Mapping[Path, Mapping[str, Any]]) -> tuple[Suite, tuple[str, ...]]:
    """The suite that the run folders name, and notes if its routes have changed since. Raises Ad2Error.

    runs: the contents of run.json of those results that are run folders.
    """
    from closedloop_plugin.report.results import suite_of
    from lmms_eval_ad2.core.errors import Ad2Error

    other = next((path for path in results if path not in runs), None)
    if other is not None:
        raise Ad2Error(f"{other}: only a run folder names its routes; give the driven route file: --routes FILE")
    first, *more = (run["identity"] for run in runs.values())
    if any(identity.get("suite_sha256") != first.get("suite_sha256") for identity in more):
        names = ", ".join(dict.fromkeys(str(identity.get("suite")) for identity in (first, *more)))
        raise Ad2Error(
            f"the runs were driven on several suites ({names}); score them one by one, or give --routes FILE"
        )
    found, notes = suite_of(first, None)
    if found is None:
        raise Ad2Error(
            f"{results[0]}: driven on suite {first.get('suite')}, which is not here; name its routes: --routes FILE"
        )
    return found, notes


def left_out_of(runs: Mapping[Path, Mapping[str, Any]]) -> dict[str, str]:
    """Reasons of the routes that the run folders left out, by id: a fault of a route or map is no driver's 0."""
    left_out = [run["selection"].get("left_out", {}) for run in runs.values()]
    return {route: reason for by_route in left_out for route, reason in by_route.items()}


def _notes_on_runs(runs: Mapping[Path, Mapping[str, Any]], what: Suite) -> list[str]:
    """Run folders whose model was trained on routes that they were to drive, and those whose programs differ from the
    folder's current ones of the same names."""
    from closedloop_plugin.runner.training_data import training_note

    selections = {path: run["selection"] for path, run in runs.items()}
    trained = {
        path: training_note(one, one.get("asked") or one.get("routes") or ()) for path, one in selections.items()
    }
    notes = [f"{path}: {note}" for path, note in trained.items() if note]
    identities = {path: run["identity"] for path, run in runs.items()} if what.programs else {}
    return notes + [
        f"{path}: driven on other programs (suite {run.get('suite')}, sha256 {str(run.get('suite_sha256'))[:12]}) "
        f"than the folder's current ones ({what.sha256[:12]}); the scores belong to the driven ones"
        for path, run in identities.items()
        if run.get("suite_sha256") != what.sha256
    ]


def _junctions(options: DriveScoreOptions, what: Suite, records: Sequence[OfficialRecord]) -> JunctionShares | None:
    """Shares up to the first junction, of the routes that Traffic_Signs needs them for; None without --towns."""
    from closedloop_plugin.maps.towns.junction_shares import junction_shares
    from closedloop_plugin.runner.routes import towns_of
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
    """The maps of the junction test, and what it lacked."""
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
