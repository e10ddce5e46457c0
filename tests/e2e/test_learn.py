"""A tiny model from random weights: tokenizer, batches, training, resuming, and driving through lmms-eval's wrapper.

Folders that are refused or continued after an error: tests/unit/closedloop_plugin/learn/test_train.py.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from support.driving_rows import ACTIONS, collect
from support.training_reports import die, quiet

from closedloop_plugin.driver.agents.lmms_model import LmmsModel
from closedloop_plugin.driver.agents.model_backend import ModelQuestion
from closedloop_plugin.learn.encoded_rows import EncodedRows
from closedloop_plugin.learn.forward_pass import answer_logits, by_token, make_head, picture_tokens, pixels_of
from closedloop_plugin.learn.model_folder import load_llava
from closedloop_plugin.learn.row_trainer import TrainingSettings, last_checkpoint, scheduled
from closedloop_plugin.learn.tiny_model import TinyModelSize
from closedloop_plugin.learn.tokenizer import common_phrases, pieces, train_tokenizer
from closedloop_plugin.learn.train import train
from closedloop_plugin.learn.training_file import TrainingFile
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.training_card import read_card

SIZE = TinyModelSize(
    width=64, height=32, vision=(8, 16, 16, 32), vision_layers=(1, 1, 1, 1), hidden=32, layers=1, vocabulary=700
)
SETTINGS = TrainingSettings(steps=100, batch=8, rate=5e-3, jitter=0.1, size=SIZE)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learn")
    collect(folder / "collected", ["red", "green"] * 8)
    out = folder / "rows.jsonl"
    command = ["export", "swift", "--drives", str(folder / "collected"), "--out", str(out)]
    assert main([*command, "--asked", "action", "trajectory"]) == 0
    return out


@pytest.fixture(scope="module")
def trained(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train([rows], tmp_path_factory.mktemp("trained") / "model", SETTINGS, say=lambda text: None)


@pytest.fixture(scope="module")
def tokenizer(rows: Path) -> Any:
    turns = list(TrainingFile.read([rows]).turns())
    return train_tokenizer([turn.prompt for turn in turns], [turn.answer for turn in turns])


def test_a_driving_question_is_few_tokens(rows: Path, tokenizer: Any) -> None:
    turns = TrainingFile.read([rows]).groups[0].turns
    asked, said = ([tokenizer.tokenize(text) for text in (turn.prompt, turn.answer)] for turn in turns)
    assert len(asked[0]) <= 24
    assert [tokenizer.decode(tokenizer.convert_tokens_to_ids([token])) for token in asked[1]] == [
        "Brake", " and go straight.",
    ]  # fmt: skip
    assert len(said[1]) <= 30  # six points
    assert len(tokenizer) <= 3000


def test_numbers_are_integer_part_and_decimals(tokenizer: Any) -> None:
    assert tokenizer.tokenize("13.4") == ["13", ".4"]
    assert pieces("at 4.9 m/s. Next: 12 m?") == ["at ", "4.9", " m/s.", " Next:", " ", "12", " m?"]


CHOICE = "How far away is the {}?\nOptions:\n(A) {} m.\n(B) 8 to 16 m.\nAnswer with its letter only.\nUse {} pixels."


def test_letters_and_texts_of_options_are_pieces() -> None:
    text = CHOICE.format("car", "More than 30", 160)
    assert pieces(text) == [
        "How far away is the car?", "\nOptions:", "\n(A) ", "More than 30 m.", "\n(B) ", "8 to 16 m.",
        "\nAnswer with its letter only.", "\nUse ", "160", " pixels.",
    ]  # fmt: skip
    assert "".join(pieces(text)) == text


def test_sentences_that_always_follow_each_other_are_one_phrase() -> None:
    """Numbers that vary, and options, stay apart from what is beside them."""
    prompts = [CHOICE.format(thing, f"{n}", 160) + f" Drive {n} m." for thing in ("car", "bike") for n in range(20)]
    found = [pieces(text) for text in prompts]
    phrases = common_phrases(found)
    assert "\nAnswer with its letter only.\nUse 160 pixels. Drive " in phrases
    assert {"How far away is the car?\nOptions:", "How far away is the bike?\nOptions:"} <= set(phrases)
    assert ["".join(one) for one in found] == prompts
    assert found[3][-2:] == ["3", " m."]


def test_a_small_vocabulary_is_kept_to() -> None:
    """Phrases are tokens too: 1,000 frequent ones would leave none for the bytes."""
    prompts = [f"Where is the {chr(97 + i % 26) * 4}{chr(97 + i // 26) * 4} now?" for i in range(500)] * 3
    tokenizer = train_tokenizer(prompts, ["there"] * len(prompts), 600)
    assert len(tokenizer) <= 600
    assert tokenizer.decode(tokenizer(prompts[499])["input_ids"]) == prompts[499]


def test_a_question_about_two_things_is_made_of_parts_that_other_pairs_share() -> None:
    form = "\nAnswer with one word: yes or no."
    things = ("van", "bus", "bike", "nearest person")
    pairs = [(one, other) for one in things for other in things if one != other]
    asked = [f"Is the {one} nearer than the {other}?{form}" for one, other in pairs] + [
        f"Where is the {t}?" for t in things
    ]
    tokenizer = train_tokenizer(asked * 100, ["yes"] * len(asked) * 100)

    def parts(text: str) -> list[str]:
        return [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]

    assert parts(asked[0]) == ["Is the ", "van nearer than the ", "bus?", form]
    assert parts("Is the van nearer than the van?") == ["Is the ", "van nearer than the ", "van?"]  # never seen
    assert parts("Where is the van?") == ["Where is the van?"]


@given(st.text(max_size=60))
def test_every_text_is_decoded_to_the_same_bytes(tokenizer: Any, text: str) -> None:
    for token in ("<unk>", "<s>", "</s>", "<image>", "<pad>"):
        text = text.replace(token, "")
    text = text.encode("utf-8", "replace").decode()
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_same_rows_give_the_same_tokenizer(rows: Path, tokenizer: Any) -> None:
    turns = list(TrainingFile.read([rows]).turns())
    again = train_tokenizer([turn.prompt for turn in turns], [turn.answer for turn in turns])
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()


def test_a_question_in_a_batch_is_the_question_asked_alone(rows: Path, trained: Path, tmp_path: Path) -> None:
    """Logits of two questions that share a picture, against the processor's tokens and pixels of each."""

    model, processor = load_llava(trained)
    model.eval()
    found = TrainingFile.read([rows])
    data = EncodedRows(found, processor, tmp_path / "pictures.npy")
    batch = data.batch([(0, [0, 1]), (1, [0])])
    with torch.no_grad():
        packed = answer_logits(model, batch, picture_tokens(model, pixels_of(batch.pixels, processor)))
        at = 0
        for group, turn in ((0, 0), (0, 1), (1, 0)):
            one = found.groups[group].turns[turn]
            chat = [{"role": "user", "content": f"<image>\n{one.prompt}"}, {"role": "assistant", "content": one.answer}]
            with Image.open(found.groups[group].image) as picture:
                text = processor.tokenizer.apply_chat_template(chat, tokenize=False)
                alone = processor(images=[picture], text=text, return_tensors="pt")
            answer = processor.tokenizer(one.answer + "</s>")["input_ids"]
            logits = model(**alone).logits[0, -len(answer) - 1 : -1]
            assert alone["input_ids"][0, -len(answer) :].tolist() == answer
            assert batch.answers[at : at + len(answer)].tolist() == answer
            assert torch.allclose(packed[at : at + len(answer)], logits, atol=2e-3)
            at += len(answer)
    assert at == len(packed)


