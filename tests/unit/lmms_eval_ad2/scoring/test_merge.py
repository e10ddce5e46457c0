"""Merging of shards: the tables and samples of one run, bit by bit; refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.builders import BASE, boxed, chain, record

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.report import load
from lmms_eval_ad2.scoring.derived_records import rotations
from lmms_eval_ad2.scoring.merge import merge_shards
from lmms_eval_ad2.scoring.pipeline import score_task
from lmms_eval_ad2.scoring.result_files import SELECTED, read_summary, write_summary
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.shards import SHARDS, RunShard
from lmms_eval_ad2.testing.fake_judge import FakeJudge

OF = 3
COT = TaskVariant("ad2_bench", "cot")
FREE = TaskVariant("ad2_bench", "perception_base", form="vqa")
CIRCULAR = TaskVariant("autodrive_qa", "planning", circular=True)
Question = tuple[int, Record, str]  # number, record, answer


def questions() -> dict[str, tuple[TaskVariant, list[Question]]]:
    """Answers of several forms: exact, judged, unparsed, failed, with rotated options; the last task has two only."""
    replies = ("A", "B", "A or B", "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x", "the answer is C")
    choices = [record(f"m{i}", cluster=f"c{i % 4}") for i in range(11)]
    exact = [*zip(choices, replies * 3, strict=False), (boxed("b"), "[20, 10, 40, 30]")]
    chains = [(chain(f"c{i}", steps=2 + i % 2), "<step1>one</step1> <step2>two</step2>") for i in range(5)]
    rotated = [(k, turned, "A") for k in range(5) for turned in rotations(record(f"r{k}", benchmark="autodrive_qa"))]
    return {
        "exact": (BASE, [(i, *pair) for i, pair in enumerate(exact)]),
        "free": (FREE, [(i, record(f"f{i}"), "yes" if i % 2 else f"a truck {i}") for i in range(9)]),
        "chains": (COT, [(i, *pair) for i, pair in enumerate(chains)]),
        "rotated": (CIRCULAR, rotated),
        "small": (BASE, [(i, record(f"s{i}"), "A") for i in range(2)]),
    }


def write(folder: Path, shard: RunShard | None, **changes: Any) -> Path:
    """A run folder as a run of ad2 eval writes it; `changes` replace entries of the block "run"."""
    judge, tables = FakeJudge(), {}
    for name, (variant, asked) in questions().items():
        samples = []
        for row, (number, one, raw) in enumerate(asked):
            if shard is None or shard.has(number):
                samples.append(score_sample(one, raw, variant, name, "prompt"))
                samples[-1].row = row if shard else None
        tables[name], _ = score_task(samples, name, variant, lambda: judge, folder, progress=False)
        tables[name]["data"] = {"name": "d", "sha256": "ab", "n": len(asked), "image_root": str(folder)}
        if shard:
            tables[name][SELECTED] = len(asked)
    about = {
        "model": "m", "model_args": "", "label": "m", "date": "2026-01-01", "seed": 0, "limit": None,
        "judge": {"backend": "fake", "label": "fake", "usage": {"requests": 2, "cost": 0.1}},
        "versions": {"lmms_eval_ad2": f"{__version__}+aaaaaaaaaaaa", "torch": "2"}, **changes,
    }  # fmt: skip
    if shard:
        about[SHARDS] = {"of": shard.of, "included": [shard.index], "identity": {"seed4": [0, 1, 1, 1]}}
    write_summary(folder, about, tables)
    return folder


def shards_in(folder: Path, indices: Sequence[int] = (1, 2, 3)) -> list[Path]:
    return [write(folder / f"s{i}", RunShard(i, OF)) for i in indices]


def content(folder: Path) -> tuple[str, dict[str, bytes]]:
    """All of the tables but the place of the images, in their order, and the samples."""
    tables = read_summary(folder)["tasks"]
    for table in tables.values():
        del table["data"]["image_root"]
    return json.dumps(tables), {file.name: file.read_bytes() for file in sorted((folder / "samples").iterdir())}


def test_the_merged_run_equals_a_whole_one(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", None)
    merged = merge_shards(tmp_path / "all", shards_in(tmp_path)[::-1])
    assert content(tmp_path / "all") == content(whole)
    assert merged.included == (1, 2, 3)
    about = read_summary(tmp_path / "all")["run"]
    assert SHARDS not in about and about["merged"] == ["s1", "s2", "s3"]
    assert about["judge"]["usage"] == {"requests": 6, "cost": 0.3}
    assert {run.name for run in load([tmp_path / "all"])} == {"m"}


def test_a_partial_merge_is_named_and_can_grow(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", None)
    parts = shards_in(tmp_path)
    assert [run.name for run in load(parts)] == ["m (shard 1/3)", "m (shard 2/3)", "m (shard 3/3)"]
    with pytest.raises(Ad2Error, match=r"^shard 2/3 is missing; to merge the others: --partial$"):
        merge_shards(tmp_path / "some", [parts[0], parts[2]])
    assert not (tmp_path / "some").exists()
    merge_shards(tmp_path / "some", [parts[0], parts[2]], partial=True)
    assert [run.name for run in load([tmp_path / "some"])] == ["m (shards 1, 3 of 3)"]
    merge_shards(tmp_path / "all", [parts[1], tmp_path / "some"])
    assert content(tmp_path / "all") == content(whole)
    assert read_summary(tmp_path / "all")["run"]["merged"] == ["s1", "s3", "s2"]
    merge_shards(tmp_path / "all", parts)  # a merge can be repeated


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "n"}, r'model is "m" in .*s1 and "n" in .*s2$'),
        ({"limit": 5}, "limit is not set in .* and 5 in "),
        ({"prompts_sha256": "x"}, "prompts_sha256"),
        (
            {"judge": {"backend": "fake", "label": "fake", "usage": {}, "temperature": 1}},
            "judge.temperature is not set",
        ),
        ({"judge": None}, "judge is "),
        ({"versions": {"lmms_eval_ad2": "0.0.1"}}, 'version is ".*" in .* and "0.0.1" in '),
    ],
)
def test_shards_of_other_runs_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    parts = [*shards_in(tmp_path, (1, 3)), write(tmp_path / "s2", RunShard(2, OF), **changes)]
    with pytest.raises(Ad2Error, match=f"^not one run: .*{message}") as caught:
        merge_shards(tmp_path / "all", parts)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "all").exists()


def test_other_data_options_and_numbers_of_shards_are_refused(tmp_path: Path) -> None:
    one, two = shards_in(tmp_path, (1, 2))
    for edit, message in (
        (lambda s: s["tasks"]["exact"]["data"].update(sha256="cd"), "tasks.exact.data.sha256"),
        (lambda s: s["tasks"].pop("free"), "tasks.free is "),
        (lambda s: s["run"][SHARDS]["identity"].update(seed4=[1]), "seed4 is "),
        (lambda s: s["run"][SHARDS].update(of=4), "shards is 3 in .* and 4 in "),
    ):
        summary = read_summary(two)
        edit(summary)
        write_summary(tmp_path / "other", summary["run"], summary["tasks"])
        with pytest.raises(Ad2Error, match=f"not one run: .*{message}"):
            merge_shards(tmp_path / "all", [one, tmp_path / "other"], partial=True)


def test_folders_that_cannot_be_merged(tmp_path: Path) -> None:
    parts, whole = shards_in(tmp_path), write(tmp_path / "whole", None)
    for out, folders, message in (
        ("all", [*parts, parts[1]], "shard 2/3 is in .*s2 and in .*s2"),
        ("all", [whole], "a whole run, no shard"),
        ("s1", parts, "needs its own folder"),
        (".", parts, "needs its own folder"),
        ("whole", parts, "is another run"),
    ):
        with pytest.raises(Ad2Error, match=message):
            merge_shards(tmp_path / out, folders)
    old = [write(tmp_path / "old", RunShard(1, 1), versions={"lmms_eval_ad2": "0.0.1"})]
    with pytest.raises(Ad2Error, match=f"are of lmms-eval-ad2 0.0.1: merge them with it, not {__version__}"):
        merge_shards(tmp_path / "all", old)


def test_several_commits_and_libraries_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = {"lmms_eval_ad2": f"{__version__}+bbbbbbbbbbbb", "torch": "2"}
    parts = [*shards_in(tmp_path, (1, 2)), write(tmp_path / "s3", RunShard(3, OF), versions=versions)]
    merge_shards(tmp_path / "all", parts)
    both = f"{__version__}+aaaaaaaaaaaa, {__version__}+bbbbbbbbbbbb"
    assert read_summary(tmp_path / "all")["run"]["versions"] == {"lmms_eval_ad2": both, "torch": "2"}
    assert f"several versions: lmms_eval_ad2 {both}\n" in capsys.readouterr().err


def test_lost_repeated_and_broken_samples_are_errors(tmp_path: Path) -> None:
    parts = shards_in(tmp_path)
    file = parts[1] / "samples" / "free.jsonl"
    lines = file.read_text("utf-8").splitlines()
    row = json.loads(lines[0])
    for kept, error, message in (
        (lines[1:], Ad2Error, "task free: 8 rows in the samples of the shards, 9 in their tables"),
        ([lines[0], *lines], Ad2Error, "is there twice"),
        ([json.dumps({**row, "judge": []}), *lines[1:]], DataError, "the marks of 1 texts"),
        (
            [json.dumps({**row, "judge": None}), *lines[1:]],
            DataError,
            "row 1: field 'judge': .* found 'null'",
        ),
        ([lines[0], "{}"], DataError, "row 2: field 'id': expected a text"),
        (['{"id": "a", "row": 0}'], DataError, "row 1: field 'raw': expected a text, or a list of texts"),
        ([json.dumps({k: v for k, v in row.items() if k != "row"})], DataError, "row 1: field 'row': expected a whole"),
        ([json.dumps({**row, "record": {}})], DataError, "row 1: field 'record.id': expected a text"),
    ):
        file.write_text("".join(f"{line}\n" for line in kept), "utf-8")
        with pytest.raises(error, match=message):
            merge_shards(tmp_path / "all", parts)
        assert not (tmp_path / "all" / "summary.json").exists()


def test_shards_without_the_judges_replies_are_merged(tmp_path: Path) -> None:
    """As written by earlier versions."""
    parts = shards_in(tmp_path)
    for file in (part / "samples" / "free.jsonl" for part in parts):
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for entry in (entry for row in rows for entry in row["judge"]):
            assert entry.pop("reply")
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    merge_shards(tmp_path / "all", parts)
    merged = (tmp_path / "all" / "samples" / "free.jsonl").read_text("utf-8").splitlines()
    assert {entry["reply"] for line in merged for entry in json.loads(line)["judge"]} == {None}


@pytest.mark.parametrize("of", [100_001, 10**8, 10**12, 10**400])
def test_an_absurd_number_of_shards_is_refused_at_once(tmp_path: Path, of: int) -> None:
    (part,) = shards_in(tmp_path, (1,))
    summary = read_summary(part)
    summary["run"][SHARDS]["of"] = of
    (part / "summary.json").write_text(json.dumps(summary), "utf-8")
    with pytest.raises(DataError, match=r"field 'shards\.of': expected at most 100,000 shards"):
        merge_shards(tmp_path / "all", [part], partial=True)


@pytest.mark.parametrize("repeats", [0, 1001, 10**12, "3", 2.0, None])
def test_an_absurd_number_of_judgements_is_refused_at_once(tmp_path: Path, repeats: object) -> None:
    (part,) = shards_in(tmp_path, (1,))
    summary = read_summary(part)
    summary["run"]["judge"]["repeats"] = repeats
    (part / "summary.json").write_text(json.dumps(summary), "utf-8")
    with pytest.raises(DataError, match=r"field 'judge\.repeats': expected a whole number from 1 to 1,000"):
        merge_shards(tmp_path / "all", [part], partial=True)
