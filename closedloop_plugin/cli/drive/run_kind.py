"""Run folders of `ad2 drive run`, for `ad2 report compare`: two suites with one driver, or two drivers on one suite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.plugins import RunKind

if TYPE_CHECKING:
    from closedloop_plugin.scoring.compare import Side

# Parts of a run's identity that say who drives, and those that may differ between any two runs.
DRIVER = ("agent", "interpreter", "cameras")
FREE = ("suite", "suite_sha256", "map_sha256", "towns_sha256", "version")
DRIVEN = ("values",)  # of a suite's free parameters: part of what is driven, as the suite is


def is_drive_run(folder: Path) -> bool:
    """Whether `ad2 drive run` (or its lmms-eval task) wrote the folder."""
    return (folder / "run.json").is_file() and (folder / "episodes.jsonl").is_file()


def compare(a: Path, b: Path, *, force: bool, as_json: bool, markdown: bool, published: bool) -> str:
    """The comparison as text, or as JSON. Ad2Error where the runs are unlike (which `force` overrules)."""
    from closedloop_plugin.cli.drive.comparison_text import render
    from closedloop_plugin.scoring.compare import compare as compared
    from closedloop_plugin.scoring.published import published as papers
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.storage.identity import read_run

    runs = [read_run(folder) for folder in (a, b)]
    identities = [run["identity"] for run in runs]
    one_suite = identities[0].get("suite_sha256") == identities[1].get("suite_sha256")
    clashes = unlike(identities[0], identities[1], one_suite)
    if clashes and not force:
        raise Ad2Error(
            f"not comparable: {'; '.join(clashes)}. Drive both alike"
            f"{'' if one_suite else ' (only the suite may differ)'}; to compare them all the same: --force"
        )
    names = _names(identities, one_suite)
    sides = [_side(folder, run, name) for folder, run, name in zip((a, b), runs, names, strict=True)]
    found = compared(sides[0], sides[1])
    about = [_about(folder, run, side) for folder, run, side in zip((a, b), runs, sides, strict=True)]
    attention = clashes + _versions(identities)
    paper = papers() if published and not one_suite else None
    if as_json:
        return _json(about, asdict(found), attention, asdict(paper) if paper else None)
    return render(found, about, attention, paper, markdown=markdown)


def unlike(a: Mapping[str, Any], b: Mapping[str, Any], one_suite: bool) -> list[str]:
    """What differs and must not, "name is A in the first and B in the second" each.

    On two suites the driver must be one; on one suite two drivers are what is compared.
    """
    from lmms_eval_ad2.storage.identity import differences

    free = (*FREE, *(DRIVER if one_suite else DRIVEN))
    kept = [{key: value for key, value in identity.items() if key not in free} for identity in (a, b)]
    found = differences(kept[0], kept[1])
    towns = [identity.get("towns_sha256") or {} for identity in (a, b)]
    shared = towns[0].keys() & towns[1].keys()
    if any(towns[0][town] != towns[1][town] for town in shared):
        found.append("towns_sha256: the same towns have other maps there and here")
    elif bool(towns[0]) != bool(towns[1]):
        found.append(f"maps are {_maps(towns[0])} there and {_maps(towns[1])} here")
    return [text.replace(" there and ", " in the first and ").replace(" here", " in the second") for text in found]


def _maps(towns: Mapping[str, str]) -> str:
    return "real towns" if towns else "corridors"


def _versions(identities: list[dict[str, Any]]) -> list[str]:
    one, two = (identity.get("version") for identity in identities)
    return [f"driven with lmms-eval-ad2 {one} and {two}"] if one != two else []


def _names(identities: list[dict[str, Any]], one_suite: bool) -> tuple[str, str]:
    """Heads of the columns: the suites, where there are two."""
    one, two = (str(identity.get("suite", "")) for identity in identities)
    if one_suite:
        return "A", "B"
    return (one, two) if one != two else (f"A: {one}", f"B: {two}")


def _side(folder: Path, run: Mapping[str, Any], name: str) -> Side:
    """The run with the routes that it was asked for at any of its starts."""
    from closedloop_plugin.runner.episode import PROGRAM
    from closedloop_plugin.runner.store import read_records
    from closedloop_plugin.scoring.compare import Side
    from lmms_eval_ad2.errors import Ad2Error

    records = read_records(folder)
    if not records:
        raise Ad2Error(f"{folder}: no episode in it yet; start the same `ad2 drive run` again, it goes on from there")
    if records[0].scenario == PROGRAM:
        raise Ad2Error(f"{folder}: one program of your own, which has no scores of a benchmark; drive it as a --suite")
    selection = run["selection"]
    wanted = {*selection.get("asked", selection["routes"]), *(r.route_id for r in records)}
    routes = [route for route in selection["routes"] if route in wanted]
    return Side(name, routes, records)


def _about(folder: Path, run: Mapping[str, Any], side: Side) -> dict[str, Any]:
    identity = run["identity"]
    record = side.records[0]
    return {
        "name": side.name,
        "folder": str(folder),
        "suite": identity.get("suite"),
        "suite_sha256": identity.get("suite_sha256"),
        "agent": identity.get("agent"),
        "interpreter": identity.get("interpreter"),
        "profile": identity.get("profile"),
        "seed": identity.get("seed"),
        "backend": record.world.get("backend"),
        "routes": len(side.routes),
        "episodes": len({(r.route_id, r.repetition) for r in side.records}),
    }


def _json(about: list[dict[str, Any]], found: dict[str, Any], attention: list[str], paper: Any) -> str:
    """The paper's figures stand under a key of their own, with the world that they were driven in."""
    from lmms_eval_ad2.metrics.intervals import METHOD

    about_us = {"a": about[0], "b": about[1], "interval_method": METHOD}
    whole = {**about_us, **found, "attention": attention, "published": paper}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


RUN_KIND = RunKind("a run folder of `ad2 drive run` (run.json and episodes.jsonl)", is_drive_run, compare)