def test_kinds_of_questions_have_weights_and_driving_ones_are_in_every_step(
    rows: Path, trained: Path, tmp_path: Path
) -> None:
    """Of four questions two are asked: where the last one drives, always that one; without one, any two."""
    lines = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    for number, line in enumerate(lines):
        group, place = divmod(number, 4)
        line |= {
            "group": str(group),
            "images": lines[4 * group]["images"],
            "kind": ("driving" if group % 2 == 0 else "choice") if place == 3 else "",
        }
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    data = EncodedRows(
        TrainingFile.read([file]), load_llava(trained)[1], tmp_path / "pictures.npy", {"driving": 3.0, "choice": 2.0}
    )
    epochs = data.order(len(data), 0, 2)
    asked = [(group % 2, *turns) for _ in range(20) for group, turns in next(epochs)]
    assert {pair[1:] for pair in asked if pair[0] == 0} == {(0, 3), (1, 3), (2, 3)}
    assert {pair[1:] for pair in asked if pair[0] == 1} == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    length = [len(turn.tokens) - turn.asked for turn in data.turns[0]]
    assert data.weight([(0, [0, 3])]) == pytest.approx(length[0] ** 0.5 + 3 * length[3] ** 0.5)
    choice = data.turns[1][3]
    assert data.weight([(1, [3])]) == pytest.approx(2 * (len(choice.tokens) - choice.asked) ** 0.5)
    assert data.weight([(1, [0])]) == pytest.approx((len(data.turns[1][0].tokens) - data.turns[1][0].asked) ** 0.5)


