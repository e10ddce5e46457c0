"""Resolve requirements with uv, without installing them. Needs [dev]: uv and packaging."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lock_file import normalized
from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

SETUP = Path(__file__).resolve().parent.parent / "setup.cfg"
OWN = "lmms-eval-ad2"
# Variables of requirement markers: Linux on x86-64, macOS on Apple silicon.
_SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    "macos": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
}
# lmms-eval requires the headless build of OpenCV, Scenic the GUI build; both contain the same module (docs/install.md).
OMITTED = "opencv-python ; python_version < '3'"


def setup_requirements(path: Path = SETUP) -> dict[str, list[str]]:
    """Extra -> its requirements with those of the base and of the extras that it names; "base": without an extra."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(path, "utf-8")
    texts = {"base": config["options"]["install_requires"], **config["options.extras_require"]}
    lines = {
        extra: [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
        for extra, text in texts.items()
    }

    def expanded(extra: str) -> list[str]:
        found: list[str] = []
        for line in lines[extra]:
            required = Requirement(line)
            own = normalized(required.name) == OWN
            found += [x for name in sorted(required.extras) for x in expanded(name)] if own else [line]
        return list(dict.fromkeys(found))

    return {extra: list(dict.fromkeys([*lines["base"], *expanded(extra)])) for extra in lines}


def resolve(
    requirements: Iterable[str], constraints: Iterable[str] = (),
    options: Sequence[str] = ("--universal", "--python-version", "3.11"),
) -> list[dict[str, Any]]:  # fmt: skip
    """The packages of a resolution, as in pylock.toml (PEP 751). Exits with uv's message if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"requirements.txt": requirements, "constraints.txt": constraints, "override.txt": [OMITTED]}
        for name, lines in files.items():
            Path(folder, name).write_text("\n".join(lines) + "\n", "utf-8")
        result = Path(folder, "pylock.toml")
        command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "requirements.txt", "-c", "constraints.txt"]
        command += ["--override", "override.txt", "--format", "pylock.toml", "-o", result.name, *options]
        done = subprocess.run(command, cwd=folder, env=uv_environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"no resolution:\n{done.stderr.strip()[-3000:]}")
        return list(tomllib.loads(result.read_text("utf-8"))["packages"])


def uv_environment() -> dict[str, str]:
    """uv does not read pip's configuration, so pass on pip's main index."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    index = os.environ.get("PIP_INDEX_URL") or done.stdout.strip()
    return {**({"UV_DEFAULT_INDEX": index} if index else {}), **os.environ}


def marker_environment(python: tuple[int, int], system: str) -> dict[str, str]:
    """The variables of requirement markers for CPython on "linux" or "macos"."""
    version = f"{python[0]}.{python[1]}"
    return {
        "python_version": version, "python_full_version": f"{version}.1", "implementation_version": f"{version}.1",
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix",
        "platform_release": "", "platform_version": "", "extra": "", **_SYSTEMS[system],
    }  # fmt: skip


def wheels_for(package: dict[str, Any], tags: frozenset[Tag]) -> list[dict[str, Any]]:
    """The wheels of a package that an environment with these tags can install."""
    found = []
    for wheel in package.get("wheels", ()):
        try:
            own = parse_wheel_filename(file_name(wheel))[3]
        except InvalidWheelFilename:  # pip ignores such a file, too
            continue
        if own & tags:
            found.append(wheel)
    return found


def file_name(file: dict[str, Any]) -> str:
    return str(file.get("name") or file["url"].rpartition("/")[2])
