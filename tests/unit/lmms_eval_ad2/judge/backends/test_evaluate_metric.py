"""judge/evaluate_metric: metrics of the library `evaluate` from local scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.running import REPO

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import JudgeItem, JudgeRating, make_judge

pytestmark = pytest.mark.integration

ROUGE_L = REPO / "configs" / "judges" / "metrics" / "rouge_l.py"
TEXTS = [
    ("A white truck has stopped.", "A white truck has stopped in the right lane."),
    ("向左转", "向左转,然后停车"),
    ("Bake the bread.", "Slow down."),
    ("Slow down.", "Slow down."),
    ("", "Slow down."),
]
ITEMS = [JudgeItem(str(i), "ad2_vqa", answer, reference) for i, (answer, reference) in enumerate(TEXTS)]

SCRIPT = """
import datasets
import evaluate
class Own(evaluate.Metric):
    def _info(self):
        text = datasets.Value("string")
        return evaluate.MetricInfo("d", "c", datasets.Features({{"predictions": text, "references": text}}), "i")
    def _compute(self, predictions, references):
        return {body}
"""


def script(tmp_path: Path, body: str) -> str:
    (tmp_path / "own.py").write_text(SCRIPT.format(body=body), "utf-8")
    return str(tmp_path / "own.py")


def test_the_example_gives_the_marks_of_the_lexical_judge() -> None:
    marks = [r.score for r in make_judge(f"evaluate:{ROUGE_L}").rate(ITEMS) if isinstance(r, JudgeRating)]
    assert marks == [r.score for r in make_judge("lexical").rate(ITEMS) if isinstance(r, JudgeRating)]
    assert len(marks) == len(ITEMS) and marks[3] == 10.0 and marks[4] == 1.0


def test_an_error_rate_is_inverted_and_clamped(tmp_path: Path) -> None:
    body = "{'n': len(predictions), 'rate': len(predictions[0]) / 4}"
    judge = make_judge(f"evaluate:{script(tmp_path, body)},value=rate,best=0,worst=1,name=length")
    found = judge.rate([JudgeItem(str(n), "ad2_vqa", "x" * n, "r") for n in (0, 1, 4, 9)])
    assert [r.score for r in found if isinstance(r, JudgeRating)] == [10.0, 7.75, 1.0, 1.0]
    assert judge.label == "evaluate:length" and judge.describe()["mark"] == "1 + 9 * (value - 1) / (0 - 1)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [("{'a': float('nan')}", "metric_undefined"), ("{'a': 'x'}", "metric_undefined"), ("None", "metric_undefined"),
     ("{'a': 1 / 0}", "metric_failed")],
)  # fmt: skip
def test_a_result_that_is_no_number_is_unscored(tmp_path: Path, body: str, reason: str) -> None:
    (found,) = make_judge(f"evaluate:{script(tmp_path, body)}").rate(ITEMS[:1])
    assert isinstance(found, Unscored) and found.reason == reason


def test_a_list_of_one_and_numpy_numbers_are_accepted(tmp_path: Path) -> None:
    body = "{'f1': [__import__('numpy').float64(0.5)]}"
    (found,) = make_judge(f"evaluate:{script(tmp_path, body)}").rate(ITEMS[:1])
    assert isinstance(found, JudgeRating) and (found.score, found.raw) == (5.5, "f1 0.5000")


def test_user_errors_have_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"'bertscore' is no local script; give a \.py file"):
        make_judge("evaluate:bertscore")
    with pytest.raises(Ad2Error, match="best and worst must differ"):
        make_judge(f"evaluate:{ROUGE_L},worst=1")
    with pytest.raises(Ad2Error, match=r"choose one: value=a \| b"):
        make_judge(f"evaluate:{script(tmp_path, '{chr(97): 1, chr(98): 2}')}").rate(ITEMS[:1])
    with pytest.raises(Ad2Error, match="has no 'c', only a"):
        make_judge(f"evaluate:{script(tmp_path, '{chr(97): 1}')},value=c").rate(ITEMS[:1])
    (tmp_path / "own.py").write_text("import evaluate\nimport no_such_module\n", "utf-8")
    with pytest.raises(Ad2Error, match="no_such_module"):
        make_judge(f"evaluate:{tmp_path / 'own.py'}")
