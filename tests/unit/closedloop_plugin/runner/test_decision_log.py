"""Lines of decisions: contents, bounds of untrusted texts, keys, numbers that are not finite."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import pytest
from support.closedloop.models import observation

from closedloop_plugin.core.state import Control, Decision, InterpretedControl, ModelUsage
from closedloop_plugin.runner.decision_log import BLOCK, TEXT, DecisionLog
from closedloop_plugin.runner.decisions import DecisionResponse, TimedDecision

GO = Control(0.1, 0.5, 0.0)


def timed(decision: Decision, interpreted: InterpretedControl | None = None, **known: Any) -> TimedDecision:
    response = DecisionResponse(decision, interpreted, waited_s=0.5)
    return TimedDecision(response, GO, interpreted=True, requested=12, arrived=12, **known)


def line(decision: TimedDecision) -> dict[str, Any]:
    blocks: list[bytes] = []
    log = DecisionLog(10.0, blocks.append)
    log(decision)
    log.flush()
    (found,) = gzip.decompress(b"".join(blocks)).splitlines()
    return json.loads(found)


def test_a_line_holds_what_was_asked_answered_read_applied_and_spent() -> None:
    decision = Decision({"action": "Go."}, latency_s=0.25, usage=ModelUsage("ab", 812, 12))
    interpreted = InterpretedControl(
        GO, '{"throttle": 0.5}', None, "cng", 0.5, ("snapped",), usage=ModelUsage("cd", 90, None)
    )
    seen = observation(speed=3.5, target=(8.0, -0.1), route_offset=0.2)
    found = line(timed(decision, interpreted, applied=(12, 15), held=Control(0.1, 0.4), observation=seen))
    assert found == {
        "format": 1,
        "t": 1.2,
        "tick": 12,
        "seen": {
            "speed": 3.5, "command": "lane follow", "target": [8.0, -0.1], "speed_limit": 13.9, "route_offset": 0.2,
        },
        "words": {"action": "Go."},
        "error": None,
        "prompt_sha256": "ab",
        "seconds": 0.25,
        "tokens_in": 812,
        "tokens_out": 12,
        "reading": {
            "mode": "cng", "raw": '{"throttle": 0.5}', "reason": None, "meaning": "", "adapted": ["snapped"],
            "prompt_sha256": "cd", "seconds": 0.5, "tokens_in": 90, "tokens_out": None,
        },
        "control": {"requested": [0.1, 0.5, 0.0], "applied": [0.1, 0.4, 0.0], "from_tick": 12, "to_tick": 15},
        "waited_s": 0.5,
    }  # fmt: skip


def test_what_is_not_reported_is_null_and_never_0() -> None:
    found = line(timed(Decision(control=GO, usage=ModelUsage(None, 0, 0))))
    assert [found[name] for name in ("prompt_sha256", "seconds", "tokens_in", "tokens_out", "reading")] == [None] * 5
    assert found["control"] == {"requested": [0.1, 0.5, 0.0], "applied": None, "from_tick": None, "to_tick": None}


def test_numbers_that_are_not_finite_become_null() -> None:
    found = line(timed(Decision(control=Control(math.nan, math.inf, 0.5)), observation=observation(speed=math.nan)))
    assert found["control"]["requested"] == [None, None, 0.5]
    assert found["seen"]["speed"] is None


def test_long_texts_are_cut_and_say_so() -> None:
    reply = "ä" * (TEXT + 1)
    found = line(timed(Decision({"action": reply, "x" * 500: "y"}), InterpretedControl(None, reply, "r" * 20_000)))
    assert found["words"] == {"action": "ä" * TEXT, "x" * 80: "y"}
    assert [len(found["reading"][name]) for name in ("raw", "reason")] == [TEXT, TEXT]
    assert found["cut"] == {"words.action": TEXT + 1, "raw": TEXT + 1, "reason": 20_000}
    assert "cut" not in line(timed(Decision({"action": "ä" * TEXT})))
    assert len(line(timed(Decision({str(i): "x" for i in range(1000)})))["words"]) == 16


@pytest.mark.parametrize("text", ["\ud800", "\x00\n\r\u2028", '"}\n{"'])
def test_any_text_stays_one_line_of_json(text: str) -> None:
    assert line(timed(Decision({"action": text}, error=text)))["words"] == {"action": text}


def test_keys_of_the_environment_are_removed_also_at_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcdefgh12345678")
    texts = {"action": "key abcdefgh12345678", "long": "x" * (TEXT - 4) + "abcdefgh12345678"}
    found = line(timed(Decision(texts, error="abcdefgh12345678"), InterpretedControl(None, "abcdefgh12345678", "why")))
    assert "abcd" not in json.dumps(found)
    assert found["words"]["action"] == "key [REDACTED]"


def test_lines_are_sent_in_blocks_so_that_memory_is_bounded() -> None:
    blocks: list[bytes] = []
    log = DecisionLog(10.0, blocks.append)
    for _ in range(300):
        log(timed(Decision({"action": "z" * 1000})))
    before = len(blocks)
    assert before >= 5
    log.flush()
    log.flush()  # nothing is left
    assert len(blocks) == before + 1
    assert all(len(gzip.decompress(block)) < BLOCK + 2000 for block in blocks)
    assert gzip.decompress(b"".join(blocks)).count(b"\n") == 300
