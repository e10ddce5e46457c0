"""The folder of one group of the table: its commands, its model endpoint, and stable forms of what they leave."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from endpoint import Endpoint

os.environ |= {
    "COLUMNS": "120",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}  # before the next import
from support.running import BIN, REPO, run

NOT_INHERITED = ("AD2_PROMPTS", "AD2_FRAME", "AD2_SHARD", "AD2_BENCH2DRIVE_ROUTES", "AD2_THREATS")
SETTINGS = {"AD2_JUDGE": "lexical", "OPENAI_API_KEY": "sk-golden"}
# Our modules may move: the last name of a dotted path is kept.
MODULE = re.compile(r"\b(?:lmms_eval_ad2|closedloop_plugin)(?:\.\w+)+(?=[.:]\w)")
VALUES = (
    (re.compile(r"/tmp/[\w./-]+"), "<tmp>"),
    (re.compile(r"\b127\.0\.0\.1:\d{4,5}\b"), "<endpoint>"),
    (re.compile(r" at 0x[0-9a-f]{6,16}\b"), " at <address>"),
    (re.compile(r"\b\d+\.\d+\.\d+\+[0-9a-f]{12}(-\w+)?|\b[0-9a-f]{40}\b"), "<version>"),
)
OUTPUT = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+\d\d:\d\d|Z)?"), "<time>"),
    (re.compile(r"\b\d+(\.\d+)? ?(s|ms|min|seconds)\b"), "<n> s"),
)


@dataclass
class Workspace:
    """All files of a group are below `folder` and deleted afterwards."""

    folder: Path
    endpoint: Endpoint | None = None
    places: dict[str, str] = field(default_factory=dict)  # further names for `filled`
    repo: Path = REPO

    @property
    def data(self) -> Path:
        """The real data for tests (`AD2_TEST_DATA`, or ../shared/data beside the checkout)."""
        return Path(os.environ.get("AD2_TEST_DATA") or self.repo.parent / "shared" / "data")

    @property
    def home(self) -> Path:
        """The data home (AD2_HOME) of the group's commands."""
        return self.folder / "home"

    def filled(self, text: str) -> str:
        """`text` with {data}, {repo}, {url} (the endpoint's), {root} (without /v1) and the names in `places`."""
        url = self.endpoint.url if self.endpoint else ""
        named = {"data": str(self.data), "repo": str(self.repo), "url": url, "root": url.removesuffix("/v1")}
        for name, value in {**named, **self.places}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def variables(self, **changes: str) -> dict[str, str]:
        return {**SETTINGS, **dict.fromkeys(NOT_INHERITED, ""), "AD2_HOME": str(self.home), **changes}

    def run(self, *words: str | Path, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run an installed command or a program in the folder; `code`: the expected exit code, None for any."""
        program = BIN / str(words[0])
        words = (program if program.exists() else words[0], *words[1:])
        return run(*words, cwd=self.folder, code=code, **self.variables(**env))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    @contextlib.contextmanager
    def here(self, **changes: str) -> Iterator[None]:
        """The environment and the current folder of `run`, for programs in this process."""
        before = Path.cwd()
        with mock.patch.dict(os.environ, self.variables(**changes)):
            os.chdir(self.folder)
            try:
                yield
            finally:
                os.chdir(before)

    def scrub(self, value: Any) -> Any:
        """`value` without paths of this machine, module paths and the version."""
        if isinstance(value, Mapping):
            return {self.scrub(str(k)): self.scrub(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(v) for v in value]
        return self._scrubbed(value) if isinstance(value, str) else value

    def _scrubbed(self, text: str) -> str:
        for path, name in ((self.folder, "<work>"), (self.data, "<data>"), (self.repo, "<repo>")):
            text = text.replace(str(path), name).replace(str(path.resolve()), name)  # ../shared may be a link
        if self.endpoint:
            text = text.replace(self.endpoint.url.removesuffix("/v1").removeprefix("http://"), "<endpoint>")
        return _replaced(MODULE.sub("<module>", text), VALUES)

    def scrub_output(self, text: str) -> str:
        """What a command prints, also without times and durations."""
        return _replaced(self._scrubbed(text), OUTPUT)


def _replaced(text: str, patterns: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, name in patterns:
        text = pattern.sub(name, text)
    return text
