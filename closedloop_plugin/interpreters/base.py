"""The Interpreter. Its contract: tests/contracts/test_interpreters.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.core.state import Decision, InterpretedControl

# How the reason of a Reading begins whose model did not answer: a failure of its, and no opinion.
SILENT = ("no_reply", "no_description")


class Interpreter(Protocol):
    name: str  # e.g. "rules", "cng:endpoint:llama-3-8b"
    mode: str  # "cng" | "dcs" | "rules" | "hybrid"
    local: bool  # as Agent.local

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """One Reading an item, in order. A reply that cannot be read is Reading(None, raw, reason), never a guess."""
        ...

    def describe(self) -> dict[str, Any]: ...
