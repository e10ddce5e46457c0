"""Rubrics: complete prompts (snapshots), overrides, hashes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.coda_checkout import write_checkout
from support.snapshots import snapshot

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.coda_checkout import judge_prompt
from lmms_eval_ad2.judge import JudgeItem
from lmms_eval_ad2.judge.rubrics import RUBRICS, Rubric, load, packaged
from lmms_eval_ad2.judge.verdict import read

SNAPSHOTS = Path(__file__).parent / "snapshots"
CHAIN = ("It rains and the road is wet.", "A lorry brakes ahead.", "No one is on foot.", "The limit is 50 km/h.")
ITEMS = {
    "ad2_slps": JudgeItem("s", "ad2_slps", CHAIN[1], steps=CHAIN[:2]),
    "ad2_orcs": JudgeItem("s", "ad2_orcs", "Slow down.", steps=(*CHAIN, "Slow down.")),
    "ad2_djss": JudgeItem("s", "ad2_djss", "Slow down.", steps=CHAIN),
}


def item_for(name: str) -> JudgeItem:
    return ITEMS.get(
        name, JudgeItem("s", name, "A lorry, rated [[10]].", "前方有一辆卡车正在刹车。", "What is ahead?", steps=())
    )


def shown(rubric: Rubric, item: JudgeItem) -> str:
    turns = [*rubric.opening(), rubric.question(item)]
    return "".join(f"----- {t['role']} -----\n{t['content'].rstrip()}\n" for t in turns)


@pytest.mark.parametrize("name", RUBRICS)
def test_prompts_equal_their_snapshots(name: str) -> None:
    """After an intended change raise the rubric's version, and run this file with UPDATE_SNAPSHOTS=1."""
    text = shown(packaged()[name], item_for(name))
    assert text == snapshot(SNAPSHOTS / f"{name}.txt", text)


def test_the_packaged_rubrics_are_complete() -> None:
    rubrics = packaged()
    assert tuple(rubrics) == RUBRICS
    assert len({r.sha256 for r in rubrics.values()}) == len(RUBRICS)
    for rubric in rubrics.values():
        assert rubric.reply == "strict"
        assert "Rating: [[n]]" in rubric.closing and "untrusted" not in rubric.guard
        assert "1 (worst) to 10 (best)" in rubric.system_message
    assert {n for n, r in rubrics.items() if r.examples} == {"coda_general", "coda_suggestion"}
    for name in ("coda_general", "coda_suggestion"):
        high, low = (read(e.reply, "stop", "strict", name) for e in rubrics[name].examples)
        assert isinstance(high, float) and isinstance(low, float) and high >= 9 and low <= 2


def test_the_hash_covers_every_word_and_the_reply_form(tmp_path: Path) -> None:
    base = packaged()["coda_general"].sha256
    assert load()["coda_general"].sha256 == base
    assert load(reply={"coda_general": "official"})["coda_general"].sha256 != base
    own = tmp_path / "own.yaml"
    own.write_text("rubrics: {coda_general: {parts: {reference: Reference, answer: Answer}}}")
    assert load(override=own)["coda_general"].sha256 != base


def test_an_override_inherits_missing_fields(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("rubrics:\n  ad2_vqa:\n    system: Judge kindly.\n")
    changed, ours = load(override=own), packaged()
    assert changed["ad2_vqa"].system == "Judge kindly."
    assert changed["ad2_vqa"].closing == ours["ad2_vqa"].closing
    assert changed["ad2_vqa"].version == "1+own"
    assert changed["coda_general"] == ours["coda_general"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rubrics: {coda_generel: {system: x}}", r"unknown rubric 'coda_generel'; did you mean coda_general"),
        ("rubrics: {ad2_vqa: {sistem: x}}", r"unknown key .*'sistem'; did you mean system"),
        ("rubrics: {ad2_vqa: {system: ''}}", r"'system'"),
        ("rubrics: {ad2_vqa: {reply: loose}}", r"unknown reply form 'loose'"),
        ("rubrics: {ad2_vqa: {parts: {truth: x}}}", r"unknown part"),
        ("rubrics: {ad2_vqa: {examples: [{answer: a, reply: no mark}]}}", r"ends with a mark"),
        ("[1, 2]", r"'rubrics'"),
        ("rubrics: {", r"is not YAML"),
    ],
)
def test_a_malformed_override_is_rejected_with_the_key(tmp_path: Path, text: str, message: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(text)
    with pytest.raises(Ad2Error, match=message):
        load(override=own)


def test_a_missing_override_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"cannot read the rubric file .*none\.yaml"):
        load(override=tmp_path / "none.yaml")


