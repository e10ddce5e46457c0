"""Planted copies of evaluated questions are found in training sets, and questions that only resemble them are not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.training_sets import MCQ, mcq, picture, store

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.export.leaks import TrainedQuestions, TrainingSetBuilder, compared, trained_share
from lmms_eval_ad2.data.export.training import ExportSettings, export, set_path
from lmms_eval_ad2.storage.training_card import TrainingSet, read_card

NAME = "n015-2018-07-18-11-07-57+0800__CAM_FRONT__1531883530412470"
Plant = Callable[[Record, Path, Path], Record]  # evaluated question, its folder, that of the training data


def own(root: Path, **changes: object) -> Record:
    """A question of the training data with its own picture, which no evaluated one has."""
    number = 500 + len(list(root.glob("*.png")))
    picture(root / f"{number}.png", number % 256, tint=200)
    return mcq(number, **{"id": f"t{number}", "cluster": f"drive {number}", **changes})


def _copied(record: Record, test: Path, train: Path) -> str:
    shutil.copy(test / record.images[0], train / f"copy_{record.images[0]}")
    return f"copy_{record.images[0]}"


PLANTED: dict[str, tuple[str, Plant]] = {
    "the question itself": ("same_item", lambda r, test, train: own(train, id=r.id)),
    "derived from it": (
        "same_item", lambda r, test, train: own(train, meta={"source": r.benchmark, "source_id": r.id}),
    ),
    "another id": (
        "same_question", lambda r, test, train: own(
            train, images=(_copied(r, test, train),), question=r.question, answer=r.answer, options=r.options),
    ),
    "its picture under another name": (
        "same_image", lambda r, test, train: own(train, images=(_copied(r, test, train),)),
    ),
    "its scene": ("same_scene", lambda r, test, train: own(train, cluster=r.cluster)),
}  # fmt: skip
CLEAN: dict[str, Plant] = {
    "the same words about another picture": lambda r, test, train: own(
        train, question=r.question, answer=r.answer, options=r.options
    ),
    "the same id in another benchmark": lambda r, test, train: own(train, id=r.id, benchmark="coda_lm"),
    "the same scene number in another benchmark": lambda r, test, train: own(
        train, cluster=r.cluster, benchmark="coda_lm"
    ),
    "the same short file name": lambda r, test, train: own(
        train, images=(picture(train / "other" / r.images[0], 99, 7).relative_to(train).as_posix(),)
    ),
    "a similar question": lambda r, test, train: own(train, question=BilingualText(r.question.en + " Why?")),
}


def training_set(records: list[Record], root: Path) -> TrainingSet:
    builder = TrainingSetBuilder()
    for record in records:
        builder.add(record, root)
    return builder.build("made")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "train").mkdir()
    for number in range(8):
        picture(tmp_path / "test" / f"{number}.png", number)
    return tmp_path / "test", tmp_path / "train"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_question_is_found(name: str, roots: tuple[Path, Path]) -> None:
    test, train = roots
    kind, plant = PLANTED[name]
    evaluated = [mcq(number) for number in range(8)]
    for number in range(10):
        victim = evaluated[random.Random(f"{name} {number}").randrange(8)]
        trained = [own(train), own(train), plant(victim, test, train)]
        share = compared("autodrive_qa/test", evaluated, test, TrainedQuestions([training_set(trained, train)]))
        assert share.kinds == {kind: 1} and share.examples[0].startswith(f"{kind}: {victim.id} is in made as ")
        assert share.text() == f"trained on 1 of these 8 questions of autodrive_qa/test ({kind} 1)"


@pytest.mark.parametrize("name", CLEAN)
def test_a_similar_question_is_no_leak(name: str, roots: tuple[Path, Path]) -> None:
    test, train = roots
    evaluated = [mcq(number) for number in range(8)]
    for _ in range(10):
        trained = [CLEAN[name](record, test, train) for record in evaluated]
        share = compared("autodrive_qa/test", evaluated, test, TrainedQuestions([training_set(trained, train)]))
        assert not share.leaking, share.examples


def test_a_unique_name_is_found_without_its_file(roots: tuple[Path, Path]) -> None:
    test, train = roots
    trained = training_set([own(train, images=(f"samples/{NAME}.png",))], train)
    assert (trained.images, trained.image_names) == ((), (f"{NAME}.png",))
    index = TrainedQuestions([trained])
    assert not index.empty and TrainedQuestions([TrainingSet("none")]).empty
    leak = index.leak(mcq(1, images=(f"sweeps/{NAME}.png",)), test)
    assert leak is not None and (leak.kind, leak.held_id) == ("same_image", f"{NAME}.png")


def test_an_export_names_its_questions(tmp_path: Path) -> None:
    store("autodrive_qa", "train", [mcq(1), mcq(2)], tmp_path / "train")
    test = store("autodrive_qa", "test", [mcq(1, id="x", cluster="elsewhere"), mcq(3)], tmp_path / "test")
    card = export([MCQ], {}, ExportSettings(out=tmp_path / "t.jsonl"))
    assert card["training_set"]["file"] == "t.training.json"
    (named,) = read_card(set_path(tmp_path / "t.jsonl")).sets
    assert named.name == "t" and named.questions == ("autodrive_qa:q1", "autodrive_qa:q2")
    assert named.scenes == ("autodrive_qa:scene 1", "autodrive_qa:scene 2") and len(named.images) == 2
    assert not trained_share(test, TrainedQuestions([named])).leaking
    shutil.copy(tmp_path / "train" / "2.png", tmp_path / "test" / "3.png")
    assert trained_share(test, TrainedQuestions([named])).kinds == {"same_image": 1}
    assert trained_share(test, TrainedQuestions([named]), ["perception"]).n == 0


def test_a_name_of_several_lines_is_shown_in_one(roots: tuple[Path, Path]) -> None:
    named = TrainingSet("made\nad2: clean", questions=("autodrive_qa:q3", "autodrive_qa:q3\nx"))
    share = compared("autodrive_qa/test", [mcq(3)], roots[0], TrainedQuestions([named]))
    assert len(share.examples) == 1 and share.examples[0].startswith(r"same_item: q3 is in made\nad2: clean as ")
