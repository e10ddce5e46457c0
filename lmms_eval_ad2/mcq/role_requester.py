"""Request of one role, repeated with the fault of the last reply until a reply is usable (bounded)."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from pydantic import BaseModel

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.cache import key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.data_url_image import DataUrlImage
from lmms_eval_ad2.llm.model import LanguageModel, json_schema
from lmms_eval_ad2.llm.request_body import EncodedJson
from lmms_eval_ad2.llm.session import EndpointSession
from lmms_eval_ad2.mcq.base import RoleExchange
from lmms_eval_ad2.mcq.replies import LONGEST_REPLY, REFUSED, SCHEMA_NAMES, ReplyFault, schema_of
from lmms_eval_ad2.mcq.role_prompts import QuestionPrompts, RolePrompt

T = TypeVar("T")
MOST_FORMLESS = 8  # questions in a row without a reply in JSON, after which no further one is asked
_SHOWN = 120  # characters of a reply in a message


def never_json(label: str, reply: str, then: str) -> Ad2Error:
    """The error that ends a command after MOST_FORMLESS questions in a row; `then`: what becomes of them."""
    shown = " ".join(reply.split())[:_SHOWN]
    return Ad2Error(
        f"{label}: no reply to {MOST_FORMLESS} questions in a row is JSON, e.g. '{shown}': use a model or a server "
        f"that replies in JSON as requested; {then}"
    )


class NoEndpointReply(Exception):
    """The endpoint failed to reply."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class NoUsableReply(Exception):
    """No usable reply from a role. `code` and `detail` describe the fault of the last reply, `reply`."""

    def __init__(self, role: str, code: str, detail: str, reply: str) -> None:
        super().__init__(f"{role}: {code}")
        self.role, self.code, self.detail, self.reply = role, code, detail, reply


@dataclass(slots=True)
class RoleRequester:
    """Requests of one question. `exchanges` is its transcript; `notes` counts the faults of its replies."""

    model: LanguageModel
    session: EndpointSession
    prompts: QuestionPrompts
    images: Sequence[DataUrlImage]
    repairs: int
    exchanges: list[RoleExchange] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    async def request(self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]) -> T:
        """Result of `read` for the first reply that it accepts, that is, for which it does not raise ReplyFault.

        Raises NoEndpointReply if the endpoint fails, and NoUsableReply after `repairs` further requests.
        """
        for left in range(self.repairs, -1, -1):
            outcome, value = await self._once(prompt, shape, read)
            self._record(prompt, outcome, value)
            if isinstance(outcome, RequestFailure):
                raise NoEndpointReply(outcome)
            if not isinstance(value, ReplyFault):
                return cast(T, value)
            self.notes[f"reply_{value.code}"] += 1
            if not left or value.code == REFUSED:
                raise NoUsableReply(prompt.role, value.code, value.message, outcome.text)
            prompt = prompt.after(outcome.text, self.prompts.complaint(value.message))
        raise AssertionError("unreachable")

    async def _once(
        self, prompt: RolePrompt, shape: type[BaseModel], read: Callable[[ChatReply], T]
    ) -> tuple[ChatReply | RequestFailure, T | ReplyFault | None]:
        """The reply and the result of `read`, which is called once although both the cache and the caller need it."""
        seen: dict[ChatReply, T | ReplyFault] = {}

        def read_once(reply: ChatReply) -> T | ReplyFault:
            if reply not in seen:
                try:
                    seen[reply] = read(reply)
                except ReplyFault as fault:
                    seen[reply] = fault
            return seen[reply]

        form = _form(shape)
        key = key_of(self.model.payload(prompt.outline(self.images), form))
        outcome = await self.session.ask(
            lambda: self.model.payload(prompt.messages(self.images), form),
            key=key, accept=lambda reply: not isinstance(read_once(reply), ReplyFault),
        )  # fmt: skip
        return outcome, read_once(outcome) if isinstance(outcome, ChatReply) else None

    def _record(self, prompt: RolePrompt, outcome: ChatReply | RequestFailure, value: object) -> None:
        if isinstance(outcome, RequestFailure):
            self.exchanges.append(RoleExchange(prompt.role, prompt.latest, outcome.detail, fault=outcome.reason))
            return
        fault = value.code if isinstance(value, ReplyFault) else ""
        tokens = (outcome.prompt_tokens, outcome.completion_tokens)
        text = outcome.text[:LONGEST_REPLY]  # longer replies are refused unread
        self.exchanges.append(RoleExchange(prompt.role, prompt.latest, text, fault, outcome.cached, *tokens))


@functools.cache
def _form(shape: type[BaseModel]) -> EncodedJson:
    """The requested form of a reply."""
    return json_schema(SCHEMA_NAMES[shape], schema_of(shape))
