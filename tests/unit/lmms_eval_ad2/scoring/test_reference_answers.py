"""The floor of random answers: the same answers as ad2_chance, whatever the run's frame; a lone record is unscored."""

from __future__ import annotations

from lmms_eval_ad2.core.records import BilingualText, Record, Value
from lmms_eval_ad2.judge import make_judge
from lmms_eval_ad2.scoring import pipeline
from lmms_eval_ad2.scoring.reference_answers import ReferencePools, chance_floor, chance_value, written
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant


def text_record(number: int) -> Record:
    answer = f"{'a' if number % 2 else 'the'} car number {number} turns {'left' if number % 3 else 'right'}"
    return Record(
        id=f"t{number}", benchmark="ad2_bench", task="relation", subtask="spatial", form="vqa", images=("a.jpg",),
        question=BilingualText("Where?"), answer=BilingualText(answer), cluster=f"c{number // 2}",
    )  # fmt: skip


def point_record(number: int) -> Record:
    return Record(
        id=f"p{number}", benchmark="ad2_bench", task="relation", subtask="spatial", form="point", images=("a.jpg",),
        question=BilingualText("Where?"), answer=BilingualText("<50,20>"), image_size=(100, 40), cluster=f"p{number}",
    )  # fmt: skip


def test_the_floor_is_the_score_of_chance_answers() -> None:
    records = [*(text_record(i) for i in range(8)), *(point_record(i) for i in range(8))]
    variant = TaskVariant("ad2_bench", "relation")
    pools = ReferencePools(records, variant)

    def answer(record: Record) -> str:
        value: Value = chance_value(record, record.form, 0, 0, pools)
        return written(value, record.form, "en", "auto", record.image_size)

    samples = [score_sample(record, answer(record), variant, "t") for record in records]
    expected, _ = pipeline.score_task(samples, "t", variant, lambda: make_judge("lexical"), None, progress=False)
    for frame in ("auto", "thousand", "model_input"):
        found = chance_floor(lambda: records, "t", variant.with_frame(frame, "test"), make_judge("lexical"))
        assert found["score"] == expected["score"] and found["score"]["n_ok"] == 16
        assert found["coordinates"] == {}
    assert 0 < expected["score"]["official"] < 100


def test_a_record_without_another_reference_is_unscored() -> None:
    table = chance_floor(lambda: [text_record(0)], "t", TaskVariant("ad2_bench", "relation"), make_judge("lexical"))
    assert (table["n"], table["n_unscored"], table["score"]["official"]) == (1, 1, None)
    assert table["reasons"] == {"unscored:no_other_reference": 1}
