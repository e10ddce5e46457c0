"""Trainings that are refused, interrupted, or continued after an error. What is learned: tests/e2e/test_learn.py."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.utils import send_to_device
from support.driving_rows import collect
from support.training_reports import quiet
from torch._subclasses.fake_tensor import FakeTensorMode

from closedloop_plugin.learn import train as module
from closedloop_plugin.learn.answer_loss import answer_losses
from closedloop_plugin.learn.encoded_rows import EncodedRows
from closedloop_plugin.learn.forward_pass import make_head
from closedloop_plugin.learn.model_folder import load_llava
from closedloop_plugin.learn.row_trainer import TaughtModel, TrainingSettings, TrainingSteps, last_checkpoint
from closedloop_plugin.learn.tiny_model import TinyModelSize
from closedloop_plugin.learn.train import train
from closedloop_plugin.learn.trained_agent import FOLDER
from closedloop_plugin.learn.training_file import TrainingFile
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingSet, read_card

pytestmark = pytest.mark.integration
SIZE = TinyModelSize(
    width=64, height=32, vision=(8, 16, 16, 32), vision_layers=(1, 1, 1, 1), hidden=32, layers=1, vocabulary=700
)
SETTINGS = TrainingSettings(steps=6, batch=4, rate=5e-3, jitter=0.1, size=SIZE)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    collect(folder / "collected", ["red", "green"] * 4)
    out = folder / "rows.jsonl"
    assert main(["export", "swift", "--drives", str(folder / "collected"), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def trained(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train([rows], tmp_path_factory.mktemp("trained") / "model", SETTINGS, say=quiet)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def saved_step(folder: Path) -> int:
    checkpoint = last_checkpoint(folder / "state")
    assert checkpoint is not None
    return int(checkpoint.name.removeprefix("checkpoint-"))


def copied(rows: Path, folder: Path, *sets: TrainingSet) -> Path:
    """The rows alone, and what they were made from, without the card of an export."""
    folder.mkdir(exist_ok=True)
    file = folder / "rows.jsonl"
    file.write_bytes(rows.read_bytes())
    found = [asdict(one) for one in sets]
    text = json.dumps({"schema": "ad2-training/1", "model": None, "sets": found, "seed": None, "version": None})
    file.with_suffix(".training.json").write_text(text)
    return file


def test_a_model_of_no_training_is_left_alone(rows: Path, tmp_path: Path) -> None:
    """Also if it is what the training would start from."""
    model = tmp_path / "model"
    shutil.copytree(FOLDER, model)
    before = contents(model)
    for start in (None, model):
        with pytest.raises(Ad2Error, match="holds a model already; choose another --out"):
            train([rows], model, replace(SETTINGS, start=start), say=quiet)
    assert contents(model) == before


def test_a_start_that_was_killed_is_repeated(rows: Path, trained: Path, tmp_path: Path) -> None:
    """It leaves the settings, a part of the model, and temporary files of the pictures."""
    out = tmp_path / "model"
    (out / "start" / "new").mkdir(parents=True)
    (out / "start" / "new" / "model.safetensors").write_bytes(b"a part")
    (out / ".pictures-0123456789abcdef.npy.1.tmp").write_bytes(b"a part")
    shutil.copy(trained / "settings.json", out)
    shutil.copy(trained / "config.json", out / "start")
    train([rows], out, SETTINGS, say=quiet)
    assert weights(out) == weights(trained) and contents(out).keys() == contents(trained).keys()


def test_a_start_that_fails_does_not_keep_the_folder(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("not a size of this architecture")

    with monkeypatch.context() as patched, pytest.raises(ValueError, match="not a size"):
        patched.setattr(module, "make_tiny_model", fail)
        train([rows], tmp_path / "model", SETTINGS, say=quiet)
    train([rows], tmp_path / "model", replace(SETTINGS, steps=1), say=quiet)


def test_a_missing_picture_does_not_keep_the_folder(rows: Path, tmp_path: Path) -> None:
    """Its rows are exported again, so that they are others."""
    *lines, last = rows.read_text().splitlines(keepends=True)
    missing = tmp_path / "rows.jsonl"
    missing.write_text("".join([*lines, json.dumps({**json.loads(last), "images": ["gone.jpg"]}) + "\n"]))
    with pytest.raises(Ad2Error, match=r"gone\.jpg: not a readable picture"):
        train([missing], tmp_path / "model", SETTINGS, say=quiet)
    train([rows], tmp_path / "model", replace(SETTINGS, steps=1), say=quiet)


def test_a_training_that_has_not_ended_is_no_model(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for transformers, nor to start from, nor to ask: it would be one of random weights."""
    out = tmp_path / "model"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(torch.optim.AdamW, "step", interrupting(2, signal.SIGINT))
        train([rows], out, SETTINGS, say=quiet)
    assert not (out / "config.json").exists() and not (out / "model.safetensors").exists()
    shutil.copy(out / "start" / "config.json", out)  # as after a kill between the last step and the last file
    for ask in (lambda: train([rows], tmp_path / "next", replace(SETTINGS, start=out)), lambda: load_llava(out / "..")):
        with pytest.raises(Ad2Error):
            ask()
    with pytest.raises(Ad2Error, match="its training has not ended"):
        answer_losses([out], TrainingFile.read([rows]))
    assert not (tmp_path / "next").exists()


