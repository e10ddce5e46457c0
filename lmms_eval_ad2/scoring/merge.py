"""Merging of the shards of a run (`ad2 eval --shard i/N`) into a run folder whose tables equal those of one run.

The saved answers are read and summarised again in the order of the data, with the marks that each shard's judge gave:
neither the model, nor the judge, nor the data are needed. Of an incomplete merge the rows keep their numbers, so that
it can be merged with the other shards later.
"""

from __future__ import annotations

import datetime as dt
import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating
from lmms_eval_ad2.scoring import judge_ratings, pipeline
from lmms_eval_ad2.scoring.result_files import SELECTED, read_summary, scored_samples, write_summary
from lmms_eval_ad2.scoring.sample import ScoredSample
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import remove_leftovers
from lmms_eval_ad2.storage.identity import refuse_unlike
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.saved_samples import needs, saved_repeats
from lmms_eval_ad2.storage.shards import MOST_SHARDS, SHARDS, shards_text

MERGED = "merged"  # key of the block "run": names of the merged folders
_OWN = "lmms_eval_ad2"  # key of the block "versions"
# Keys of the block "run" that may differ between shards, and of a judge, see report/runs.py.
_COST_DIGITS = 6  # as in the costs that are added
_FREE = ("date", "versions", "rescored_from", MERGED, SHARDS, "judge")
_FREE_OF_JUDGE = ("usage", "served_as", "base_url")


@dataclass(frozen=True)
class SavedShard:
    """A finished run folder with some shards of a run: one, or several after an incomplete merge."""

    folder: Path
    run: Mapping[str, Any]
    tasks: Mapping[str, Mapping[str, Any]]
    included: tuple[int, ...]  # numbers of its shards, from 1
    of: int

    @classmethod
    def read(cls, folder: Path) -> SavedShard:
        """Read summary.json. Raises Ad2Error for a folder that is no shard, DataError for a broken file."""
        summary = read_summary(folder)
        block = summary["run"].get(SHARDS)
        if block is None:
            raise Ad2Error(f"{folder}: a whole run, no shard of one (ad2 eval --shard i/N)")
        where = folder / "summary.json"
        try:
            included, of = tuple(int(i) for i in block["included"]), int(block["of"])
            selected = {name: int(table[SELECTED]) for name, table in summary["tasks"].items()}
        except (KeyError, TypeError, ValueError) as exc:
            raise DataError(where, None, SHARDS, "the shards of this folder", str(block)[:80], str(exc)) from exc
        if of > MOST_SHARDS:
            raise DataError(where, None, f"{SHARDS}.of", f"at most {MOST_SHARDS:,} shards", of)
        if not included or not all(1 <= i <= of for i in included) or min(selected.values(), default=0) < 0:
            raise DataError(where, None, SHARDS, "numbers from 1 to N", str(block)[:80])
        return cls(folder, summary["run"], summary["tasks"], included, of)

    def identity(self) -> dict[str, Any]:
        """What must be equal in all shards of a run."""
        judge = self.run.get("judge")
        same = ("benchmark", "part", "lang", "variant", "captions", SELECTED)
        return {
            **{key: value for key, value in self.run.items() if key not in _FREE},
            **dict(self.run[SHARDS].get("identity") or {}),
            "shards": self.of,
            "judge": {k: v for k, v in judge.items() if k not in _FREE_OF_JUDGE} if judge else None,
            "version": _release(self.run),
            "tasks": {
                name: {**{key: table.get(key) for key in same}, "data": {**table["data"], "image_root": None}}
                for name, table in self.tasks.items()
            },
        }


