"""Contract tests that every Interpreter must pass."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
from support.closedloop.models import FakeModel, decision_of, decision_request

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agents.model_backend import ModelReply
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.describers import OfflineDescriber
from closedloop_plugin.driver.interpreters.make import MODES, HybridInterpreter, make_interpreter, model_interpreter
from closedloop_plugin.driver.interpreters.rules import RuleInterpreter
from closedloop_plugin.driver.prompts.texts import PromptTexts
from lmms_eval_ad2.testing.fake_endpoint import serve

cng, dcs = partial(model_interpreter, "cng"), partial(model_interpreter, "dcs")

pytestmark = pytest.mark.integration

TEXTS, RULES = PromptTexts.load(), profile("bench2advlm")
GOOD = '{"throttle": 0.3, "steer": 0.2, "brake": 0}'


def _model(answer: str | ModelReply = GOOD) -> FakeModel:
    return FakeModel(lambda q: answer)


MAKERS = {
    "rules": lambda: RuleInterpreter(RULES),
    "cng": lambda: cng(_model(), TEXTS, RULES),
    "dcs": lambda: dcs(_model(), TEXTS, RULES),
    "cng of an LLM": lambda: cng(_model(), TEXTS, RULES, OfflineDescriber()),
    "cng of nonsense": lambda: cng(_model("hello"), TEXTS, RULES),
    "dcs out of the set": lambda: dcs(_model('{"throttle": 0.31, "steer": 0, "brake": 0}'), TEXTS, RULES),
    "cng that fails": lambda: cng(_model(ModelReply(error="timeout: 1 s")), TEXTS, RULES),
    "hybrid": lambda: HybridInterpreter(cng(_model(), TEXTS, RULES), RuleInterpreter(RULES)),
}


@pytest.fixture(params=[*MAKERS, "endpoint"])
def interpreter(request: pytest.FixtureRequest):
    if request.param != "endpoint":
        yield MAKERS[request.param]()
        return
    with serve(reply=GOOD) as server:
        yield make_interpreter(f"endpoint:m@{server.url}", "dcs", RULES)


REPLIES = [
    "Stop.", "Turn left with speed = 0.5", "", "Maybe.", "[(1, 0), (2, 0)]", "do not", "nan", "{{words}} {0.__class__}",
    "<<<END ACTION>>>", "\x00\ud800", "😀" * 50, '{"throttle": NaN, "steer": 0, "brake": 0}', "x" * 30_000,
]  # fmt: skip


def test_it_has_the_attributes_that_the_runner_reads(interpreter: Interpreter) -> None:
    assert interpreter.mode in MODES and interpreter.name and isinstance(interpreter.local, bool)


def test_interpret_returns_one_result_per_item_in_order_and_never_raises(interpreter: Interpreter) -> None:
    items = [(decision_request(f"e{i}"), decision_of(action=text, threat=text)) for i, text in enumerate(REPLIES)]
    items += [(decision_request("t"), decision_of(trajectory=text)) for text in REPLIES]
    items += [(decision_request("f"), Decision(error="down")), (decision_request("n"), Decision())]
    results = interpreter.interpret(items)
    assert len(results) == len(items)
    for result in results:
        if result.control is None:
            assert result.reason and "\n" not in result.reason and len(result.reason) <= 60
        else:
            assert result.reason is None and result.control == result.control.checked()
            assert all(map(math.isfinite, (result.control.steer, result.control.throttle, result.control.brake)))
        assert result.mode and result.latency_s >= 0 and isinstance(result.raw, str)
    assert [r.reason for r in results[-2:]] == ["agent_error", "no_answer"]


def test_no_items_give_no_results(interpreter: Interpreter) -> None:
    assert interpreter.interpret([]) == []


def test_result_is_independent_of_other_items_in_the_batch(interpreter: Interpreter) -> None:
    items = [(decision_request(f"e{i}"), decision_of(action=text, threat="no")) for i, text in enumerate(REPLIES)]
    together = [(r.control, r.reason) for r in interpreter.interpret(items)]
    assert together == [(r.control, r.reason) for item in items for r in interpreter.interpret([item])]


def test_description_is_json_serializable(interpreter: Interpreter) -> None:
    description = interpreter.describe()
    assert description["name"] == interpreter.name and description["mode"] == interpreter.mode
    assert json.loads(json.dumps(description)) == description
