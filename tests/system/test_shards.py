"""Shards and ranks of whole runs: merged tables equal those of one process; the SLURM examples as shipped."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.running import BIN, PATIENCE_S, REPO, TESTS, environment, run, run_folder, run_lmms_eval, tables

pytest_plugins = ("support.tiny_models",)  # the fixture tiny_qwen

TASKS = "ad2demo_perception_base,ad2demo_coda_general,ad2demo_cot_rounds,ad2demo_mcq_planning_circular"
CHANCE = ("--model", "ad2_chance", "--tasks", TASKS)


def samples(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((run_folder(out) / "samples").iterdir())}


def answers(folder: Path) -> dict[str, list[str]]:
    """Keys of the answers in each journal of a run."""
    journals = sorted((folder / "journal").iterdir())
    return {j.name: [json.loads(line)["key"] for line in j.read_text("utf-8").splitlines()] for j in journals}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all tasks in one process."""
    out = tmp_path_factory.mktemp("whole")
    run(BIN / "ad2", "eval", *CHANCE, "--out", out, cwd=out)
    return out


def test_merged_shards_equal_one_run_also_with_tasks_apart(whole: Path, tmp_path: Path) -> None:
    """Shard 1 at once, shard 2 task by task, shard 3 by lmms-eval's own command; ranks: see the SLURM example."""
    run(BIN / "ad2", "eval", *CHANCE, "--shard", "1/3", "--out", tmp_path / "one", cwd=tmp_path)
    for task in reversed(TASKS.split(",")):
        words = ("eval", "--model", "ad2_chance", "--tasks", task, "--shard", "2/3", "--out", tmp_path / "two")
        printed = run(BIN / "ad2", *words, cwd=tmp_path).stdout
        assert "ad2_chance (shard 2/3)" in printed and "ad2 merge OUT DIR..." in printed
    run_lmms_eval(*CHANCE, "--output_path", tmp_path / "three", cwd=tmp_path, AD2_SHARD="3/3")
    parts = [tmp_path / name for name in ("one", "two", "three")]
    done = run(BIN / "ad2", "merge", tmp_path / "all", *parts[:2], cwd=tmp_path, code=2)
    assert "error: shard 3/3 is missing; to merge the others: --partial" in done.stderr
    run(BIN / "ad2", "merge", tmp_path / "all", *parts, cwd=tmp_path)
    assert tables(tmp_path / "all") == tables(whole)
    assert samples(tmp_path / "all") == samples(whole)


def test_limits_smaller_than_the_number_of_shards(tmp_path: Path) -> None:
    """Shards without a question are shards too; a judge's marks are those of the shards."""
    words = ("eval", "--model", "ad2_oracle", "--tasks", "ad2demo_cot,ad2demo_mcq_planning", "--limit", "2")
    for i in (1, 2, 3):
        run(BIN / "ad2", *words, "--judge", "fake", "--shard", f"{i}/3", "--out", tmp_path / "parts", cwd=tmp_path)
    run(BIN / "ad2", "merge", tmp_path / "all", tmp_path / "parts", cwd=tmp_path)
    run(BIN / "ad2", *words, "--judge", "fake", "--out", tmp_path / "whole", cwd=tmp_path)
    assert tables(tmp_path / "all") == tables(tmp_path / "whole")
    assert samples(tmp_path / "all") == samples(tmp_path / "whole")


def test_a_shard_can_be_rescored_before_the_merge(tmp_path: Path) -> None:
    words = ("--model", "ad2_chance", "--tasks", "ad2demo_relation", "--limit", "6")
    for i in (1, 2):
        run(BIN / "ad2", "eval", *words, "--shard", f"{i}/2", "--out", tmp_path / f"s{i}", cwd=tmp_path)
        run(BIN / "ad2", "rescore", tmp_path / f"s{i}", "--judge", "fake", "--out", tmp_path / f"r{i}", cwd=tmp_path)
    run(BIN / "ad2", "eval", *words, "--judge", "fake", "--out", tmp_path / "whole", cwd=tmp_path)
    run(BIN / "ad2", "merge", tmp_path / "all", tmp_path / "r1", tmp_path / "r2", cwd=tmp_path)
    assert tables(tmp_path / "all") == tables(tmp_path / "whole")


