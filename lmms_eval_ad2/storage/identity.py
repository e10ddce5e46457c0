"""Run identity: the settings that must be equal each time a run is started or resumed in a folder.

    DIR/run.json         {"identity": {...}, "selection": {...}}
    DIR/lock             held by the process that writes to DIR (lock.py)
    DIR/episodes.jsonl   the results (journal.py); of two lines for one episode the later one is used

`identity` holds everything that can change a result: model, agent and prompts; suite, course and map (by hash);
profile, seed, world, and the version of this package. A start with another identity is refused with a list of the
differences. "commit" is the exception: a commit need not change a figure, so a start of another one continues with a
warning, and "commit" lists those of all starts with results, in order, separated by commas. `selection` is the
part that was requested, such as the routes and the number of repetitions. It may differ, since a larger selection is
the same run. Before the first result, the identity may differ too: a start that failed because of a wrong argument does
not reserve the folder.

Folders of other layouts store their identity elsewhere (settings.json of `ad2 mcq build`, "asked" in suite.json of `ad2
threats generate`) and compare it with `refuse_differences`. A run under lmms-eval has a hash of its identity in its
folder name (`run_folder`), so another model or other arguments lead to another folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.journal import has_lines
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.untrusted_json import load

# The state of this package's code: its version, and the git commit of a checkout, for the identity of results.

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
    named = [commit for commit in (commits or "").split(", ") if commit]
    short = [commit.removesuffix(DIRTY)[:SHORT] + (".dirty" if commit.endswith(DIRTY) else "") for commit in named]
    return version + (f"+{','.join(short)}" if short else "")


RUN, RESULTS = "run.json", "episodes.jsonl"
COMMIT = "commit"  # key of an identity


def digest(value: Any) -> str:
    """sha256 of a value as JSON with sorted keys; values that JSON does not support are converted by `str`."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def run_folder(out: Path, model: str, identity: Mapping[str, Any], part: str = "") -> Path:
    """OUT/ad2/<model>-<hash8>[-PART]: the same folder for the same model, identity and part of the run."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("_")[:60] or "model"
    return out / "ad2" / f"{slug}-{digest(identity)[:8]}{'-' if part else ''}{part}"


def refuse_unlike(folders: Sequence[Path], identities: Sequence[Mapping[str, Any]]) -> None:
    """Raise Ad2Error with each difference, for the first of several folders that is not of the first one's run."""
    for folder, identity in zip(folders[1:], identities[1:], strict=True):
        places = (f"in {folders[0]}", f"in {folder}")
        if found := differences(compared(identities[0]), compared(identity), places=places):
            raise Ad2Error(f"not one run: {'; '.join(found)}")


def differences(
    stored: Mapping[str, Any],
    current: Mapping[str, Any],
    prefix: str = "",
    *,
    places: tuple[str, str] = ("there", "here"),
    unset: Mapping[str, str] | None = None,
) -> list[str]:
    """ "name is A there and B here" for each value that differs; nested names are joined with dots.

    `places`: words for "there" and "here". `unset`: words for None by name; others are "not set".
    """
    found: list[str] = []
    for key in sorted({*stored, *current}):
        a, b = stored.get(key), current.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{key}.", places=places, unset=unset)
        elif a != b:
            there, here = _around_difference(a, b, (unset or {}).get(f"{prefix}{key}", "not set"))
            found.append(f"{prefix}{key} is {there} {places[0]} and {here} {places[1]}")
    return found


def refuse_differences(
    folder: Path, stored: Mapping[str, Any], current: Mapping[str, Any], content: str, settings: str = "arguments"
) -> None:
    """Raise Ad2Error with each difference between the identity stored in the folder and the current one.

    `current` is compared as it would be read back from JSON. `content` ("a run", "questions made") and `settings` are
    words of the message.
    """
    if found := differences(compared(stored), json.loads(json.dumps(compared(current)))):
        there, same = stored.get("version"), f"the same {settings}"
        if there != current.get("version"):
            which = f"lmms-eval-ad2 {there}" if isinstance(there, str) else "the version that wrote it"
            same = f"continue with {which}" + (f" and {same}" if len(found) > 1 else "")
        raise Ad2Error(
            f"{folder} holds {content} with other {settings}: {'; '.join(found)}. Choose another --out, or {same}"
        )


