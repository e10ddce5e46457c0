"""What goes wrong below the model wrappers of lmms-eval, which hide it, so that it is not scored as an answer.

Local models: many wrappers (llava_hf, internvl_hf, the omni models) catch whatever `model.generate` raises, for example
that the memory of the GPU is full, and return an empty text. `CaughtErrors` observes these methods; an empty text of a
call in which one of them raised becomes a failure text with the error. Not seen: wrappers that return a sentence of
their own after an exception (oryx, llava_onevision_moviechat).

Endpoints: the API wrappers return the text of a completion and ignore why it ended. `marked` replaces what a content
filter or a server that broke off has left of a reply by a failure text, by the rules of our own client
(llm/completion.py). A reply that ended at the token limit ("length") is the model's answer, however short: also one of
which only a thought was written, wherever the server puts the thought.

An endpoint that refuses every request (wrong key, address or model): the wrappers catch every exception, repeat the
request and return the failure as the answer. `RefusalGuard` observes the exceptions of the client; a refusal that
concerns every request ends the run by a BaseException, which the wrappers do not catch. Until the first reply, the
other requests wait.

Failure texts (parsing/reasons.py) are unscored, and asked again when the run is resumed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from lmms_eval_ad2.harness.model_requirements import is_endpoint, key_variables
from lmms_eval_ad2.harness.several_servers import server_of
from lmms_eval_ad2.llm.completion import (
    AT_TOKEN_LIMIT,
    BROKEN_OFF,
    DETAIL,
    FATAL_CODES,
    FATAL_STATUS,
    WITHHELD,
    NoCompletion,
    error_text,
    joined_parts,
    read_error,
    remedy,
    token_count,
)
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.storage.redaction import without_keys

# As seen from the wrapper: of the model of almost all, of the language model of some, and of the chat wrappers that
# catch what is raised before the model, too.
_MODEL_METHODS = ("model.generate", "model.chat", "model.llm.generate", "_infer_one")


class CaughtErrors:
    """Observes the model of one wrapper `lm`, and replaces empty answers of its method `generate_until`.

    For wrappers that process one call at a time, as those of local models do.
    """

    def __init__(self, lm: Any, generate_until: Callable[[list[Any]], list[Any]]) -> None:
        self._lm, self._generate_until = lm, generate_until
        self._error = ""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within the block, exceptions of the model are seen."""
        with ExitStack() as observed:
            for path in _MODEL_METHODS:
                owner, method = _method(self._lm, path)
                name = path.rpartition(".")[2]
                if method is None or name in vars(owner):
                    continue
                with suppress(Exception):  # of an object that accepts no attributes: it is not observed
                    setattr(owner, name, self._observed(method))
                    observed.callback(delattr, owner, name)
            yield

    def generate(self, requests: list[Any]) -> list[Any]:
        """The answers, with the error in the place of empty ones if the model raised one."""
        self._error = ""
        answers = self._generate_until(requests)
        if not self._error:
            return answers
        return [marked_answer(answer, f"[GENERATION_FAILED] {self._error}") for answer in answers]

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as exc:
                self._error = f"{type(exc).__name__}: {' '.join(str(exc).split())[:DETAIL]}"
                raise

        return call


def _method(lm: Any, path: str) -> tuple[Any, Callable[..., Any] | None]:
    """(object, its method) at a path below the wrapper; (lm, None) if there is none."""
    owner, method = None, lm
    for name in path.split("."):
        try:
            owner, method = method, getattr(method, name)
        except Exception:  # also of a property of the lmms base class that this wrapper does not support
            return lm, None
    usable = callable(method) and hasattr(owner, "__dict__") and not isinstance(owner, type)
    return owner, method if usable else None


NO_TEXT = "[GENERATION_FAILED] the model returned no text"
_BROKEN_OFF = "[GENERATION_FAILED] the endpoint broke off the reply"
_WITHHELD = "[SAFETY_BLOCKED] the endpoint withheld the reply"


def marked(reply: Any) -> Any:
    """`reply`, an object like openai's ChatCompletion, as the wrappers can use it.

    A choice without an answer has a failure text, parts of a content are joined, and token counts are numbers. Raises
    NoCompletion with the endpoint's message for a reply without choices, which the wrapper repeats as a failed
    request. Other objects are returned unchanged.
    """
    choices = None if isinstance(reply, str) else getattr(reply, "choices", ())
    if choices is None or (isinstance(choices, list) and not any(getattr(c, "message", None) for c in choices[:1])):
        raise NoCompletion("invalid_reply", f"no completion: {read_error(_body(reply))[1][:DETAIL]}")
    if choices and (error := getattr(reply, "error", None)):
        raise NoCompletion("broken_off", error_text(error)[:DETAIL])
    for choice in choices:
        message = getattr(choice, "message", None)
        if message is not None:
            message.content = _content(choice, message)
    _keep_token_counts(reply)
    return reply


def marked_answer(answer: Any, failure: str = NO_TEXT) -> Any:
    """`answer` (a text, or lmms-eval's dataclass with `text`) with a failure text if it is empty."""
    text = getattr(answer, "text", answer)
    if not isinstance(text, str) or text.strip():
        return answer
    return failure if isinstance(answer, str) else dataclasses.replace(answer, text=failure)


def _body(reply: Any) -> bytes:
    """The body of a reply that the client could not read as a completion: a text, or an object without choices."""
    if isinstance(reply, str) or not hasattr(reply, "model_dump_json"):
        return str(reply).encode("utf-8", "replace")
    return str(reply.model_dump_json(exclude_unset=True, warnings=False)).encode("utf-8", "replace")


def _content(choice: Any, message: Any) -> Any:
    """The text of a choice, or its failure text; None for a choice that calls tools."""
    finish, content = getattr(choice, "finish_reason", None), joined_parts(getattr(message, "content", None))
    if finish in WITHHELD or getattr(message, "refusal", None):
        return _WITHHELD
    if finish in BROKEN_OFF:
        return _BROKEN_OFF
    if error := getattr(choice, "error", None):  # of a gateway, beside what was written before it
        return f"{_BROKEN_OFF}: {error_text(error)[:DETAIL]}"
    if content is not None and not isinstance(content, str):
        return f"[GENERATION_FAILED] content is {type(content).__name__}, not text"
    if finish in AT_TOKEN_LIMIT:  # None: the limit ended a thought, which the server keeps apart
        return content or ""
    if finish in ("tool_calls", "function_call") or getattr(message, "tool_calls", None):
        return content
    return content if content and content.strip() else NO_TEXT


def _keep_token_counts(reply: Any) -> None:
    """Remove token counts that are no numbers, which the wrappers would add up."""
    usage = getattr(reply, "usage", None)
    for counts in (usage, getattr(usage, "completion_tokens_details", None)):
        for name in ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens"):
            if token_count(getattr(counts, name, 0)) is None:
                setattr(counts, name, None)


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
        return {i: marked_answer(answer) for i, answer in answers.items()}

    def _observed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self._is_first():
                self._first_outcome.wait(_WAIT_S)
            self._raise_if_stopped()
            try:
                reply = marked(original(*args, **kwargs))
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
                    reply = marked(await original(*args, **kwargs))
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
            fatal = str(getattr(exc, "code", None) or "") in FATAL_CODES or (
                status in FATAL_STATUS and status not in _PER_REQUEST
            )
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


def _short(text: str) -> str:
    return " ".join(text.split())[:DETAIL]
