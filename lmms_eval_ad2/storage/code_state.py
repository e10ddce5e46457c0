"""The state of this package's code: its version, and the git commit of a checkout, for the identity of results."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from lmms_eval_ad2.core.version import __version__

DISTRIBUTION = "lmms-eval-ad2"
DIRTY = "+dirty"
SHORT = 12  # characters of a commit in a label
UNKNOWN = "unknown"
_PACKAGE = Path(__file__).resolve().parents[1]
_COMMIT = re.compile(r"[0-9a-f]{40,64}(\+dirty)?")
_TIMEOUT_S = 30.0  # a checkout on a slow network drive


@cache
def source_commit() -> str | None:
    """Commit of the running code, with "+dirty" if tracked files are modified; None if it is unknown.

    Asked once per process. Of a package installed from a repository it is the commit that pip recorded (PEP 610).
    """
    root = _PACKAGE.parent
    return checkout_commit(root) if (root / ".git").exists() else installed_commit(_PACKAGE)


def checkout_commit(root: Path) -> str | None:
    """Commit of the git checkout at `root`; None without git, or without a commit."""
    # Only full hashes, never tags. The checkout may belong to another user, as in containers.
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(root), "describe", "--always"]
    command += ["--exclude=*", "--abbrev=40", f"--dirty={DIRTY}"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # e.g. of a git hook
    own |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=own)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    text = done.stdout.strip()
    return text if done.returncode == 0 and _COMMIT.fullmatch(text) else None


def installed_commit(package: Path) -> str | None:
    """Commit from which pip installed the package in the folder `package`; None for a release or a local folder."""
    try:
        found = metadata.distribution(DISTRIBUTION)
        same = Path(str(found.locate_file(package.name))).resolve() == package.resolve()
        commit = json.loads(found.read_text("direct_url.json") or "{}")["vcs_info"]["commit_id"]
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None
    return commit if same and isinstance(commit, str) and _COMMIT.fullmatch(commit) else None


def code_identity() -> dict[str, str | None]:
    """Version and commit, as keys of a run's identity (see storage/identity.py)."""
    return {"version": __version__, "commit": source_commit()}


def code_label(version: str | None = None, commits: str | None = None) -> str:
    """Version and short commit in one word, as in "0.2.0+1b0bf1dd0abf.dirty"; by default of the running code.

    `commits`: of an identity, where commits of several starts are separated by commas.
    """
    if version is None:
        version, commits = __version__, source_commit()
    short = [_short(commit) for commit in (commits or "").split(", ") if commit]
    return version + (f"+{','.join(short)}" if short else "")


def _short(commit: str) -> str:
    return commit.removesuffix(DIRTY)[:SHORT] + (".dirty" if commit.endswith(DIRTY) else "")
