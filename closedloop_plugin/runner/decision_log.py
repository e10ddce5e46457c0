"""DecisionLog: every decision of an episode as one line of JSON, made in the world's process and compressed in blocks.

The format of the lines, RUN/decisions/<route>_rep<k>.jsonl.gz: docs/decisions-file.md. decision_files.py writes them.
Replies are untrusted: texts are cut, keys are removed, numbers that are not finite become null.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from closedloop_plugin.core.kept_texts import NAME, TEXT, TEXTS, KeptTexts
from closedloop_plugin.core.state import Control, InterpretedControl, ModelUsage, Observation
from closedloop_plugin.runner.decisions import TimedDecision
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.storage.redaction import environment_keys

FORMAT = 1
BLOCK = 1 << 16  # bytes of lines that are compressed together
LEVEL = 1  # of gzip: higher ones take three times as long and save a fifth
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps makes one for every line


class DecisionLog:
    """The lines of one episode; `send` gets them in blocks, each a gzip member. `hz`: ticks per second."""

    def __init__(self, hz: float, send: Callable[[bytes], None]) -> None:
        self.hz, self._send = hz, send
        self._keys = environment_keys()
        self._lines = bytearray()

    def __call__(self, decision: TimedDecision) -> None:
        """Add a decision whose control is no longer applied, or never will be."""
        # A lone surrogate becomes its JSON escape.
        self._lines += _ENCODER.encode(self._line(decision)).encode("utf-8", "backslashreplace") + b"\n"
        if len(self._lines) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._send(gzip.compress(self._lines, LEVEL, mtime=0))
            self._lines.clear()

    def _line(self, timed: TimedDecision) -> dict[str, Any]:
        decision, interpreted = timed.response.decision, timed.response.interpreted
        kept = KeptTexts(self._keys)
        begin, end = timed.applied or (None, None)
        requested = decision.control or (interpreted.control if interpreted else None)
        line = {
            "format": FORMAT,
            "t": round(timed.requested / self.hz, 6),
            "tick": timed.requested,
            "seen": None if timed.observation is None else _seen(timed.observation),
            "words": kept.answers("words", decision.texts),
            "error": kept.optional("error", decision.error),
            **_cost(decision.latency_s, decision.usage),
            "reading": None if interpreted is None else _reading(interpreted, kept),
            "control": {
                "requested": None if requested is None else _numbers(requested),
                "applied": None if timed.held is None else _numbers(timed.held),
                "from_tick": begin,
                "to_tick": end,
            },
            "waited_s": _seconds(timed.response.waited_s),
        }
        return line | ({"cut": kept.cut} if kept.cut else {})


def _reading(interpreted: InterpretedControl, kept: KeptTexts) -> dict[str, Any]:
    return {
        "mode": str(interpreted.mode)[:TEXT],
        "raw": kept.text("raw", interpreted.raw),
        "reason": kept.optional("reason", interpreted.reason),
        "meaning": interpreted.meaning[:NAME],
        "adapted": [str(name)[:NAME] for name in interpreted.adapted[:TEXTS]],
        **_cost(interpreted.latency_s, interpreted.usage),
    }


def _seen(observation: Observation) -> dict[str, Any]:
    """What an interpreter takes from the observation besides images, with all digits: reading again gives the same."""
    return {
        "speed": _number(observation.speed),
        "command": str(observation.command),
        "target": [_number(value) for value in observation.target],
        "speed_limit": _number(observation.speed_limit),
        "route_offset": _number(observation.route_offset),
    }


def _cost(latency_s: float, usage: ModelUsage) -> Mapping[str, Any]:
    return {
        "prompt_sha256": usage.prompt_sha256,
        "seconds": _seconds(latency_s),
        "tokens_in": _tokens(usage.tokens_in),
        "tokens_out": _tokens(usage.tokens_out),
    }


def _tokens(count: int | None) -> int | None:
    """A count; None for 0, which a backend without counts reports."""
    return count if count and is_whole(count, 1) else None


def _seconds(value: float | None) -> float | None:
    """Wall time; None for 0, which a system without a clock reports."""
    number = _number(value)
    return round(number, 6) if number else None


def _numbers(control: Control) -> list[float | None]:
    return [_number(value) for value in (control.steer, control.throttle, control.brake)]


def _number(value: object) -> float | None:
    if type(value) is float and math.isfinite(value):  # nearly always
        return value
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