def merge_shards(out: Path, folders: Sequence[Path], *, partial: bool = False) -> SavedShard:
    """Write the run folder `out` from run folders with shards. Returns its summary; `included` has all merged shards.

    Raises Ad2Error if the folders are not shards of one run, or if one is given twice or (without `partial`) missing.
    """
    shards = sorted((SavedShard.read(folder) for folder in folders), key=lambda shard: shard.included)
    _check_out(out, shards)
    refuse_unlike([shard.folder for shard in shards], [shard.identity() for shard in shards])
    if (release := _release(shards[0].run)) != __version__:
        raise Ad2Error(f"the shards are of lmms-eval-ad2 {release}: merge them with it, not {__version__}")
    included = _included(shards, partial)
    with lock_folder(out):
        remove_leftovers(out, out / "samples")
        # A merge that is interrupted leaves no summary beside samples of another one.
        (out / "summary.json").unlink(missing_ok=True)
        tasks = {name: _merge_task(out, shards, name, len(included) == shards[0].of) for name in shards[0].tasks}
        run = _description(shards, included)
        write_summary(out, run, tasks)
    return SavedShard(out, run, tasks, included, shards[0].of)


def _check_out(out: Path, shards: Sequence[SavedShard]) -> None:
    """Raise Ad2Error if `out` holds something else, or if a report on it would find its shards as well."""
    for shard in shards:
        if out.resolve() in (shard.folder.resolve(), *shard.folder.resolve().parents):
            raise Ad2Error(f"{out}: the merged run needs its own folder, and {shard.folder} is in it")
    others = [file.parent for file in sorted(out.rglob("summary.json")) if file.parent != out]
    if others or ((out / "summary.json").exists() and MERGED not in read_summary(out)["run"]):
        raise Ad2Error(f"{others[0] if others else out} is another run; choose another folder for the merged one")


def _included(shards: Sequence[SavedShard], partial: bool) -> tuple[int, ...]:
    """The shards of all folders, ascending; raises Ad2Error for duplicates and, without `partial`, missing ones."""
    of = shards[0].of
    where: dict[int, Path] = {}
    for shard in shards:
        for index in shard.included:
            if index in where:
                raise Ad2Error(f"shard {index}/{of} is in {where[index]} and in {shard.folder}; name one of them")
            where[index] = shard.folder
    missing = [i for i in range(1, of + 1) if i not in where]
    if missing and not partial:
        verb = "is" if len(missing) == 1 else "are"
        raise Ad2Error(f"{shards_text(missing, of)} {verb} missing; to merge the others: --partial")
    return tuple(sorted(where))


def _merge_task(out: Path, shards: Sequence[SavedShard], name: str, complete: bool) -> dict[str, Any]:
    tables = [shard.tasks[name] for shard in shards]
    present, selected = sum(table["n"] for table in tables), tables[0][SELECTED]
    if complete and present != selected:
        raise Ad2Error(f"task {name}: {present} samples in all shards together, expected {selected}")
    variant = TaskVariant.of_table(tables[0], name)
    resizing = InputResizing.from_json(shards[0].run.get("model_input"), str(shards[0].folder / "summary.json"))
    described = shards[0].run.get("judge") or {}
    repeats = max(saved_repeats(shard.folder / "summary.json", shard.run.get("judge")) for shard in shards)
    judge = SavedMarks(str(described.get("label")), repeats)
    samples = _samples(shards, name, variant, resizing, judge, complete)
    table, _ = pipeline.score_task(samples, name, variant, lambda: judge, out, progress=False, resizing=resizing)
    if table["n"] != present:
        raise Ad2Error(f"task {name}: {table['n']} rows in the samples of the shards, {present} in their tables")
    return {**table, "data": tables[0]["data"], **({} if complete else {SELECTED: selected})}


def _samples(
    shards: Sequence[SavedShard], name: str, variant: TaskVariant, resizing: InputResizing | None, judge: SavedMarks,
    complete: bool,
) -> Iterator[ScoredSample]:  # fmt: skip
    """The samples of all shards in the order of the data."""
    before = -1
    for row, sample, marks, folder in heapq.merge(
        *(_scored(shard.folder, name, variant, resizing) for shard in shards), key=lambda found: found[0]
    ):
        if row <= before:
            raise Ad2Error(f"{folder}, task {name}: row {row} is there twice, or in two shards")
        before = row
        judge.add(sample, marks, folder)
        sample.row = None if complete else row
        yield sample


def _scored(
    folder: Path, name: str, variant: TaskVariant, resizing: InputResizing | None
) -> Iterator[tuple[int, ScoredSample, Any, Path]]:
    for number, saved, sample in scored_samples(folder, name, variant, resizing):
        needs(folder / "samples" / f"{name}.jsonl", number, saved, "row")
        yield saved["row"], sample, saved.get("judge"), folder