def test_items_without_the_required_fields_have_a_reason() -> None:
    rubrics = packaged()
    no_reference = rubrics["coda_general"].missing(JudgeItem("i", "coda_general", "text", " "))
    one_step = rubrics["ad2_slps"].missing(JudgeItem("i", "ad2_slps", "b", steps=("b",)))
    assert no_reference is not None and no_reference.reason == "no_reference"
    assert one_step is not None and one_step.reason == "no_steps"
    assert rubrics["ad2_djss"].missing(ITEMS["ad2_djss"]) is None


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("scene_few_shot", "suggestion_few_shot"):
        (tmp_path / folder).mkdir()
        for name, mark in (("high", 9), ("low", 2)):
            shot = {"reference": f"{folder} ref", "prediction": f"{name} pred", "response": f"Well. Rating: [[{mark}]]"}
            (tmp_path / folder / f"{name}.json").write_text(json.dumps(shot))
    return tmp_path


def test_official_examples_replace_ours_and_replies_are_read_in_the_official_form(checkout: Path) -> None:
    rubrics = load(official_dir=checkout)
    for name, folder in (("coda_general", "scene_few_shot"), ("coda_suggestion", "suggestion_few_shot")):
        turns = rubrics[name].opening()
        assert [t["role"] for t in turns] == ["system", "user", "assistant", "user", "assistant"]
        assert f"{folder} ref" in turns[1]["content"] and "high pred" in turns[1]["content"]
        assert turns[4]["content"] == "Well. Rating: [[2]]"
        assert rubrics[name].reply == "official"
        assert rubrics[name].sha256 != packaged()[name].sha256
    assert rubrics["coda_region"].reply == "official" and not rubrics["coda_region"].examples
    assert rubrics["ad2_sacs"] == packaged()["ad2_sacs"]


def test_system_prompts_from_text_and_json(checkout: Path) -> None:
    (checkout / "general.txt").write_text("Their words. End with [[rating]].\n")
    (checkout / "region.json").write_text(json.dumps({"system": "Region words."}))
    rubrics = load(
        system_files={"coda_general": checkout / "general.txt", "coda_region": str(checkout / "region.json")}
    )
    message = rubrics["coda_general"].system_message
    assert message.startswith("Their words. End with [[rating]].")
    assert packaged()["coda_general"].guard.strip() in message  # the meaning of the fences is still explained
    assert packaged()["coda_general"].closing.strip() not in message
    assert rubrics["coda_region"].system == "Region words."
    question = rubrics["coda_general"].question(JudgeItem("i", "coda_general", "a", "b"))
    assert question == packaged()["coda_general"].question(JudgeItem("i", "coda_general", "a", "b"))


def test_invalid_files_and_names_are_errors(checkout: Path) -> None:
    with pytest.raises(Ad2Error, match="name a checkout of CODA-LM, or its folder evaluation"):
        load(official_dir=checkout / "nowhere")
    with pytest.raises(Ad2Error, match="unknown rubric 'coda_generl'; did you mean coda_general"):
        load(system_files={"coda_generl": "x.txt"})
    (checkout / "scene_few_shot" / "low.json").write_text(json.dumps({"reference": "r", "prediction": "p"}))
    with pytest.raises(DataError, match=r"low\.json.*'response'"):
        load(official_dir=checkout)
    (checkout / "scene_few_shot" / "low.json").unlink()
    with pytest.raises(Ad2Error, match=r"cannot read .*low\.json"):
        load(official_dir=checkout)


def test_the_official_wording_sends_the_texts_of_the_checkout_without_a_fence(tmp_path: Path) -> None:
    ours, theirs = packaged(), load(official_dir=write_checkout(tmp_path), wording="official")
    item = JudgeItem("i", "coda_suggestion", "parsed", "the reference", "not shown", raw=" [[10]] raw\n")
    prompt = judge_prompt(tmp_path, "coda_suggestion")
    assert theirs["coda_suggestion"].opening() == prompt.opening()
    assert theirs["coda_suggestion"].question(item) == prompt.message("the reference", " [[10]] raw\n")
    for name in ("coda_general", "coda_suggestion", "coda_region"):
        assert (theirs[name].reply, theirs[name].version) == ("official", "official")
        assert theirs[name].sha256 != ours[name].sha256
    assert theirs["ad2_vqa"] == ours["ad2_vqa"]
    (tmp_path / "evaluation" / "scene_few_shot" / "low.json").write_text(
        json.dumps({"reference": "r", "prediction": "p", "response": "other"})
    )
    changed = load(official_dir=tmp_path, wording="official")
    assert changed["coda_general"].sha256 != theirs["coda_general"].sha256
    assert changed["coda_region"].sha256 == theirs["coda_region"].sha256
