"""The Interpreter protocol. Contract: tests/contracts/test_interpreters.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from closedloop_plugin.core.state import Decision, InterpretedControl
from closedloop_plugin.driver.agent import DecisionRequest

# Prefixes of reasons for a model that did not answer: a failure of the model, not an unparsed reply.
NO_REPLY_REASONS = ("no_reply", "no_description")


class Interpreter(Protocol):
    """The slow system: from a decision in words to a control."""

    name: str  # e.g. "rules", "cng:endpoint:llama-3-8b"
    mode: str  # "cng" | "dcs" | "rules" | "hybrid"
    local: bool  # see Agent.local
    # concurrent: bool = False  # optional, see agents.base.is_concurrent

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """One InterpretedControl per item, in order; for an unparsed reply one without control, never a guess."""
        ...

    def describe(self) -> dict[str, Any]: ...
