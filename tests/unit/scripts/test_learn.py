"""scripts/learn.py: the commands of its stages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.scripts import script

from closedloop_plugin.scenarios.suites.lookup import DEMO, add_routes, suite
from lmms_eval_ad2.core.errors import Ad2Error

learn = script("learn")


def stages(**options: Any) -> dict[str, list[str]]:
    found = learn.LearnStages(learn.LearnOptions(suite="demo", out=Path("out"), **options)).all()
    assert len({stage.name for stage in found}) == len(found)
    return {stage.name: list(stage.words) for stage in found}


def test_the_twin_is_trained_in_the_steps_of_the_model() -> None:
    found = stages()
    for number in range(3):
        model, twin = found[f"train sighted {number}"], found[f"train blind {number}"]
        assert [word.replace("blind", "sighted") for word in twin if word != "--blind"] == model
        assert "--blind" in twin and "--blind" not in model


def test_held_out_routes_are_unlike_all_driven_ones() -> None:
    found = stages()
    words = found["collect held-out routes"]
    unlike = [word.removeprefix("unlike=") for word in words if word.startswith("unlike=")]
    others = [words[words.index("--out") + 1] for name, words in found.items() if words[:2] == ["drive", "collect"]]
    others.remove("out/drives/held")
    assert unlike == others and len(unlike) == 4


def test_the_loss_of_all_models_is_that_of_the_held_out_rows() -> None:
    found = stages()
    words, rows = found["loss of held-out rows"], found["rows held-out"]
    models = [f"out/models/{kind}{number}" for kind in ("sighted", "blind") for number in range(3)]
    assert words[2 : words.index("--rows")] == models
    assert words[words.index("--rows") + 1] == rows[rows.index("--out") + 1]
    assert rows[rows.index("--drives") + 1] == "out/drives/held"


def test_each_round_adds_the_rows_of_its_own_drives() -> None:
    found = stages()
    words = found["train sighted 2"]
    assert words[words.index("--rows") + 1 : words.index("--out")] == [
        f"out/rows/{number}.jsonl" for number in range(3)
    ]
    drives = [[word for word in found[f"rows {number}"] if word.startswith("out/drives/")] for number in range(3)]
    assert drives == [["out/drives/expert", "out/drives/words"], ["out/drives/own1"], ["out/drives/own2"]]


def test_the_device_and_the_size_of_the_model() -> None:
    for words in stages().values():
        assert not {"hidden=768", "cuda"} & {*words} and ("learn" not in words or "--device" not in words)
    found = stages(device="cuda", hidden=768, vision=(64, 128, 320, 512))
    first, second = found["train sighted 0"], found["train sighted 1"]
    assert first[-4:] == ["--config", "hidden=768", "--config", "vision=[64, 128, 320, 512]"]
    assert "--start" in second and "hidden=768" not in second  # the size is that of the model it starts from
    for name in ("train sighted 0", "train sighted 1", "train blind 2", "questions sighted", "loss of held-out rows"):
        assert found[name][found[name].index("--device") + 1] == "cuda" and "--processes" not in found[name]
    for name in ("round 1: its own drives", "drive blind"):
        assert any("device=cuda,device_map=cuda" in word for word in found[name])


def test_the_learning_rate_of_the_rounds_follows_the_first(tmp_path: Path) -> None:
    for options, rates in (({}, ["0.001", "0.0007", "0.0007"]), ({"rate": 2e-4}, ["0.0002", "0.00014", "0.00014"])):
        found = stages(**options)
        for kind in ("sighted", "blind"):
            words = [found[f"train {kind} {number}"] for number in range(3)]
            assert [[word for word in one if word.startswith("rate=")] for one in words] == [
                [f"rate={x}"] for x in rates
            ]


def test_the_stages_are_run_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run_stages(listed: Any, out: Path, device: str, env: Any, *, stop_at_failure: bool) -> int:
        asked.append((listed[-1].name, out, device, stop_at_failure))
        return 0

    monkeypatch.setattr(learn, "run_stages", run_stages)
    monkeypatch.setattr(learn, "refuse_missing", lambda device: None)
    for device in ("cuda:1", "cpu"):
        assert learn.main(["--suite", "demo", "--out", str(tmp_path), "--device", device]) == 0
    assert asked == [("report", tmp_path, "cuda:1", True), ("report", tmp_path, "cpu", True)]


def test_a_device_that_is_not_there_is_refused_before_the_first_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn.main(["--suite", "demo", "--out", str(tmp_path / "out"), "--device", "cuda:99"]) == 2
    assert capsys.readouterr().err.startswith("error: --device cuda:99: PyTorch cannot use it here")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--config hidden=100", "--config hidden=100: expected a multiple of 32"),
        ("--config picture=100x100", "--config picture=100x100: width and height must be multiples of 32"),
        (
            "--config vision=[65,65,65,65]",
            "--config vision=65 65 65 65: expected four numbers from 1 to 63, or multiples of 32",
        ),
        ("--config vocabulary=10000000000", "--config vocabulary=10000000000: from 600 to 200000"),
        ("--rate inf", "--rate inf: from 1e-06 to 10"),
        ("--scale 11", "--scale 11: must be above 0 and at most 10"),
        ("--scale 8", "408,000 frames in all drives: at most 383,479; a model names what it was trained on"),
        ("--rounds 120", "405,000 frames in all drives: at most 383,479; a model names what it was trained on"),
    ],
)
def test_a_size_that_the_training_refuses_is_refused_before_the_first_stage(
    words: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for dry in ([], ["--dry-run"]):
        assert learn.main(["--suite", "demo", "--out", str(tmp_path / "out"), *dry, *words.split()]) == 2
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", f"error: {line}\n")
    assert not (tmp_path / "out").exists()


def test_a_dry_run_prints_what_the_stages_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Copied into a shell, its `ad2 data import` would otherwise replace the user's questions."""
    add_routes(DEMO, "mine")
    assert learn.main(["--suite", "demo", "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    home = tmp_path / "out" / "home"
    assert lines[0] == f"export AD2_HOME={home} HF_HUB_OFFLINE=1 OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 1)}"
    assert lines[1] == f"mkdir -p {home / 'routes'}"
    assert lines[2].startswith("cp ") and lines[2].endswith(f"/mine.xml {home / 'routes'}")
    assert lines[3] == "# collect" and not (tmp_path / "out").exists()


def test_suites_of_the_user_are_known_to_all_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_routes(DEMO, "mine")
    options = learn.LearnOptions(suite="mine", out=tmp_path / "out")
    learn.LearnStages(options)
    variables = learn.environment(options)
    learn.copy_suites(Path(variables["AD2_HOME"]))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert suite("mine").ids == suite("demo").ids
    with pytest.raises(Ad2Error, match="no such suite"):
        suite("yours")
