"""Rubrics from the prompt files of a CODA-LM checkout; the tests write files of their format with other texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.coda_checkout import write_checkout

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.coda_checkout import judge_prompt
from lmms_eval_ad2.judge import JudgeItem
from lmms_eval_ad2.judge.rubric_files import load
from lmms_eval_ad2.judge.rubrics import packaged


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
