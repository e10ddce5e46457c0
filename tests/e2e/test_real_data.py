"""Real input: DriveLM's challenge sample with nuScenes images, CODA-LM's layout with road photos."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.coda_layout import write_layout
from support.running import BIN, run, run_folder, run_lmms_eval, tables


@pytest.fixture
def drivelm(data_dir: Path, tmp_path: Path) -> Path:
    source = data_dir / "drivelm"
    words = ("drivelm", source / "test_eval.json", "--split", "test", "--images", source / "images")
    done = run(BIN / "ad2", "data", "import", *words, cwd=tmp_path)
    assert "66 records" in done.stdout
    return tmp_path


def test_drivelm_multiple_choice_with_six_real_cameras(drivelm: Path) -> None:
    tasks = "ad2x_drivelm_perception_mc,ad2x_drivelm_behavior_mc"
    for model, expected in (("ad2_oracle", 100.0), ("ad2_majority", None)):
        out = drivelm / model
        run_lmms_eval("--model", model, "--tasks", tasks, "--output_path", out, cwd=drivelm)
        found = tables(out)
        assert {t: v["n"] for t, v in found.items()} == {tasks.split(",")[0]: 8, tasks.split(",")[1]: 9}
        if expected is not None:
            assert all(t["columns"]["accuracy"]["official"] == expected for t in found.values())
    row = json.loads((run_folder(out) / "samples" / "ad2x_drivelm_perception_mc.jsonl").open().readline())
    assert len(row["record"]["images"]) == 6
    assert "CAM_BACK,1088.3,497.5" in row["prompt"]
    assert row["prompt"].count("\n(") == 4


def test_real_drivelm_answers_are_scored_as_in_the_challenge(data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "drivelm"
    words = ("score", "drivelm", source / "output.json", "--truth", source / "test_eval.json", "--json")
    scores = json.loads(run(BIN / "ad2", *words, cwd=tmp_path).stdout)
    assert (scores["n_accuracy"], scores["n_language"], scores["n_match"]) == (9, 9, 4)
    assert (scores["accuracy"], scores["match_f1"]) == (0.0, 0.0)
    assert {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"} <= scores.keys()


@pytest.mark.system
def test_a_run_is_exported_and_scored_as_in_the_challenge(data_dir: Path, drivelm: Path) -> None:
    """References as answers: all 66 questions count, and every part that needs no LLM is at its highest value."""
    run(BIN / "ad2", "eval", "--model", "ad2_oracle", "--tasks", "bench_drivelm", "--out", "runs", cwd=drivelm)
    words = ("export", "answers", "runs", "--out", "out", "--config", "parsed=true")
    printed = run(BIN / "ad2", *words, cwd=drivelm).stdout
    assert "output.json: 66 rows of 66 questions of drivelm/test" in printed
    assert "26 closed questions: the parsed choice is written" in printed
    truth = data_dir / "drivelm" / "test_eval.json"
    words = ("score", "drivelm", "out/output.json", "--truth", truth, "--json", "--config", "tokenizer=plain")
    scores = json.loads(run(BIN / "ad2", *words, cwd=drivelm).stdout)
    assert (scores["accuracy"], scores["language"], scores["match_f1"]) == pytest.approx((1, 1, 100))
    assert (scores["n_accuracy"], scores["n_skipped_by_walk"], scores["n_missing"], scores["n_unknown"]) == (
        26,
        0,
        0,
        0,
    )
    run(BIN / "ad2", "export", "answers", "runs", "--out", "raw.json", cwd=drivelm)
    given = json.loads((data_dir / "drivelm" / "output.json").read_text("utf-8"))
    rows = json.loads((drivelm / "raw.json").read_text("utf-8"))
    assert [row["id"] for row in rows] == [row["id"] for row in given], "the order of the challenge's own file"
    assert [row["question"] for row in rows] == [row["question"].removeprefix("<image>\n") for row in given]


def test_coda_lm_is_imported_and_scored(data_dir: Path, tmp_path: Path) -> None:
    root = write_layout(tmp_path / "coda", data_dir / "road_photos", split="Mini", n=3, regions=2)
    run(BIN / "ad2", "data", "import", "coda_lm", root, "--split", "Mini", "--partial", cwd=tmp_path)
    tasks = "ad2x_coda_general_mini,ad2x_coda_region_mini,ad2x_coda_suggestion_mini"
    run_lmms_eval("--model", "ad2_oracle", "--tasks", tasks, "--output_path", tmp_path / "o", cwd=tmp_path)
    found = tables(tmp_path / "o")
    assert [found[t]["n"] for t in tasks.split(",")] == [3, 6, 3]
    region = found["ad2x_coda_region_mini"]
    assert region["breakdowns"]["category"]["vehicle"]["n"] == 6
    assert region["columns"]["text_score"]["judge"] == "lexical"
    assert region["columns"]["bleu_4"]["official"] == pytest.approx(100, abs=1e-3)


def test_a_broken_image_is_reported_with_its_file_name(data_dir: Path, drivelm: Path, own_home: Path) -> None:
    import shutil

    copied = drivelm / "images"
    shutil.copytree(data_dir / "drivelm" / "images", copied)
    image = sorted(copied.rglob("CAM_FRONT/*.jpg"))[0]
    image.chmod(0o644)
    image.write_bytes(image.read_bytes()[:2000])
    run(BIN / "ad2", "data", "verify", "drivelm", "--images", copied, cwd=drivelm)
    checked = run(BIN / "ad2", "data", "verify", "drivelm", "--decode", cwd=drivelm, code=1)
    assert image.name in checked.stdout + checked.stderr
