"""Rows of collected frames: the prompts of a drive, the labels as answers, repetition of rare actions."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.driving_rows import ACTIONS, TRAJECTORY, collect, frame

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.prompts.texts import texts_of
from closedloop_plugin.learn.training_rows import BECAUSE, SOURCE
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record
from lmms_eval_ad2.data.export import drives
from lmms_eval_ad2.data.export.drives import DriveRowSettings, export_drives
from lmms_eval_ad2.data.export.training import card_path, check_row_file, set_path

PLAIN = DriveRowSettings(balance=0)
FRONT = Camera("front", 64, 36, fov=90.0, forward=0.0, right=0.0, up=1.5)


class SilentModel:
    name = "silent"

    def ask(self, questions: Any) -> list[Any]:
        raise AssertionError("not asked here")

    def describe(self) -> dict[str, Any]:
        return {}


def rows_of(folder: Path, settings: DriveRowSettings = PLAIN) -> list[dict[str, Any]]:
    return list(SOURCE.rows([folder], settings))


def answers(rows: list[dict[str, Any]]) -> list[str]:
    return [row["messages"][1]["content"] for row in rows]


def test_the_prompt_is_that_of_a_drive(tmp_path: Path) -> None:
    rows = rows_of(collect(tmp_path, ["red"]), DriveRowSettings(asked=("action", "trajectory"), balance=0))
    seen = frame(0, "red")
    observation = Observation(
        tick=0, time_s=0.0, speed=seen["speed"], command=RouteCommand.FOLLOW, target=(12.3, 0.8),
        images=lambda name: np.zeros((36, 64, 3), np.uint8), speed_limit=seen["speed_limit"],
    )  # fmt: skip
    for rules in ("bench2advlm", "bench2drive"):
        prompter = DrivingPrompts(texts_of(None), profile(rules))
        agent = ModelAgent(SilentModel(), prompter, (FRONT,), ("action", "trajectory"))
        asked = agent.questions([DecisionRequest("e", observation)])
        assert [row["messages"][0]["content"] for row in rows] == [f"<image>{question.text}" for question in asked]
    assert answers(rows) == [ACTIONS["red"], TRAJECTORY]
    (picture,) = rows[0]["images"]
    assert Path(picture).is_absolute()
    assert rows[0]["group"] == rows[1]["group"] == seen["id"]


def test_frames_of_rare_actions_are_repeated_as_groups(tmp_path: Path) -> None:
    folder = collect(tmp_path, [*["red"] * 16, "green"])
    assert Counter(answers(rows_of(folder))) == {ACTIONS["red"]: 16, ACTIONS["green"]: 1}
    rows = rows_of(folder, DriveRowSettings(balance=0.5))  # (16 / 1) ** 0.5
    assert Counter(answers(rows)) == {ACTIONS["red"]: 16, ACTIONS["green"]: 4}
    assert len({row["group"] for row in rows}) == len(rows)
    assert ["seen" in row for row in rows if row["messages"][1]["content"] == ACTIONS["green"]] == [True, *[False] * 3]
    assert len(rows_of(folder, DriveRowSettings(balance=1, repeat=8))) == 16 + 8


def test_standing_frames_are_a_class_of_their_own(tmp_path: Path) -> None:
    """Of 17 frames that say the same, the one of a standing car is rare."""
    folder = collect(tmp_path, ["green"] * 17)
    file = folder / "frames" / "m0-000001_rep0" / "frames.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lines[3]["speed"] = 0.1
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    groups = Counter(row["group"].partition("#")[0] for row in rows_of(folder, DriveRowSettings(balance=0.5)))
    assert groups == {line["id"]: 4 if line is lines[3] else 1 for line in lines}


def test_folders_are_written_as_often_as_asked(tmp_path: Path) -> None:
    first, second = collect(tmp_path / "a", ["red"] * 3), collect(tmp_path / "b", ["red"] * 2)
    rows = list(SOURCE.rows([first, second], DriveRowSettings(balance=0, times=(1, 3))))
    assert Counter(row["images"][0].startswith(str(second)) for row in rows) == {False: 3, True: 6}
    for times in ((1,), (1, 0)):
        with pytest.raises(Ad2Error, match="--config times: expected 2 numbers"):
            export_drives([first, second], tmp_path / "rows.jsonl", DriveRowSettings(times=times))


def test_rows_say_what_the_picture_shows(tmp_path: Path) -> None:
    rows = rows_of(collect(tmp_path, ["red", "green"]))
    assert [row["seen"] for row in rows] == [[[["vehicle", "own lane"], [0.375, 0.25, 0.625, 0.75], 8.0]], []]


def test_frames_whose_reason_is_not_shown_have_questions_only(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red", "red", "green"])
    file = folder / "frames" / "m0-000001_rep0" / "frames.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    lines[0]["objects"] = []  # the vehicle ahead is hidden
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    (folder / "questions.jsonl").write_text(question(1, 0).to_json() + "\n", "utf-8")
    rows = rows_of(folder, DriveRowSettings(balance=0, questions=1))
    assert answers(rows) == ["yes", ACTIONS["red"], ACTIONS["green"]]
    assert [row["seen"] == [] for row in rows] == [True, False, True]
    assert [row.get("kind") for row in rows] == [None, "driving", "driving"]
    assert SOURCE.card([folder])[str(folder)]["reason_not_shown"] == {"vehicle_ahead": 1}
    everything = rows_of(folder, DriveRowSettings(balance=0, unseen_reasons=True))
    assert answers(everything) == [ACTIONS["red"], ACTIONS["red"], ACTIONS["green"]]


def test_a_share_of_a_repetition_is_drawn(tmp_path: Path) -> None:
    """100 : 40 at balance 0.5 is 1.58 times: on average, and the same for the same seed."""
    folder = collect(tmp_path, [*["red"] * 100, *["green"] * 40])
    counts = [Counter(answers(rows_of(folder, DriveRowSettings(seed=seed))))[ACTIONS["green"]] for seed in (0, 0, 1)]
    assert counts[0] == counts[1]
    assert all(50 <= count <= 76 for count in counts)


def test_reasons_follow_the_manoeuvre(tmp_path: Path) -> None:
    (row,) = rows_of(collect(tmp_path, ["red"]), DriveRowSettings(reasons=True))
    assert answers([row]) == ["Brake and go straight, because of the vehicle ahead."]
    assert set(BECAUSE) == {
        "clear", "speed_limit", "curve", "red_light", "stop_sign", "vehicle_ahead", "yield", "actor", "passing",
        "blocked", "line_ahead",
    }  # fmt: skip


def question(number: int, tick: int) -> Record:
    image = f"frames/m0-000001_rep0/front_{tick:05d}.jpg"
    return Record(
        f"q{number}", "ad2_bench", "existence", "existence", "yesno", (image,),
        BilingualText(f"Is there a car {number}?"), BilingualText("yes"),
    )  # fmt: skip


def test_questions_of_a_frame_follow_its_action(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red", "green"])
    lines = [question(n, 0).to_json() for n in range(5)] + [question(9, 1).to_json()]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    rows = rows_of(folder, DriveRowSettings(balance=0, questions=2))
    kinds = [row["id"].partition(":")[0] for row in rows]
    assert kinds == ["action", "existence", "existence", "action", "existence"]
    assert "Is there a car 9?" in rows[-1]["messages"][0]["content"]
    assert answers(rows)[-1] == "yes"
    assert [row["group"] for row in rows] == ["m0-000001_rep0/0"] * 3 + ["m0-000001_rep0/1"] * 2


def test_a_repeated_frame_is_asked_something_else(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red", "green", "green", "green", "green"])
    lines = [question(n, 0).to_json() for n in range(40)]
    (folder / "questions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    rows = [r for r in rows_of(folder, DriveRowSettings(balance=0.5, questions=2)) if r["id"].startswith("existence")]
    asked = defaultdict(list)
    for row in rows:
        asked[row["group"]].append(row["messages"][0]["content"])
    assert sorted(asked) == ["m0-000001_rep0/0", "m0-000001_rep0/0#1"]  # (4 / 1) ** 0.5
    assert [len(set(texts)) for texts in asked.values()] == [2, 2]
    assert asked["m0-000001_rep0/0"] != asked["m0-000001_rep0/0#1"]


def test_questions_are_of_as_many_tasks_as_possible(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red"])
    rare = replace(question(100, 0), task="counting", form="count", answer=BilingualText("1"))
    (folder / "questions.jsonl").write_text(
        "\n".join(one.to_json() for one in [*(question(n, 0) for n in range(30)), rare]) + "\n", "utf-8"
    )
    for seed in range(5):
        rows = rows_of(folder, DriveRowSettings(balance=0, questions=2, seed=seed))
        assert sorted(row["id"].partition(":")[0] for row in rows) == ["action", "counting", "existence"]


def test_faults_name_what_to_do(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red"])
    with pytest.raises(Ad2Error, match="ad2 drive label"):
        rows_of(folder, DriveRowSettings(questions=1))
    file = folder / "frames" / "m0-000001_rep0" / "frames.jsonl"
    file.write_text('{"id": 1}\n', "utf-8")
    with pytest.raises(DataError, match=r"frames\.jsonl, row 1"):
        rows_of(folder)


ABSENT = object()
HUGE = 10**400
CAR = {"pixels": 9, "id": "1", "speed": 0, "shown": True, "box": [0, 0, 1, 1], "kind": "car", "lane": "own",
       "forward": 9.0, "left": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"label": ABSENT}, "label"), ({"label": "stop"}, "label"), ({"label": {}}, "label.action"),
        ({"label": {"action": "Stop."}}, "label.trajectory"),
        ({"label": {"action": "Stop.", "trajectory": TRAJECTORY}}, "label.reason"),
        ({"image": ABSENT}, "image"), ({"image": "/etc/passwd.jpg"}, "image"), ({"image": "../../../x.jpg"}, "image"),
        ({"image": ".."}, "image"), ({"image": "."}, "image"), ({"image": ""}, "image"),
        ({"image": "a\0.jpg"}, "image"), ({"image": "gone.jpg"}, "image"),
        ({"speed": ABSENT}, "frame"), ({"speed": "fast"}, "frame"),
        ({"target": [1]}, "frame"), ({"target": ["a", "b"]}, "frame"), ({"command": "fly"}, "frame"),
        ({"objects": [{"id": "1"}]}, "frame"), ({"signals": 3}, "frame"),
        ({"label": {"action": "Stop.", "trajectory": TRAJECTORY, "reason": {"kind": "curve"}}}, "frame"),
        ({"label": {"action": "Stop.", "trajectory": TRAJECTORY, "reason": {"kind": "why", "actor": None}}}, "frame"),
        ({"objects": [{**CAR, "forward": HUGE}]}, "frame"), ({"objects": [{**CAR, "box": [0, 0, 9999, 1]}]}, "frame"),
        ({"objects": [{**CAR, "box": [-1, 0, 5, 1]}]}, "frame"), ({"objects": [CAR] * 401}, "frame"),
        ({"label": {"action": "Stop.", "trajectory": TRAJECTORY, "reason": {"kind": "line_ahead", "actor": None}},
          "signals": [{"on_route": True, "control": "signal", "state": "red"}]}, "frame"),
    ],
)  # fmt: skip
def test_a_malformed_frame_is_one_error(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    folder = collect(tmp_path / "drives", ["green"])
    file = folder / "frames" / "m0-000001_rep0" / "frames.jsonl"
    (tmp_path / "x.jpg").write_bytes((file.parent / "front_00000.jpg").read_bytes())
    changed = {key: value for key, value in {**frame(0, "green"), **change}.items() if value is not ABSENT}
    file.write_text(json.dumps(changed) + "\n", "utf-8")
    with pytest.raises(DataError, match=rf"frames\.jsonl, row 1: field '{field}': expected") as caught:
        rows_of(folder, DriveRowSettings(reasons=True))
    assert "\n" not in str(caught.value)


def changed_question(**values: Any) -> str:
    return json.dumps({**json.loads(question(2, 0).to_json()), **values})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "field 'line': expected a question as one JSON object"),
        ("[" * 200_000, "nested more than 64 levels"),
        ('{"id": 3}', "field 'line'"),
        (json.dumps({**json.loads(Record("q", "b", "t", "t", "vqa", ("a.jpg",), BilingualText("Why?"),
                                         BilingualText("So.")).to_json()), "images": [3]}), "field 'images'"),
        (changed_question(cluster=None), "field 'cluster'"), (changed_question(views=[[]]), "field 'views'"),
        (changed_question(views=[{}]), "field 'views'"), (changed_question(cluster="\ud800"), "surrogates not allowed"),
        (changed_question(id="\ud800"), "surrogates not allowed"),
    ],
)  # fmt: skip
def test_a_malformed_question_is_one_error(tmp_path: Path, line: str, said: str) -> None:
    folder = collect(tmp_path, ["red"])
    (folder / "questions.jsonl").write_text(question(1, 0).to_json() + "\n" + line + "\n", "utf-8")
    for read in (lambda: rows_of(folder, DriveRowSettings(questions=1)), lambda: SOURCE.sets([folder])):
        with pytest.raises(DataError, match=r"questions\.jsonl, row 2") as caught:
            read()
        assert said in str(caught.value) and "ad2 drive label" in str(caught.value)


def test_a_refused_export_leaves_the_one_before(tmp_path: Path) -> None:
    folder, out = collect(tmp_path / "drives", ["red"]), tmp_path / "rows.jsonl"
    export_drives([folder], out, PLAIN)
    check_row_file(out)
    before = {file: file.read_bytes() for file in (out, card_path(out), set_path(out))}
    (folder / "questions.jsonl").write_text("{\n", "utf-8")
    with pytest.raises(DataError, match=r"questions\.jsonl, row 1"):
        export_drives([folder], out, DriveRowSettings(unseen_reasons=True, asked=("trajectory",)))
    assert {file: file.read_bytes() for file in before} == before


def kill(*args: Any, **kwargs: Any) -> Any:
    raise KeyboardInterrupt


def test_files_of_a_killed_export_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = collect(tmp_path / "a", ["red"]), collect(tmp_path / "b", ["green", "red"])
    out, write_card = tmp_path / "rows.jsonl", drives.write_card
    check_row_file(out)  # nothing is there
    export_drives([first], out, PLAIN)
    old = out.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(drives, "write_card", lambda *args, **more: kill(write_card(*args, **more)))
        export_drives([second], out, PLAIN)
    assert out.read_bytes() == old
    with pytest.raises(
        Ad2Error, match=r"rows\.training\.json is not the file that .*rows\.card\.json describes; export"
    ):
        check_row_file(out)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(drives, "atomic_write_json", kill)
        export_drives([second], out, PLAIN)
    assert out.read_bytes() != old
    with pytest.raises(
        Ad2Error, match=r"rows\.jsonl is not the file that .*rows\.card\.json describes; export it again"
    ):
        check_row_file(out)
    export_drives([second], out, PLAIN)
    check_row_file(out)
    for content in ("[]", "{", '{"sha256": 1, "training_set": "x"}'):
        card_path(out).write_text(content)
        with pytest.raises(DataError, match=r"rows\.card\.json: field 'sha256'.*Export rows\.jsonl again"):
            check_row_file(out)


def test_the_card_counts_actions_and_the_sets_name_the_routes(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red", "red", "green"])
    assert SOURCE.card([folder]) == {
        str(folder): {"actions": {ACTIONS["red"]: 2, ACTIONS["green"]: 1}, "reason_not_shown": {}}
    }
    (named,) = SOURCE.sets([folder])
    assert [route.id for route in named.routes] == ["m0-000001"]  # m0-000000 was not driven
    assert len(named.images) == 2  # the two red ones are equal
    assert SOURCE.takes(folder)
    assert not SOURCE.takes(tmp_path / "frames")


def test_a_comparison_of_two_things_is_a_choice(tmp_path: Path) -> None:
    folder = collect(tmp_path, ["red"] * 2)
    asked = [replace(question(1, k), benchmark="world", task=t) for k, t in enumerate(("relation", "existence"))]
    (folder / "questions.jsonl").write_text("".join(record.to_json() + "\n" for record in asked), "utf-8")
    kinds = {row["id"].partition(":")[0]: row.get("kind") for row in rows_of(folder, DriveRowSettings(questions=1))}
    assert kinds == {"action": "driving", "relation": "choice", "existence": None}


def test_options_of_a_repeated_question_are_in_another_order(tmp_path: Path) -> None:
    """The letter changes with them."""
    folder = collect(tmp_path, ["red", *["green"] * 16])
    texts = ("Stop.", "Brake.", "Go.", "Turn.")
    options = tuple(AnswerOption(letter, BilingualText(text)) for letter, text in zip("ABCD", texts, strict=True))
    record = replace(
        question(1, 0), benchmark="world", task="planning", form="mc", options=options, letter="C",
        answer=BilingualText("Go."),
    )  # fmt: skip
    (folder / "questions.jsonl").write_text(record.to_json() + "\n", "utf-8")
    rows = [r for r in rows_of(folder, DriveRowSettings(balance=1, questions=1)) if r["id"].startswith("planning")]
    assert [row["kind"] for row in rows] == ["choice"] * 8
    orders = []
    for row in rows:
        asked, letter = (message["content"] for message in row["messages"])
        orders.append(re.findall(r"\((\w)\) (\w+\.)", asked))
        assert (letter, "Go.") in orders[-1]
    assert [text for _, text in orders[0]] == list(texts)
    assert len({str(order) for order in orders}) >= 5
