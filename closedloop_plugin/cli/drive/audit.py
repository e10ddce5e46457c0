"""`ad2 drive audit`: score every public Bench2Drive result file of a list, beside its printed figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

HOST = "https://raw.githubusercontent.com"  # serves /REPOSITORY/COMMIT/PATH


@dataclass(frozen=True, kw_only=True)
class DriveAuditOptions:
    """`ad2 drive audit`."""

    results: Path = option("YAML file with the results to audit", metavar="LIST", positional=True)
    out: Path = option("folder of the tables, the page and (files/) the result files", metavar="DIR")
    host: str = option(f"address in front of REPOSITORY/COMMIT/PATH (default {HOST})", default=HOST, metavar="URL")


def register(subparsers: Any) -> None:
    add_command(
        subparsers,
        "audit",
        run,
        DriveAuditOptions,
        help="recompute published Bench2Drive figures from public result files",
        description="Scores every result file of the list over all routes of its route file and compares the results "
        "pair by pair. Files that are not in OUT/files (as ID.json, or ID/ROUTE.json for a result with one file per "
        "route) are downloaded once and checked by their hash. Writes audit.txt, audit.md, audit.json and audit.html "
        "into the folder.",
    )


def run(options: DriveAuditOptions) -> int:
    from closedloop_plugin.scoring.audit.audit_section import audit_section
    from closedloop_plugin.scoring.audit.public_files import FileSources
    from closedloop_plugin.scoring.audit.recomputed import audit
    from closedloop_plugin.scoring.audit.result_list import read_list
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.report.page import report_page
    from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json

    sources = FileSources(options.out / "files", options.host)
    found = audit(read_list(options.results), sources, report=lambda line: show(line, file=sys.stderr))
    section = audit_section(found)
    title = f"Audit of public result files: {options.results.stem}"
    text = section.render(wide=True)  # hashes in one line
    try:
        for name, content in {"audit.txt": text, "audit.md": f"# {title}\n\n{section.render(markdown=True)}"}.items():
            with atomic_write(options.out / name) as handle:
                handle.write(content)
        atomic_write_json(options.out / "audit.json", found)
        report_page.write((), options.out / "audit.html", title=title, sections=[section], command="ad2 drive audit")
    except OSError as exc:
        raise Ad2Error(f"{options.out}: the report cannot be written ({exc.strerror or exc})") from exc
    show(text)
    show(f"written: {options.out}/audit.txt, audit.md, audit.json, audit.html")
    return 0