def test_the_encoder_learns_where_the_pictures_show_what(rows: Path, tmp_path: Path) -> None:
    """Red pictures show a car in the middle, green ones nothing."""
    settings = replace(SETTINGS, see=40, steps=1, per_picture=1)
    folder = train([rows], tmp_path / "model", settings, say=lambda text: None)
    model, processor = load_llava(folder)
    model.eval()
    data = EncodedRows(TrainingFile.read([rows]), processor, tmp_path / "pictures.npy")
    head = make_head(model.config.vision_config.hidden_size, folder)
    with torch.no_grad():
        tokens = picture_tokens(model, pixels_of(data.pixels(np.array([0, 1])), processor))
        there = head(tokens).sigmoid()
    wanted = by_token(torch.from_numpy(data.grids[:2])).float() / 255
    assert wanted[0].sum() > 3 and not wanted[1].any()
    assert (there - wanted).abs().max() < 0.3
    assert train([rows], tmp_path / "more", replace(settings, start=folder, see=0), say=lambda text: None)


def test_rows_without_truth_cannot_teach_to_see(rows: Path, tmp_path: Path) -> None:
    unseen = tmp_path / "rows.jsonl"
    kept = [{**json.loads(line), "seen": None} for line in rows.read_text("utf-8").splitlines()]
    unseen.write_text("\n".join(json.dumps(row) for row in kept), "utf-8")
    with pytest.raises(Ad2Error, match="do not say what the pictures show"):
        train([unseen], tmp_path / "model", replace(SETTINGS, see=5), say=lambda text: None)
    assert not (tmp_path / "model").exists()
    train([unseen], tmp_path / "other", replace(SETTINGS, steps=1), say=lambda text: None)


