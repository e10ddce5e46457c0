"""`ad2 learn train`: options that are refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.driving_rows import collect

from closedloop_plugin.learn.trained_agent import agent_of
from lmms_eval_ad2.cli.main import main


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    collect(folder / "collected", ["red", "green"])
    out = folder / "rows.jsonl"
    assert main(["export", "swift", "--drives", str(folder / "collected"), "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--start no/model", "--start no/model: no model folder"),
        (
            "--config vision=[0,48,96,192]",
            "--config vision=0 48 96 192: expected four numbers from 1 to 63, or multiples of 32",
        ),
        ("--config vision=[24,-48,96,192]", "--config vision=24 -48 96 192: expected"),
        ("--config vision=[24,48,100,192]", "--config vision=24 48 100 192: expected"),
        ("--config picture=16\u00b2x96", "expected WxH"),
        ("--config vocabulary=10000000000", "--config vocabulary=10000000000: from 600 to 200000"),
        ("--device gpu", "--device gpu: PyTorch cannot use it here"),
        ("--device meta", "--device meta: PyTorch cannot use it here"),
        ("--device cuda --processes 2", "several processes share a training on the cpu only"),
    ],
)
def test_refused_options(
    options: str, message: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    assert main(["learn", "train", "--rows", str(rows), "--out", str(out), *options.split(" ")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not out.exists()


def test_a_vocabulary_beyond_the_bound_is_refused(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["learn", "train", "--steps", "0", "--rows", str(rows), "--out", str(tmp_path / "m"), "--config"]
    assert main([*words, "vocabulary=200001"]) == 2
    assert capsys.readouterr().err == "error: --config vocabulary=200001: from 600 to 200000\n"
    assert (
        main(
            [
                *words,
                "vocabulary=200000",
                "--config",
                "hidden=32",
                "--config",
                "layers=1",
                "--config",
                "vision=[8, 8, 8, 8]",
            ]
        )
        == 0
    )


def test_a_model_is_not_written_over_a_model(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert main(["learn", "train", "--steps", "0", "--rows", str(rows), "--out", str(tmp_path)]) == 2
    assert "holds a model already; choose another --out" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


def test_a_model_drives_on_the_device_of_its_training() -> None:
    assert agent_of(Path("m")) == "lmms:llava_hf,pretrained=m,device=cpu,device_map=cpu"
    assert agent_of(Path("m"), 24, "cuda:0").endswith(",device=cuda:0,device_map=cuda:0,max_new_tokens=24")
