"""The frame of all HTML pages: base.html and base.css, the content security policy, escaping, writing.

A page consists of NAME.html, which extends base.html, with NAME.css and optionally NAME.js beside it. It is one
self-contained file that loads nothing. Texts of models, data sets and judges are untrusted: templates escape them and
show hidden characters, and the policy admits only the page's own style and script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.printed import visible
from lmms_eval_ad2.storage.files import atomic_write


@dataclass(frozen=True)
class HtmlPage:
    """A page of a package. name: of its files; title: what it is, in messages; plots: whether it holds SVG plots whose
    elements have style attributes, which no hash can admit."""

    package: str
    name: str
    title: str
    plots: bool = False

    def render(self, values: Mapping[str, Any]) -> str:
        """The page as HTML text. Raises MissingExtra without Jinja2."""
        jinja2 = require("jinja2", self.title)
        markup = require("markupsafe", self.title).Markup
        environment = jinja2.Environment(
            autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            finalize=visible, loader=jinja2.FunctionLoader(self._template),
        )  # fmt: skip
        style = f"\n{_text(_ours('base.css'))}{_text(self._file('css'))}"
        script_file = self._file("js")
        script = f"\n{_text(script_file)}" if script_file.is_file() else ""
        frame = {
            "style": markup(style),
            "script": markup(script),
            "style_source": markup("'unsafe-inline'" if self.plots else _source(style)),
            "script_source": markup(_source(script) if script else "'none'"),
        }
        rendered: str = environment.get_template(f"{self.name}.html").render({**values, "page": frame})
        return rendered

    def write(self, path: Path, text: str) -> None:
        """Write the rendered page atomically; raises Ad2Error if that fails."""
        try:
            with atomic_write(path, errors="replace") as handle:
                handle.write(text)
        except OSError as exc:
            raise Ad2Error(f"cannot write {self.title} {path}: {exc}") from exc

    def _template(self, file: str) -> str:
        return _text(_ours(file) if file == "base.html" else self._file("html"))

    def _file(self, ending: str) -> Traversable:
        return resources.files(self.package).joinpath(f"{self.name}.{ending}")


def _ours(file: str) -> Traversable:
    return resources.files(__package__).joinpath(file)


def _text(file: Traversable) -> str:
    return file.read_text("utf-8")


def _source(text: str) -> str:
    """The expression of the policy that admits an inline element with exactly this content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
