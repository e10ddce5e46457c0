"""Shards of an evaluation: which requests are kept, empty shards, folders, tasks that cannot be divided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.builders import record

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness import judging, run, task_data
from lmms_eval_ad2.harness.judging import in_shard, wrap_requests
from lmms_eval_ad2.harness.run_plan import HostOptions
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.shards import ENV, RunShard, shard_of_environment

pytestmark = pytest.mark.integration

N = 20
OPTIONS = SimpleNamespace(output_path="out", repeats=1, seed=[0])


class Task:
    """The part of lmms-eval's task that builds requests."""

    def __init__(self, name: str = "t", n: int = N) -> None:
        self.config, self.eval_docs_no_media = SimpleNamespace(task=name), range(n)
        self._instances: list[Any] = []

    def build_all_requests(self, *, limit: int | None, offset: int, rank: int = 0, world_size: int = 1) -> None:
        docs = self.eval_docs_no_media[offset:][:limit][rank::world_size]
        self._instances = [SimpleNamespace(doc_id=doc, metadata={"task": "t"}) for doc in docs]


@pytest.fixture
def sharded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that starts a run as a shard and gives its requests."""
    rows = pa.chunked_array([[record(f"r{i}").to_json() for i in range(N)]])
    loaded = task_data.LoadedTask("t", TaskVariant("ad2_bench", "perception_base"), Path(), {"n": N}, rows)
    monkeypatch.setitem(task_data.TASKS, "t", loaded)

    def build(shard: str, task: Task | None = None, **arguments: Any) -> list[Any]:
        monkeypatch.setenv(ENV, shard)
        started = run.EvaluationRun("m", "", OPTIONS, shard=shard_of_environment())
        monkeypatch.setattr(run, "_current", started)
        task = task or Task()
        wrap_requests(Task.build_all_requests)(task, **arguments)
        return task._instances

    return build


def test_the_shards_of_any_ranks_and_limits_have_each_document_once(sharded: Any) -> None:
    for limit, offset in ((None, 0), (7, 0), (9, 4)):
        wanted = [*range(N)][offset:][:limit]
        shards = {}
        for i in (1, 2, 3):
            ranks = [sharded(f"{i}/3", limit=limit, offset=offset, rank=r, world_size=2) for r in (0, 1)]
            shards[i] = [x.doc_id for rank in ranks for x in rank if "__padding_only__" not in x.metadata]
            assert run.current().selected == {"t": len(wanted)}
        assert sorted(doc for docs in shards.values() for doc in docs) == wanted
        assert all(RunShard(i, 3).has(doc) for i, docs in shards.items() for doc in docs)


def test_a_shard_without_a_document_has_a_request_that_is_not_scored(sharded: Any) -> None:
    (padding,) = sharded("3/3", limit=1) if not RunShard(3, 3).has(0) else sharded("2/3", limit=1)
    assert padding.metadata["__padding_only__"] and padding.doc_id == 0
    output = SimpleNamespace(
        sample_metrics={("ad2", "none"): [{"row": 0, "raw": "A"}]}, logged_samples=[{"ad2": {"row": 0}}],
        task=SimpleNamespace(
            config=SimpleNamespace(metadata={"ad2": {}}), aggregation=dict, higher_is_better=dict
        ),
        task_name="t", agg_metrics={},
    )  # fmt: skip
    run.current().folder = None
    judging.wrap_aggregate(lambda *_: None)(output)
    table = run.current().tables["t"]
    assert (table["n"], table["selected"], output.logged_samples) == (0, 1, [])


def test_the_rotations_of_a_question_stay_together(sharded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = [row // 4 for row in range(N)]
    loaded = task_data.TASKS["t"]
    monkeypatch.setitem(
        task_data.TASKS, "t", task_data.LoadedTask("t", loaded.variant, Path(), {"n": N}, loaded.records, turned)
    )
    kept = {x.doc_id for x in sharded("1/2")}
    assert all({row in kept for row in range(4 * q, 4 * q + 4)} == {RunShard(1, 2).has(q)} for q in range(5))
    assert HostOptions.parse(["--limit", "9"]).rows(task_data.TASKS["t"]) == sorted(row for row in kept if row < 9)


def test_a_whole_run_and_tasks_of_others_are_unchanged(sharded: Any) -> None:
    assert [x.doc_id for x in sharded("")] == [*range(N)]
    assert in_shard("t", 3)
    assert len(sharded("1/2", Task("another"))) == N


def test_each_shard_has_a_folder_of_its_own(sharded: Any) -> None:
    folders = []
    for shard in ("", "1/2", "2/2"):
        sharded(shard)
        folders.append(str(run.current().folder))
    assert folders[1:] == [f"{folders[0]}-shard1of2", f"{folders[0]}-shard2of2"]
    assert run.current().describe()["shards"]["included"] == [2]


@pytest.mark.parametrize("name", ["mmmu_val", "ad2drive_demo"])
def test_tasks_that_cannot_be_divided_are_refused(name: str) -> None:
    run._check_shard(RunShard(1, 2), ["ad2demo_relation", "bench_ad2"])
    with pytest.raises(Ad2Error, match=f"^--shard 1/2: {name} is not a task on records"):
        run._check_shard(RunShard(1, 2), ["ad2demo_relation", name])
