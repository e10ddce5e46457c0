"""LearnedSeed: the figures of one run of scripts/learn.sh, read from its folder or from a file of figures.

The file (docs/results/learn/seed<S>-<release>.json) has what the tables show, so that seeds trained on several machines
stand in one table after their folders are gone.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from learn import BLIND, SIGHTED

from lmms_eval_ad2.cli.main import main as ad2
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.storage.files import atomic_write_json
from lmms_eval_ad2.storage.untrusted_json import read_bytes

MAJORITY = "ad2_majority"
DRIVERS = {  # and what a table calls them
    "expert": "expert (privileged)",
    "speaking-expert": "the expert in words (privileged): ceiling",
    SIGHTED: "**the model**",
    "steer-only": "steer-only (privileged, ignores road users)",
    BLIND: "its blind twin",
    "straight": "straight",
}
ANSWERERS = (SIGHTED, BLIND, MAJORITY)
LARGEST = 1 << 20  # bytes of a file
Scored = tuple[float, tuple[float, float] | None]  # with its 95 % interval over routes, None of few routes


@dataclass(frozen=True)
class LearnedSeed:
    """Figures with one decimal.

    drives: Driving Score by driver. above: the model's less its twin's, paired by route. answers: official scores by
    answerer and task, None for one that has none. version: of the package that drove.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"strict": True, "allow_inf_nan": False, "extra": "forbid"}

    seed: str
    version: str
    drives: Mapping[str, Scored]
    above: Scored
    answers: Mapping[str, Mapping[str, float | None]]

    @property
    def release(self) -> str:
        """The version's number, as 0.9.0; "unknown" if the text has none. The world's stand before it."""
        found = re.findall(r"\d+\.\d+\.\d+", self.version)
        return found[-1] if found else "unknown"

    @property
    def missing(self) -> list[str]:
        """What the tables show and this does not have."""
        drives = [f"drive {name}" for name in DRIVERS if name not in self.drives]
        asked = [(name, task) for name in ANSWERERS for task in TASKS]
        return drives + [f"questions {name}, {task}" for name, task in asked if task not in self.answers.get(name, {})]


def read_seed(path: Path) -> LearnedSeed:
    """The figures of a finished run or of a file.

    Raises Ad2Error if there is nothing or some are missing, DataError for a malformed file.
    """
    if not path.exists():
        raise Ad2Error(f"{path}: nothing there; expected a folder of scripts/learn.sh or a file of figures")
    if path.is_file():
        found, hint = _read_file(path), "scripts/learn_spread.py --figures DIR writes such files"
    else:
        found, hint = _read_run(path), f"scripts/learn.sh --out {path} resumes"
    if found.missing:
        raise Ad2Error(f"{path}: not finished, without {'; '.join(found.missing[:3])}; {hint}")
    return found


def write_seed(folder: Path, seed: LearnedSeed) -> Path:
    """Write the file of figures."""
    path = folder / f"seed{seed.seed}-{seed.release}.json"
    atomic_write_json(path, asdict(seed))
    return path


def _read_file(path: Path) -> LearnedSeed:
    from pydantic import TypeAdapter, ValidationError

    try:
        found: LearnedSeed = TypeAdapter(LearnedSeed).validate_json(read_bytes(path, LARGEST))
    except (OSError, ValueError) as exc:
        if not isinstance(exc, ValidationError):
            raise DataError(path, None, "file", "a file of figures", str(exc)) from exc
        first = exc.errors(include_url=False)[0]
        raise DataError(path, None, ".".join(map(str, first["loc"])) or "file", first["msg"], first["input"]) from exc
    return found


def _read_run(out: Path) -> LearnedSeed:
    runs = (out / "runs").absolute()
    found = _printed("report", str(runs))
    driven = {_first(one["path"], runs): one for one in (found.get("drive") or {"runs": []})["runs"]}
    names = {run["name"]: _first(run["folder"], runs) for run in found["runs"]}
    answers: dict[str, dict[str, float | None]] = {}
    for one in found["tasks"]:
        answers.setdefault(names[one["run"]], {})[one["part"]] = _rounded(one["score"]["official"])
    facts = driven[SIGHTED]["provenance"] if SIGHTED in driven else {"seed": "", "version": ""}
    return LearnedSeed(
        seed=facts["seed"],
        version=facts["version"],
        drives={name: _scored(one["driving_score"], one["intervals"]["driving_score"]) for name, one in driven.items()},
        above=_difference(runs) if {SIGHTED, BLIND} <= set(driven) else (0.0, None),
        answers=answers,
    )


def _difference(runs: Path) -> Scored:
    """Driving Score of the model less that of its twin, over the routes of both."""
    found = _printed("report", "compare", str(runs / SIGHTED / "drive"), str(runs / BLIND / "drive"))
    row = {row["name"]: row for row in found["rows"]}["driving_score"]
    return _scored(row["drop"], row["ci_drop"])


def _scored(score: float, span: Sequence[float] | None) -> Scored:
    return round(score, 1), (round(span[0], 1), round(span[1], 1)) if span else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _first(path: str, runs: Path) -> str:
    """The first folder of a path below `runs`."""
    return Path(path).relative_to(runs).parts[0]


def _printed(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    text = io.StringIO()
    with redirect_stdout(text):
        code = ad2([*words, "--json"])
    if code:
        raise Ad2Error(f"ad2 {' '.join(words)} failed; its message stands above")
    return dict(json.loads(text.getvalue()))
