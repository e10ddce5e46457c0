"""`ad2 rescore RUN`: score saved answers again without the model, e.g. with another judge or frame of coordinates."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.cli.judge_options import JudgeOptions, print_address
from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.judge.spec import VARIABLE

if TYPE_CHECKING:
    from lmms_eval_ad2.core.coordinates import InputResizing
    from lmms_eval_ad2.judge.base import Judge


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(JudgeOptions):
    """`ad2 rescore`."""

    run: Path = option(
        "run folder (with summary.json), or a folder that contains one run", positional=True, metavar="RUN"
    )
    out: Path | None = option("folder of the new run (default: RUN-rescored-<judge>)", default=None, metavar="DIR")
    frame: str | None = option(
        "frame in which points and boxes are read, as in ad2 eval (default: the run's)", default=None, metavar="FRAME"
    )


def register(subparsers: Any) -> None:
    add_command(
        subparsers, "rescore", run, RescoreOptions, help="score the saved answers of a run again, without the model"
    )


def run(options: RescoreOptions) -> int:
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.core.coordinates import FrameSetting
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.report import tables
    from lmms_eval_ad2.scoring import judge_ratings, result_files

    if options.frame is not None:
        FrameSetting.parse(options.frame, "--frame")
    options.set_environment()
    source = find_run(options.run)
    old = result_files.read_summary(source)
    judge = make_judge(None, cache=source / "judge.sqlite")
    target = options.out or source.with_name(f"{source.name}-rescored-{_tag(judge, options.frame)}")
    if target.resolve() == source.resolve():
        raise Ad2Error(f"--out {target}: is the run itself; choose another folder")
    print_address(judge)
    _note_other_judge(old["run"].get("judge"), judge)
    resizing = _resizing(source, old["run"])
    tables_new = {
        name: rescore_task(
            source=source, target=target, name=name, table=table, judge=judge, frame=options.frame, resizing=resizing
        )
        for name, table in old["tasks"].items()
    }
    _check_input_size(tables_new)
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    result_files.write_summary(
        target,
        {
            **old["run"],
            "judge": judge_ratings.judge_record(judge),
            "frame": options.frame or old["run"].get("frame"),
            "model_input": resizing.to_json() if resizing else None,
            "rescored_from": source.name,
            "date": now,
        },
        tables_new,
    )
    print(tables.render(report.with_floors(report.load([target]))))
    show(f"rescored {len(tables_new)} tasks into {target}")
    return 0


def find_run(path: Path) -> Path:
    """The run at or below `path`; earlier rescorings beside it do not count."""
    from lmms_eval_ad2.core.errors import Ad2Error

    if (path / "summary.json").exists():
        return path
    if not path.is_dir():
        raise Ad2Error(f"{path}: no such folder")
    found = sorted(p.parent for p in path.rglob("summary.json") if "-rescored-" not in p.parent.name)
    if len(found) != 1:
        names = "".join(f"\n  {p}" for p in found)
        raise Ad2Error(f"{path}: expected one finished run, found {len(found)}; name one of them:{names or ' none'}")
    return found[0]


def _resizing(source: Path, about: dict[str, Any]) -> InputResizing | None:
    """How the model of a run resized images: as recorded; runs of earlier versions name only their arguments."""
    from lmms_eval_ad2.core.coordinates import InputResizing
    from lmms_eval_ad2.harness import model_input
    from lmms_eval_ad2.storage.local_weights import pairs

    recorded = InputResizing.from_json(about.get("model_input"), str(source / "summary.json"))
    if recorded or "model_input" in about:
        return recorded
    return model_input.of_arguments(str(about.get("model")), pairs(str(about.get("model_args") or "")))


def _check_input_size(tables: dict[str, dict[str, Any]]) -> None:
    from lmms_eval_ad2.core.coordinates import HINT

    reason = "unparsed:no_model_input_size"
    n = sum(table["reasons"].get(reason, 0) for table in tables.values())
    if n:
        print(f"{n} points and boxes unparsed: the run does not tell how the model resizes images; use --frame {HINT}")


def _note_other_judge(before: Any, judge: Judge) -> None:
    """Print that the run had another judge, if this one is only the default."""
    label = before.get("label") if isinstance(before, dict) else None
    if label and label != judge.label and not os.environ.get(VARIABLE):
        show(
            f"ad2: the run was judged by {label}, this is {judge.label}; the same judge: --judge SPEC", file=sys.stderr
        )


def _tag(judge: Judge, frame: str | None) -> str:
    """The judge's name and a hash of its settings: two different rescorings never share a folder."""
    text = json.dumps([judge.describe(), frame], sort_keys=True, default=str)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", judge.label)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def rescore_task(
    source: Path, target: Path, name: str, table: dict[str, Any], judge: Judge, frame: str | None,
    resizing: InputResizing | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Read, parse, judge and summarise one task's saved answers."""
    from lmms_eval_ad2.core.coordinates import InputResizing
    from lmms_eval_ad2.harness.judge_images import with_images
    from lmms_eval_ad2.scoring import pipeline, result_files
    from lmms_eval_ad2.scoring.variant import TaskVariant

    variant = TaskVariant.of_table(table, name)
    if frame:
        variant = variant.with_frame(frame, "--frame")
    stated = (table.get("coordinates") or {}).get("model_input")  # that of a task, or of --frame, before the model's
    resizing = InputResizing.from_json(stated, f"{source}, {name}") or resizing
    again = (sample for _, _, sample in result_files.scored_samples(source, name, variant, resizing))
    samples = with_images(again, judge, Path(str(table.get("data", {}).get("image_root"))), variant)
    new, _ = pipeline.score_task(samples, name, variant, lambda: judge, target, resizing=resizing)
    kept = {key: table[key] for key in ("data", result_files.SELECTED) if key in table}
    return {**new, **kept}
