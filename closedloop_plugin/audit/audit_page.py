"""The HTML page of an audit: the same sections as the text, in one self-contained file that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from closedloop_plugin.audit.audit_sections import MARK, AuditSection
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.report.page.html_page import HtmlPage
from lmms_eval_ad2.report.text_table import printable

PAGE = HtmlPage(__package__, "audit", "the page of the audit", finalize=lambda v: printable(v) if type(v) is str else v)


def write_page(path: Path, title: str, parts: Sequence[AuditSection]) -> None:
    """Write the page atomically. Raises MissingExtra without Jinja2, Ad2Error if the file cannot be written."""
    PAGE.write(path, PAGE.render({"title": title, "sections": parts, "mark": MARK, "version": __version__}))
