"""A complete run with lmms-eval's command line: files, tables, ranks, rescoring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.running import BIN, run, run_folder, run_lmms_eval, tables

from lmms_eval_ad2.scoring.result_files import read_samples

TASKS = "ad2demo_perception_base,ad2demo_relation,ad2demo_cot,ad2demo_cot_rounds,ad2demo_mcq_planning"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of the oracle over several sample tasks."""
    out = tmp_path_factory.mktemp("oracle")
    home = tmp_path_factory.mktemp("home")
    run_lmms_eval("--model", "ad2_oracle", "--tasks", TASKS, "--output_path", out, "--log_samples", "--batch_size", "4",
         cwd=out, AD2_HOME=str(home))  # fmt: skip
    return out


def test_the_oracle_scores_100_in_exact_columns(finished: Path) -> None:
    found = tables(finished)
    for task, columns in {
        "ad2demo_perception_base": ("existence", "counting", "location", "detection"),
        "ad2demo_mcq_planning": ("accuracy",),
    }.items():
        for column in columns:
            assert found[task]["columns"][column]["official"] == 100, (task, column)
            assert found[task]["columns"][column]["strict"] == 100


def test_chains_in_one_turn_and_in_rounds_have_the_same_score(finished: Path) -> None:
    found = tables(finished)
    assert found["ad2demo_cot"]["columns"]["sacs"]["official"] == 100
    assert found["ad2demo_cot_rounds"]["columns"]["sacs"]["official"] == 100


def test_every_result_records_model_judge_versions_and_data(finished: Path) -> None:
    data = json.loads((run_folder(finished) / "summary.json").read_text("utf-8"))
    description = data["run"]
    assert description["model"] == "ad2_oracle"
    assert description["judge"]["label"] == "lexical"
    assert {"lmms_eval_ad2", "lmms_eval", "torch"} <= description["versions"].keys()
    assert {"seed", "profile", "policy", "prompts_sha256", "date"} <= description.keys()
    for table in data["tasks"].values():
        assert len(table["data"]["sha256"]) == 64


def test_the_results_of_lmms_eval_have_the_same_numbers(finished: Path) -> None:
    (results,) = finished.rglob("*_results.json")
    theirs = json.loads(results.read_text("utf-8"))["results"]
    for task, table in tables(finished).items():
        if table["score"]["official"] is None:  # chains under the lexical judge: no number, no entry
            assert "score,none" not in theirs[task]
        else:
            assert theirs[task]["score,none"] == pytest.approx(table["score"]["official"])
            assert "to" in theirs[task]["score 95% CI,none"]
        assert theirs[task]["score_strict,none"] == pytest.approx(table["score"]["strict"])
        assert theirs[task]["unparsed,none"] == table["n_unparsed"]


def test_logged_samples_contain_our_ids_and_judged_scores(finished: Path) -> None:
    (path,) = finished.rglob("*samples_ad2demo_cot.jsonl")
    rows = [json.loads(line)["ad2"] for line in path.read_text("utf-8").splitlines()]
    assert len({r["id"] for r in rows}) == len(rows)
    assert all(r["values"]["sacs"] == pytest.approx(1.0) for r in rows)


@pytest.mark.system  # 10 s and more
def test_two_ranks_give_the_same_numbers_as_one(tmp_path: Path) -> None:
    tasks = "ad2demo_perception_base,ad2demo_coda_general,ad2demo_cot_rounds"
    words = ("-m", "lmms_eval", "--model", "ad2_chance", "--tasks", tasks, "--output_path")
    run(BIN / "python", *words, tmp_path / "one", cwd=tmp_path)
    run(BIN / "torchrun", "--standalone", "--nproc_per_node", "2", *words, tmp_path / "two", cwd=tmp_path)
    assert tables(tmp_path / "one") == tables(tmp_path / "two")
    ranks = sorted(p.name for p in (run_folder(tmp_path / "two") / "journal").iterdir())
    assert ranks == ["rank0.jsonl", "rank1.jsonl"]


