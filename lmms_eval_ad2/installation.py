"""Installed distributions: versions, and import checks whose results are lines of `ad2 doctor`."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

Finding = tuple[str, bool, str]  # name, whether the check passed, result and remedy


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def imports(name: str) -> Finding:
    """Check that a library can be imported, in a subprocess: a broken torchvision could crash the interpreter."""
    code = f"import {name}; print(getattr({name}, '__version__', 'imports'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return name, True, done.stdout.strip()
    reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
    fix = "a CPU torch with a CUDA torchvision? see docs/install.md" if name == "torchvision" else f"pip install {name}"
    return name, False, f"cannot be imported ({reason}): {fix}"