def test_the_order_depends_on_the_seed_only(rows: Path, trained: Path, tmp_path: Path) -> None:
    _, processor = load_llava(trained)
    data = EncodedRows(TrainingFile.read([rows]), processor, tmp_path / "pictures.npy")

    def first(seed: int, most: int = 2) -> list[Any]:
        order = data.order(4, seed, most)
        return [next(order) for _ in range(6)]

    assert first(0) == first(0) != first(1)
    epoch = [group for batch in first(0)[: len(data) // 4] for group, _ in batch]
    assert sorted(epoch) == list(range(len(data)))
    assert all(turns == [0] for batch in first(0, most=1) for _, turns in batch)  # a driving one


def test_the_rate_rises_and_falls() -> None:
    rates = [scheduled(step, 100, 0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] < 0.001


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_killed_training_continues_to_the_same_weights(rows: Path, trained: Path, tmp_path: Path) -> None:
    """The process dies without any clean-up while it trains, with a saved state of an earlier step."""
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)

        def die(text: str) -> None:
            if text.startswith("step") and last_checkpoint(tmp_path / "model" / "state"):
                os.kill(os.getpid(), 9)

        try:
            import closedloop_plugin.learn.row_trainer as module

            module.REPORT_S = 0.0
            train([rows], tmp_path / "model", SETTINGS, save_s=0.0, say=die)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    said: list[str] = []
    train([rows], tmp_path / "model", SETTINGS, say=said.append)
    assert said[0] == f"16 pictures, {SETTINGS.steps} steps of 8; from step 1"
    assert weights(tmp_path / "model") == weights(trained)
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == sorted(p.name for p in trained.iterdir())
    assert not list(trained.glob("*.pt"))


def test_two_processes_take_the_steps_of_one(rows: Path, tmp_path: Path) -> None:
    """The mean of the parts' gradients is that of the batch. An odd batch is divided unequally."""
    settings = replace(SETTINGS, see=2, steps=3, batch=5, jitter=0.0, shift=0)
    files = {n: train([rows], tmp_path / str(n), settings, processes=n, say=quiet) for n in (1, 2)}
    one, two = (load_file(folder / "model.safetensors") for folder in files.values())
    assert all(torch.allclose(one[name], two[name], atol=1e-3) for name in one)
    logs = [json.loads((folder / "training.json").read_text("utf-8"))["log"] for folder in files.values()]
    assert [step for step, _ in logs[0]] == [step for step, _ in logs[1]] == [2, 5]
    assert [loss for _, loss in logs[0]] == pytest.approx([loss for _, loss in logs[1]], rel=1e-3)


def test_a_process_that_ends_ends_the_training(rows: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "model", replace(SETTINGS, see=2, steps=1)
    with pytest.raises(Ad2Error, match=r"a process of the training ended .*; the same command resumes"):
        train([rows], out, settings, processes=2, save_s=0.0, say=die)
    assert last_checkpoint(out / "state") == out / "state" / "checkpoint-1"
    train([rows], out, settings, processes=2, say=quiet)


def test_an_error_of_a_process_is_one_line(rows: Path, tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"^step \d diverges \(loss .*\); try a lower --config rate$"):
        train([rows], tmp_path / "model", replace(SETTINGS, rate=1e30), processes=2, say=quiet)


def test_a_finished_training_is_left_alone_and_another_is_refused(rows: Path, trained: Path) -> None:
    before, said = weights(trained), []
    train([rows], trained, SETTINGS, say=said.append)
    assert said == [f"{trained} is trained already"]
    with pytest.raises(Ad2Error, match="seed"):
        train([rows], trained, replace(SETTINGS, seed=1))
    assert weights(trained) == before


def test_the_model_names_its_training_data(rows: Path, trained: Path, tmp_path: Path) -> None:
    (named,) = read_card(trained / "ad2_training.json").sets
    assert [route.id for route in named.routes] == ["m0-000001"] and named.images
    unnamed = tmp_path / "rows.jsonl"
    unnamed.write_bytes(rows.read_bytes())
    said: list[str] = []
    model = train([unnamed], tmp_path / "model", replace(SETTINGS, steps=1), say=said.append)
    assert not (model / "ad2_training.json").exists()
    assert any("rows.training.json is missing" in text for text in said)


def test_training_continues_from_a_model(rows: Path, trained: Path, tmp_path: Path) -> None:
    out = train([rows], tmp_path / "more", replace(SETTINGS, start=trained, steps=1), say=lambda text: None)
    assert weights(out) != weights(trained)
    assert (out / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_the_trained_model_sees_and_answers_under_lmms_eval(rows: Path, trained: Path) -> None:
    backend = LmmsModel.from_spec(f"llava_hf,pretrained={trained},device=cpu,device_map=cpu,max_new_tokens=8")
    prompt = TrainingFile.read([rows]).groups[0].turns[0].prompt
    pictures = {"red": (200, 30, 30), "green": (30, 200, 30)}
    asked = [
        ModelQuestion(name, prompt, (np.full((36, 64, 3), colour, np.uint8),)) for name, colour in pictures.items()
    ]
    replies = backend.ask(asked)
    assert {q.key: reply.text for q, reply in zip(asked, replies, strict=True)} == ACTIONS
    log = json.loads((trained / "training.json").read_text("utf-8"))
    assert log["steps"] == log["log"][-1][0] == SETTINGS.steps


def test_a_sampled_answer_depends_on_its_decision_alone(rows: Path, trained: Path) -> None:
    """Not on the number of the request in its call, nor on what was asked before."""
    spec = f"llava_hf,pretrained={trained},device=cpu,device_map=cpu,max_new_tokens=4,temperature=9"
    prompt, grey = TrainingFile.read([rows]).groups[0].turns[0].prompt, np.full((36, 64, 3), 90, np.uint8)
    backend = LmmsModel.from_spec(spec)

    def said(ticks: list[int]) -> dict[int, str]:
        asked = [ModelQuestion(f"{n}|e|{tick}|action", prompt, (grey,)) for n, tick in enumerate(ticks)]
        return {tick: reply.text for tick, reply in zip(ticks, backend.ask(asked), strict=True)}

    first = said([0, 5, 10, 15])
    assert len(set(first.values())) > 1
    assert said([15]) | said([10, 0]) | said([5]) == first


def test_pictures_move_aside_and_their_edges_are_repeated(trained: Path) -> None:
    _, processor = load_llava(trained)
    columns = np.broadcast_to(np.arange(64, dtype=np.uint8) * 4, (20, 3, 32, 64))
    moved = pixels_of(torch.from_numpy(columns.copy()), processor, shift=3).numpy()
    known = (moved * 0.25 + 0.45) * 255 / 4
    found = {round(float(picture[0, 5, 30] - 30)) for picture in known}
    assert found == {-3, -2, -1, 0, 1, 2, 3}
    for picture in known:
        by = round(float(picture[0, 5, 30] - 30))
        assert np.allclose(picture, np.clip(np.arange(64) + by, 0, 63), atol=1e-3)


def test_a_blind_twin_answers_the_same_to_all_pictures(rows: Path, tmp_path: Path) -> None:
    """It is black for the trainer and for lmms-eval's wrapper: pixels of a white picture are those of a black one."""
    blind = train([rows], tmp_path / "blind", replace(SETTINGS, steps=2, blind=True), say=lambda text: None)
    _, processor = load_llava(blind)
    white, black = (np.full((3, 32, 64), value, np.uint8) for value in (255, 0))
    seen = [processor.image_processor(picture, return_tensors="np")["pixel_values"][0] for picture in (white, black)]
    trained = pixels_of(torch.from_numpy(np.stack([white, black])), processor, jitter=0.5, shift=3)
    for pixels in (*seen, *trained.numpy()):
        assert np.allclose(pixels, (0.0 - 0.45) / 0.25, atol=1e-3)


def test_commands_name_mistakes(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*words: str) -> str:
        assert main(list(words)) == 2
        return capsys.readouterr().err

    some = ("--rows", str(rows), "--out", str(tmp_path / "m"))
    assert "multiples of 32" in fails("learn", "train", *some, "--config", "picture=160x90")
    absent = ("--rows", str(tmp_path / "no.jsonl"), "--out", str(tmp_path / "m"))
    assert "ad2 export swift" in fails("learn", "train", *absent) and not (tmp_path / "m").exists()
    assert "multiple of 32" in fails("learn", "train", *some, "--steps", "0", "--config", "hidden=100")
    start = fails("learn", "train", *some, "--start", str(tmp_path), "--config", "hidden=256", "--config", "layers=2")
    assert "--config hidden=256 --config layers=2 would have no effect" in start
    assert "ad2 drive collect" in fails(
        "export", "swift", "--drives", str(tmp_path), "--out", str(tmp_path / "r.jsonl")
    )