def test_rescoring_needs_no_model_and_keeps_the_numbers(finished: Path, tmp_path: Path) -> None:
    run(BIN / "ad2", "rescore", run_folder(finished), "--out", tmp_path / "again", cwd=tmp_path)
    assert tables(tmp_path / "again") == tables(finished)
    run(BIN / "ad2", "rescore", run_folder(finished), "--out", tmp_path / "fake", "--judge", "fake", cwd=tmp_path)
    other = tables(tmp_path / "fake")
    assert other["ad2demo_cot"]["judge"] == "fake"
    assert other["ad2demo_perception_base"] == tables(finished)["ad2demo_perception_base"]


def test_a_frame_is_asked_read_recorded_and_can_be_changed_without_the_model(tmp_path: Path) -> None:
    frame = "model_input:max_pixels=500000"
    words = ("--model", "ad2_oracle", "--tasks", "ad2demo_perception_base", "--out", tmp_path, "--frame", frame)
    printed = run(BIN / "ad2", "eval", *words, cwd=tmp_path).stdout
    assert f"ad2_oracle (ceiling, frame {frame})" in printed
    table = tables(tmp_path)["ad2demo_perception_base"]
    assert {c: table["columns"][c]["official"] for c in ("location", "detection")} == pytest.approx(
        {"location": 100, "detection": 100}
    )
    assert table["variant"] == {"frame": "model_input", "model_input": "max_pixels=500000"}
    summary = json.loads((run_folder(tmp_path) / "summary.json").read_text("utf-8"))
    assert summary["run"]["frame"] == frame
    prompts = [r["prompt"] for r in read_samples(run_folder(tmp_path), "ad2demo_perception_base") if r["form"] == "box"]
    assert prompts and not any("wide and" in prompt for prompt in prompts)
    printed = run(BIN / "ad2", "rescore", tmp_path, "--frame", "unit", "--out", tmp_path / "u", cwd=tmp_path).stdout
    assert "boxes score 0.0, but 100.0 in 'model_input'" in " ".join(printed.split())
    assert tables(tmp_path / "u")["ad2demo_perception_base"]["columns"]["detection"]["official"] == 0


def test_rescoring_into_the_run_folder_is_refused(finished: Path, tmp_path: Path) -> None:
    folder = run_folder(finished)
    done = run(BIN / "ad2", "rescore", folder, "--out", folder, cwd=tmp_path, code=2)
    assert "is the run itself; choose another folder" in done.stderr


def test_an_invalid_judge_fails_before_generation(tmp_path: Path) -> None:
    words = ("--model", "ad2_chance", "--tasks", "ad2demo_relation", "--output_path", tmp_path)
    done = run_lmms_eval(*words, cwd=tmp_path, code=2, AD2_JUDGE="opnai:model=x")
    assert "opnai" in done.stderr
    assert not list(tmp_path.rglob("rank0.jsonl"))


def test_tasks_run_one_after_the_other_share_a_summary(tmp_path: Path) -> None:
    for task in ("ad2demo_mcq_planning", "ad2demo_mcq_prediction"):
        run_lmms_eval("--model", "ad2_chance", "--tasks", task, "--output_path", tmp_path, cwd=tmp_path)
    assert tables(tmp_path).keys() == {"ad2demo_mcq_planning", "ad2demo_mcq_prediction"}
    words = ("--model", "ad2_chance", "--tasks", "ad2demo_mcq_planning", "--limit", "2", "--output_path", tmp_path)
    done = run_lmms_eval(*words, cwd=tmp_path)
    assert tables(tmp_path).keys() == {"ad2demo_mcq_planning"}, "figures of 2 samples never stand beside others"
    assert "no longer in the summary: ['ad2demo_mcq_prediction']" in done.stdout
