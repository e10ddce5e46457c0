"""`ad2 learn check`: what SET and SUITE may be, what is printed, exit codes."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import pytest
from support.training_sets import MCQ, mcq, picture, store

from closedloop_plugin.cli.learn import check
from closedloop_plugin.learn.training_set import collection_set, read_training, write_collection_set
from closedloop_plugin.scenarios.suites.lookup import DEMO
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.export.training import ExportSettings, export
from lmms_eval_ad2.storage.training_card import write_card


def learn_check(*words: object) -> int:
    parser = argparse.ArgumentParser()
    check.register(parser.add_subparsers(required=True))
    args = parser.parse_args(["check", *map(str, words)])
    return int(args.func(args))


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Two routes of the demo under other ids, with a question and two frames, one of them asked about."""
    folder = tmp_path / "collected"
    for key in ("m0-1_rep0", "m0-2_rep0"):
        (folder / "frames" / key).mkdir(parents=True)
    text = DEMO.read_text("utf-8")
    routes = re.findall(r"<route id=.*?</route>", text, re.DOTALL)[:2]
    copied = "".join(r.replace('id="101"', 'id="m0-1"').replace('id="102"', 'id="m0-2"') for r in routes)
    (folder / "routes.xml").write_text(f"<routes>{copied}</routes>", "utf-8")
    for number in (1, 2):
        picture(folder / f"frames/m0-1_rep0/front_0000{number}.png", number, tint=77)
    record = mcq(1, id="w1", benchmark="ad2_world", images=("frames/m0-1_rep0/front_00001.png",), cluster="m0-1_rep0")
    (folder / "questions.jsonl").write_text(record.to_json() + "\n", "utf-8")
    return folder


def test_the_set_of_a_collection_folder(collection: Path) -> None:
    found = collection_set(collection)
    assert [route.id for route in found.routes] == ["m0-1", "m0-2"] and found.name == "collected"
    assert (found.questions, found.scenes) == (("ad2_world:w1",), ("ad2_world:m0-1_rep0",))
    assert len(found.images) == 2 and found.image_names == ()
    assert read_training(write_collection_set(collection)).sets[0].routes == found.routes
    (collection / "training_set.json").unlink()
    (collection / "questions.jsonl").write_text("{}\n")
    with pytest.raises(Ad2Error, match=r"questions.jsonl, row 1"):
        collection_set(collection)


def test_every_form_of_a_set_is_compared_with_routes(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    card = write_card(tmp_path / "model", [collection_set(collection)], model="tiny")
    for form in (collection, write_collection_set(collection), tmp_path / "model", card):
        assert learn_check(form, "demo") == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{form}: trained on 2 of these 6 routes (same_geometry 2) of demo"
        assert lines[1] == "  same_geometry: 101 is in collected as m0-1, 100 % of the shorter one"


def test_questions_that_are_newer_than_the_set_are_compared(
    collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ad2 drive collect writes training_set.json, then ad2 drive label the questions."""
    name = "frames/m0-1_rep0/front_00001.png"
    (tmp_path / "test").mkdir()
    shutil.copy(collection / name, tmp_path / "test" / "7.png")
    store("autodrive_qa", "test", [mcq(7), mcq(8)], tmp_path / "test")
    (collection / "questions.jsonl").unlink()
    written = write_collection_set(collection)
    assert learn_check(collection, "autodrive_qa") == 1
    assert "(same_image 1)" in capsys.readouterr().out
    record = mcq(7, id="w7", benchmark="ad2_world", images=(name,), cluster="m0-1_rep0")
    (collection / "questions.jsonl").write_text(record.to_json() + "\n", "utf-8")
    assert learn_check(collection, "autodrive_qa") == 1
    assert "(same_question 1)" in capsys.readouterr().out
    shared = tmp_path / "without_pictures"
    shared.mkdir()
    for file in (written, collection / "routes.xml"):
        shutil.copy(file, shared)
    assert [route.id for route in read_training(shared).sets[0].routes] == ["m0-1", "m0-2"]


def test_clean_routes_and_json(collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.xml"
    last = re.findall(r"<route id=.*?</route>", DEMO.read_text("utf-8"), re.DOTALL)[-1]
    other.write_text(f"<routes>{last}</routes>", "utf-8")
    assert learn_check(collection, other) == 0
    assert capsys.readouterr().out == f"{collection}: none of the 1 routes of {other} is in it\n"
    assert learn_check(collection, "demo", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["routes"] == 6 and found["kinds"] == {"same_geometry": 2}
    assert found["leaks"][0]["route"] == "101" and found["leaks"][0]["trained"] == "m0-1"


def test_exports_are_compared_with_tasks_and_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store("autodrive_qa", "train", [mcq(1), mcq(2)], tmp_path / "train")
    store("autodrive_qa", "test", [mcq(7, id="x"), mcq(8), mcq(9, task="perception")], tmp_path / "test")
    out = tmp_path / "t.jsonl"
    export([MCQ], {}, ExportSettings(out=out))
    for words in ((out, "autodrive_qa"), (tmp_path / "t.card.json", "autodrive_qa/test")):
        assert learn_check(*words) == 0
        assert "none of the 3 questions of autodrive_qa/test is in it" in capsys.readouterr().out
    assert learn_check(out, "autodrive_qa/train") == 1
    assert "of these 2 questions of autodrive_qa/train (same_item 2)" in capsys.readouterr().out
    shutil.copy(tmp_path / "train" / "2.png", tmp_path / "test" / "8.png")
    assert learn_check(out, "ad2_mcq_planning") == 1
    printed = capsys.readouterr().out
    assert printed.splitlines() == [
        f"{out}: trained on 1 of these 2 questions of autodrive_qa/test (same_image 1)",
        f"  same_image: q8 is in t as {printed.split(' as ')[1].split(' ')[0]} (8.png)",
    ]
    out.write_text(out.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(Ad2Error, match=r"t\.jsonl is not the file that .*t\.card\.json describes"):
        learn_check(out, "ad2_mcq_planning")
    (tmp_path / "t.training.json").unlink()
    with pytest.raises(Ad2Error, match=r"t\.training\.json is missing"):
        learn_check(out, "ad2_mcq_planning")


def test_sides_that_cannot_be_compared_are_errors(collection: Path, tmp_path: Path) -> None:
    store("autodrive_qa", "test", [mcq(7)], tmp_path / "test")
    routes_only = tmp_path / "routes_only"
    routes_only.mkdir()
    shutil.copy(collection / "routes.xml", routes_only)
    with pytest.raises(Ad2Error, match="name no questions"):
        learn_check(routes_only, "autodrive_qa")
    with pytest.raises(Ad2Error, match=r"^SUITE nothing_of_this_name: no such suite"):
        learn_check(collection, "nothing_of_this_name")
    with pytest.raises(Ad2Error, match="no such file or folder"):
        learn_check(tmp_path / "absent", "demo")
    with pytest.raises(Ad2Error, match=r"no routes\.xml"):
        learn_check(tmp_path, "demo")
