"""Print which packages have no wheel for macOS on Apple silicon, per extra; the table of docs/install.md.

    python scripts/check_macos.py       # about 8 minutes; nothing is installed

Each extra is resolved with the locked versions. `pip install --dry-run` for macOS 14 then checks all packages with a
wheel: pip refuses the whole installation if one has none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import lock_file
from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags, mac_platforms
from resolving import marker_environment, resolve, setup_requirements, wheels_for

PYTHON = (3, 11)
_PLATFORMS = list(mac_platforms((14, 0), "arm64"))
TAGS = frozenset([*cpython_tags(PYTHON, platforms=_PLATFORMS), *compatible_tags(PYTHON, "cp311", _PLATFORMS)])


def main() -> int:
    locked = [f"{package.name}=={package.version}" for package in lock_file.read_lock()] + lock_file.read_torch()
    print("| extra | packages | built from source | no file for macOS |\n|---|---|---|---|")
    failed = False
    for extra, requirements in setup_requirements().items():
        source: list[str] = []
        none: list[str] = []
        wheels: list[str] = []
        for package in resolve(requirements, locked):
            marker = package.get("marker")
            if marker and not Marker(marker).evaluate(marker_environment(PYTHON, "macos")):
                continue
            pair = f"{package['name']}=={package['version']}"
            (wheels if wheels_for(package, TAGS) else source if "sdist" in package else none).append(pair)
        message = dry_run(wheels)
        failed = failed or bool(message)
        row = (f"`[{extra}]`" if extra != lock_file.BASE else "(none)", str(len(source + none + wheels)))
        print(f"| {' | '.join(row)} | {', '.join(source) or '-'} | {', '.join(none) or '-'} |{message}", flush=True)
    return int(failed)


def dry_run(requirements: list[str]) -> str:
    """pip's error for an installation on macOS; empty if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "requirements.txt")
        file.write_text("\n".join(requirements) + "\n", "utf-8")
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--only-binary=:all:"]
        command += ["--platform", "macosx_14_0_arm64", "--python-version", "3.11", "--implementation", "cp"]
        command += ["--target", folder, "-r", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return " ".join(lines) or f"pip ended with code {done.returncode}" if done.returncode else ""


if __name__ == "__main__":
    raise SystemExit(main())
