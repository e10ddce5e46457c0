"""Custom prompt texts: used, hashed, and checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.coda_checkout import QUESTIONS, write_checkout
from support.prompt_records import ad2, choice, coda

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Answer
from lmms_eval_ad2.parsing import parse
from lmms_eval_ad2.prompts.prompt_set import SLOTS, PromptSet, PromptTable
from lmms_eval_ad2.prompts.text import build

TWO_SLOTS = {"ask": ("question", "view"), "end": ("", "")}


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    path = tmp_path / "packaged.yaml"
    path.write_text("ask: 'See {question}'\nend: Done.\n")
    return path


def test_custom_texts_replace_packaged_ones_and_values_are_inserted_unchanged(packaged: Path, tmp_path: Path) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text("ask: 'In {view}: {question}'\n")
    plain, changed = (
        PromptTable.overlaid(packaged, None, TWO_SLOTS),
        PromptTable.overlaid(packaged, custom, TWO_SLOTS),
    )
    assert (plain.source, changed.source) == ("packaged", str(custom))
    assert plain.sha256 != changed.sha256
    assert plain.fill("ask", question="{end} {0.__class__}") == "See {end} {0.__class__}"
    assert changed.fill("ask", question="q", view="v") == "In v: q"
    assert changed.fill("end") == "Done."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "valid YAML"), ("- ask", "a mapping"), ("ask: 3", "a text"), ("ask: x", "{question}"),
        ("aks: '{question}'", "Did you mean 'ask'"), ("other: x", "It belongs into a file of others"),
        ("end: '{view}'", "only no placeholder"),
    ],
)  # fmt: skip
def test_invalid_table_is_refused_in_one_line(packaged: Path, tmp_path: Path, text: str, says: str) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text(text)
    with pytest.raises(DataError) as caught:
        PromptTable.overlaid(packaged, custom, TWO_SLOTS, {"other": "It belongs into a file of others."})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_whole_numbers_within_bounds_are_kept_apart_from_the_texts(packaged: Path, tmp_path: Path) -> None:
    custom = tmp_path / "own.yaml"
    custom.write_text("views: 3\n")
    found = PromptTable.overlaid(packaged, custom, TWO_SLOTS, bounds={"views": (1, 4)})
    plain = PromptTable.overlaid(packaged, None, TWO_SLOTS, bounds={"views": (1, 4)})
    assert (found.numbers, plain.numbers, found.texts) == ({"views": 3}, {}, plain.texts)
    assert found.sha256 != plain.sha256 == PromptTable.overlaid(packaged, None, TWO_SLOTS).sha256
    for text in ("views: 5", "views: 1.0", "views: '2'", "views: true"):
        custom.write_text(text)
        with pytest.raises(DataError, match="a whole number from 1 to 4"):
            PromptTable.overlaid(packaged, custom, TWO_SLOTS, bounds={"views": (1, 4)})


def test_unreadable_file_is_refused(packaged: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a readable UTF-8 YAML file"):
        PromptTable.overlaid(packaged, tmp_path / "none.yaml", TWO_SLOTS)


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_custom_text_is_used_and_changes_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PromptSet.load()
    assert plain.source == "packaged"
    path = write(tmp_path, 'en:\n  vqa: "Q: {question} {{json}}"\n')
    custom = PromptSet.load(path)
    assert build(ad2(), prompts=custom) == "Q: What stands at the kerb? {json}"
    assert build(ad2("count"), prompts=custom) == build(ad2("count"), prompts=plain)
    assert custom.sha256 != plain.sha256
    assert custom.source == str(path)
    monkeypatch.setenv("AD2_PROMPTS", str(path))
    assert PromptSet.load().sha256 == custom.sha256


def test_custom_chinese_coda_prompt(tmp_path: Path) -> None:
    custom = PromptSet.load(write(tmp_path, "zh:\n  coda_general: 请描述。\n"))
    assert build(coda("general"), lang="zh", prompts=custom) == "请描述。"
    assert build(coda("general"), lang="en", prompts=custom) != "请描述。"


def test_edited_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, 'en:\n  vqa: "one {question}"\n')
    first = PromptSet.load(path)
    path.write_text('en:\n  vqa: "two {question}"\n', encoding="utf-8")
    os.utime(path, ns=(1, 1))
    assert PromptSet.load(path).sha256 != first.sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("en:\n  vqqa: hello {question}\n", ["en.vqqa", "Did you mean 'vqa'?"]),
        ("en:\n  mc: '{question}'\n", ["en.mc", "{options}"]),
        ("zh:\n  vqa: '{question} {qestion}'\n", ["zh.vqa", "Did you mean {question}?"]),
        ("en:\n  mark_box: 'see {n}'\n", ["en.mark_box", "only no placeholder"]),
        ("en:\n  vqa: 3\n", ["en.vqa", "a text"]),
        ("de:\n  vqa: '{question}'\n", ["'de'", "en, zh"]),
        ("- vqa\n", ["a mapping"]),
        ("en: [\n", ["valid YAML"]),
    ],
)
def test_faults_are_reported_with_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError) as fault:
        PromptSet.load(path)
    for word in [str(path), *words]:
        assert word in str(fault.value)


def test_missing_and_undecodable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="AD2_PROMPTS"):
        PromptSet.load(tmp_path / "no.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"en:\n  vqa: \xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        PromptSet.load(tmp_path / "bad.yaml")


def test_every_slot_belongs_to_a_packaged_text() -> None:
    assert set(SLOTS) - {"coda_region_coords"} == set(SLOTS) & set(PromptSet.load().texts["en"])
    assert set(PromptSet.load().texts["zh"]) <= set(PromptSet.load().texts["en"])


@given(st.text(alphabet=st.sampled_from("{}questionfrap0._[]!:\\ "), max_size=40))
def test_placeholders_in_values_are_not_filled(value: str) -> None:
    packaged = PromptSet.load()
    assert packaged.fill("chain_step", "en", i=1, name=value, question=value) == f"Step 1 ({value}): {value}"


def test_official_questions_are_the_whole_prompts_of_coda_lm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = PromptSet.load()
    monkeypatch.setenv("AD2_PROMPTS", f"coda_lm:{write_checkout(tmp_path)}")
    prompts = PromptSet.load()
    for task, question in QUESTIONS.items():
        assert build(coda(task), prompts=prompts) == question
        assert build(coda(task), prompts=prompts, lang="zh") == question
    assert prompts.name == prompts.published == "official CODA-LM questions"
    assert prompts.sha256 != packaged.sha256
    assert prompts.texts["en"]["mc"] == packaged.texts["en"]["mc"]
    with pytest.raises(Ad2Error, match=r"c1: the question of official CODA-LM questions has no place"):
        build(coda("region"), prompts=prompts, coords=True)
    with pytest.raises(Ad2Error, match=r"c1: the question of official CODA-LM questions has no place"):
        build(coda("region"), prompts=prompts, mark="none")
    with pytest.raises(Ad2Error, match=r"nowhere is not a folder: name a checkout of CODA-LM, with convert2vqa.py"):
        PromptSet.load("coda_lm:nowhere")


def test_prompts_of_the_papers_word_by_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_PROMPTS", "paper")
    prompts = PromptSet.load()
    assert (prompts.source, prompts.name) == ("paper", "paper prompts")
    assert build(choice()) == (
        "What stands at the kerb? Here are the options below:\n"
        "(A) Car\n(B) Van\n(C) Bus\n(D) Tram\n(E) None fits\n(F) Absent\n"
        "Select the best answer to the above multiple-choice question based on the image.\n"
        "Please reply with the letter (A, B, C, D, E or F) corresponding to the correct option.\n"
        "The best answer is:"
    )
    assert build(ad2("box")) == (
        "What stands at the kerb? This task aims to identify the bounding box coordinates [min_x, min_y, max_x, max_y] "
        "of a specific object in an image, where (min_x, min_y) is the top-left corner and (max_x, max_y) is the "
        "bottom-right corner of the rectangle, with the output format specified as "
        "<OUTPUT START>[min_x, min_y, max_x, max_y]<OUTPUT END>. The answer is:"
    )
    region = (
        "Please describe the object inside the red rectangle in the image and explain why it affects ego car driving"
    )
    assert build(coda("region")) == build(coda("region"), lang="zh") == region
    assert build(coda("region"), coords=True) == (
        "Please provide a description for this object and explain why this object affects ego car driving: "
        "[0.100, 0.100, 0.500, 0.500]"
    )


def test_texts_that_the_papers_do_not_print_stay_ours() -> None:
    paper, ours = PromptSet.load("paper"), PromptSet.load()
    changed = {key for key, text in paper.texts["en"].items() if text != ours.texts["en"].get(key)}
    assert changed == {"mc", "box", "coda_region", "coda_region_coords"}
    assert paper.texts["zh"] == ours.texts["zh"] and paper.sha256 != ours.sha256
    assert build(ad2("box"), frame="thousand_yx", prompts=paper) == build(ad2("box"), frame="thousand_yx", prompts=ours)


def test_a_region_without_its_rectangle_is_not_asked_about_the_rectangle(tmp_path: Path) -> None:
    own = PromptSet.load(write(tmp_path, "en:\n  coda_region: What is in the red rectangle?\n"))
    for prompts in (PromptSet.load("paper"), own):
        for mark in ("none", "point"):
            with pytest.raises(Ad2Error, match=r"has no place for \{mark\}"):
                build(coda("region"), prompts=prompts, mark=mark)  # type: ignore[arg-type]
    with pytest.raises(Ad2Error, match=r"the question of mine.yaml has no place for \{mark\}"):
        build(coda("region"), prompts=own, coords=True)


def test_a_misspelt_name_of_prompts_is_reported_with_the_right_ones() -> None:
    with pytest.raises(DataError, match=r"a readable YAML file of prompts, 'paper' or coda_lm:CHECKOUT"):
        PromptSet.load("papers")


@pytest.mark.parametrize("reply", ["B", "(B)", "B.", "The best answer is: B", "The best answer is: (B) Van", "(B) Van"])
def test_letters_that_the_paper_asks_for_are_read(reply: str) -> None:
    record = choice()
    prompt = build(record, prompts=PromptSet.load("paper"))
    texts = {option.letter: option.text.en for option in record.options}
    for text in (reply, f"{prompt}\n{reply}"):  # some models repeat the prompt
        found = parse(text, "mc", letters=tuple(texts), options=texts, question=record.question.en)
        assert isinstance(found, Answer) and found.value == "B", found


@pytest.mark.parametrize(
    "reply",
    ["<OUTPUT START>[10, 20, 110, 220]<OUTPUT END>", "The answer is: <OUTPUT START>[10, 20, 110, 220]<OUTPUT END>"],
)
def test_boxes_that_the_paper_asks_for_are_read(reply: str) -> None:
    record = ad2("box")
    prompt = build(record, prompts=PromptSet.load("paper"))
    for text in (reply, f"{prompt} {reply}"):
        found = parse(text, "box", image_size=record.image_size, question=record.question.en)
        assert isinstance(found, Answer) and tuple(found.value) == (10, 20, 110, 220), found
