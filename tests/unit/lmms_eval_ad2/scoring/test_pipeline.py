"""summarise: cells, means, counts under both rules."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.builders import BASE, boxed, chain, record

from lmms_eval_ad2.cli import rescore
from lmms_eval_ad2.core.coordinates import FRAMES, InputResizing, misfit_warnings
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record, Unscored
from lmms_eval_ad2.harness.task_files import variant_of
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating
from lmms_eval_ad2.scoring import judge_ratings, pipeline, result_files
from lmms_eval_ad2.scoring.metrics.answer_metrics import iou
from lmms_eval_ad2.scoring.metrics.caption import CorpusScore
from lmms_eval_ad2.scoring.pipeline import FrameCheck
from lmms_eval_ad2.scoring.pipeline import summarise as summarise_lines
from lmms_eval_ad2.scoring.sample import ScoredSample, score_sample
from lmms_eval_ad2.scoring.sample_summary import SampleSummary
from lmms_eval_ad2.scoring.variant import TaskVariant


def summarise(samples: list[ScoredSample], variant: TaskVariant, judge: str | None) -> dict[str, Any]:
    return summarise_lines([SampleSummary.of(s, variant) for s in samples], variant, judge)


def four_columns() -> list[ScoredSample]:
    count = record("n1", "count", subtask="counting", answer=BilingualText("3"))
    point = record("p1", "point", subtask="location", answer=BilingualText("<20,10>"))
    return [
        score_sample(record("e1"), "A", BASE, "t"),
        score_sample(record("e2"), "B", BASE, "t"),
        score_sample(record("e3"), "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x", BASE, "t"),
        score_sample(count, "3", BASE, "t"),
        score_sample(point, "<20,10>", BASE, "t"),
        score_sample(boxed(), "[20, 10, 40, 30]", BASE, "t"),
        score_sample(record("x1", subtask="category"), "A", BASE, "t"),
    ]


def test_the_mean_is_over_columns_not_samples() -> None:
    table = summarise(four_columns(), BASE, None)
    columns = {k: v["official"] for k, v in table["columns"].items()}
    assert columns == pytest.approx(
        {"existence": 50, "counting": 100, "location": 100, "detection": 100 / 3, "category": 100}, abs=1e-5
    )
    # category is not part of the mean: Table 5 has no such column
    assert table["score"]["official"] == pytest.approx((50 + 100 + 100 + 100 / 3) / 4, abs=1e-5)


def test_strict_counts_the_failed_request() -> None:
    table = summarise(four_columns(), BASE, None)
    cell = table["columns"]["existence"]
    assert (cell["official"], cell["strict"]) == pytest.approx((50, 100 / 3), abs=1e-5)
    assert (cell["n"], cell["n_ok"], cell["n_unparsed"], cell["n_unscored"]) == (3, 2, 0, 1)
    assert table["reasons"] == {"unscored:request_failed": 1}


def test_the_extracted_text_of_ocr_has_columns_of_its_own_outside_the_mean() -> None:
    variant = TaskVariant("ad2_bench", "perception_advanced")
    signs = [record(f"s{i}", "ocr", subtask="ocr", answer=BilingualText("STOP")) for i in range(3)]
    replies = ["The sign says STOP", "STOP", "I cannot read any text."]
    table = summarise(
        [score_sample(sign, reply, variant, "t") for sign, reply in zip(signs, replies, strict=True)], variant, None
    )
    assert table["score"]["columns"] == ["ocr_f1"]
    assert table["score"]["official"] == table["columns"]["ocr_f1"]["official"] == table["subtasks"]["ocr"]["official"]
    assert table["subtasks"]["ocr"]["strict"] == table["subtasks"]["ocr"]["official"]
    extracted = table["columns"]["ocr_f1_extracted"]
    assert extracted["official"] == pytest.approx(100 * 2 / 3, abs=1e-5)
    assert (extracted["n_ok"], extracted["n_unparsed"]) == (2, 1)
    assert (table["n_ok"], table["n_unparsed"]) == (3, 0)


@pytest.mark.parametrize(
    ("benchmark", "counts", "score", "strict"),
    [
        # SACS is the whole score: all samples have one
        ("world", {"n_ok": 2, "n_unparsed": 0, "n_unscored": 0}, 70, 70),
        # of four columns only SACS is marked: no score; strict: the others count as the lowest mark
        ("ad2_bench", {"n_ok": 0, "n_unparsed": 0, "n_unscored": 0, "n_partly": 2}, None, (70 + 3 * 10) / 4),
    ],
)
def test_a_chain_counts_as_scored_in_the_columns_that_its_judge_can_mark(
    benchmark: str, counts: dict[str, int], score: float | None, strict: float
) -> None:
    variant = TaskVariant(benchmark, "cot", style="chain")
    chains = [replace(chain(), id=name, benchmark=benchmark) for name in ("a", "b")]
    samples = [score_sample(c, "<start1>a<end><start2>b<end><start3>c<end>", variant, "t") for c in chains]
    judge_ratings.apply(samples, SacsOnly(), progress=False)
    table = summarise(samples, variant, "lexical")
    assert {key: value for key, value in table["score"].items() if key.startswith("n_")} == counts
    assert (table["score"]["official"], table["score"]["strict"]) == (score, pytest.approx(strict))
    assert (table["n_ok"], table["n_unscored"], table["n_partly"]) == (0, 0, 2)
    assert table["reasons"] == {"partly:not_judgeable": 2}
    assert (table["columns"]["sacs"]["n_ok"], table["columns"]["slps"]["n_unscored"]) == (2, 2)
    assert [s.score for s in samples] == [score, score]


class SacsOnly:
    """A judge that rates 7, and only steps that have a reference."""

    label = "lexical"

    def __init__(self) -> None:
        self.usage: dict[str, Any] = {}

    def describe(self) -> dict[str, Any]:
        return {}

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        return [
            JudgeRating(item.id, 7) if item.rubric == "ad2_sacs" else Unscored(item.rubric, "not_judgeable")
            for item in items
        ]


def test_missing_columns_are_listed() -> None:
    table = summarise(four_columns()[:3], BASE, None)
    assert table["score"]["missing_columns"] == ["counting", "location", "detection"]


def test_a_column_without_scores_has_no_value_and_no_mean() -> None:
    failed = [score_sample(record("e1"), "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x", BASE, "t")]
    table = summarise(failed, BASE, None)
    assert table["columns"]["existence"]["official"] is None
    assert table["score"]["official"] is None
    assert table["score"]["strict"] == 0


def test_error_kinds_count_wrong_choices_only() -> None:
    variant = TaskVariant("autodrive_qa", "perception")
    rows = [score_sample(record(f"q{i}", benchmark="autodrive_qa"), t, variant, "t") for i, t in enumerate("AABC")]
    table = summarise(rows, variant, None)
    assert table["error_kinds"] == {"distractor": 2}
    assert table["score"]["official"] == 50


def test_groups_by_weather() -> None:
    fog = record("f1", scene={"weather": "fog", "severity": "severe"})
    rain = record("f2", scene={"weather": "rainy"})
    table = summarise([score_sample(fog, "A", BASE, "t"), score_sample(rain, "B", BASE, "t")], BASE, None)
    assert {k: v["official"] for k, v in table["breakdowns"]["weather"].items()} == {"fog": 100, "rainy": 0}
    assert list(table["breakdowns"]["severity"]) == ["severe"]


def test_summary_without_samples() -> None:
    table = summarise([], BASE, None)
    assert (table["n"], table["score"]["official"], table["columns"]) == (0, None, {})


CAPTIONED = TaskVariant("coda_lm", "region", captions=("bleu_1",))


def free(id: str, reply: str, **changes: Any) -> ScoredSample:
    question = record(
        id, "vqa", benchmark="coda_lm", answer=BilingualText("a red car"), scene={"weather": "fog"}, **changes
    )
    return score_sample(question, reply, CAPTIONED, "t")


def test_ngram_metrics_keep_answers_whose_judge_failed() -> None:
    samples = [free("a", "a red car"), free("b", "a red car"), free("c", "[LMMS_EVAL_REQUEST_FAILED] x")]
    samples[1].status, samples[1].reason = "unscored", "timeout"
    texts = [SampleSummary.of(s, CAPTIONED).text for s in samples]
    assert texts == [("a red car", "a red car"), ("a red car", "a red car"), None]


def test_ngram_metrics_of_all_answers_are_shown_times_100(monkeypatch: pytest.MonkeyPatch) -> None:
    """CODA-LM Table 6. The metrics themselves: metrics/caption/test_caption.py."""
    variant = TaskVariant("autodrive_qa", "perception", form="vqa", judge=False, captions=("bleu_4", "cider"))
    asked: list[Any] = []

    def scores(references: Any, candidates: Any, metrics: Any, lang: str) -> dict[str, CorpusScore]:
        asked.append((dict(references), dict(candidates), tuple(metrics), lang))
        return {"bleu_4": CorpusScore("bleu_4", 0.25), "cider": CorpusScore("cider", 1.5)}

    monkeypatch.setattr(pipeline, "caption_scores", scores)
    rows = [score_sample(record(i, "vqa", answer=BilingualText("x y")), f"x {i}", variant, "t") for i in "ab"]
    columns = summarise(rows, variant, None)["columns"]
    assert {name: cell["official"] for name, cell in columns.items()} == {"bleu_4": 25.0, "cider": 150.0}
    assert asked == [({"a": ["x y"], "b": ["x y"]}, {"a": "x a", "b": "x b"}, ("bleu_4", "cider"), "en")]


@pytest.mark.integration
def test_ngram_only_tasks_have_no_groups() -> None:
    variant = TaskVariant("autodrive_qa", "perception", form="vqa", judge=False, captions=("bleu_1",))
    rows = [score_sample(record("a", "vqa", answer=BilingualText("x y")), reply, variant, "t") for reply in ("x y", "")]
    table = summarise(rows, variant, None)
    assert (table["subtasks"], table["breakdowns"], table["columns"].keys()) == ({}, {}, {"bleu_1"})


def chinese(id: str, reply: str, captions: tuple[str, ...]) -> tuple[ScoredSample, TaskVariant]:
    variant = TaskVariant("coda_lm", "region", lang="zh", captions=captions)
    question = record(id, "vqa", benchmark="coda_lm", answer=BilingualText(en="a red car", zh="一辆红色汽车"))
    return score_sample(question, reply, variant, "t"), variant


@pytest.mark.integration
def test_english_answers_are_not_compared_with_chinese_references() -> None:
    """One Chinese answer of three: BLEU-1 is 5 of 5 characters with the brevity penalty exp(1 - 6/5)."""
    replies = ("一辆红汽车", "a red car", "It is a car.")
    samples = [chinese(str(n), reply, ("bleu_1", "spice"))[0] for n, reply in enumerate(replies)]
    columns = summarise(samples, chinese("x", "", ("bleu_1", "spice"))[1], None)["columns"]
    assert columns["bleu_1"]["official"] == pytest.approx(100 * math.exp(1 - 6 / 5), abs=1e-4)
    note = "2 of 3 answers are not compared: answer or reference is not in Chinese"
    assert (columns["bleu_1"]["n_foreign"], columns["bleu_1"]["reason"]) == (2, note)
    assert columns["spice"]["official"] is None and columns["spice"]["strict"] is None
    assert columns["spice"]["reason"].startswith("english_only: SPICE parses English only")


def test_english_answers_alone_have_no_chinese_score() -> None:
    sample, variant = chinese("a", "a red car", ("bleu_1", "meteor"))
    columns = summarise([sample], variant, None)["columns"]
    for name in variant.captions:
        assert (columns[name]["official"], columns[name]["strict"], columns[name]["n_foreign"]) == (None, None, 1)
        assert "1 of 1 answers are not compared" in columns[name]["reason"]


def test_sample_with_an_empty_reference_has_no_text_for_ngrams() -> None:
    variant = TaskVariant("autodrive_qa", "perception", form="vqa", judge=False, captions=("bleu_1",))
    sample = score_sample(record("a", "vqa", answer=BilingualText("")), "a red car", variant, "t")
    assert (sample.status, sample.reason, SampleSummary.of(sample, variant).text) == ("unscored", "bad_reference", None)


TRUTH = (1500.0, 800.0, 1700.0, 950.0)
LIMITS = InputResizing.of_limits(2_007_040)  # 1920 x 1080 becomes 1876 x 1036
IN_INPUT = "[1465.625, 767.407407, 1661.041667, 911.296296]"  # TRUTH in pixels of that size


def wide(id: str, form: str = "box", answer: str = str(list(TRUTH))) -> Record:
    subtask = "detection" if form == "box" else "location"
    return record(id, form, subtask=subtask, answer=BilingualText(answer), image_size=(1920, 1080))


def framed(text: str) -> TaskVariant:
    return BASE.with_frame(text, "test")


def score(text: str, frame: str, resizing: InputResizing | None = LIMITS) -> Any:
    return score_sample(wide("b"), text, framed(frame), "t", resizing=resizing)


def test_box_of_the_model_s_input_is_right_in_its_frame_only() -> None:
    assert score(IN_INPUT, "model_input").score == pytest.approx(100, abs=1e-3)
    assert score(IN_INPUT, "pixel").score == pytest.approx(44.6, abs=0.05)
    smaller = InputResizing.of_limits(1_605_632)
    corners = [v * f for v, f in zip(TRUTH, (1680 / 1920, 924 / 1080) * 2, strict=True)]
    assert iou(corners, TRUTH) < 0.05
    assert score(str(corners), "model_input", smaller).score == pytest.approx(100, abs=1e-3)


def test_named_numbers_of_the_input_take_precedence_over_the_model() -> None:
    other = InputResizing(fixed=(448, 448))
    assert score(IN_INPUT, "model_input:max_pixels=2007040", other).score == pytest.approx(100, abs=1e-3)


def test_input_of_unknown_size_is_unparsed_with_its_reason() -> None:
    sample = score(IN_INPUT, "model_input", None)
    assert (sample.status, sample.reason, sample.score) == ("unparsed", "no_model_input_size", 0)


def test_task_settings_take_a_frame_with_its_numbers() -> None:
    data = {"benchmark": "ad2_bench", "part": "perception_base"}
    for given in (
        {"frame": "model_input:max_pixels=500000"},
        {"frame": "model_input", "model_input": "max_pixels=500000"},
    ):
        variant = TaskVariant.from_dict({**data, **given}, "task t")
        assert variant.changes() == {"frame": "model_input", "model_input": "max_pixels=500000"}
        assert TaskVariant.from_dict({**data, **variant.changes()}, "task t") == variant
        assert variant.frame_text == "model_input:max_pixels=500000"
    with pytest.raises(Ad2Error, match=r"task t: metadata\.ad2\.frame: no coordinate frame 'thousend'"):
        TaskVariant.from_dict({**data, "frame": "thousend"}, "task t")


def test_the_environment_sets_the_frame_of_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"benchmark": "ad2_bench", "part": "perception_base", "frame": "unit"}
    assert variant_of(settings, "t").frame == "unit"
    monkeypatch.setenv("AD2_FRAME", "thousand_yx")
    assert variant_of(settings, "t").frame == "thousand_yx"
    monkeypatch.setenv("AD2_FRAME", "")
    assert variant_of(settings, "t").frame == "unit"
    monkeypatch.setenv("AD2_FRAME", "bogus")
    with pytest.raises(Ad2Error, match="AD2_FRAME: no coordinate frame 'bogus'"):
        variant_of(settings, "t")


# --- scores in all frames ---

IN_THOUSAND = ["[781.25, 740.7407, 885.4167, 879.6296]"] * 4


def block(texts: list[str], frame: str = "auto", form: str = "box", answer: str = str(list(TRUTH))) -> Any:
    check = FrameCheck(framed(frame), LIMITS)
    for i, text in enumerate(texts):
        check.add(score_sample(wide(f"r{i}", form, answer), text, framed(frame), "t", resizing=LIMITS))
    return check.summary()


def test_the_same_replies_are_scored_in_every_frame() -> None:
    found = block(IN_THOUSAND)
    assert found["frame"] == "auto" and InputResizing.from_json(found["model_input"], "") == LIMITS
    cell = found["by_frame"]["box"]
    assert cell["n"] == 4 and set(cell["scores"]) == set(FRAMES)
    assert cell["scores"]["thousand"] == pytest.approx(100, abs=1e-3)
    assert cell["scores"]["auto"] == cell["scores"]["pixel"] == 0


def test_a_misfit_is_warned_of_with_both_figures_and_the_option() -> None:
    (line,) = misfit_warnings({"t": block(IN_THOUSAND)}, "runs/a")
    assert line == (
        "t: in the coordinate frame 'auto' 4 boxes score 0.0, but 100.0 in 'thousand'; if that is the model's frame: "
        "ad2 rescore runs/a --frame thousand (no score has been changed)"
    )
    points = block(["<781.25,740.74>"] * 3, "pixel", "point", "<1500,800>")
    (line,) = misfit_warnings({"t": {**points, "by_frame": {**points["by_frame"], **block(IN_THOUSAND)["by_frame"]}}})
    assert "3 points score" in line and " and 4 boxes score" in line and line.count("--frame thousand") == 1


def test_there_is_no_warning_without_a_clearly_better_frame() -> None:
    assert misfit_warnings({"t": block(IN_THOUSAND, "thousand")}) == []
    assert misfit_warnings({"t": block(IN_THOUSAND[:2])}) == [], "two replies may agree by accident"
    assert misfit_warnings({"t": block(["[1, 2, 3, 4]"] * 5)}) == []
    assert misfit_warnings({"t": block([IN_INPUT] * 5, "pixel")}) == [], "44.6 is not near 0"


def test_failed_requests_and_other_forms_are_not_counted() -> None:
    failed = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x"
    assert block([failed, *IN_THOUSAND])["by_frame"]["box"]["n"] == 4
    check = FrameCheck(BASE, None)
    check.add(score_sample(record("m"), "A", BASE, "t"))
    assert check.summary() is None


@pytest.mark.parametrize(
    "broken", [None, 3, {}, {"by_frame": 3}, {"frame": "auto", "by_frame": {"box": 3}},
               {"frame": "auto", "by_frame": {"box": {"n": "many", "scores": {"auto": 0, "unit": 90}}}},
               {"frame": "auto", "by_frame": {"box": {"n": 9, "scores": {"auto": "x", "unit": None}}}},
               {"frame": [], "by_frame": {"line": {"n": 9, "scores": {"auto": 0, "unit": 90}}}}],
)  # fmt: skip
def test_a_block_of_another_structure_gives_no_warning(broken: Any) -> None:
    assert misfit_warnings({"t": broken}) == []


# --- rescoring ---


def a_run(folder: Path, texts: list[str], about: dict[str, Any], frame: str = "auto") -> Path:
    """A finished run of a model whose input size is not known, unless `about` has it."""
    variant = framed(frame)
    samples = [score_sample(wide(f"r{i}"), text, variant, "t") for i, text in enumerate(texts)]
    table, _ = pipeline.score_task(samples, "t", variant, lambda: None, folder)  # type: ignore[arg-type, return-value]
    data = {"name": "d", "split": "test", "sha256": "0" * 64, "n": len(texts)}
    run = {"model": "openai", "model_args": "", "label": "m", "judge": None, **about}
    result_files.write_summary(folder, run, {"t": {**table, "data": data}})
    return folder


def rescored(folder: Path, frame: str | None) -> dict[str, Any]:
    out = folder.with_name("again")
    rescore.run(rescore.RescoreOptions(run=folder, out=out, judge="lexical", frame=frame))
    return dict(json.loads((out / "summary.json").read_text("utf-8")))


def detection(summary: dict[str, Any]) -> float:
    return float(summary["tasks"]["t"]["columns"]["detection"]["official"])


def test_rescoring_uses_the_recorded_size_of_the_input(tmp_path: Path) -> None:
    found = rescored(a_run(tmp_path / "run", [IN_INPUT] * 3, {"model_input": LIMITS.to_json()}), "model_input")
    assert detection(found) == pytest.approx(100, abs=1e-3)
    assert found["run"]["frame"] == "model_input" and found["run"]["model_input"] == LIMITS.to_json()
    assert found["tasks"]["t"]["variant"] == {"frame": "model_input"}
    assert found["tasks"]["t"]["coordinates"]["frame"] == "model_input"


def test_rescoring_without_a_frame_keeps_the_one_of_the_run(tmp_path: Path) -> None:
    frame = "model_input:max_pixels=2007040"
    found = rescored(a_run(tmp_path / "run", [IN_INPUT] * 3, {"frame": frame, "model_input": None}, frame), None)
    assert detection(found) == pytest.approx(100, abs=1e-3) and found["run"]["frame"] == frame
    found = rescored(tmp_path / "run", "model_input")
    assert detection(found) == pytest.approx(100, abs=1e-3), "the size that was named for the run"


def test_a_run_of_an_earlier_version_is_rescored_from_its_arguments(tmp_path: Path) -> None:
    """The chat wrapper of lmms-eval resizes twice: 1920 x 1080 to 1932 x 1092, then to 1876 x 1064."""
    corners = [v * f for v, f in zip(TRUTH, (1876 / 1920, 1064 / 1080) * 2, strict=True)]
    about = {"model": "qwen2_5_vl", "model_args": "pretrained=Qwen/Qwen2.5-VL-7B-Instruct,max_pixels=2007040"}
    found = rescored(a_run(tmp_path / "run", [str(corners)] * 3, about), "model_input")
    assert detection(found) == pytest.approx(100, abs=1e-3)


def test_rescoring_without_a_known_size_says_what_to_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_run(tmp_path / "run", [IN_INPUT] * 3, {"model_input": None})
    assert detection(rescored(folder, "model_input")) == 0
    printed = capsys.readouterr().out
    assert "3 points and boxes unparsed" in printed and "--frame model_input:max_pixels=N" in printed


def test_rescoring_warns_of_a_misfit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rescored(a_run(tmp_path / "run", IN_THOUSAND, {}), "pixel")
    assert "4 boxes score 0.0, but 100.0 in 'thousand'" in capsys.readouterr().out


def test_an_invalid_frame_fails_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="--frame: no coordinate frame 'thousnd'; did you mean 'thousand'"):
        rescore.run(rescore.RescoreOptions(run=tmp_path / "missing", frame="thousnd"))


def test_a_broken_record_of_the_input_size_is_one_error(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "run", [IN_INPUT], {"model_input": {"steps": [{"factor": 0}]}})
    with pytest.raises(Ad2Error, match=r"summary\.json: field 'model_input'"):
        rescored(folder, "model_input")


def test_variants_without_a_frame_have_no_frame_in_their_changes() -> None:
    assert replace(BASE, lang="zh").changes() == {"lang": "zh"}