def compared(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an identity that must be equal."""
    return {key: value for key, value in identity.items() if key != COMMIT}


def all_commits(identities: Iterable[Mapping[str, Any]]) -> str | None:
    """The commits of several identities, in order, without repetition; None if none is known."""
    found = [name for identity in identities for name in str(identity.get(COMMIT) or UNKNOWN).split(", ")]
    names = list(dict.fromkeys(found))
    return None if names == [UNKNOWN] else ", ".join(names)


def continued(folder: Path, stored: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """`current` with the commits of the earlier starts too; a warning on stderr if it continues another commit's."""
    if COMMIT not in current:
        return dict(current)
    before, now = all_commits([stored]), all_commits([stored, current])
    if now != before:
        show(
            f"ad2: {folder} has results of commit {before or UNKNOWN}, and this is {current[COMMIT] or UNKNOWN}: its "
            "figures may mix two states of the code; the list of commits is kept with them",
            file=sys.stderr,
        )
    return {**current, COMMIT: now}


def read_run(folder: Path) -> dict[str, Any]:
    """The content of run.json; raises Ad2Error if the folder holds no run, DataError for wrong lists of routes."""
    file = folder / RUN
    if not file.is_file():
        raise Ad2Error(f"{folder}: no run.json: not a folder written by `ad2 drive run --out`")
    try:
        run = load(file)
        json.dumps(run, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
        identity, selection = dict(run["identity"]), dict(run["selection"])
    except (ValueError, KeyError, TypeError) as exc:
        raise Ad2Error(f"{file}: not a run description ({exc}); choose another --out") from exc
    for key in ("routes", "asked"):
        names = selection.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(file, None, f"selection.{key}", "a list of texts", names)
    return {"identity": identity, "selection": selection}


def write_run(folder: Path, identity: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
    """Write run.json. A folder with results keeps the commits of its earlier starts, see `continued`."""
    if has_lines(folder / RESULTS) and (folder / RUN).exists():
        identity = continued(folder, read_run(folder)["identity"], identity)
    with atomic_write(folder / RUN) as handle:
        json.dump({"identity": identity, "selection": selection}, handle, ensure_ascii=False, sort_keys=True)


def check_identity(folder: Path, identity: Mapping[str, Any], part: bool = False) -> None:
    """Raise Ad2Error with each difference if the folder has results of a run with another identity.

    `part`: `identity` has only some of the keys, and only these are compared.
    """
    if not (folder / RUN).exists():
        return
    stored = read_run(folder)["identity"]
    if has_lines(folder / RESULTS):
        refuse_differences(folder, {k: stored.get(k) for k in identity} if part else stored, identity, "a run")


def check_folder(folder: Path, identity: Mapping[str, Any]) -> None:
    """Check, before a model is loaded, that a folder is writable, not in use and of the same run; raises Ad2Error.

    `identity` may have only some of the keys. Creates nothing, so that a wrong argument found later leaves no empty
    folder.
    """
    if not folder.exists():
        # A link to nothing, or to itself, is in the way of a new folder.
        parent = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
        if not (parent.is_dir() and os.access(parent, os.W_OK)):
            raise Ad2Error(f"{folder}: nothing can be created in {parent}; choose another path")
        return
    if not folder.is_dir():
        raise Ad2Error(f"{folder} is a file; a folder is needed: choose another path")
    check_identity(folder, identity, part=True)
    if (folder / "lock").exists():
        lock_folder(folder).close()


def _around_difference(a: Any, b: Any, unset: str) -> tuple[str, str]:
    """Two different values as JSON; if one is long, at most 60 characters of each from shortly before they differ."""
    one, other = (unset if value is None else json.dumps(value, ensure_ascii=False) for value in (a, b))
    if max(len(one), len(other)) <= 60:
        return one, other
    same = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    start = max(0, same - 20)
    return _part(one, start), _part(other, start)


def _part(text: str, start: int) -> str:
    head, rest = "..." * (start > 0), text[start:]
    return head + (rest if len(rest) <= 57 else rest[:54] + "...")
