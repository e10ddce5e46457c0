"""Stop a run whose endpoint refuses every request (wrong key, address or model) after a few requests instead of all.

The API wrappers of lmms-eval catch every exception, repeat the request and return the failure as the answer. While a
guard is active, it observes the exceptions of the client below the wrapper. A refusal that concerns every request ends
the run: it raises a BaseException, which the wrappers do not catch. Until the first reply, the other requests wait.
Replies without an answer get a failure text there (failed_replies.py).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lmms_eval_ad2.harness import failed_replies
from lmms_eval_ad2.harness.model_requirements import is_endpoint, key_variables
from lmms_eval_ad2.harness.several_servers import server_of
from lmms_eval_ad2.llm.refusal import FATAL_CODES, FATAL_STATUS, remedy
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.redaction import without_keys

# Clients and their methods, from the model: OpenAI and LiteLLM, our own server engine, Gemini, Reka.
_OPENAI = "chat.completions.create"
_METHODS = (
    ("client", _OPENAI),
    ("_engine._client", _OPENAI),
    ("client", "models.generate_content"),
    ("reka", "chat.create"),
)
_SWIFT_KEYS = ("SWIFT_API_KEY", "OPENAI_API_KEY")
_PER_REQUEST = (403,)  # some gateways answer so to a single request that their moderation rejects
_REFUSED_STREAK = 8  # refusals with such a status, without an answer between them
_UNANSWERED = 8  # first requests without an answer, of clients that cannot be observed
_WAIT_S = 10.0  # for the first reply, before the other requests are sent; for those in flight, before the end
_POLL_S = 0.02
_DETAIL = 300  # characters of a server's message


class RefusedRequestsError(BaseException):
    """Every request is refused. Not an Exception, since wrappers catch and retry those.

    A task of an asyncio client is cancelled instead: the reason is `RefusalGuard.refusal`.
    """


class RefusalGuard:
    """Observes the client of one model; `active()` is entered for the requests of our tasks only.

    `arguments`: what the user writes the model's arguments in, for messages.
    """

    def __init__(self, lm: Any, arguments: str = "--model_args") -> None:
        self._lm, self._arguments = lm, arguments
        self._model_id = type(lm).__module__.rpartition(".")[2]
        self._client, self._method = next(
            ((client, method) for client, method in _METHODS if _find(lm, f"{client}.{method}") is not None), ("", "")
        )
        self._lock = threading.Lock()
        self._started, self._first_outcome = False, threading.Event()
        self._answered = False
        self._refused = self._unanswered = self._in_flight = 0
        self.refusal: RefusedRequestsError | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, a refusal of every request raises RefusedRequestsError."""
        if not self._method:
            yield
            return
        path, _, name = f"{self._client}.{self._method}".rpartition(".")
        owner = _find(self._lm, path)
        own, original = vars(owner).get(name), getattr(owner, name)
        is_async = inspect.iscoroutinefunction(inspect.unwrap(original))
        setattr(owner, name, self._observed_async(original) if is_async else self._observed(original))
        try:
            yield
        finally:
            delattr(owner, name)
            if own is not None:
                setattr(owner, name, own)

    def check(self, answers: Iterable[Any]) -> None:
        """Count answers of an endpoint whose client cannot be observed; raise if none of the first ones has text."""
        if self._method or self._answered or not is_endpoint(self._model_id):
            return
        for answer in answers:
            text = answer if isinstance(answer, str) else str(getattr(answer, "text", answer) or "")
            if text.strip() and not failure_reason(text):
                self._answered = True
                return
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                detail = f": {_short(text)}" if text.strip() else ""
                self.refusal = RefusedRequestsError(
                    f"none of the first {_UNANSWERED} requests was answered{detail}. {remedy(401, self._keys(None))}"
                )
                raise self.refusal

    @property
    def sees_replies(self) -> bool:
        """Whether replies without an answer are marked here, so that an empty text is one that the limit has cut."""
        return self._method.endswith(_OPENAI)

    def marked(self, answers: Mapping[int, Any]) -> dict[int, Any]:
        """The answers, with a failure text for an empty one of an endpoint whose replies are not seen here.

        Their wrappers return an empty text after a failure, too.
        """
        if self.sees_replies or not is_endpoint(self._model_id):
            return dict(answers)
        return {i: failed_replies.marked_answer(answer) for i, answer in answers.items()}

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_first():
                self._first_outcome.wait(_WAIT_S)
            self._raise_if_stopped()
            try:
                reply = failed_replies.marked(original(*args, **kwargs))
            except Exception as exc:
                self._failed(exc)
                raise
            self._succeeded()
            return reply

        return call

    def _observed_async(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_first():
                await self._wait_while(lambda: not self._first_outcome.is_set())
            try:
                self._raise_if_stopped()
                self._in_flight += 1
                try:
                    reply = failed_replies.marked(await original(*args, **kwargs))
                except Exception as exc:
                    self._failed(exc)
                    raise
                finally:
                    self._in_flight -= 1
            except RefusedRequestsError as exc:
                await self._wait_while(lambda: self._in_flight > 0)  # their answers are to be kept
                # Several tasks end so, and asyncio would report those whose exception is not retrieved.
                raise asyncio.CancelledError from exc
            self._succeeded()
            return reply

        return call

    @staticmethod
    async def _wait_while(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _WAIT_S
        while condition() and time.monotonic() < end:
            await asyncio.sleep(_POLL_S)

    def _is_first(self) -> bool:
        with self._lock:
            first, self._started = not self._started, True
        return first

    def _raise_if_stopped(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def _succeeded(self) -> None:
        self._refused = 0
        self._first_outcome.set()

    def _failed(self, exc: Exception) -> None:
        """Raise RefusedRequestsError if the failure concerns every request."""
        status = _status(exc)
        with self._lock:
            if status in _PER_REQUEST:
                self._refused += 1
            fatal = _code(exc) in FATAL_CODES or (status in FATAL_STATUS and status not in _PER_REQUEST)
            if fatal or self._refused >= _REFUSED_STREAK:
                self.refusal = self.refusal or RefusedRequestsError(self._message(exc, status))
        self._first_outcome.set()
        self._raise_if_stopped()

    def _message(self, exc: Exception, status: int) -> str:
        client = _find(self._lm, self._client)
        where = server_of(exc) or str(getattr(client, "base_url", "") or f"the endpoint of {self._model_id}")
        key = getattr(client, "api_key", None)
        text = without_keys(str(exc), (key,) if isinstance(key, str) else ())  # some servers repeat the key
        hint = remedy(status, self._keys(client))
        return ". ".join(filter(None, (f"{where.rstrip('/')} refuses every request: {_short(text)}", hint)))

    def _keys(self, client: Any) -> str:
        """Where the model's API key comes from."""
        if self._model_id == "swift":
            return " or ".join(_SWIFT_KEYS)
        azure = {"azure_openai": "true"} if type(client).__name__.startswith("Azure") else {}
        return " or ".join([*key_variables(self._model_id, azure), f"api_key of {self._arguments}"])


def _find(lm: Any, path: str) -> Any:
    """The attribute at a dotted path below the model, or None."""
    found = lm
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            return None
    return found


def _status(exc: Exception) -> int:
    """The HTTP status of a client's exception, 0 without one. Gemini reports an invalid key with status 400."""
    if "API_KEY_INVALID" in str(exc):
        return 401
    found = getattr(exc, "status_code", None) or getattr(exc, "code", None)
    return found if isinstance(found, int) else 0


def _code(exc: Exception) -> str:
    return str(getattr(exc, "code", None) or "")


def _short(text: str) -> str:
    return " ".join(text.split())[:_DETAIL]
