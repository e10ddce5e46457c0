"""`ad2 threats export`: write generated threats as OpenSCENARIO XML."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.options import add_command, option
from lmms_eval_ad2.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.threats.check import ScenarioProgram
    from closedloop_plugin.threats.openscenario.export import ExportedScenario
    from closedloop_plugin.threats.openscenario.library import XsdSchema

EXAMPLES = """examples:
  ad2 threats export threats/ --openscenario                         writes threats/openscenario/
  ad2 threats export threats/ --openscenario --out osc --schema OpenSCENARIO.xsd

Each scenario is NAME.xosc with the values that are played, NAME.distribution.xosc with the ranges of its parameters,
and the OpenDRIVE file of its corridor map. Every file is read back; export.json lists what each does not express.

exit code: 0 all scenarios are written, 1 some are not (with reasons), 2 invalid arguments"""


@dataclass(frozen=True, kw_only=True)
class ThreatExportOptions:
    """`ad2 threats export`."""

    folder: Path = option("output folder of `ad2 threats generate`", metavar="DIR", positional=True)
    openscenario: bool = option("the format: ASAM OpenSCENARIO XML 1.3", default=False)
    out: Path | None = option("folder of the files (default: DIR/openscenario)", default=None, metavar="DIR")
    schema: Path | None = option(
        "XML schema to check the files with (default: the one that the library brings)", default=None, metavar="F.xsd"
    )
    towns: Path | None = option(
        "OpenDRIVE files <town>.xodr of threats generated on towns", default=None, metavar="DIR"
    )


def register(parts: Any) -> None:
    add_command(
        parts,
        "export",
        run,
        ThreatExportOptions,
        help="write generated scenarios as OpenSCENARIO XML; names what cannot be expressed",
        description="Write each scenario of a folder as an OpenSCENARIO file with its road, and read it back.",
        epilog=EXAMPLES,
    )


def run(options: ThreatExportOptions) -> int:
    """Write the files; return 0, or 1 if a scenario was not written. Raises Ad2Error for mistakes of the user."""
    from closedloop_plugin.cli.drive.selection import towns_of
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.suites.lookup import data_home, routes_of
    from closedloop_plugin.suites.programs import index_of
    from closedloop_plugin.threats.openscenario.export import ExportConfig, export, programs_to_export
    from lmms_eval_ad2.errors import Ad2Error

    if not options.openscenario:
        raise Ad2Error("name a format: --openscenario")
    programs = programs_to_export(options.folder, routes_of)
    schema = _schema(options.schema)
    routes = [p.route for p in programs if p.route]
    asked = index_of(options.folder).get("asked") or {}
    out = options.out or options.folder / "openscenario"
    config = ExportConfig(
        folder=options.folder, out=out, routes_of=routes_of,
        profile=profile(str(asked.get("profile", "bench2advlm"))), maps=data_home() / "maps", date=datetime.now(UTC),
        towns=towns_of(options.towns, routes, routes), schema=schema,
    )  # fmt: skip
    found = export(programs, config, _progress)
    show(_report(found, out, schema))
    for scenario in found:
        if scenario.problem:
            show(f"not written: {scenario.name}: {scenario.problem}", file=sys.stderr)
    return 1 if any(scenario.problem for scenario in found) else 0


def _schema(given: Path | None) -> XsdSchema | None:
    from closedloop_plugin.threats.openscenario.library import XsdSchema, own_schema
    from lmms_eval_ad2.errors import Ad2Error

    if given is not None and not given.is_file():
        raise Ad2Error(f"--schema {given}: no such file")
    file = given or own_schema()
    return XsdSchema(file) if file else None


def _progress(programs: Sequence[ScenarioProgram]) -> Iterable[ScenarioProgram]:
    from tqdm import tqdm

    return tqdm(programs, desc="export", unit="scenario")


def _report(found: Sequence[ExportedScenario], out: Path, schema: XsdSchema | None) -> str:
    """Counts, and what the files do not express."""
    from lmms_eval_ad2.report.text_table import TextTable

    written = [scenario for scenario in found if not scenario.problem]
    checked = f"valid by {schema.file.name}" if schema else "no schema given"
    lines = [f"{len(written)} of {len(found)} scenarios written to {out}: read back, {checked}"]
    if not written:
        return lines[0]
    kinds = Counter(scenario.behaviour for scenario in written)
    lines.append("behaviour: " + ", ".join(f"{name} {n}" for name, n in kinds.most_common()))
    free, all_ranges = sum(len(s.ranges) for s in written), sum(s.parameters for s in written)
    lines.append(f"ranges that are parameters of the files: {free} of {all_ranges}")
    missing = Counter(kind for s in written for kind in {_kind(text) for text in s.missing})
    if missing:
        lines += ["", TextTable(["not expressed", "scenarios"], missing.most_common(), align="lr").plain()]
    lines.append(f"\nby scenario: {out / 'export.json'}")
    return "\n".join(lines)


def _kind(text: str) -> str:
    """A text of `missing` without its scenario's names and numbers."""
    subject, _, rest = text.partition(": ")
    if subject.startswith("range of "):
        return "a range, fixed at the played value"
    if subject[-1:].isdigit():
        text = rest
    return text.partition(" (")[0]
