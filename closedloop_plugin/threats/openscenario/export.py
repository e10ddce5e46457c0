"""Export a folder of generated threats: files, read back and checked, and a list of what they do not express.

OUT/<name>.xosc                the scenario; its parameters have the values of the draw that is played
OUT/<name>.distribution.xosc   the ranges of its parameters (ParameterValueDistribution), if it has any
OUT/<map>.xodr                 the corridor maps that the scenarios refer to
OUT/export.json                scenario -> road, values, ranges, not_expressed, or the reason why it has no file
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.suites.programs import INDEX, index_of
from closedloop_plugin.threats.check import ScenarioProgram, programs_of
from closedloop_plugin.threats.openscenario import library
from closedloop_plugin.threats.openscenario.scenario import ScenarioFile, ScenarioRequest, distribution, scenario_file
from closedloop_plugin.threats.openscenario.scene import SceneSamples, sample
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import ThreatTranscript
from closedloop_plugin.threats.verdict_files import read_verdicts
from closedloop_plugin.worlds.base import InvalidScene
from lmms_eval_ad2.errors import Ad2Error, MissingExtra
from lmms_eval_ad2.numbers import is_number
from lmms_eval_ad2.storage.files import atomic_write_bytes, atomic_write_json, file_sha256
from lmms_eval_ad2.storage.lock import lock_folder

LIST = "export.json"
_MONITOR = re.compile(r"^[ \t]*require monitor (\w+)", re.M)


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """`maps`: folder in which corridor maps are built; `towns`: OpenDRIVE files by town, instead of corridors."""

    folder: Path
    out: Path
    routes_of: Callable[[str], tuple[Route, ...]]
    profile: Profile
    maps: Path
    date: datetime
    towns: Mapping[str, Path] = field(default_factory=dict)
    schema: library.XsdSchema | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ExportedScenario:
    """Result of one scenario; with a `problem` it has no file."""

    name: str
    behaviour: str = ""
    road: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    parameters: int = 0  # ranges of the program
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # those that are free in the file
    missing: Sequence[str] = ()
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        if self.problem:
            return {"problem": self.problem}
        ranges = {name: list(ends) for name, ends in self.ranges.items()}
        return {
            "file": f"{self.name}.xosc", "behaviour": self.behaviour, "road": self.road, "values": dict(self.values),
            "ranges": ranges, "not_expressed": list(self.missing),
        }  # fmt: skip


def programs_to_export(folder: Path, routes_of: Callable[[str], tuple[Route, ...]]) -> list[ScenarioProgram]:
    """The programs of a finished suite, without those that it leaves out. Raises Ad2Error with the remedy."""
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: no such folder; expected what `ad2 threats generate --out` wrote")
    index = index_of(folder)
    if not index:
        raise Ad2Error(f"{folder}: no {INDEX}; only folders of `ad2 threats generate` can be exported")
    if not index.get("finished", True):
        raise Ad2Error(f"{folder}: not finished; run the same `ad2 threats generate` again, it continues from there")
    left_out = index.get("left_out", {})
    found = [p for p in programs_of(folder, routes_of) if p.name not in left_out]
    if not found:
        raise Ad2Error(f"{folder}: every scenario is excluded (see {INDEX}); nothing to export")
    return found


def export(
    programs: Sequence[ScenarioProgram], config: ExportConfig, progress: Callable[[Any], Any] = lambda items: items
) -> list[ExportedScenario]:
    """Write each scenario that can be written, and the list. A scenario that fails has a `problem`.

    Raises Ad2Error without the library, or for a folder that is in use or cannot be written to.
    """
    library.xosc()
    with lock_folder(config.out):
        return _export(programs, config, progress)


def _export(
    programs: Sequence[ScenarioProgram], config: ExportConfig, progress: Callable[[Any], Any]
) -> list[ExportedScenario]:
    alone = bool((index_of(config.folder).get("asked") or {}).get("alone"))
    verdicts = read_verdicts(config.folder)
    found = []
    for program in progress(programs):
        try:
            found.append(_exported(program, config, verdicts.get(program.name, {}), alone))
        except MissingExtra:  # one error, not one per scenario
            raise
        except (Ad2Error, InvalidScene) as exc:
            for ending in (".xosc", ".distribution.xosc"):
                (config.out / f"{program.name}{ending}").unlink(missing_ok=True)
            found.append(ExportedScenario(name=program.name, problem=str(exc)))
    atomic_write_json(config.out / LIST, {scenario.name: scenario.to_json() for scenario in found})
    return found


def played_values(verdict: Mapping[str, Any], program: Path) -> dict[str, float]:
    """The values of the draw that is played, from check.json; {} if this version of the program was not checked."""
    drawn = verdict.get("drawn")
    if verdict.get("program_sha256") != file_sha256(program) or not isinstance(drawn, dict):
        return {}
    return {str(name): float(value) for name, value in drawn.items() if is_number(value)}


def _exported(
    program: ScenarioProgram, config: ExportConfig, verdict: Mapping[str, Any], alone: bool
) -> ExportedScenario:
    if program.problem:
        raise Ad2Error(program.problem)
    route, spec = program.route, program.spec
    if spec is None or route is None:
        raise Ad2Error(f"{program.file}: no spec of this version; it was edited, or not written by `generate`")
    town = _town_file(program, route, config)
    samples = sample(
        program.file, route, town=town, maps=config.maps, values=played_values(verdict, program.file), seed=config.seed,
        alone=alone,
    )  # fmt: skip
    road = route.town if town else samples.road.file.name
    if not town:
        atomic_write_bytes(config.out / road, samples.road.file.read_bytes())
    made = scenario_file(
        samples,
        ScenarioRequest(
            description=f"{program.name}: {sentence(spec)}",
            spec=spec,
            road_file=road,
            date=config.date,
            max_seconds=config.profile.max_ticks / config.profile.hz,
            base="" if alone else route.scenario,
            monitors=frozenset(_MONITOR.findall(program.file.read_text("utf-8"))),
        ),
    )
    _write(program.name, made, config)
    return _summary(program.name, spec.behaviour.value, road, samples, made)


def _summary(name: str, behaviour: str, road: str, samples: SceneSamples, made: ScenarioFile) -> ExportedScenario:
    values = {parameter: round(samples.played.values[parameter], 6) for parameter in samples.free}
    return ExportedScenario(
        name=name,
        behaviour=behaviour,
        road=road,
        values=values,
        parameters=len(samples.free),
        ranges=made.ranges,
        missing=made.missing,
    )


def _town_file(program: ScenarioProgram, route: Route, config: ExportConfig) -> Path | None:
    """The town's map, if the scenario was generated on it. Raises Ad2Error if it is not given."""
    transcript = ThreatTranscript.read(config.folder / "transcripts" / f"{program.name}.json")
    if transcript.site.map != "town":
        return None
    if route.town not in config.towns:
        raise Ad2Error(f"{program.file}: generated on the map of {route.town}; give its folder with --towns DIR")
    return config.towns[route.town]


def _write(name: str, made: ScenarioFile, config: ExportConfig) -> None:
    """Write both files, read them back, and check them. Raises Ad2Error for a file that fails."""
    files = {f"{name}.xosc": made.root}
    extra = config.out / f"{name}.distribution.xosc"
    if made.ranges:
        files[extra.name] = distribution(name, f"{name}.xosc", made.ranges, config.date)
    else:
        extra.unlink(missing_ok=True)  # of an earlier export
    for file_name, root in files.items():
        ET.indent(root)
        text = ET.tostring(root, encoding="unicode")
        file = config.out / file_name
        atomic_write_bytes(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode())
        library.read_back(file)
        problems = config.schema.problems(file) if config.schema else []
        if problems:
            more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
            assert config.schema is not None
            raise Ad2Error(f"{file}: not valid by {config.schema.file.name}: {problems[0]}{more}")
