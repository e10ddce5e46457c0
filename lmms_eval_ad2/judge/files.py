"""The JSONL files of `ad2 judge`: items to rate, ratings, human votes. docs/judge.md shows each format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.agreement import TIE, HumanVotes, JudgedAnswer
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST, JudgeItem, JudgeRating
from lmms_eval_ad2.judge.rubrics import RUBRICS
from lmms_eval_ad2.llm.request_body import DataUrlImage
from lmms_eval_ad2.llm.settings import one_of
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.image_files import locate, open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb
from lmms_eval_ad2.storage.untrusted_json import lines, parse

Row = dict[str, Any]
_COPIED_FIELDS = ("task", "model", "run")


def rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Read a JSONL file: line number (from 1) and object of each line that is not blank."""
    try:
        for number, line in lines(Path(path)):
            if not line.strip(b"\xef\xbb\xbf \t\r\n"):
                continue
            try:
                row = parse(line)
            except ValueError as exc:
                raise DataError(path, number, "(line)", "a JSON object", line[:80], f"JSON: {exc}") from exc
            if not isinstance(row, dict):
                raise DataError(path, number, "(line)", "a JSON object", row)
            yield number, row
    except OSError as exc:
        raise Ad2Error(f"cannot read {path}: {exc}") from exc


def read_items(path: Path) -> list[tuple[JudgeItem, Row]]:
    """Read items, with the fields that are copied to the ratings (task, model, run). Raises DataError."""
    found = []
    for number, row in rows(path):
        reference, question = (_text(path, number, row, name, "") for name in ("reference", "question"))
        steps = row.get("steps", [])
        if not isinstance(steps, list) or not all(isinstance(s, str) for s in steps):
            raise DataError(path, number, "steps", "a list of texts", steps)
        rubric = one_of(_text(path, number, row, "rubric"), RUBRICS, f"rubric in {path}, row {number}:")
        item = JudgeItem(
            _text(path, number, row, "id"), rubric, _text(path, number, row, "answer"), reference=reference,
            question=question, steps=tuple(steps),
        )  # fmt: skip
        images = row.get("images", [])
        if not isinstance(images, list) or not all(isinstance(name, str) for name in images):
            raise DataError(path, number, "images", "a list of file names", images)
        copied: Row = {k: _text(path, number, row, k) for k in _COPIED_FIELDS if k in row}
        found.append((item, copied | ({"images": images} if images else {})))
    if not found:
        raise Ad2Error(f"{path} has no items")
    return found


def repeated(items: Sequence[tuple[JudgeItem, Row]], repeats: int) -> list[tuple[JudgeItem, Row]]:
    """Each item `repeats` times; the copied field `run` then has the number of the judgement, from 1, after its own."""
    if repeats == 1:
        return list(items)
    return [
        (replace(item, repetition=k), {**row, "run": f"{row['run']}.{k + 1}" if row.get("run") else str(k + 1)})
        for item, row in items
        for k in range(repeats)
    ]


def with_images(items: Sequence[tuple[JudgeItem, Row]], root: Path) -> list[tuple[JudgeItem, Row]]:
    """The items with the images that their rows name in `images`, below the folder `root`."""
    return [(replace(item, images=partial(_encoded, root, row.get("images", []))), row) for item, row in items]


def _encoded(root: Path, names: Sequence[str]) -> list[DataUrlImage]:
    found = []
    for name in names:
        try:
            with open_image(locate(root, name)) as image:
                found.append(DataUrlImage.of("", shown_rgb(image)))
        except OSError as exc:
            raise DataError(root, None, "images", "a readable image below this folder", name, str(exc)) from exc
    return found


def write_ratings(
    path: Path, items: Sequence[tuple[JudgeItem, Row]], results: Sequence[JudgeRating | Unscored], label: str
) -> None:
    """Write one line per item, in order; the file is written atomically."""
    rows = []
    for (item, copied), result in zip(items, results, strict=True):
        row: Row = {"id": item.id, "task": item.rubric, "rubric": item.rubric, "judge": label, **copied}
        if isinstance(result, JudgeRating):
            row |= {"score": result.score, "reason": None, "raw": result.raw}
        else:
            row |= {"score": None, "reason": result.reason, "raw": result.detail}
        rows.append(row)
    write_rows(path, rows)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a JSONL file atomically. Raises Ad2Error if that is impossible."""
    try:
        with atomic_write(path) as handle:
            handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    except OSError as exc:
        raise Ad2Error(f"cannot write {path}: {exc}") from exc


def read_ratings(path: Path) -> list[JudgedAnswer]:
    """Read marks by task, sample, model and run; each combination once. Raises DataError."""
    found: dict[tuple[str, ...], JudgedAnswer] = {}
    for number, row in rows(path):
        score = row.get("score")
        good = is_number(score) and LOWEST <= score <= HIGHEST
        if not (good or score is None) or "score" not in row:
            raise DataError(path, number, "score", "a number from 1 to 10, or null", score)
        task, sample, model = (_text(path, number, row, name) for name in ("task", "id", "model"))
        run = _text(path, number, row, "run", "")
        if (task, sample, model, run) in found:
            hint = "name a judge's runs in 'run'"
            raise DataError(path, number, "id", "each sample once for a task and model", sample, hint)
        found[task, sample, model, run] = JudgedAnswer(task, sample, model, score, run)
    return list(found.values())


def read_votes(path: Path) -> list[HumanVotes]:
    """Read human votes on pairs of models; each pair once per sample. Raises DataError."""
    found: dict[tuple[str, str, frozenset[str]], HumanVotes] = {}
    for number, row in rows(path):
        models = row.get("models")
        if not isinstance(models, list) or len(models) != 2 or not all(isinstance(m, str) and m for m in models):
            raise DataError(path, number, "models", "the names of the two models", models)
        if models[0] == models[1] or TIE in models:
            raise DataError(path, number, "models", f"two different names, none of them '{TIE}'", models)
        votes = row.get("votes")
        if not isinstance(votes, list) or not votes or any(v not in (*models, TIE) for v in votes):
            raise DataError(path, number, "votes", f"a list of {models[0]}, {models[1]} or {TIE}", votes)
        task, sample = _text(path, number, row, "task"), _text(path, number, row, "id")
        key = (task, sample, frozenset(models))
        if key in found:
            raise DataError(path, number, "id", "each pair of models once for a sample", sample)
        found[key] = HumanVotes(task, sample, (models[0], models[1]), tuple(votes))
    if not found:
        raise Ad2Error(f"{path} has no votes")
    return list(found.values())


def _text(path: Path, number: int, row: Row, name: str, default: str | None = None) -> str:
    value = row.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool) and name == "id":  # ids are often numbers
        return str(value)
    if not isinstance(value, str) or (name in ("id", "task", "model") and not value):
        raise DataError(path, number, name, "a text", value)
    return value
