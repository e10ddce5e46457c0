"""`ad2 drive audit`: score every public Bench2Drive result file of a list, beside its printed figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.scoring.audit import HOST
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.report.table import ReportSection


@dataclass(frozen=True, kw_only=True)
class DriveAuditOptions:
    """`ad2 drive audit`."""

    results: Path = option("YAML file with the results to audit", metavar="LIST", positional=True)
    out: Path = option("folder of the tables, the page and the downloaded files", metavar="DIR")
    files: Path | None = option(
        "folder of files that are not to be downloaded: route file and results under any name, recognised by the "
        "sha256 of the list; a result with one file per route as ID/ROUTE.json",
        default=None,
        metavar="DIR",
    )
    docs: Path | None = option("also write the report as a Markdown page", default=None, metavar="FILE")
    host: str = option(f"address in front of REPOSITORY/COMMIT/PATH (default {HOST})", default=HOST, metavar="URL")


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "audit",
        run,
        DriveAuditOptions,
        help="recompute published Bench2Drive figures from public result files",
        description="Scores every result file of the list over all routes of its route file and compares the results "
        "pair by pair. Files that are not in --files or OUT/files are downloaded once and checked by their hash. "
        "Writes audit.txt, audit.json and audit.html into the folder.",
    )


def run(options: DriveAuditOptions) -> int:
    from closedloop_plugin.scoring.audit.audit_section import audit_section
    from closedloop_plugin.scoring.audit.file_audit import audit
    from closedloop_plugin.scoring.audit.public_files import FileSources
    from closedloop_plugin.scoring.audit.result_list import read_list
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report.page import report_page
    from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json

    if options.files is not None and not options.files.is_dir():
        raise Ad2Error(f"--files {options.files}: no such folder")
    listed = read_list(options.results)
    sources = FileSources(options.out / "files", options.files, options.host)
    found = audit(listed, sources, report=lambda line: show(line, file=sys.stderr))
    section = audit_section(found)
    text = section.render(wide=True)  # hashes in one line
    try:
        with atomic_write(options.out / "audit.txt") as handle:
            handle.write(text)
        atomic_write_json(options.out / "audit.json", section.data)
        report_page.write(
            (), options.out / "audit.html", title=_title(options), sections=[section], command="ad2 drive audit"
        )
        if options.docs is not None:
            with atomic_write(options.docs) as handle:
                handle.write(_docs(options, section, len(found.results), len(found.routes)))
    except OSError as exc:
        raise Ad2Error(f"{options.out}: the report cannot be written ({exc.strerror or exc})") from exc
    show(text)
    show(f"written: {options.out}/audit.txt, audit.json, audit.html" + (f", {options.docs}" if options.docs else ""))
    return 0


def _title(options: DriveAuditOptions) -> str:
    return f"Audit of public result files: {options.results.stem}"


def _docs(options: DriveAuditOptions, section: ReportSection, n: int, routes: int) -> str:
    from lmms_eval_ad2.report.table import escape

    command = f"ad2 drive audit {options.results.as_posix()} --out runs/audit"
    docs = options.docs.as_posix() if options.docs else "FILE"
    blocks = [
        "# Public result files, recomputed",
        f"    {command}                       # tables, audit.json and audit.html in runs/audit\n"
        f"    {command} --files DIR           # with files that are on disk already",
        f"{n} public results on Bench2Drive's {routes} routes, scored by the rules of `ad2 drive score` (profile "
        "`bench2drive`), beside the\nfigures that their authors print. The comparison is possible because the authors "
        "published their files. It concerns\nthe number of routes behind each figure and the width of the intervals; "
        "it does not judge models or authors.",
        "Files of `--files` are recognised by the sha256 of the list, whatever their names; only a result with one "
        "file per route\nneeds its names, `ID/ROUTE.json`.",
        f"This page is written by `{command} --docs {docs}`.",
        f"## {escape(section.title)}",
        section.render(markdown=True),
    ]
    return "\n\n".join(blocks)