def test_a_training_that_diverges_ends(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"step \d diverges \(loss .*nan.*\); try a lower --config rate"):
        train([rows], tmp_path / "model", replace(SETTINGS, rate=1e30), say=quiet)
    assert not (tmp_path / "model" / "state").exists()
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_a_model_to_start_from_is_known_by_its_content(rows: Path, trained: Path, tmp_path: Path) -> None:
    start, settings = tmp_path / "start", replace(SETTINGS, steps=1)
    shutil.copytree(trained, start)
    train([rows], tmp_path / "model", replace(settings, start=start), say=quiet)
    said: list[str] = []
    train([rows], tmp_path / "model", replace(settings, start=trained), say=said.append)
    assert said == [f"{tmp_path / 'model'} is trained already"]
    shutil.copy(tmp_path / "model" / "model.safetensors", start)
    with pytest.raises(Ad2Error, match=r"start\.model\.safetensors is .* there and"):
        train([rows], tmp_path / "model", replace(settings, start=start), say=quiet)


def test_what_is_longer_than_the_model_takes_is_refused(rows: Path, tmp_path: Path) -> None:
    row = json.loads(rows.read_text().splitlines()[0])
    row["messages"][0]["content"] += " 1" * 2500
    long = tmp_path / "rows.jsonl"
    long.write_text(rows.read_text() + json.dumps(row) + "\n")
    shutil.copytree(rows.parent / "collected", tmp_path / "collected")
    with pytest.raises(Ad2Error, match="tokens; the model takes 1,024"):
        train([long], tmp_path / "model", SETTINGS, say=quiet)
    train([rows], tmp_path / "model", replace(SETTINGS, steps=1), say=quiet)  # the folder is free for other rows


