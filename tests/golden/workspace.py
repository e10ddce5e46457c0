"""The environment of a golden section: an empty folder, a data home, the installed commands, stable digests."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
REPO = Path(__file__).resolve().parents[2]
TIMEOUT_S = 3600
INHERITED_SETTINGS = ("AD2_JUDGE", "AD2_PROMPTS", "AD2_FRAME", "AD2_SHARD")


@dataclass(frozen=True)
class Workspace:
    """The folder of a section. All files of the section are below it and deleted afterwards."""

    folder: Path
    repo: Path = REPO

    @property
    def data(self) -> Path:
        """The real data for tests (`AD2_TEST_DATA`, or ../shared/data beside the checkout)."""
        return Path(os.environ.get("AD2_TEST_DATA") or self.repo.parent / "shared" / "data")

    @property
    def home(self) -> Path:
        """The data home (AD2_HOME) of the section's commands."""
        return self.folder / "ad2home"

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in INHERITED_SETTINGS}
        quiet = {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "COLUMNS": "120", "AD2_HOME": str(self.home)}
        return {**kept, **quiet, **changes}

    def run(self, *words: str | Path, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        """Run an installed command ("ad2", "lmms_eval") or program in the folder; any other exit code is an error."""
        command = [str(word) for word in words]
        if (BIN / command[0]).exists():
            command[0] = str(BIN / command[0])
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(**env), capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode != code:
            output = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}, expected {code}\n{output}")
        return done

    def scrub(self, value: Any, *, drop: tuple[str, ...] = (), replace: Mapping[str, str] | None = None) -> Any:
        """`value` without values that may differ between runs: keys in `drop`, the folder's and the checkout's path."""
        paths = {str(self.folder): "<work>", str(self.repo): "<repo>", **(replace or {})}
        return _scrubbed(value, drop, paths)


def _scrubbed(value: Any, drop: tuple[str, ...], paths: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {_text(str(k), paths): _scrubbed(v, drop, paths) for k, v in value.items() if k not in drop}
    if isinstance(value, list | tuple):
        return [_scrubbed(v, drop, paths) for v in value]
    return _text(value, paths) if isinstance(value, str) else value


def _text(text: str, paths: Mapping[str, str]) -> str:
    for path, name in paths.items():
        text = text.replace(path, name)
    return text


def digest(content: bytes | str | Path) -> str:
    """sha256 of bytes, of a text, or of a file."""
    if isinstance(content, Path):
        content = content.read_bytes()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def json_digest(value: Any) -> str:
    """sha256 of a JSON value with sorted keys. Floats by their shortest exact form, so equal means bit-equal."""
    return digest(json.dumps(value, sort_keys=True, ensure_ascii=False))


def read_jsonl(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def file_names(folder: Path) -> list[str]:
    """Relative names of all files below `folder`, hashes of eight and more hex digits replaced by <hash>."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(re.sub(r"[0-9a-f]{8,}", "<hash>", name) for name in names)
