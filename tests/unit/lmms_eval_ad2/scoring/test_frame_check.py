"""Coordinate frames in scoring: the task's frame, the model's input, scores in all frames, warnings, rescoring."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.builders import BASE, record

from lmms_eval_ad2.cli import rescore
from lmms_eval_ad2.core.coordinates import FRAMES, InputResizing
from lmms_eval_ad2.core.coordinates.misfit import misfit_warnings
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.harness.task_files import variant_of
from lmms_eval_ad2.scoring import pipeline, result_files
from lmms_eval_ad2.scoring.frame_check import FrameCheck
from lmms_eval_ad2.scoring.metrics.typed_answers import iou
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant

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
