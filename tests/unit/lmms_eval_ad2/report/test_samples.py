"""`ad2 report --sample`: everything about a sample, its replies and rotations, and ids that are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.make_runs import cell, sample, summary, task, write_run

from lmms_eval_ad2 import report
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.report import samples
from lmms_eval_ad2.report.sample_pictures import ANSWER, REFERENCE, pictures
from lmms_eval_ad2.report.samples import lost_points, render_lost
from lmms_eval_ad2.report.table import columns_of

BASE, COT = "ad2_perception_base", "ad2_cot"
JUDGED = {"rubric": "ad2_vqa", "part": "0", "score": 3, "reason": None, "reply": "It ignores the lorry.\n[[3]]"}


def run_of(folder: Path, **rows: list[dict[str, Any]]) -> list[report.RunSummary]:
    root = str(folder / "pictures")
    tables = {
        name: task("ad2_bench", "perception_base", cell(50.0, n=len(r)), image_root=root) for name, r in rows.items()
    }
    return report.load([write_run(folder / "run", summary(tables), rows)])


def text_of(folder: Path, row: dict[str, Any]) -> str:
    return samples.render_sample(samples.find(run_of(folder, **{BASE: [row]}), row["id"], None)[0])


def test_all_about_a_judged_sample(tmp_path: Path) -> None:
    row = sample(
        "a/1", 30.0, raw="No.", note="negated", judge=[JUDGED], strict={"existence": 0.3}, box=(1.0, 2.0, 3.0, 4.0)
    )
    text = text_of(tmp_path, row)
    for line in (
        f"a/1  {BASE}, toy-7b ({tmp_path / 'run'})",
        "question    Is there a truck?",
        "reference   yes",
        "mark        box [[1.0, 2.0, 3.0, 4.0]]",
        f"images      {tmp_path / 'pictures' / 'a.jpg'}",
        "prompt      Is there a truck? Answer with yes or no.",
        "reply       No.",
        "read as     No. (negated)",
        "status      ok",
        "score       30.0",
        "            existence 30.0, strict 30.0",
        "judge       ad2_vqa: 3",
        "            It ignores the lorry.",
        "            [[3]]",
    ):
        assert line in text.splitlines(), line


def test_an_unread_reply_has_its_reason(tmp_path: Path) -> None:
    text = text_of(tmp_path, sample("a", 0.0, raw="It depends", status="unparsed", reason="hedged"))
    assert "read as     nothing: hedged\nstatus      unparsed: hedged\n" in text and "judge" not in text


def test_replies_of_rounds_are_told_apart(tmp_path: Path) -> None:
    row = {**sample("a", None), "form": "chain", "raw": ["Step 1: rain.\n\nAnd fog.", "", "Stop."]}
    text = text_of(tmp_path, row)
    assert "(the first of 3 rounds;" in text
    assert (
        "round 1: Step 1: rain.\n\n            And fog.\n\n            round 2: (empty)\n\n            round 3: Stop."
        in text
    )


def test_each_judgement_has_its_words(tmp_path: Path) -> None:
    several = {
        "score": 5.5,
        "scores": [8, None, 3],
        "reasons": [None, "timeout", None],
        "replies": ["Good.", None, "Bad."],
    }
    row = sample("a", 55.0, judge=[{**JUDGED, **several}])
    assert (
        "ad2_vqa: 5.5\n            8: Good.\n            timeout: (no reply is stored)\n            3: Bad.\n"
        in text_of(tmp_path, row)
    )


def test_options_and_the_right_one(tmp_path: Path) -> None:
    row = sample("m", 0.0, raw="B", form="mc")
    words = [("A", "a bus", "correct"), ("B", "a tram", "logical_inconsistencies")]
    row["record"] |= {"letter": "A", "options": [{"letter": a, "text": {"en": b}, "kind": c} for a, b, c in words]}
    text = text_of(tmp_path, row)
    assert "options     A. a bus [correct] <- right\n            B. a tram [logical inconsistencies]\n" in text


@pytest.mark.parametrize("words", ["the van", {"en": "the van", "zh": "车"}])
def test_the_words_of_a_mark(tmp_path: Path, words: Any) -> None:
    row = sample("a", 0.0)
    row["record"]["mark"] = {"kind": "text", "coords": [], "text": words}
    assert "mark        text [] the van\n" in text_of(tmp_path, row)


def test_the_same_id_in_several_tasks(tmp_path: Path) -> None:
    runs = run_of(tmp_path, **{BASE: [sample("a", 0.0), sample("b", 0.0)], COT: [sample("a", 100.0)]})
    assert [found.task.name for found in samples.find(runs, "a", None)] == [COT, BASE]
    assert [found.task.name for found in samples.find(runs, "a", COT)] == [COT]
    with pytest.raises(Ad2Error, match=f"--sample b: no sample of {COT} has this id; ids there are such as a$"):
        samples.find(runs, "b", COT)
    with pytest.raises(Ad2Error, match=f"--task c: no such task in toy-7b; there: {COT}, {BASE}$"):
        samples.find(runs, "a", "c")


def test_replies_and_rotations_of_a_question(tmp_path: Path) -> None:
    rows = [sample(f"q@{k}", 0.0) for k in (1, 2)] + [sample("q#0", 0.0), sample("qq", 0.0)]
    for row in rows[:2]:
        row["record"]["meta"] = {"reply": {"id": "q", "number": 1, "of": 2}}
    rows[2]["record"]["meta"] = {"rotated": {"id": "q", "by": 0, "of": 2}}
    runs = run_of(tmp_path, **{BASE: rows})
    assert [found.row["id"] for found in samples.find(runs, "q", None)] == ["q@1", "q@2", "q#0"]
    assert [found.row["id"] for found in samples.find(runs, "q@2", None)] == ["q@2"]
    with pytest.raises(Ad2Error, match=r"did you mean q@1, q@2\?$"):
        samples.find(runs, "Q@", None)


def test_hostile_texts_are_printable(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202eerror"
    row = sample("a" + evil, 0.0, raw=evil, question=evil, judge=[{**JUDGED, "reply": evil}])
    assert not {"\x1b", "\u202e"} & set(text_of(tmp_path, row))


def box_row(answer: Any, form: str = "box") -> dict[str, Any]:
    row = sample("b", 0.0, form=form, answer=answer)
    row["record"] |= {"answer": {"en": "[20, 20, 60, 50]", "zh": ""}, "form": form}
    return row


def test_answer_and_reference_of_a_box_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (200, 100), (90, 90, 90)).save(tmp_path / "pictures" / "a.jpg", quality=100)
    (one,) = samples.find(run_of(tmp_path, **{BASE: [box_row([100.0, 30.0, 400.0, 60.0])]}), "b", None)
    drawn = pictures(one.row, one.task)
    assert drawn.placed
    pixels = np.asarray(drawn.images[0])
    assert tuple(pixels[20, 40]) == REFERENCE and tuple(pixels[30, 150]) == ANSWER
    assert tuple(pixels[45, 199]) == ANSWER  # moved to the edge
    unread = pictures(json.loads(json.dumps(box_row(None))), one.task)
    assert unread.placed and not (np.asarray(unread.images[0]) == ANSWER).all(axis=-1).any()


def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (200, 100)).save(tmp_path / "pictures" / "a.jpg")
    run_of(tmp_path, **{BASE: [box_row([100.0, 30.0, 140.0, 60.0]), sample("c", 0.0, images=("gone.jpg",))]})
    out, run = tmp_path / "drawn", str(tmp_path / "run")
    assert main(["report", run, "--sample", "b", "--config", f"images={out}"]) == 0
    (path,) = out.iterdir()
    assert f"picture: {path} (blue: the answer, green: the reference)" in capsys.readouterr().out
    assert main(["report", run, "--sample", "c", "--config", f"images={out}"]) == 0
    assert "no picture: " in capsys.readouterr().out
    assert main(["report", run, "--sample", "b", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["samples"]
    assert (found["task"], found["images"]) == (BASE, [str(tmp_path / "pictures" / "a.jpg")])
    assert found["sample"]["answer"] == [100.0, 30.0, 140.0, 60.0]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("social", "did you mean rain/social/1, rain/social/2?"),  # contained
        ("RAIN/social/9", "did you mean rain/social/2, rain/social/1?"),  # similar
        ("fgo/counting/1", "did you mean fog/counting/1?"),
        ("0", "ids there are such as fog/counting/1, rain/social/1, rain/social/2"),
    ],
)
def test_an_id_that_is_not_there_names_near_ones(tmp_path: Path, asked: str, hint: str) -> None:
    runs = run_of(tmp_path, **{BASE: [sample(id, 0.0) for id in ("fog/counting/1", "rain/social/1", "rain/social/2")]})
    with pytest.raises(Ad2Error) as error:
        samples.find(runs, asked, None)
    assert str(error.value).endswith(hint)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sample", "x"], "--sample x: no sample"),
        (["--sample", "a", "--html", "p.html"], "only --json goes with them"),
        (["--task", BASE], "--task is an option of --sample and --wrong"),
        (["--limit", "3"], "--limit is an option of --wrong"),
        (["--config", "images=d"], "--config images is an option of --sample"),
        (["--wrong", "--limit", "0"], "--limit 0: 1 or more"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    run_of(tmp_path, **{BASE: [sample("a", 0.0)]})
    assert main(["report", str(tmp_path / "run"), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def written_run(folder: Path, model: str = "toy", **rows: list[dict[str, Any]]) -> Path:
    tables = {name: task("ad2_bench", "perception_base", cell(50.0, n=len(r))) for name, r in rows.items()}
    return write_run(folder, summary(tables, label=model, model=model), rows)


def test_worst_first_and_equal_ones_in_order(tmp_path: Path) -> None:
    rows = [
        sample("full", 100.0),
        sample("half", 50.0),
        sample("z", 0.0),
        sample("a", 0.0, status="unparsed", reason="hedged"),
    ]
    rows.append(sample("failed", None, status="unscored", reason="request_failed"))
    runs = report.load([written_run(tmp_path, **{BASE: rows, COT: [sample("c", 10.0)]})])
    found = lost_points(runs, None, 20)
    assert [(one.id, one.score, one.read) for one in found.samples] == [
        ("z", 0, "B"), ("a", 0, "hedged"), ("c", 10, "B"), ("half", 50, "B"),
    ]  # fmt: skip
    assert (found.lost, found.unscored, found.asked) == (4, 1, 6)
    assert [one.id for one in lost_points(runs, COT, 20).samples] == ["c"]
    assert [one.id for one in lost_points(runs, None, 2).samples] == ["z", "a"]


def test_the_list_and_its_commands(tmp_path: Path) -> None:
    rows = [sample(f"s {i}", 0.0, status="unparsed", reason="hedged") for i in range(3)]
    rows.append(sample("u", None, status="unscored", reason="timeout"))
    text = render_lost(lost_points(report.load([written_run(tmp_path, **{BASE: rows})]), None, 2), ["runs/x y"])
    assert text.splitlines() == [
        f"toy, {BASE}",
        "score  sample  read as           reference",
        "-----  ------  ----------------  ---------",
        "  0.0  s 0     unparsed: hedged  yes",
        "  0.0  s 1     unparsed: hedged  yes",
        "",
        "3 of 4 samples lost points; shown 2, see --limit",
        "1 more have no score, which is not the model's fault; the reasons: ad2 report 'runs/x y' --wide",
        f"one of them: ad2 report 'runs/x y' --sample 's 0' --task {BASE}",
    ]


def test_nothing_wrong(tmp_path: Path) -> None:
    runs = report.load([written_run(tmp_path, **{BASE: [sample("a", 100.0)]})])
    assert render_lost(lost_points(runs, None, 20), ["r"]) == "0 of 1 samples lost points\n"


def test_floors_are_left_out_beside_models(tmp_path: Path) -> None:
    rows = {BASE: [sample("a", 0.0)]}
    floor, model = written_run(tmp_path / "f", "ad2_chance", **rows), written_run(tmp_path / "m", **rows)
    assert {one.run for one in lost_points(report.load([floor, model]), None, 9).samples} == {"toy"}
    assert {one.run for one in lost_points(report.load([floor]), None, 9).samples} == {"ad2_chance"}


def test_hostile_texts_are_short_and_printable(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e" + "x" * 500 + "\nerror: no"
    text = render_lost(
        lost_points(report.load([written_run(tmp_path, **{BASE: [sample(evil, 0.0, raw=evil)]})]), None, 9), ["r"]
    )
    assert not {"\x1b", "\u202e"} & set(text) and "\nerror: no" not in text
    assert max(columns_of(line) for line in text.splitlines() if not line.startswith("one of")) <= 100


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written_run(tmp_path, **{BASE: [sample("a", 0.0), sample("b", 100.0)]})
    assert main(["report", str(folder), "--wrong", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["wrong"]
    assert (found["lost"], found["asked"], [one["id"] for one in found["samples"]]) == (1, 2, ["a"])
