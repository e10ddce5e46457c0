"""What is installed beside us: versions, and whether a library imports. Each finding is one line of `ad2 doctor`."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

Finding = tuple[str, bool, str]  # name, whether it is as it should be, what was found and what to do


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def imports(name: str) -> Finding:
    """In a process of its own: a broken torchvision must not take this one with it."""
    code = f"import {name}; print(getattr({name}, '__version__', 'imports'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return name, True, done.stdout.strip()
    reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
    fix = (
        "a CPU torch beside a CUDA torchvision? see docs/install.md" if name == "torchvision" else f"pip install {name}"
    )
    return name, False, f"does not import ({reason}): {fix}"
