"""One role's request until its reply can be used: asked, checked, asked again with what was wrong, at most so often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from pydantic import BaseModel

from lmms_eval_ad2.llm.cache import key_of
from lmms_eval_ad2.llm.client import Failure, Reply
from lmms_eval_ad2.llm.session import Session
from lmms_eval_ad2.llm.spec import Model
from lmms_eval_ad2.mcq.base import Exchange
from lmms_eval_ad2.mcq.replies import LONGEST_REPLY, REFUSED, SCHEMA_NAMES, Fault, schema_of
from lmms_eval_ad2.mcq.roles import Picture, Prompt, Roles

T = TypeVar("T")


class Lost(Exception):
    """The endpoint gave no reply."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Unusable(Exception):
    """No reply of a role could be used. `code` is the last fault's, `detail` what was wrong."""

    def __init__(self, role: str, code: str, detail: str) -> None:
        super().__init__(f"{role}: {code}")
        self.role, self.code, self.detail = role, code, detail


@dataclass(slots=True)
class Asking:
    """The requests of one question. `exchanges` is its transcript; `notes` counts the faults of its replies."""

    model: Model
    session: Session
    roles: Roles
    images: Sequence[Picture]
    repairs: int
    exchanges: list[Exchange] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    async def ask(self, prompt: Prompt, shape: type[BaseModel], read: Callable[[Reply], T]) -> T:
        """What `read` makes of the first reply that it does not refuse (Fault).

        Raises Lost where the endpoint fails, and Unusable after `repairs` further tries.
        """
        for left in range(self.repairs, -1, -1):
            outcome, value = await self._once(prompt, shape, read)
            self._note(prompt, outcome, value)
            if isinstance(outcome, Failure):
                raise Lost(outcome)
            if not isinstance(value, Fault):
                return cast(T, value)
            self.notes[f"reply_{value.code}"] += 1
            if not left or value.code == REFUSED:
                raise Unusable(prompt.role, value.code, value.message)
            prompt = prompt.after(outcome.text, self.roles.complaint(value.message))
        raise AssertionError("unreachable")

    async def _once(
        self, prompt: Prompt, shape: type[BaseModel], read: Callable[[Reply], T]
    ) -> tuple[Reply | Failure, T | Fault | None]:
        """What came, and what `read` made of it (once: it is asked for the cache, and again here)."""
        seen: dict[Reply, T | Fault] = {}

        def look(reply: Reply) -> T | Fault:
            if reply not in seen:
                try:
                    seen[reply] = read(reply)
                except Fault as fault:
                    seen[reply] = fault
            return seen[reply]

        schema = (SCHEMA_NAMES[shape], schema_of(shape))
        key = key_of(self.model.payload(prompt.outline(self.images), schema))
        outcome = await self.session.ask(
            lambda: self.model.payload(prompt.messages(self.images), schema),
            key=key, accept=lambda reply: not isinstance(look(reply), Fault),
        )  # fmt: skip
        return outcome, look(outcome) if isinstance(outcome, Reply) else None

    def _note(self, prompt: Prompt, outcome: Reply | Failure, value: object) -> None:
        if isinstance(outcome, Failure):
            self.exchanges.append(Exchange(prompt.role, prompt.latest, outcome.detail, fault=outcome.reason))
            return
        fault = value.code if isinstance(value, Fault) else ""
        tokens = (outcome.prompt_tokens, outcome.completion_tokens)
        said = outcome.text[:LONGEST_REPLY]  # none that is longer is read at all
        self.exchanges.append(Exchange(prompt.role, prompt.latest, said, fault, outcome.cached, *tokens))
