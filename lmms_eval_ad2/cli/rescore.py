"""`ad2 rescore RUN`: score saved answers again without the model, e.g. with another judge or frame of coordinates."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lmms_eval_ad2.options import add_command, option

if TYPE_CHECKING:
    from lmms_eval_ad2.judge.base import Judge
    from lmms_eval_ad2.scoring.sample import ScoredSample
    from lmms_eval_ad2.scoring.variant import TaskVariant


@dataclass(frozen=True, kw_only=True)
class RescoreOptions:
    """`ad2 rescore`."""

    run: Path = option(
        "run folder (with summary.json), or a folder that contains one run", positional=True, metavar="RUN"
    )
    out: Path | None = option("folder of the new run (default: RUN-rescored-<judge>)", default=None, metavar="DIR")
    judge: str | None = option("as in ad2 eval", default=None, metavar="SPEC")
    frame: Literal["auto", "pixel", "unit", "thousand"] | None = option(
        "frame of the coordinates in answers", default=None
    )


def register(subparsers: Any) -> None:
    add_command(
        subparsers, "rescore", run, RescoreOptions, help="score the saved answers of a run again, without the model"
    )


def run(options: RescoreOptions) -> int:
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.report import tables
    from lmms_eval_ad2.scoring import judge_ratings, result_files

    if options.judge:
        os.environ["AD2_JUDGE"] = options.judge
    source = _find(options.run)
    old = result_files.read_summary(source)
    judge = make_judge(None, cache=source / "judge.sqlite")
    target = options.out or source.with_name(f"{source.name}-rescored-{_tag(judge, options.frame)}")
    if target.resolve() == source.resolve():
        raise Ad2Error(f"--out {target}: is the run itself; choose another folder")
    tables_new = {
        name: rescore_task(source=source, target=target, name=name, table=table, judge=judge, frame=options.frame)
        for name, table in old["tasks"].items()
    }
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    result_files.write_summary(
        target,
        {**old["run"], "judge": judge_ratings.judge_record(judge), "rescored_from": source.name, "date": now},
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
