"""One role's request until its reply can be used: asked, checked, asked again with what was wrong, at most so often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from pydantic import BaseModel

from lmms_eval_ad2.llm.cache import key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.model import LanguageModel
from lmms_eval_ad2.llm.session import EndpointSession
from lmms_eval_ad2.mcq.base import RoleExchange
from lmms_eval_ad2.mcq.replies import LONGEST_REPLY, REFUSED, SCHEMA_NAMES, ReplyFault, schema_of
from lmms_eval_ad2.mcq.role_prompts import DataUrlImage, QuestionPrompts, RolePrompt

T = TypeVar("T")


class NoEndpointReply(Exception):
    """The endpoint gave no reply."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class NoUsableReply(Exception):
    """No reply of a role could be used. `code` is the last fault's, `detail` what was wrong."""

    def __init__(self, role: str, code: str, detail: str) -> None:
        super().__init__(f"{role}: {code}")
        self.role, self.code, self.detail = role, code, detail


@dataclass(slots=True)
class RoleRequester:
    """The requests of one question. `exchanges` is its transcript; `notes` counts the faults of its replies."""

    model: LanguageModel
    session: EndpointSession
    roles: QuestionPrompts
    images: Sequence[DataUrlImage]
    repairs: int
    exchanges: list[RoleExchange] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    async def ask(self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]) -> T:
        """What `read` makes of the first reply that it does not refuse (Fault).

        Raises Lost where the endpoint fails, and Unusable after `repairs` further tries.
        """
        for left in range(self.repairs, -1, -1):
            outcome, value = await self._once(prompt, shape, read)
            self._note(prompt, outcome, value)
            if isinstance(outcome, RequestFailure):
                raise NoEndpointReply(outcome)
            if not isinstance(value, ReplyFault):
                return cast(T, value)
            self.notes[f"reply_{value.code}"] += 1
            if not left or value.code == REFUSED:
                raise NoUsableReply(prompt.role, value.code, value.message)
            prompt = prompt.after(outcome.text, self.roles.complaint(value.message))
        raise AssertionError("unreachable")

    async def _once(
        self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]
    ) -> tuple[ChatReply | RequestFailure, T | ReplyFault | None]:
        """What came, and what `read` made of it (once: it is asked for the cache, and again here)."""
        seen: dict[ChatReply, T | ReplyFault] = {}

        def look(reply: ChatReply) -> T | ReplyFault:
            if reply not in seen:
                try:
                    seen[reply] = read(reply)
                except ReplyFault as fault:
                    seen[reply] = fault
            return seen[reply]

        schema = (SCHEMA_NAMES[shape], schema_of(shape))
        key = key_of(self.model.payload(prompt.outline(self.images), schema))
        outcome = await self.session.ask(
            lambda: self.model.payload(prompt.messages(self.images), schema),
            key=key, accept=lambda reply: not isinstance(look(reply), ReplyFault),
        )  # fmt: skip
        return outcome, look(outcome) if isinstance(outcome, ChatReply) else None

    def _note(self, prompt: RolePrompt, outcome: ChatReply | RequestFailure, value: object) -> None:
        if isinstance(outcome, RequestFailure):
            self.exchanges.append(RoleExchange(prompt.role, prompt.latest, outcome.detail, fault=outcome.reason))
            return
        fault = value.code if isinstance(value, ReplyFault) else ""
        tokens = (outcome.prompt_tokens, outcome.completion_tokens)
        said = outcome.text[:LONGEST_REPLY]  # none that is longer is read at all
        self.exchanges.append(RoleExchange(prompt.role, prompt.latest, said, fault, outcome.cached, *tokens))
