"""Installed distributions: versions, and import checks whose results are lines of `ad2 doctor`."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

from lmms_eval_ad2.core.errors import import_remedy

Finding = tuple[str, bool, str]  # name, whether the check passed, result and remedy


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def imports(name: str) -> Finding:
    """Check that a library can be imported."""
    good, text = try_import(name)
    if good:
        return name, True, text
    cuda = "a CPU torch with a CUDA torchvision? see docs/install.md"
    fix = cuda if name == "torchvision" else import_remedy(text)
    return name, False, f"cannot be imported ({text})" + (f": {fix}" if fix else "")


def try_import(name: str) -> tuple[bool, str]:
    """Import a module in a subprocess, since a broken torchvision could crash the interpreter.

    Returns whether it succeeded, and the module's version, "imports", or the last line of the error.
    """
    code = f"import {name}; print(getattr({name}, '__version__', 'imports'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else "no message"
