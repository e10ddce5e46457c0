"""Options A to F for the open questions of an AD2-Bench file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.releases.ad2_bench import records_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.base import AcceptedQuestion, Distractor, OpenQuestion, Outcome, RejectedQuestion
from lmms_eval_ad2.mcq.both_forms import add_options
from lmms_eval_ad2.scoring.score_columns import suited_form

CATEGORY = "logical_inconsistencies"


class Maker:
    """Three wrong options for each question; "fails" and "refused" are outcomes of their own, "twice" a bad set."""

    label = "fixed"

    def unsuited(self, source: str, text: str) -> str | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {}

    def account(self) -> dict[str, Any]:
        return {}

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        for question in questions:
            if question.id in ("fails", "refused"):
                done(RejectedQuestion(question, "http_500", passing=question.id == "fails"))
                continue
            texts = ("a bus", "a truck", "\ud800" if question.id == "broken" else "a wall")
            done(AcceptedQuestion(question, tuple(Distractor(text, CATEGORY) for text in texts), correctness=5))


def row(id: str, **changes: Any) -> dict[str, Any]:
    base = {
        "id": id, "image": "a.jpg", "dimension": "relation", "subtask": "occlusion", "form": "vqa",
        "question": {"en": "What hides the car?", "zh": "什么遮挡了车？"}, "answer": {"en": "A van.", "zh": "面包车。"},
    }  # fmt: skip
    return base | changes


def added(tmp_path: Path, *rows: dict[str, Any], seed: int = 0) -> tuple[Any, list[dict[str, Any]]]:
    (tmp_path / "a.jpg").write_bytes(b"")
    source, out = tmp_path / "rows.jsonl", tmp_path / "both.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in rows))
    counts = add_options(source, out, Maker(), images=None, seed=seed)
    return counts, [json.loads(line) for line in out.read_text().splitlines()]


def test_open_questions_get_three_distractors_and_e_and_f(tmp_path: Path) -> None:
    counts, (found,) = added(tmp_path, row("q"))
    assert (counts.made, counts.copied, counts.failed, counts.rejected) == (1, 0, 0, {})
    (record,) = records_of(UntrustedRow(found, "f", 1))
    assert (record.forms, suited_form(record), suited_form(record, "zh")) == (("vqa", "mc"), "mc", "vqa")
    assert {o.text.en for o in record.options[:4]} == {"A van.", "a bus", "a truck", "a wall"}
    assert [o.kind for o in record.options[4:]] == ["none_matches", "absent"]
    assert record.right_option is not None and record.right_option.text == record.answer
    assert record.meta["options"] == {"maker": "fixed", "seed": 0, "correctness": 5}
    assert found.keys() - {"options", "letter", "meta"} == row("q").keys(), "the rest of the row is unchanged"


def test_the_order_depends_on_the_seed_and_the_id_alone(tmp_path: Path) -> None:
    rows = [row(f"q{k}") for k in range(24)]
    letters = [one["letter"] for one in added(tmp_path, *rows)[1]]
    assert [one["letter"] for one in added(tmp_path, *reversed(rows))[1]] == letters[::-1]
    assert [one["letter"] for one in added(tmp_path, *rows, seed=1)[1]] != letters
    assert set(letters) == set("ABCD")


def test_other_rows_are_copied_and_every_reason_is_counted(tmp_path: Path) -> None:
    kept = [
        row("count", form="count", answer=3),
        row("both", options={"A": "A van.", "B": "A bus."}, letter="A"),
        row("fails"), row("refused"), row("broken"),
        row("chinese", question={"zh": "什么？"}, answer={"zh": "车"}),
        row("gone", image="missing.jpg"),
    ]  # fmt: skip
    counts, found = added(tmp_path, *kept)
    assert found == kept
    assert (counts.made, counts.copied, counts.failed) == (0, 7, 1)
    assert counts.rejected == {"http_500": 1, "not_importable": 1, "no_english": 1, "image_missing": 1}


def test_a_bad_row_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 2: field 'dimension'"):
        added(tmp_path, row("q"), row("bad", dimension="all"))
    assert not (tmp_path / "both.jsonl").exists()
    with pytest.raises(Ad2Error, match="is the file to read"):
        add_options(tmp_path / "rows.jsonl", tmp_path / "rows.jsonl", Maker(), images=None, seed=0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--total", "3"], "--source ad2_bench=FILE: total is for sets of questions"),
        (["--source", "drivelm:train"], "one file, with at most one --images"),
        (["--distractors", "nonsense"], "nonsense"),
    ],
)
def test_the_command_refuses_what_does_not_fit(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps(row("q", form="count", answer=3)) + "\n")
    given = ["mcq", "build", "--source", f"ad2_bench={source}", "--llm", "rules", "--out", str(tmp_path / "out")]
    assert main([*given, *words]) == 2
    assert message in capsys.readouterr().err
    (tmp_path / "a.jpg").write_bytes(b"")
    assert main([*given, "--config", "no_progress=true"]) == 0
    assert "rows.jsonl: 0 rows with options added, 1 copied unchanged" in capsys.readouterr().out