def test_a_model_on_two_ranks_asks_each_sample_once_and_gives_the_same_tables(tiny_qwen: Path, tmp_path: Path) -> None:
    """Weights on each rank, gloo on the CPU; 5 samples on 2 ranks, so that one rank has a padding request."""
    args = f"pretrained={tiny_qwen},device_map=cpu,min_pixels=3136,max_pixels=12544"
    words = ("--model", "qwen2_5_vl", "--model_args", args, "--device", "cpu", "--batch_size", "1", "--limit", "5",
             "--tasks", "ad2demo_perception_base,ad2demo_coda_general", "--gen_kwargs", "max_new_tokens=8",
             "--output_path")  # fmt: skip
    run_lmms_eval(*words, tmp_path / "one", cwd=tmp_path)
    launch = ("--standalone", "--nproc-per-node", "2", "-m", "lmms_eval")
    run(BIN / "torchrun", *launch, *words, tmp_path / "two", cwd=tmp_path)
    assert tables(tmp_path / "two") == tables(tmp_path / "one")
    assert samples(tmp_path / "two") == samples(tmp_path / "one")
    by_rank = answers(run_folder(tmp_path / "two"))
    assert sorted(map(len, by_rank.values())) == [4, 6]
    (alone,) = answers(run_folder(tmp_path / "one")).values()
    assert sorted(key for keys in by_rank.values() for key in keys) == sorted(alone)


# --- configs/slurm ---


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `sbatch` is the stand-in and `ad2` is ours."""
    folder = tmp_path / "bin"
    folder.mkdir()
    sbatch = folder / "sbatch"
    sbatch.write_text(f'#!/bin/bash\nexec "{sys.executable}" "{TESTS}/support/fake_sbatch.py" "$@"\n', "utf-8")
    sbatch.chmod(sbatch.stat().st_mode | stat.S_IXUSR)
    found = environment(FAKE_SLURM=str(tmp_path))
    return {**found, "PATH": f"{folder}:{BIN}:{found['PATH']}"}


def submit(cluster: dict[str, str], cwd: Path, *words: str, **variables: str) -> list[list[int]]:
    """Submit an array by configs/slurm/submit.sh; the exit codes of all jobs so far."""
    command = ["bash", str(REPO / "configs/slurm/submit.sh"), words[0], str(REPO / "configs/slurm" / words[1])]
    done = subprocess.run(
        command, cwd=cwd, env={**cluster, **variables}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    outputs = "".join(f"\n== {file.name}\n{file.read_text('utf-8')[-1500:]}" for file in sorted(cwd.glob("*.out")))
    assert done.returncode == 0, done.stderr + outputs
    assert "merge job" in done.stdout
    return list(json.loads((cwd / "jobs.json").read_text("utf-8")).values())


def test_the_slurm_example_of_an_evaluation_runs_to_merged_tables(
    whole: Path, cluster: dict[str, str], tmp_path: Path
) -> None:
    settings = {"OUT": "runs/q", "MODEL": "ad2_chance", "TASKS": TASKS}
    assert submit(cluster, tmp_path, "2", "eval.sbatch", **settings, FAKE_SLURM_GPUS="2") == [[0, 0], [0]]
    assert tables(tmp_path / "runs/q/all") == tables(whole)
    assert samples(tmp_path / "runs/q/all") == samples(whole)
    assert len(answers(run_folder(tmp_path / "runs/q/shard1"))) == 2, "two GPUs, two ranks"
    assert "merged shards 1, 2 of 2 into runs/q/all" in (tmp_path / "ad2-merge-101.out").read_text("utf-8")


def test_the_slurm_example_of_a_drive_resumes_after_a_failed_shard(cluster: dict[str, str], tmp_path: Path) -> None:
    fake = "closedloop_plugin.worlds.testing.fake_world:FakeWorld"
    settings = {"OUT": "runs/d", "SUITE": "demo", "AGENT": "still", "WORLD": fake}
    (tmp_path / "runs/d").mkdir(parents=True)
    (tmp_path / "runs/d/shard2").write_text("in the way", "utf-8")
    assert submit(cluster, tmp_path, "2", "drive.sbatch", **settings) == [[0, 2], []]
    assert not (tmp_path / "runs/d/all").exists(), "afterok: the merge is cancelled"
    (tmp_path / "runs/d/shard2").unlink()
    assert submit(cluster, tmp_path, "2", "drive.sbatch", **settings)[2:] == [[0, 0], [0]]
    assert "3 of 3 episodes are there already" in (tmp_path / "ad2-drive-102_1.out").read_text("utf-8")
    assert "6 records, 0 missing" in (tmp_path / "ad2-merge-103.out").read_text("utf-8")