def test_a_training_that_fails_after_its_last_step_is_not_repeated(
    rows: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise OSError("disk full")

    out, said = tmp_path / "model", []
    with monkeypatch.context() as patched, pytest.raises(OSError, match="disk full"):
        patched.setattr(module, "write_card", fail)
        train([rows], out, SETTINGS, say=quiet)
    assert saved_step(out) == SETTINGS.steps
    train([rows], out, SETTINGS, say=said.append)
    assert said == [f"8 pictures, {SETTINGS.steps} steps of 4; from step {SETTINGS.steps}"]
    assert weights(out) == weights(trained) and contents(out).keys() == contents(trained).keys()


def test_what_a_killed_end_left_is_removed(rows: Path, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    shutil.copytree(trained, out)
    (out / "state" / "checkpoint-1").mkdir(parents=True)
    for name in ("pictures-0123.npy", ".training.json.1.tmp"):
        (out / name).touch()
    train([rows], out, SETTINGS, say=quiet)
    assert contents(out).keys() == contents(trained).keys()


def interrupting(step: int, which: signal.Signals) -> Callable[..., Any]:
    """AdamW's step, in which the process is interrupted once."""
    change, calls = torch.optim.AdamW.step, []

    def changed(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            signal.raise_signal(which)
        return change(self, *arguments)

    return changed


def test_an_interrupted_training_keeps_its_steps(
    rows: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = tmp_path / "model", []
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(torch.optim.AdamW, "step", interrupting(3, signal.SIGINT))
        train([rows], out, SETTINGS, say=quiet)
    assert saved_step(out) == 3
    train([rows], out, SETTINGS, say=said.append)
    assert said[0].endswith("from step 3") and weights(out) == weights(trained)


def test_the_command_saves_its_state_on_sigterm(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.optim.AdamW, "step", interrupting(2, signal.SIGTERM))
    before, out = signal.signal(signal.SIGTERM, signal.SIG_IGN), tmp_path / "model"
    words = ["learn", "train", "--rows", str(rows), "--out", str(out), "--steps", "4",
             "--config", "batch=2", "--config", "hidden=32",
             "--config", "picture=64x32", "--config", "vision=[8, 8, 8, 8]", "--config", "vocabulary=700"]  # fmt: skip
    try:
        assert main(words) == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert saved_step(out) == 2
    assert "resumes" in capsys.readouterr().err


def test_malformed_training_data_are_named_before_the_training(rows: Path, tmp_path: Path) -> None:
    file = copied(rows, tmp_path / "rows")
    file.with_suffix(".training.json").write_text('{"schema": "ad2-training/1", "sets": [{"name": 1}]}')
    with pytest.raises(DataError, match=r"rows\.training\.json"):
        train([file], tmp_path / "model", SETTINGS, say=quiet)
    assert not (tmp_path / "model").exists()


def test_rows_that_their_card_does_not_describe_are_refused(rows: Path, tmp_path: Path) -> None:
    file = copied(rows, tmp_path / "rows")
    shutil.copy(rows.with_suffix(".card.json"), file.parent)
    file.write_bytes(file.read_bytes() + rows.read_bytes())
    with pytest.raises(Ad2Error, match="export it again"):
        train([file], tmp_path / "model", SETTINGS, say=quiet)
    assert not (tmp_path / "model").exists()


def test_sets_are_told_apart_by_their_content(rows: Path, tmp_path: Path) -> None:
    """Whatever hash they claim."""
    one, other = (TrainingSet(name, routes=(TrainedRoute(name),)) for name in ("one", "other"))
    false = replace(TrainingSet("third", scenes=("B:s",)), sha256=str(one.to_dict()["sha256"]))
    file = copied(rows, tmp_path / "rows", one, other, false, one)
    out = train([file], tmp_path / "model", replace(SETTINGS, steps=1), say=quiet)
    sets = read_card(out / "ad2_training.json").sets
    assert [found.name for found in sets] == ["one", "other", "third"]
    assert len({found.sha256 for found in sets}) == 3


def test_the_number_of_processes_is_part_of_the_run(rows: Path, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="processes is 1 there and 2 here"):
        train([rows], trained, SETTINGS, processes=2, say=quiet)
    earlier = tmp_path / "model"
    shutil.copytree(trained, earlier)
    stored = json.loads((earlier / "settings.json").read_text())
    assert stored.pop("processes") == 1 and "device" not in stored
    (earlier / "settings.json").write_text(json.dumps(stored))
    said: list[str] = []
    train([rows], earlier, SETTINGS, processes=2, device="cpu", say=said.append)
    assert said == [f"{earlier} is trained already"]


def test_pictures_are_resized_before_other_processes_start(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Started(Exception):
        """Instead of the processes."""

    def start(*arguments: object) -> None:
        raise Started

    monkeypatch.setattr(module, "in_processes", start)
    with pytest.raises(Started):
        train([rows], tmp_path / "model", SETTINGS, processes=2, say=quiet)
    assert len(list((tmp_path / "model").glob("pictures-*.npy"))) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_device_that_is_absent_is_named_before_anything_is_written(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="--device cuda: PyTorch cannot use it here"):
        train([rows], tmp_path / "model", SETTINGS, device="cuda", say=quiet)
    assert not (tmp_path / "model").exists()


def test_the_cpu_can_be_named(rows: Path, trained: Path, tmp_path: Path) -> None:
    out = train([rows], tmp_path / "model", SETTINGS, device="cpu:0", say=quiet)
    assert weights(out) == weights(trained)
    assert (out / "settings.json").read_bytes() == (trained / "settings.json").read_bytes()


def test_what_is_dropped_depends_on_the_seed_only(rows: Path, trained: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, dropout=0.25)
    first, second = (weights(train([rows], tmp_path / name, settings, say=quiet)) for name in "ab")
    assert first == second != weights(trained)


def test_other_devices_are_another_run(rows: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_device", lambda name, processes: None)
    with pytest.raises(Ad2Error, match='device is not set there and "cuda" here'):
        train([rows], trained, SETTINGS, device="cuda:1", say=quiet)


def test_all_tensors_of_a_step_are_on_the_device_of_the_model(
    rows: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model without values, on a device that every PyTorch has: an operation on two devices is an error."""
    there, settings = torch.device("meta"), replace(SETTINGS, see=1)
    monkeypatch.setattr(torch.Tensor, "all", lambda self: False)  # there are no values to compare
    llava, processor = load_llava(trained)
    data = EncodedRows(TrainingFile.read([rows]), processor, tmp_path / "pictures.npy")
    head = make_head(llava.model.multi_modal_projector.linear_1.in_features)
    steps = TrainingSteps(data, settings, processor)
    with FakeTensorMode(allow_non_fake_inputs=True):  # the rows are real
        model = TaughtModel(llava, head, dropout=0.2).to_empty(device=there)
        for item in (steps[0], steps[1]):
            loss = model(**send_to_device(item, there))["loss"]
            loss.backward()
            assert loss.device == there
    assert {parameter.grad.device for parameter in model.parameters() if parameter.grad is not None} == {there}


def test_a_checkpoint_that_was_not_written_to_its_end_is_not_used(
    rows: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = tmp_path / "model", []
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(torch.optim.AdamW, "step", interrupting(3, signal.SIGINT))
        train([rows], out, SETTINGS, say=quiet)
    broken = Path(shutil.copytree(out / "state" / "checkpoint-3", out / "state" / "checkpoint-4"))
    (broken / "complete").unlink()
    (broken / "optimizer.pt").write_bytes(b"a part")
    train([rows], out, SETTINGS, say=said.append)
    assert said[0].endswith("from step 3") and weights(out) == weights(trained)


def test_two_processes_share_a_step(rows: Path, trained: Path, tmp_path: Path) -> None:
    """Means over the processes are sums over the batch. One without a part has a picture without weight."""
    llava, processor = load_llava(trained)
    data = EncodedRows(TrainingFile.read([rows]), processor, tmp_path / "pictures.npy", SETTINGS.weights)
    model = TaughtModel(llava, make_head(llava.model.multi_modal_projector.linear_1.in_features))
    settings = replace(SETTINGS, see=1, batch=3, jitter=0.0, shift=0)
    one, four = (TrainingSteps(data, settings, processor, processes) for processes in (1, 4))
    with torch.no_grad():
        for step in (0, 1, 3):
            parts = [float(model(**four[4 * step + rank])["loss"]) for rank in range(4)]
            assert sum(parts) / 4 == pytest.approx(float(model(**one[step])["loss"]), rel=1e-4)
    assert parts[3] == 0 and len(one.batches[3]) < 4
