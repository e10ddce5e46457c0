"""Calls of the fast and the slow system, whose exceptions become errors of the requests."""

from __future__ import annotations

from collections.abc import Sequence

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.worlds.base import WorldError
from lmms_eval_ad2.errors import Ad2Error


def needs_interpreter(decision: Decision) -> bool:
    return decision.control is None and decision.error is None


def decide(agent: Agent, requests: Sequence[DecisionRequest]) -> list[Decision]:
    """The agent's decisions. An exception of the agent, except Ad2Error, becomes the error of each of them."""
    try:
        decisions = agent.decide(requests)
        if len(decisions) != len(requests):
            raise ValueError(f"{len(decisions)} decisions for {len(requests)} questions")
        return decisions
    except (Ad2Error, WorldError):
        raise
    except Exception as exc:
        return [Decision(error=f"{type(exc).__name__}: {exc}")] * len(requests)


def interpret(interpreter: Interpreter, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
    """The interpreter's controls. An exception of the interpreter, except Ad2Error, becomes the reason of each."""
    try:
        interpreted = interpreter.interpret(items)
        if len(interpreted) != len(items):
            raise ValueError(f"{len(interpreted)} readings for {len(items)} items")
        return interpreted
    except (Ad2Error, WorldError):
        raise
    except Exception as exc:
        return [InterpretedControl(None, reason=f"the interpreter failed: {type(exc).__name__}: {exc}")] * len(items)
