"""The identity of a run: what must be equal at every start into one folder, and what may differ.

    DIR/run.json         {"identity": {...}, "selection": {...}}
    DIR/lock             held by the one process that runs into DIR (lock.py)
    DIR/episodes.jsonl   the results (journal.py); of two lines for one episode the later counts

`identity` holds everything that can change a result: who runs (model, agent, prompts), on what (suite, course, map, by
their hashes), under which rules (profile, seed, world). A start with another identity is refused, and each difference
is named. `selection` is what this start asks for: which part, how many repetitions. It may differ, since a larger
selection is the same run. A folder without a result binds nobody: a start that ended before its first one, by a wrong
argument for example, does not make the next one choose another folder.

Folders of another layout keep their identity elsewhere (settings.json of `ad2 mcq build`, "asked" in suite.json of `ad2
threats generate`) and compare it with `refuse_differences`. A run under lmms-eval has its identity in the folder's name
(`run_folder`): another model or other arguments are another folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.journal import has_lines
from lmms_eval_ad2.storage.lock import lock_folder

RUN, RESULTS = "run.json", "episodes.jsonl"


def digest(value: Any) -> str:
    """sha256 of a value as JSON with sorted keys; what is no JSON counts as its text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def run_folder(out: Path, model: str, identity: Mapping[str, Any]) -> Path:
    """OUT/ad2/<model>-<hash8>: the same model with the same identity comes back to the same folder."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", model).strip("_")[:60] or "model"
    return out / "ad2" / f"{slug}-{digest(identity)[:8]}"


def differences(there: Mapping[str, Any], here: Mapping[str, Any], above: str = "") -> list[str]:
    """ "name is A there and B here" of every value that differs, nested names with dots."""
    found: list[str] = []
    for key in sorted({*there, *here}):
        a, b = there.get(key), here.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{above}{key}.")
        elif a != b:
            found.append(f"{above}{key} is {_short(a)} there and {_short(b)} here")
    return found


def refuse_differences(
    folder: Path, there: Mapping[str, Any], here: Mapping[str, Any], holds: str, what: str = "arguments"
) -> None:
    """Ad2Error that names each difference between the identity in the folder and that of this start.

    `here` is compared as it would be read back from JSON. `holds`: "a run", "questions made"; `what` they were given.
    """
    if differ := differences(there, json.loads(json.dumps(here))):
        raise Ad2Error(
            f"{folder} holds {holds} with other {what}: {'; '.join(differ)}. Choose another --out, or the same {what}"
        )


def read_run(folder: Path) -> dict[str, Any]:
    """run.json; Ad2Error where the folder holds no run."""
    file = folder / RUN
    if not file.is_file():
        raise Ad2Error(f"{folder}: no run.json: not a folder that `ad2 drive run --out` wrote")
    try:
        run = json.loads(file.read_text("utf-8"))
        return {"identity": dict(run["identity"]), "selection": dict(run["selection"])}
    except (ValueError, KeyError, TypeError) as exc:
        raise Ad2Error(f"{file}: not a run description ({exc}); choose another --out") from exc


def write_run(folder: Path, identity: Mapping[str, Any], selection: Mapping[str, Any]) -> None:
    """run.json."""
    with atomic_write(folder / RUN) as handle:
        json.dump({"identity": identity, "selection": selection}, handle, ensure_ascii=False, sort_keys=True)


def check_identity(folder: Path, identity: Mapping[str, Any], part: bool = False) -> None:
    """Nothing where the folder has no result or is of the same run; else Ad2Error that names each difference.

    `part`: `identity` is a part of it, and only that is compared.
    """
    if not (folder / RUN).exists():
        return
    there = read_run(folder)["identity"]
    if has_lines(folder / RESULTS):
        refuse_differences(folder, {k: there.get(k) for k in identity} if part else there, identity, "a run")


def check_folder(folder: Path, identity: Mapping[str, Any]) -> None:
    """What can be said of a folder before a model is loaded for it: writable, not in use, of the same run.

    `identity` may be a part. Nothing is made: a wrong argument that is found later leaves no empty folder behind.
    """
    if not folder.exists():
        above = next(path for path in folder.absolute().parents if path.exists())
        if not (above.is_dir() and os.access(above, os.W_OK)):
            raise Ad2Error(f"{folder}: nothing can be made in {above}; choose another place")
        return
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: a file, and a folder is needed; choose another place")
    check_identity(folder, identity, part=True)
    if (folder / "lock").exists():
        lock_folder(folder).close()


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
