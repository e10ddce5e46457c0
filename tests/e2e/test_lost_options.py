"""Options that lmms-eval loses on the way to tasks: `--repeats`, `--limit` as a share; and its scoring in threads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.running import BIN, run, run_folder, run_lmms_eval, tables

import lmms_eval_ad2
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.home import open_dataset, write_dataset
from lmms_eval_ad2.data.sample.loader import write_sample
from lmms_eval_ad2.harness.task_files import task_files

TASK, OTHER = "ad2demo_mcq_perception", "ad2demo_relation"


class Changing:
    """Answers A, B, C in turn to each question; counts the prompts."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def __call__(self, prompts: Sequence[Any], settings: Any) -> list[str]:
        texts = []
        for prompt in prompts:
            self.asked[prompt.text] = number = self.asked.get(prompt.text, 0) + 1
            texts.append("ABC"[(number - 1) % 3])
        return texts


def test_every_reply_is_scored_and_a_share_is_one_of_each_task(tmp_path: Path) -> None:
    answer = Changing()
    found = lmms_eval_ad2.evaluate(answer, [TASK, OTHER], out=tmp_path, name="x", limit=0.5, repeats=3)
    assert {name: task.score.n for name, task in found.tasks.items()} == {TASK: 3 * 10, OTHER: 3 * 21}
    for name in (TASK, OTHER):
        task = found.tasks[name]
        assert task.replies and task.replies.per_question == 3
        assert task.replies.alike.official == 0 and task.replies.alike.n == task.score.n / 3
        rows = [json.loads(line) for line in (run_folder(tmp_path) / "samples" / f"{name}.jsonl").open()]
        assert len({row["id"] for row in rows}) == task.score.n
        assert {row["raw"] for row in rows} == {"A", "B", "C"}
        right = sum(row["raw"] == row["record"]["letter"] for row in rows)
        assert sum(bool(row["score"]) for row in rows) == right > 0
    assert "Repeated answers" in str(found)
    before = dict(answer.asked)
    again = lmms_eval_ad2.evaluate(answer, [TASK, OTHER], out=tmp_path, name="x", limit=0.5, repeats=3)
    assert answer.asked == before, "the journal has each reply"
    assert again.scores == found.scores


def test_repeats_in_the_command_lines_are_the_same(tmp_path: Path) -> None:
    words = ["--model", "ad2_chance", "--tasks", OTHER, "--limit", "4", "--repeats", "3"]
    done = run_lmms_eval(*words, "--log_samples", "--output_path", tmp_path / "host", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-800:]
    table = tables(tmp_path / "host")[OTHER]
    assert (table["n"], table["replies"]["questions"], table["replies"]["alike"]["official"]) == (12, 4, 100)
    assert main(["eval", *words, "--out", str(tmp_path / "ours")]) == 0
    assert tables(tmp_path / "ours") == tables(tmp_path / "host")


def test_repeats_of_rotations_are_refused() -> None:
    with pytest.raises(Ad2Error, match="--repeats 2: ad2demo_mcq_planning_circular asks each question once per"):
        lmms_eval_ad2.evaluate(Changing(), "ad2demo_mcq_planning_circular", limit=2, repeats=2)


@pytest.mark.system
def test_scores_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    """All tasks that the sample has records for, under the names of the benchmarks too."""
    write_sample()
    for name, split in (("ad2_bench", "test"), ("coda_lm", "test"), ("autodrive_qa", "test")):
        sample = open_dataset(f"sample_{name}", "test")
        write_dataset(name, split, sample.records(), image_root=sample.image_root, source={"made": "test"})
    for threads in ("1", "4"):
        words = ["--model", "ad2_chance", "--tasks", "ad2_*,ad2x_*,ad2demo_*", "--process-docs-parallel", threads]
        done = run(BIN / "lmms_eval", *words, "--output_path", tmp_path / threads, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-800:]
    one, four = tables(tmp_path / "1"), tables(tmp_path / "4")
    canonical = {name for name in task_files() if name.startswith("ad2_")}
    assert len(one) > 60 and canonical < set(one) and one == four
