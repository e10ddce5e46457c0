"""`ad2 learn loss`, against the forward pass of transformers on each question alone."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from support.driving_rows import collect
from support.training_reports import quiet
from transformers import AutoProcessor, LlavaForConditionalGeneration

from closedloop_plugin.learn import answer_loss
from closedloop_plugin.learn.answer_loss import answer_losses, spread_pictures
from closedloop_plugin.learn.encoded_rows import picture_files, resized_pictures
from closedloop_plugin.learn.row_trainer import TrainingSettings
from closedloop_plugin.learn.tiny_model import TinyModelSize
from closedloop_plugin.learn.tokenizer import END
from closedloop_plugin.learn.train import train
from closedloop_plugin.learn.training_file import TrainingFile
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration
SIZE = TinyModelSize(
    width=64, height=32, vision=(8, 16, 16, 32), vision_layers=(1, 1, 1, 1), hidden=32, layers=1, vocabulary=700
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    collect(folder / "collected", ["red", "green", "green"] * 3)
    out = folder / "rows.jsonl"
    words = ["--drives", str(folder / "collected"), "--out", str(out), "--config", "balance=0"]
    assert main(["export", "swift", *words]) == 0
    return out


@pytest.fixture(scope="module")
def more_rows(rows: Path) -> Path:
    """Of some pictures two more questions: of multiple choice, and of another kind."""
    lines = []
    for number, line in enumerate(rows.read_text().splitlines()):
        row = json.loads(line)
        lines.append(row)
        for kind, answer in (("choice", "B"), ("seen", "There is one."))[: number % 3]:
            asked = {"role": "user", "content": f"<image>Which {kind} is it?"}
            lines.append({**row, "kind": kind, "messages": [asked, {"role": "assistant", "content": answer}]})
    file = rows.with_name("more.jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.fixture(scope="module")
def model(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = TrainingSettings(steps=20, batch=4, rate=5e-3, jitter=0.1, size=SIZE)
    return train([rows], tmp_path_factory.mktemp("trained") / "model", settings, say=quiet)


def alone(folder: Path, file: Path, black: bool) -> dict[str, list[float]]:
    """By kind, the losses of all rows, each asked alone as `llava_hf` asks it."""
    model, processor = LlavaForConditionalGeneration.from_pretrained(folder), AutoProcessor.from_pretrained(folder)
    found: dict[str, list[float]] = {}
    for line in file.read_text().splitlines():
        row = json.loads(line)
        asked, answer = (message["content"] for message in row["messages"])
        message = {"role": "user", "content": "<image>\n" + asked.removeprefix("<image>").removeprefix("\n")}
        text = processor.tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        image = Image.open(file.parent / row["images"][0]).convert("RGB")
        picture = Image.new("RGB", image.size) if black else image
        given = processor(text=text, images=picture, return_tensors="pt")
        said = processor.tokenizer(answer + END, add_special_tokens=False, return_tensors="pt")["input_ids"]
        tokens = torch.cat([given["input_ids"], said], 1)
        with torch.inference_mode():
            logits = model(input_ids=tokens, pixel_values=given["pixel_values"]).logits
        before = logits[0, -said.shape[1] - 1 : -1]
        kind = row["kind"] if row["kind"] in ("driving", "choice") else "other"
        found.setdefault(kind, []).append(float(torch.nn.functional.cross_entropy(before, said[0], reduction="sum")))
    return found


def test_losses_are_those_of_the_questions_asked_alone(model: Path, more_rows: Path) -> None:
    found = answer_losses([model], TrainingFile.read([more_rows]))[model]
    assert {kind: loss.n for kind, loss in found.items()} == {"driving": 9, "choice": 6, "other": 3}
    for black in (False, True):
        for kind, losses in alone(model, more_rows, black).items():
            mine = found[kind].black if black else found[kind].mean
            assert mine == pytest.approx(math.fsum(losses) / len(losses), rel=2e-3), (kind, black)
    assert found["driving"].mean < found["driving"].black  # red means braking


def test_models_share_resized_pictures_only_if_they_resize_alike(model: Path, rows: Path, tmp_path: Path) -> None:
    same, other = (Path(shutil.copytree(model, tmp_path / name)) for name in ("same", "other"))
    config = json.loads((other / "processor_config.json").read_text())
    config["image_processor"]["resample"] = Image.Resampling.NEAREST
    (other / "processor_config.json").write_text(json.dumps(config))
    file = TrainingFile.read([rows])
    found = answer_losses([model, same], file)
    assert found[same] == found[model]
    for folder, files in ((model, 1), (same, 1), (other, 2)):
        resized_pictures(picture_files(file), AutoProcessor.from_pretrained(folder), tmp_path / "pictures.npy")
        assert len(list(tmp_path.glob("pictures-*.npy"))) == files


def test_the_command_names_what_was_trained_on(
    model: Path, rows: Path, more_rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "loss", str(model), "--rows", str(rows), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (one,) = shown["models"]
    assert (shown["pictures"], one["routes"], one["trained_on"]) == (9, 1, 1)
    assert one["losses"]["driving"]["n"] == 9
    assert main(["learn", "loss", str(model), "--rows", str(more_rows), "--pictures", "4"]) == 0
    text = capsys.readouterr().out
    assert text.count("not known") == 1 and "4 pictures" in text and "driving (n = 4)" in text


def test_pictures_are_spread_over_the_file(more_rows: Path) -> None:
    every = TrainingFile.read([more_rows])
    assert [every.groups.index(group) for group in spread_pictures(every, 3).groups] == [0, 4, 8]
    assert spread_pictures(every, None) is every and spread_pictures(every, 99) is every


@pytest.mark.parametrize(
    ("config", "error"),
    [(None, "no model folder"), ("[]", "no model folder"), ('{"model_type": "qwen2_5_vl"}', "model_type 'qwen2_5_vl'")],
)
def test_another_folder_is_one_error(
    config: str | None, error: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert main(["learn", "loss", str(tmp_path), "--rows", str(rows)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and str(tmp_path) in message and error in message


def _shortest_edge(folder: Path) -> None:
    config = json.loads((folder / "processor_config.json").read_text())
    config["image_processor"]["size"] = {"shortest_edge": 96}  # as of LLaVA-1.5
    (folder / "processor_config.json").write_text(json.dumps(config))


def _pickled(folder: Path) -> None:
    torch.save({"weight": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _without_a_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[next(name for name in weights if "vision" in name)]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _with_code(folder: Path) -> None:
    """transformers asks on the terminal whether such code may run, and runs it after a "y"."""
    config = json.loads((folder / "processor_config.json").read_text())
    config |= {"processor_class": "Theirs", "auto_map": {"AutoProcessor": "theirs.Theirs"}}
    (folder / "processor_config.json").write_text(json.dumps(config))
    (folder / "theirs.py").write_text("raise SystemExit('run')")


def _changed(name: str, **values: object) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | values))


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_without_a_weight, "were they saved by another version of transformers?"),
        (_with_code, "not a loadable model"),
        (_changed("processor_config.json", patch_size=None), "does more than resize pictures"),
        (_changed("config.json", image_token_id=5), "<image> is token 3 of its tokenizer, 5 of its model"),
        (_shortest_edge, "does more than resize pictures"),
        (_pickled, "not a loadable model"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80\x02}q\x00."), "not a loadable model"),
        (lambda folder: (folder / "processor_config.json").unlink(), "not a loadable model"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "not a loadable model"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "no readable config.json"),
    ],
    ids=[
        "random weights",
        "code",
        "patch",
        "image token",
        "size",
        "pickle",
        "weights",
        "no processor",
        "no tokenizer",
        "deep",
    ],
)
def test_a_folder_that_cannot_be_loaded_is_one_error(
    spoil: Callable[[Path], object], error: str, model: Path, rows: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = Path(shutil.copytree(model, tmp_path / "broken"))
    spoil(folder)
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # to the question whether the code of a folder may run
    for words in (["loss", str(folder)], ["train", "--start", str(folder), "--out", str(tmp_path / "out")]):
        assert main(["learn", *words, "--rows", str(rows)]) == 2
        (message,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
        assert str(folder) in message and error in message


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("{% for part in messages[0]['content'] %}{{ part['text'] }}{% endfor %}", "no prompt"),
        ("{{ messages[0]['content'] }}<image>", "makes no prompt with one image"),
        ("<image>", "makes no prompt with one image"), ("{{ nothing.at.all }}", "cannot be used"),
    ],
)  # fmt: skip
def test_a_template_that_is_not_for_these_rows_is_one_error(
    template: str, error: str, model: Path, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "theirs"))
    (folder / "chat_template.jinja").write_text(template)
    assert main(["learn", "loss", str(folder), "--rows", str(rows)]) == 2
    (message,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert "the model's chat template" in message and error in message


def test_a_head_of_another_model_is_one_error(model: Path, rows: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "start"))
    shutil.copy(folder / "model.safetensors", folder / "grid_head.safetensors")
    settings = TrainingSettings(steps=1, batch=4, start=folder, size=SIZE)
    with pytest.raises(Ad2Error, match=r"grid_head\.safetensors: does not fit this model"):
        train([rows], tmp_path / "out", settings, say=quiet)


def test_a_wrong_folder_is_found_before_the_first_model_is_asked(
    model: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(answer_loss, "load_llava", asked.append)
    with pytest.raises(Ad2Error, match="no model folder"):
        answer_losses([model, tmp_path], TrainingFile.read([rows]))
    assert not asked
