"""The one contract of every Interpreter."""

from __future__ import annotations

import json
import math

import pytest
from support.closedloop.models import FakeModel, decision_of, decision_request

from closedloop_plugin.agents.model_backend import ModelReply
from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Decision
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.interpreters.describers import OfflineDescriber
from closedloop_plugin.interpreters.make import MODES, make_hybrid, make_interpreter
from closedloop_plugin.interpreters.model_interpreter import cng, dcs
from closedloop_plugin.interpreters.rules import RuleInterpreter
from closedloop_plugin.prompts.texts import PromptTexts
from lmms_eval_ad2.testing.fake_endpoint import serve

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
    "hybrid": lambda: make_hybrid(cng(_model(), TEXTS, RULES), RuleInterpreter(RULES)),
}


@pytest.fixture(params=[*MAKERS, "endpoint"])
def interpreter(request: pytest.FixtureRequest):
    if request.param != "endpoint":
        yield MAKERS[request.param]()
        return
    with serve(reply=GOOD) as server:
        yield make_interpreter(f"endpoint:m@{server.url}", "dcs", RULES)


WORDS = [
    "Stop.", "Turn left with speed = 0.5", "", "Maybe.", "[(1, 0), (2, 0)]", "do not", "nan", "{{words}} {0.__class__}",
    "<<<END ACTION>>>", "\x00\ud800", "😀" * 50, '{"throttle": NaN, "steer": 0, "brake": 0}', "x" * 30_000,
]  # fmt: skip


def test_it_has_what_the_runner_reads(interpreter: Interpreter) -> None:
    assert interpreter.mode in MODES and interpreter.name and isinstance(interpreter.local, bool)


def test_one_reading_for_each_item_in_order_and_never_an_exception(interpreter: Interpreter) -> None:
    items = [(decision_request(f"e{i}"), decision_of(action=w, threat=w)) for i, w in enumerate(WORDS)]
    items += [(decision_request("t"), decision_of(trajectory=w)) for w in WORDS]
    items += [(decision_request("f"), Decision(error="down")), (decision_request("n"), Decision())]
    readings = interpreter.interpret(items)
    assert len(readings) == len(items)
    for reading in readings:
        if reading.control is None:
            assert reading.reason and "\n" not in reading.reason and len(reading.reason) <= 60
        else:
            assert reading.reason is None and reading.control == reading.control.checked()
            assert all(map(math.isfinite, (reading.control.steer, reading.control.throttle, reading.control.brake)))
        assert reading.mode and reading.latency_s >= 0 and isinstance(reading.raw, str)
    assert [r.reason for r in readings[-2:]] == ["agent_error", "no_answer"]


def test_nothing_asked_nothing_read(interpreter: Interpreter) -> None:
    assert interpreter.interpret([]) == []


def test_the_same_words_are_read_alike_alone_and_in_company(interpreter: Interpreter) -> None:
    items = [(decision_request(f"e{i}"), decision_of(action=w, threat="no")) for i, w in enumerate(WORDS)]
    together = [(r.control, r.reason) for r in interpreter.interpret(items)]
    assert together == [(r.control, r.reason) for item in items for r in interpreter.interpret([item])]


def test_it_describes_itself_in_json(interpreter: Interpreter) -> None:
    told = interpreter.describe()
    assert told["name"] == interpreter.name and told["mode"] == interpreter.mode
    assert json.loads(json.dumps(told)) == told