class SavedMarks:
    """A Judge that returns the marks in the samples of the shards; `add` precedes `rate`."""

    def __init__(self, label: str, repeats: int = 1) -> None:
        self.label = label
        self.repeats = repeats
        self.usage: dict[str, Any] = {}
        self._verdicts: dict[tuple[str, int], judge_ratings.Verdict] = {}

    def add(self, sample: ScoredSample, marks: Any, folder: Path) -> None:
        """Note the marks of a sample, in the order of its pending items; raises DataError if they do not fit."""
        try:
            for item, mark in zip(sample.pending, marks, strict=True):
                for k, verdict in enumerate(_verdicts(item, mark, self.repeats)):
                    self._verdicts[item.id, k] = verdict
        except (TypeError, ValueError, KeyError) as exc:
            file = folder / "samples" / f"{sample.task}.jsonl"
            wanted = f"the marks of {len(sample.pending)} texts"
            raise DataError(file, None, f"judge of {sample.id}", wanted, str(marks)[:80], "another version?") from exc

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[judge_ratings.Verdict]:
        found = [self._verdicts[item.id, item.repetition] for item in items]
        self._verdicts.clear()
        return found

    def describe(self) -> dict[str, Any]:
        return {"label": self.label}


def _verdicts(item: JudgeItem, mark: Mapping[str, Any], repeats: int) -> list[judge_ratings.Verdict]:
    """The verdict of each judgement of an item."""
    if mark["rubric"] != item.rubric:
        raise ValueError(f"rubric {mark['rubric']}")
    if repeats > 1:
        scores, reasons, replies = mark["scores"], mark["reasons"], mark.get("replies") or [None] * repeats
    else:
        scores, reasons, replies = [mark["score"]], [mark["reason"]], [mark.get("reply")]
    if len(scores) != repeats:
        raise ValueError(f"{len(scores)} judgements, expected {repeats}")
    # A reply is None in samples of earlier versions, or if the judge replied nothing.
    return [
        Unscored(item.rubric, str(reason), reply or "")
        if score is None
        else JudgeRating(item.id, float(score) if isinstance(score, float) else int(score), reply or "")
        for score, reason, reply in zip(scores, reasons, replies, strict=True)
    ]


def _description(shards: Sequence[SavedShard], included: Sequence[int]) -> dict[str, Any]:
    """The block "run" of the merged run."""
    first = shards[0].run
    about = {key: value for key, value in first.items() if key != SHARDS}
    if len(included) < shards[0].of:
        about[SHARDS] = {**first[SHARDS], "included": list(included)}
    return {
        **about,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "judge": _judge([shard.run["judge"] for shard in shards]) if first.get("judge") else None,
        "versions": _versions(shards),
        MERGED: [name for shard in shards for name in shard.run.get(MERGED, [shard.folder.name])],
    }


def _judge(judges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The judge's entry: usage is summed."""
    usage: dict[str, Any] = {}
    for judge in judges:
        for key, value in judge["usage"].items():
            usage[key] = round(usage.get(key, 0) + value, _COST_DIGITS) if is_number(value) else value
    found = {**judges[0], "usage": usage}
    if "served_as" in found:
        found["served_as"] = sorted({name for judge in judges for name in judge["served_as"]})
    return found


def _versions(shards: Sequence[SavedShard]) -> dict[str, str]:
    """All versions of each package, separated by commas; a warning on stderr if there are several."""
    each = [shard.run.get("versions") or {} for shard in shards]
    names = list(dict.fromkeys(name for versions in each for name in versions))
    found = {name: ", ".join(dict.fromkeys(v[name] for v in each if name in v)) for name in names}
    if several := [f"{name} {text}" for name, text in found.items() if ", " in text]:
        show(f"ad2: the shards ran with several versions: {'; '.join(several)}", file=sys.stderr)
    return found


def _release(run: Mapping[str, Any]) -> str:
    """Our version without the commit."""
    return str((run.get("versions") or {}).get(_OWN, "")).partition("+")[0]
