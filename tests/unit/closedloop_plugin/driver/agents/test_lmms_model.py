"""LmmsModel: the tokens that a model class reports."""

from __future__ import annotations

import pytest

from closedloop_plugin.driver.agents.lmms_model import LmmsModel, _reply

pytestmark = pytest.mark.integration  # loads lmms-eval


def test_tokens_are_those_of_the_model_class_and_else_unknown() -> None:
    from lmms_eval.api.instance import GenerationResult, TokenCounts

    outputs = [
        GenerationResult("Stop.", TokenCounts(812, 3)),
        GenerationResult("Stop.", TokenCounts(0, None)),
        GenerationResult(" ", TokenCounts(812, 1)),
        "Stop.",
    ]
    replies = [_reply(output, 0.5, may_be_empty=False) for output in outputs]
    assert [(r.tokens_in, r.tokens_out) for r in replies] == [(812, 3), (None, None), (812, 1), (None, None)]
    assert [r.error for r in replies] == [None, None, "empty_reply", None]


def test_a_function_is_not_called_a_model_of_lmms_eval() -> None:
    def step1(prompts: object, settings: object) -> list[str]:
        return []

    for name in ("step1", None):
        assert LmmsModel.from_object(step1, name, 1).name == "function:step1"
