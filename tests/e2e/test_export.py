"""`ad2 export swift` on the command line: names, patterns, one-message errors with exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.coda_layout import write_layout

from lmms_eval_ad2.cli.export import find_tasks
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error


def ad2(*words: str | Path) -> int:
    return main([str(w) for w in words])


@pytest.fixture
def coda(tmp_path: Path, data_dir: Path) -> Path:
    """Small Train and Test splits of CODA-LM with different photos."""
    photos = sorted((data_dir / "road_photos").glob("*.jpg"))
    for split, of_split in (("Train", photos[:3]), ("Test", photos[3:])):
        folder = tmp_path / f"photos_{split}"
        folder.mkdir()
        for photo in of_split:
            (folder / photo.name).symlink_to(photo)
        source = write_layout(tmp_path / split, folder, split=split)
        assert ad2("data", "import", "coda_lm", source, "--split", split.lower(), "--partial") == 0
    return tmp_path


def test_coda_lm_is_exported_for_training(coda: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = coda / "train.jsonl"
    assert ad2("export", "swift", "--tasks", "ad2_coda_*", "--out", out) == 0
    printed = capsys.readouterr()
    assert "ad2_coda_region: 6 rows of coda_lm/train" in printed.out
    assert "leak check: compared with coda_lm/test" in printed.out
    assert "WARNING" not in printed.err
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert len(rows) == 12
    region = next(r for r in rows if r["id"].startswith("ad2_coda_region:"))
    assert "red rectangle" in region["messages"][0]["content"]
    assert region["messages"][1]["content"] == "region 1 1 en"
    assert Path(region["images"][0]).is_relative_to(coda / "train_images")
    plain = next(r for r in rows if r["id"].startswith("ad2_coda_general:"))
    assert plain["images"] == [str(coda / "Train" / "val" / "images" / "0001.jpg")]
    card = json.loads((coda / "train.card.json").read_text("utf-8"))
    assert card["tasks"]["ad2_coda_general"]["questions"] == 3


def test_test_images_imported_as_train_are_refused(coda: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mislabelled = write_layout(coda / "again", coda / "photos_Test", split="Train")
    assert ad2("data", "import", "coda_lm", mislabelled, "--split", "train", "--partial") == 0
    capsys.readouterr()
    assert ad2("export", "swift", "--tasks", "bench_coda_lm", "--out", coda / "train.jsonl") == 2
    err = capsys.readouterr().err
    assert "leak check: 12 of 12 questions must not be trained on" in err
    assert "(same_question 12)" in err
    assert "Traceback" not in err
    assert not (coda / "train.jsonl").exists()
    assert len((coda / "train.leaks.jsonl").read_text("utf-8").splitlines()) == 12


def _shown(words: list[str]) -> str:
    """The option as messages name it."""
    return f"--config {words[1].partition('=')[0]}" if words[0] == "--config" else words[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tasks", "ad2_coda_*", "--split", "test"], "has its data of split 'test'"),
        (["--tasks", "ad2_coda_region", "--split", "test"], "training splits only"),
        (["--tasks", "ad2_coda_region", "--split", "mini"], "evaluated on this split"),
        (["--tasks", "ad2_coda_region"], "ad2 data import coda_lm SOURCE --split train"),
        (["--tasks", "ad2_mcq_*"], "ad2 data import autodrive_qa SOURCE --split train"),
        (["--tasks", "ad2_coda_regoin"], "no open-loop task 'ad2_coda_regoin'"),
        (["--tasks", "ad2drive_demo"], "no open-loop task 'ad2drive_demo'"),
        (["--tasks", ","], "name at least one task"),
        (["--tasks", "ad2_coda_region", "--limit", "0"], "--limit 0"),
        *(
            (["--drives", "collected", *words], f"error: {_shown(words)} is an option of --tasks, which is not given")
            for words in (
                ["--split", "val"],
                ["--config", "images_out=x"],
                ["--limit", "3"],
                ["--config", "shuffle=true"],
                ["--config", "allow_shared_scenes=true"],
                ["--config", "drop_leaks=true"],
            )
        ),
        *(
            (
                ["--tasks", "ad2_coda_region", *words],
                f"error: {_shown(words)} is an option of --drives, which is not given",
            )
            for words in (
                ["--asked", "trajectory"],
                ["--config", "balance=0"],
                ["--config", "repeat=2"],
                ["--config", "times=2"],
                ["--questions", "1"],
                ["--config", "reasons=true"],
                ["--config", "unseen_reasons=true"],
                ["--config", "prompts=x.yaml"],
            )
        ),
    ],
)
def test_invalid_exports_are_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ad2("export", "swift", *words, "--out", tmp_path / "train.jsonl") == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_the_output_must_be_a_jsonl_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ad2("export", "swift", "--tasks", "ad2_coda_region", "--out", tmp_path / "train.json") == 2
    assert "must end in .jsonl" in capsys.readouterr().err


def test_tasks_are_found_by_name_and_group() -> None:
    tasks, tested = find_tasks("ad2_cot,bench_autodrive_qa,ad2_cot", "train")
    assert [t.name for t in tasks] == ["ad2_cot", "ad2_mcq_perception", "ad2_mcq_prediction", "ad2_mcq_planning"]
    assert tested["coda_lm"] == {"test", "val", "mini"}
    with pytest.raises(Ad2Error, match="none of"):
        find_tasks("ad2*", "train")
