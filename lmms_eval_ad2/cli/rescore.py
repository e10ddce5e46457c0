"""`ad2 rescore RUN`: score saved answers again without the model: another judge, another reading of coordinates."""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.judge.base import Judge
    from lmms_eval_ad2.scoring.sample import ScoredSample
    from lmms_eval_ad2.scoring.variant import TaskVariant


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("rescore", help="score the saved answers of a run again, without the model")
    p.add_argument("run", type=Path, help="a run folder (the one with summary.json), or a folder with one run below it")
    p.add_argument("--out", type=Path, help="where the new run goes (default: RUN-rescored-<judge>)")
    p.add_argument("--judge", help="as in ad2 eval")
    p.add_argument("--frame", choices=("auto", "pixel", "unit", "thousand"), help="how coordinates in answers are read")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.report import tables
    from lmms_eval_ad2.scoring import judge_ratings, result_files

    if args.judge:
        os.environ["AD2_JUDGE"] = args.judge
    source = _find(args.run)
    old = result_files.read_summary(source)
    judge = make_judge(None, cache=source / "judge.sqlite")
    target = args.out or source.with_name(f"{source.name}-rescored-{_tag(judge, args.frame)}")
    if target.resolve() == source.resolve():
        raise Ad2Error(f"--out {target}: a run is never overwritten by its own rescoring")
    tables_new = {
        name: rescore_task(source, target, name, table, judge, args.frame) for name, table in old["tasks"].items()
    }
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    result_files.write_summary(
        target,
        {**old["run"], "judge": judge_ratings.about(judge), "rescored_from": source.name, "date": now},
        tables_new,
    )
    print(tables.render(report.load([target])))
    print(f"rescored {len(tables_new)} tasks into {target}")
    return 0


def _find(path: Path) -> Path:
    """The run at or below `path`; earlier rescorings beside it do not count."""
    from lmms_eval_ad2.errors import Ad2Error

    if (path / "summary.json").exists():
        return path
    if not path.is_dir():
        raise Ad2Error(f"{path}: no such folder")
    found = sorted(p.parent for p in path.rglob("summary.json") if "-rescored-" not in p.parent.name)
    if len(found) != 1:
        names = "".join(f"\n  {p}" for p in found)
        raise Ad2Error(f"{path}: expected one finished run, found {len(found)}; name one of them:{names or ' none'}")
    return found[0]


def _tag(judge: Judge, frame: str | None) -> str:
    """The judge's name and a hash of its settings: two different rescorings never share a folder."""
    text = json.dumps([judge.describe(), frame], sort_keys=True, default=str)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", judge.label)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def rescore_task(
    source: Path, target: Path, name: str, table: dict[str, Any], judge: Judge, frame: str | None
) -> dict[str, Any]:
    """Read, parse, judge and summarise one task's saved answers."""
    from lmms_eval_ad2.scoring import pipeline
    from lmms_eval_ad2.scoring.variant import TaskVariant

    about = {"benchmark": table["benchmark"], "part": table["part"], "captions": table["captions"], **table["variant"]}
    variant = TaskVariant.from_dict(about, name)
    if frame:
        variant = replace(variant, frame=frame)  # type: ignore[arg-type]
    new, _ = pipeline.score_task(_again(source, name, variant), name, variant, lambda: judge, target)
    return {**new, "data": table["data"]}


def _again(folder: Path, name: str, variant: TaskVariant) -> Iterator[ScoredSample]:
    from lmms_eval_ad2.records import Record
    from lmms_eval_ad2.scoring import result_files
    from lmms_eval_ad2.scoring.sample import score_sample

    for row in result_files.read_samples(folder, name):
        yield score_sample(Record.from_dict(row["record"]), row["raw"], variant, name, row["prompt"])
