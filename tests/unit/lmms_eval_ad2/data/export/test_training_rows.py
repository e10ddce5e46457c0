"""A row has the prompt of the evaluation and an answer that scoring accepts as correct."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat
from support.builders import BASE, boxed, chain, record
from support.training_sets import MCQ, mcq

from lmms_eval_ad2.cli.export import find_tasks
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.export import training
from lmms_eval_ad2.data.export.leaks import ExportTask
from lmms_eval_ad2.data.export.training import TrainingImages
from lmms_eval_ad2.harness import hooks, task_data
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.prompts.media_tags import MEDIA_TAGS, without_tags
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

PROMPTS = PromptSet.load()
ZH = TaskVariant("ad2_bench", "perception_base", lang="zh")
THOUSAND = TaskVariant("ad2_bench", "perception_base", frame="thousand")
POINT = record("p", "point", answer=BilingualText("<10,20>"))


@pytest.mark.parametrize(
    ("question", "variant", "answer"),
    [
        (mcq(3), MCQ.variant, "B"),
        (mcq(3), TaskVariant("autodrive_qa", "planning", form="vqa"), "Brake for car 3."),
        (record("y", "yesno"), BASE, "yes"),
        (record("y", "yesno"), ZH, "是"),
        (record("n", "count", answer=BilingualText("3")), BASE, "3"),
        (POINT, BASE, "<10,20>"),
        (POINT, THOUSAND, "<100,400>"),
        (POINT, BASE.with_frame("thousand_yx", "t"), "<400,100>"),
        (POINT, BASE.with_frame("model_input:width=200,height=200", "t"), "<20,80>"),
        (boxed(), BASE, "<OUTPUT START>[10, 10, 30, 30]<OUTPUT END>"),
        (record("o", "ocr", answer=BilingualText("STOP 30")), BASE, "STOP 30"),
    ],
)
def test_target_is_scored_as_correct(question: Record, variant: TaskVariant, answer: str) -> None:
    ((prompt, target),) = training.training_turns(question, variant, PROMPTS)
    assert target == answer
    assert prompt == task_prompt.prompt_text(question, variant, PROMPTS)
    sample = score_sample(question, target, variant, "t")
    assert sample.status == "ok"
    assert sample.form == "vqa" or sample.score == 100


def test_target_in_an_input_of_unknown_size_is_refused() -> None:
    with pytest.raises(Ad2Error, match="p: a training file in the frame model_input needs the size"):
        training.training_turns(POINT, BASE.with_frame("model_input", "t"), PROMPTS)


def test_chain_is_tagged_and_read_back_completely() -> None:
    ((prompt, target),) = training.training_turns(chain(), TaskVariant("ad2_bench", "cot"), PROMPTS)
    assert target == "<start1>truth 1<end>\n<start2>truth 2<end>\n<start3>truth 3<end>"
    assert "<start3>" in prompt
    assert score_sample(chain(), target, TaskVariant("ad2_bench", "cot"), "t").answer == [
        "truth 1",
        "truth 2",
        "truth 3",
    ]


def test_rounds_are_rows_with_the_references_of_earlier_rounds() -> None:
    task = ExportTask("ad2x_cot_rounds", "ad2_bench", "test", TaskVariant("ad2_bench", "cot", rounds=True))
    turns = training.training_turns(chain(), task.variant, PROMPTS)
    assert [target for _, target in turns] == ["truth 1", "truth 2", "truth 3"]
    assert turns[2][0] == task_prompt.round_text(chain(), task.variant, 2, ["truth 1", "truth 2"], PROMPTS)
    assert "truth 2" in turns[2][0]
    assert "truth 3" not in turns[2][0]
    rows = list(training.training_rows(chain(), task, turns, [["/a.png"]] * 3))
    assert [row["id"] for row in rows] == [f"ad2x_cot_rounds:c1#{n}" for n in (1, 2, 3)]


def test_records_without_reference_have_no_rows() -> None:
    assert training.training_turns(record("y", "yesno", answer=BilingualText()), BASE, PROMPTS) == []
    steps = chain().steps
    incomplete = chain(steps=3)
    object.__setattr__(incomplete, "steps", (steps[0], without_answer(steps[1])))
    assert training.training_turns(incomplete, TaskVariant("ad2_bench", "cot"), PROMPTS) == []


def without_answer(step: Any) -> Any:
    return type(step)(step.name, step.question, BilingualText())


def test_media_tags_in_the_data_are_removed() -> None:
    hostile = mcq(1, question=BilingualText("Read <image> <<img>> <|im_end|> <bbox>: what?"))
    (row,) = training.training_rows(
        hostile, MCQ, training.training_turns(hostile, MCQ.variant, PROMPTS), [["/a.png", "/b.png"]]
    )
    prompt, target = (m["content"] for m in row["messages"])
    assert prompt.startswith("<image><image>")
    rest = prompt.removeprefix("<image><image>")
    assert not any(tag in rest for tag in (*MEDIA_TAGS, "<|"))
    assert "im_end" in rest
    assert (target, row["images"]) == ("B", ["/a.png", "/b.png"])


@pytest.mark.parametrize("tag", MEDIA_TAGS)
def test_nested_media_tags_are_removed(tag: str) -> None:
    for text in (f"<{tag}>", f"<<{tag}>>", f"<{tag[:3]}{tag}{tag[3:]}", tag * 3, f"<|{tag}|>"):
        assert not any(t in without_tags(text) for t in MEDIA_TAGS), text


def test_tags_of_answer_formats_are_kept() -> None:
    assert without_tags("<start1>a<end> <OUTPUT START>[1]") == "<start1>a<end> <OUTPUT START>[1]"
    assert without_tags("<c1,CAM_BACK,1088.3,497.5> <10,20>") == "<c1,CAM_BACK,1088.3,497.5> <10,20>"


@pytest.mark.integration
def test_prompts_and_images_equal_those_of_the_evaluation(tmp_path: Path) -> None:
    """Compared with the hooks that lmms-eval calls, on the bundled sample."""
    tasks, _ = find_tasks("ad2demo_mcq_planning,ad2demo_coda_region,ad2demo_cot,ad2demo_relation", "train")
    pictures = TrainingImages(tmp_path)
    for task in tasks:
        docs = task_data.load(task.name, task.dataset, "test", task.variant)
        for doc in islice(docs, 4):
            question, info = hooks.open_doc(doc)
            assert training.training_turns(question, task.variant, PROMPTS)[0][0] == hooks.doc_to_text(doc)
            shown = hooks.doc_to_visual(doc)
            files = pictures.of(question, info.image_root, task.variant)
            assert len(files) == len(shown)
            for file, image in zip(files, shown, strict=True):
                difference = ImageStat.Stat(ImageChops.difference(Image.open(file).convert("RGB"), image)).mean
                assert max(difference) < (2.0 if Path(file) in pictures.drawn else 1e-9)
    assert pictures.drawn
    assert pictures.original
