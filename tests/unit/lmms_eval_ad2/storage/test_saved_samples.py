"""Samples files of others: each reader gives its result or one message with file and row, never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builders import BASE, boxed, chain, record
from support.json_places import places

from lmms_eval_ad2 import __version__, report
from lmms_eval_ad2.cli.rescore import rescore_task
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.judge.backends.lexical import LexicalJudge
from lmms_eval_ad2.report import samples, unread
from lmms_eval_ad2.report.sample_pictures import cards
from lmms_eval_ad2.scoring.derived_records import reply_record, rotations
from lmms_eval_ad2.scoring.merge import merge_shards
from lmms_eval_ad2.scoring.pipeline import score_task
from lmms_eval_ad2.scoring.result_files import SELECTED, read_samples, read_summary, write_summary
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.saved_samples import read_sample
from lmms_eval_ad2.storage.shards import SHARDS

MUTATIONS = 400
TASKS: dict[str, tuple[TaskVariant, list[tuple[Any, Any]]]] = {
    "exact": (
        BASE,
        [
            (record("m", scene={"weather": "fog", "severity": "light"}), "B"),
            (boxed("b"), "[20, 10, 40, 30]"),
            (record("u"), "A or B"),
            (record("t", "ocr"), "STOP"),
            *[(reply_record(record("q"), k, 2), "A") for k in (1, 2)],
        ],
    ),
    "free": (TaskVariant("ad2_bench", "perception_base", form="vqa"), [(record("f"), "a truck")]),
    "chains": (TaskVariant("ad2_bench", "cot"), [(chain("c", steps=2), "<step1>one</step1> <step2>two</step2>")]),
    "rotated": (
        TaskVariant("autodrive_qa", "planning", circular=True),
        [(one, "A") for one in rotations(record("r", benchmark="autodrive_qa"))],
    ),
}
WEIRD = (
    None, True, False, 0, -1, 3, 2.5, 1e300, 10**400, "", "x", "A", "yes", "ünï", "\ud800", "../../x", "x" * 5000,
    [], {}, [[]], [None], ["a"], [1, 2, 3], {"en": 3}, {"id": 3, "by": 9, "of": 0}, {"x": {"y": []}},
    "vqa", "chain", "box", "mc", "count",
)  # fmt: skip


def write_shard(folder: Path, name: str) -> Path:
    """The folder of a shard with one task."""
    variant, asked = TASKS[name]
    samples = [score_sample(one, raw, variant, name, "prompt") for one, raw in asked]
    for row, sample in enumerate(samples):
        sample.row = row
    table, _ = score_task(samples, name, variant, LexicalJudge, folder, progress=False)
    data = {"name": "d", "sha256": "ab", "n": 9, "image_root": "."}
    about = {"model": "m", "label": "m", "judge": {"backend": "lexical", "label": "lexical", "usage": {}}}
    about |= {"versions": {"lmms_eval_ad2": __version__}, SHARDS: {"of": 2, "included": [1]}}
    write_summary(folder, about, {name: {**table, SELECTED: 9, "data": data}})
    return folder


def mutated(row: dict[str, Any], chance: random.Random) -> str:
    """The line of a row with one or two values replaced, removed, doubled or renamed, or with a damaged byte."""
    row = copy.deepcopy(row)
    for _ in range(chance.choice((1, 1, 2))):
        *above, last = chance.choice(list(places(row)))
        inner: Any = row
        for key in above:
            inner = inner[key]
        match chance.randrange(5):
            case 0:
                del inner[last]
            case 1 if isinstance(inner, dict):
                inner[str(last) + "x"] = inner.pop(last)
            case 2 if isinstance(inner, list):
                inner.append(inner[last])
            case _:
                inner[last] = chance.choice(WEIRD)
    line = json.dumps(row)
    if chance.random() < 0.1:
        cut = chance.randrange(len(line))
        line = line[:cut] + chance.choice('\x00{["9,e') + line[cut + 1 :]
    return line


def readers(folder: Path, task: str, out: Path) -> Iterator[Callable[[], object]]:
    """What reads a samples file: rescoring, merging, and all reports of samples."""
    table = read_summary(folder)["tasks"][task]
    runs = report.load([folder])
    yield lambda: rescore_task(folder, out / "again", task, table, LexicalJudge(), None)
    yield lambda: merge_shards(out / "merged", [folder], partial=True)
    yield lambda: unread.render(unread.unread(runs))
    yield lambda: samples.render_lost(samples.lost_points(runs, task, 5), ["run"])
    yield lambda: cards(runs, 4)
    yield lambda: report.with_floors(runs)
    for row in read_samples(folder, task):
        yield lambda row=row: [samples.render_sample(one) for one in samples.find(runs, row["id"], task)]


@pytest.mark.parametrize("task", TASKS)
def test_mutated_rows_are_read_or_refused_in_one_line(task: str, tmp_path: Path) -> None:
    chance = random.Random(f"samples of {task}")
    run = write_shard(tmp_path / "run", task)
    file = run / "samples" / f"{task}.jsonl"
    lines = file.read_text("utf-8").splitlines()
    refused = 0
    for _ in range(MUTATIONS // len(TASKS)):
        changed = list(lines)
        number = chance.randrange(len(lines))
        changed[number] = mutated(json.loads(lines[number]), chance)
        file.write_text("".join(f"{line}\n" for line in changed), "utf-8")
        for read in readers_of(run, task, tmp_path):
            try:
                read()
            except Ad2Error as exc:
                refused += 1
                assert "\n" not in str(exc)
                assert not isinstance(exc, DataError) or f"{task}.jsonl" in str(exc)
    assert refused


def readers_of(folder: Path, task: str, out: Path) -> Iterator[Callable[[], object]]:
    try:
        yield from readers(folder, task, out)
    except DataError as exc:  # of the rows that name the samples to be shown
        assert f"{task}.jsonl" in str(exc)


@pytest.mark.parametrize("task", TASKS)
def test_an_unchanged_file_is_read_by_all(task: str, tmp_path: Path) -> None:
    for read in readers(write_shard(tmp_path / "run", task), task, tmp_path):
        read()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "field 'line': expected one JSON object"),
        (b"{", "field 'line': expected one JSON object"),
        (b'{"raw": "x"}', "field 'id': expected a text"),
        (b'{"id": 3}', "field 'id': expected a text, found '3'"),
        (b'{"id": "a", "raw": [1]}', "field 'raw': expected a text, or a list of texts"),
        (b'{"id": "a", "raw": "\\ud800"}', "field 'line': expected valid Unicode text"),
        (b'{"id": "a", "score": "7"}', "field 'score': expected a number, or null"),
        (b'{"id": "a", "judge": [{"rubric": "r", "score": 11}]}', "field 'judge': expected a list"),
        (b'{"id": "a", "judge": [{"rubric": "r", "score": 3, "reply": 3}]}', "field 'judge': expected a list"),
        (b'{"id": "a", "row": 1.5}', "field 'row': expected a whole number from 0"),
    ],
)
def test_a_wrong_field_is_named_with_file_and_row(line: bytes, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_sample(Path("samples/t.jsonl"), 7, line)
    assert str(caught.value).startswith(f"samples/t.jsonl, row 7: {message}")
