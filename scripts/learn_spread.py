"""Write the tables of several seeds of scripts/learn.sh: each seed, their mean and standard deviation.

    python scripts/learn_spread.py runs/learn runs/learn1 runs/learn2
    python scripts/learn_spread.py docs/results/learn/seed0-0.8.0.json runs/learn1 --figures docs/results/learn

They stand between the marker lines of docs/learn.md; those of the first seed alone in the card of the shipped model,
which is that seed's. --figures writes the figures of each folder into a file, which stands for the folder later.

Scores are those of `ad2 report`, differences those of `ad2 report compare`, paired by route; the order of the folders
is that of the columns, which name the release if there are several.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from exit_code import exit_code
from learn import BLIND, SIGHTED
from marked_blocks import insert
from pydantic import TypeAdapter, ValidationError

from closedloop_plugin.learn.trained_agent import FOLDER
from lmms_eval_ad2.cli.main import main as ad2
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.releases.world import TASKS
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.storage.files import atomic_write_json
from lmms_eval_ad2.storage.untrusted_json import read_bytes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "learn.md"
CARD = FOLDER / "README.md"
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
    try:
        found: LearnedSeed = TypeAdapter(LearnedSeed).validate_json(read_bytes(path, LARGEST))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        raise DataError(path, None, ".".join(map(str, first["loc"])) or "file", first["msg"], first["input"]) from exc
    except (OSError, ValueError) as exc:
        raise DataError(path, None, "file", "a file of figures", str(exc)) from exc
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


def driving_table(seeds: Sequence[LearnedSeed]) -> str:
    """Driving Score with its interval over routes, by driver and seed."""
    rows = [_scores(label, [one.drives[name] for one in seeds]) for name, label in DRIVERS.items()]
    rows.append(_scores("the model above its twin", [one.above for one in seeds]))
    return _table("driver", seeds, rows)


def _scores(label: str, found: Sequence[Scored]) -> tuple[str, ...]:
    cells = [f"{score:.1f}" + (f" [{span[0]:.1f}, {span[1]:.1f}]" if span else "") for score, span in found]
    return label, *cells, spread([score for score, _ in found])


def answer_table(seeds: Sequence[LearnedSeed]) -> str:
    """Scores of the model / its blind twin / the majority, by task and seed."""
    rows = []
    for task in TASKS:
        found = [[one.answers[name][task] for name in ANSWERERS] for one in seeds]
        cells = [" / ".join(_number(value) for value in values) for values in found]
        scores = [values[0] for values in found if values[0] is not None]
        rows.append((task, *cells, spread(scores) if len(scores) == len(seeds) else "–"))
    return _table("task", seeds, rows)


def _table(title: str, seeds: Sequence[LearnedSeed], rows: Sequence[Sequence[str]]) -> str:
    several = len({one.release for one in seeds}) > 1
    heads = [title, *(f"seed {one.seed}" + (f" ({one.release})" if several else "") for one in seeds), "mean ± sd"]
    columns = len(heads) if len(seeds) > 1 else 2
    return Table(heads[:columns], [row[:columns] for row in rows], "l" + "r" * (columns - 1)).markdown()


def spread(values: Sequence[float]) -> str:
    """Mean and sample standard deviation; nothing of one value."""
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "runs", nargs="+", type=Path, metavar="OUT", help="a folder of scripts/learn.sh, or a file of figures"
    )
    p.add_argument("--figures", type=Path, metavar="DIR", help="write DIR/seed<S>-<release>.json of each folder")
    p.add_argument("--page", type=Path, default=PAGE)
    p.add_argument("--card", type=Path, default=CARD)
    args = p.parse_args()
    return exit_code(lambda: write_tables(args.runs, args.page, args.card, args.figures))


def write_tables(runs: Sequence[Path], page: Path, card: Path, figures: Path | None = None) -> None:
    """All runs into `page`, the first one into `card`; the figures of folders into files of `figures`."""
    seeds = [read_seed(out) for out in runs]
    for file, shown in ((page, seeds), (card, seeds[:1])):
        insert(file, {"drives": driving_table(shown), "answers": answer_table(shown)})
    for out, seed in zip(runs, seeds, strict=True):
        if figures and out.is_dir():
            write_seed(figures, seed)


if __name__ == "__main__":
    raise SystemExit(main())
