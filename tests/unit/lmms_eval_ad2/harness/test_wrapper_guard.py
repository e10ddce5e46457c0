"""A refused key ends the requests of our tasks after a few of them; a local server refuses, OpenAI's clients ask."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.builders import record

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import Unparsed
from lmms_eval_ad2.harness import task_data
from lmms_eval_ad2.harness.journal import AnswerJournal, attach, read_lines
from lmms_eval_ad2.harness.wrapper_guard import NO_TEXT, CaughtErrors, marked
from lmms_eval_ad2.llm.completion import NoCompletion
from lmms_eval_ad2.parsing import failure_reason, parse
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve


@dataclass
class Result:
    text: str


class Model:
    def generate(self, request: str) -> str:
        if request == "large":
            raise RuntimeError("CUDA out of\nmemory")
        return "" if request == "silent" else f"answer to {request}"

    def chat(self, request: str) -> str:
        return self.generate(request)


class LocalWrapper:
    """As llava_hf: one by one, an exception is an empty text."""

    def __init__(self, method: str = "generate") -> None:
        self.model, self.method = Model(), method

    def generate_until(self, requests: list[str]) -> list[Any]:
        return [self._one(request) for request in requests]

    def _one(self, request: str) -> Result:
        try:
            return Result(getattr(self.model, self.method)(request))
        except Exception:
            return Result("")


@pytest.mark.parametrize("method", ["generate", "chat"])
def test_a_caught_exception_is_a_failure(method: str) -> None:
    lm = LocalWrapper(method)
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        failed, answered = (caught.generate([request])[0].text for request in ("large", "small"))
        (silent,) = caught.generate(["silent"])
    assert failed == "[GENERATION_FAILED] RuntimeError: CUDA out of memory"
    assert failure_reason(failed) == "generation_failed"
    assert answered == "answer to small"
    assert silent.text == "", "an empty answer of the model is its answer"
    assert vars(lm.model) == {}, "the model is restored"


def test_of_several_requests_the_answered_ones_are_kept() -> None:
    lm = LocalWrapper()
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert [r.text for r in caught.generate(["a", "large"])] == [
            "answer to a", "[GENERATION_FAILED] RuntimeError: CUDA out of memory",
        ]  # fmt: skip


class ChatWrapper:
    """As _chat_base.py of lmms-eval: what is raised before the model is caught too."""

    def __init__(self) -> None:
        self.model = Model()

    def _infer_one(self, request: str) -> str:
        if request == "large picture":
            raise ValueError("too large for the processor")
        return self.model.generate(request)

    def generate_until(self, requests: list[str]) -> list[str]:
        texts = []
        for request in requests:
            try:
                texts.append(self._infer_one(request))
            except Exception:
                texts.append("")
        return texts


def test_a_step_of_the_wrapper_that_is_caught_is_a_failure() -> None:
    lm = ChatWrapper()
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert caught.generate(["large picture"]) == ["[GENERATION_FAILED] ValueError: too large for the processor"]
        assert caught.generate(["large"]) == ["[GENERATION_FAILED] RuntimeError: CUDA out of memory"]
        assert caught.generate(["small"]) == ["answer to small"]
    assert set(vars(lm)) == {"model"}
    assert vars(lm.model) == {}


@dataclass(frozen=True)
class FrozenModel:
    def generate(self, request: str) -> str:
        return request


def test_a_model_that_accepts_no_attributes_is_not_observed() -> None:
    lm = LocalWrapper()
    lm.model = FrozenModel()  # type: ignore[assignment]
    caught = CaughtErrors(lm, lm.generate_until)
    with caught.active():
        assert [r.text for r in caught.generate(["a"])] == ["a"]


@pytest.mark.parametrize("model", [None, "a name", Model, object()])
def test_a_wrapper_without_such_a_model_is_left_alone(model: Any) -> None:
    lm = LocalWrapper()
    lm.model = model
    caught = CaughtErrors(lm, lambda requests: ["x"] * len(requests))
    with caught.active():
        assert caught.generate([1, 2]) == ["x", "x"]


def test_exceptions_that_the_wrapper_does_not_catch_are_raised() -> None:
    lm = LocalWrapper()
    caught = CaughtErrors(lm, lambda requests: [lm.model.generate(r) for r in requests])
    with pytest.raises(RuntimeError, match="out of"), caught.active():
        caught.generate(["large"])
    assert vars(lm.model) == {}


def completion(body: dict[str, Any]) -> Any:
    """The object that openai's client makes of a body, which it does not check."""
    return pytest.importorskip("openai.types.chat").ChatCompletion.construct(**body)


def reply(message: dict[str, Any], finish: str = "stop", **more: Any) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return completion({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], **more})


def content(message: dict[str, Any], finish: str = "stop") -> Any:
    return marked(reply(message, finish)).choices[0].message.content


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length"])
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": None}, "empty"),
        ({}, "empty"),
        ({"content": ""}, "empty"),
        ({"content": []}, "empty"),
        ({"content": None, "reasoning_content": "The answer is A"}, "empty"),
        ({"content": None, "reasoning": "The answer is A", "reasoning_details": [{"text": "x"}]}, "empty"),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "A"}]}]}, "empty"),
        ({"content": "<think>The answer is A because"}, "unfinished_thought"),
    ],
)
def test_a_thought_that_the_token_limit_ends_is_the_models_answer(
    message: dict[str, Any], reason: str, finish: str
) -> None:
    got = parse(content(message, finish), "mc", letters="AB")
    assert isinstance(got, Unparsed) and got.reason == reason


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{"type": "text", "text": "A"}], "A"),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "B"}]}, {"type": "text", "text": "A"}], "A"),
        ([{"type": "reasoning", "text": "B"}, {"type": "output_text", "text": "A"}], "A"),
        (["A", " bus"], "A bus"),
        ([{"type": "image_url", "image_url": {"url": "data:"}}], NO_TEXT),
        ({"answer": "A"}, "[GENERATION_FAILED] content is dict, not text"),
        (3, "[GENERATION_FAILED] content is int, not text"),
        (None, NO_TEXT),
    ],
)
def test_parts_of_a_content_are_joined(given: Any, text: str) -> None:
    assert content({"content": given}) == text


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("content_filter", "safety_blocked"), ("SAFETY", "safety_blocked"), ("RECITATION", "safety_blocked"),
     ("refusal", "safety_blocked"), ("sensitive", "safety_blocked"), ("network_error", "generation_failed")],
)  # fmt: skip
def test_what_a_filter_or_a_failure_leaves_of_a_reply_is_no_answer(finish: str, reason: str) -> None:
    got = parse(content({"content": "A"}, finish), "mc", letters="AB")
    assert isinstance(got, Unparsed) and got.reason == reason


def test_an_error_beside_a_text_is_a_failure() -> None:
    error = {"message": "upstream is gone", "code": 502}
    odd = reply({"content": "A"})
    odd.choices[0].error = error
    got = marked(odd).choices[0].message.content
    unread = parse(got, "mc", letters="AB")
    assert "upstream is gone" in got and isinstance(unread, Unparsed) and unread.reason == "generation_failed"
    with pytest.raises(NoCompletion, match="upstream is gone"):
        marked(reply({"content": "A"}, error=error))
    assert marked(reply({"content": "A"}, error=None)).choices[0].message.content == "A"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "Provider returned error", "code": 502}}, "Provider returned error"),
        ({"error": "model overloaded"}, "model overloaded"),
        ({"object": "error", "message": "context length exceeded", "code": 400}, "context length exceeded"),
        ({"object": "error", "detail": "no such model"}, "no such model"),
        ({"choices": None, "error": {"message": "try again"}}, "try again"),
        ({"choices": [], "note": "busy"}, '"note":"busy"'),
        ({"choices": [None], "note": "busy"}, '"note":"busy"'),
    ],
)
def test_an_error_with_status_200_is_raised_with_the_endpoints_message(body: dict[str, Any], message: str) -> None:
    with pytest.raises(NoCompletion, match="no completion: ") as caught:
        marked(completion({"id": "x", "model": "m", **body}))
    assert message in str(caught.value)


def test_a_page_in_place_of_a_reply_is_raised_with_its_beginning() -> None:
    with pytest.raises(NoCompletion, match="Sign in"):
        marked("<html><title>Sign in</title></html>")


@pytest.mark.parametrize("count", ["n/a", None, -1, 10**30, [3]])
def test_a_token_count_that_is_no_number_is_left_out(count: Any) -> None:
    usage = {
        "prompt_tokens": count,
        "completion_tokens": count,
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    got = marked(reply({"content": "A"}, usage=usage))
    counts = got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.completion_tokens_details.reasoning_tokens
    assert counts == (None, None, None) and got.choices[0].message.content == "A"
    assert marked(reply({"content": "A"}, usage={"prompt_tokens": 7})).usage.prompt_tokens == 7
    assert marked(reply({"content": "A"}, usage="n/a")).choices[0].message.content == "A"


pytestmark = pytest.mark.integration

ROWS, IN_FLIGHT, ATTEMPTS = 40, 8, 3
KEY = "sk-local-test-key"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "a.jpg").write_bytes(b"one")
    rows = pa.chunked_array([[record(f"r{i}").to_json() for i in range(ROWS)]])
    loaded = task_data.LoadedTask("t", TaskVariant("ad2_bench", "perception_base"), tmp_path, {}, rows)
    monkeypatch.setitem(task_data.TASKS, "t", loaded)
    yield tmp_path


def requests(task: str = "t") -> list[Any]:
    return [SimpleNamespace(args=(f"q{i}", {}, None, i, task, "test"), metadata={}) for i in range(ROWS)]


def payload(request: Any) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": request.args[0]}]}


class Wrapper:
    """Catches every exception, repeats the request and returns the failure as text, as the wrappers of lmms-eval do."""

    __module__ = "lmms_eval.models.chat.openai"
    is_simple, rank, num_concurrent = True, 0, IN_FLIGHT

    def __init__(self, server: FakeEndpointServer) -> None:
        import openai

        self.client = openai.OpenAI(base_url=server.url, api_key=KEY, max_retries=0)

    def generate_until(self, requests: list[Any]) -> list[str]:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            return list(pool.map(self._answer, requests))

    def _answer(self, request: Any) -> str:
        error = None
        for _ in range(ATTEMPTS):
            try:
                reply = self.client.chat.completions.create(**payload(request))
                return str(reply.choices[0].message.content)
            except Exception as exc:
                error = exc
        return f"[LMMS_EVAL_REQUEST_FAILED after {ATTEMPTS} retries] {error}"


class AsyncWrapper(Wrapper):
    __module__ = "lmms_eval.models.chat.async_openai"

    def __init__(self, server: FakeEndpointServer) -> None:
        import openai

        self.client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)  # type: ignore[assignment]

    async def maybe_forward_with_tool(self, request: Any, position: int) -> tuple[str, int]:
        reply = await self.client.chat.completions.create(**payload(request))
        return str(reply.choices[0].message.content), position

    def generate_until(self, requests: list[Any]) -> list[str]:
        async def answer(request: Any, position: int) -> str:
            error = None
            for _ in range(ATTEMPTS):
                try:
                    return (await self.maybe_forward_with_tool(request, position))[0]
                except Exception as exc:
                    error = exc
            return f"[LMMS_EVAL_REQUEST_FAILED after {ATTEMPTS} retries] {error}"

        async def run() -> list[str]:
            waiting = list(enumerate(requests))
            in_flight: dict[asyncio.Task[str], int] = {}
            answers: dict[int, str] = {}
            while waiting or in_flight:
                while waiting and len(in_flight) < IN_FLIGHT:
                    position, request = waiting.pop(0)
                    in_flight[asyncio.create_task(answer(request, position))] = position
                done, _ = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
                for ended in done:  # as lmms-eval does: if one raises, nobody retrieves the exceptions of the others
                    answers[in_flight.pop(ended)] = ended.result()
            return [answers[position] for position in range(len(requests))]

        return asyncio.run(run())


BOTH = pytest.mark.parametrize("wrapper", [Wrapper, AsyncWrapper])


def ask(model: Any, folder: Path, task: str = "t") -> list[str]:
    with attach(model, AnswerJournal(folder / "journal", 0)):
        return model.generate_until(requests(task))


def stored(folder: Path) -> int:
    return len(list(read_lines(folder / "journal" / "rank0.jsonl")))


@BOTH
@pytest.mark.parametrize("status", ["401", "404"])
def test_a_refused_key_ends_the_run_after_one_request(wrapper: type, status: str, task: Path) -> None:
    with serve(failures=[status], cycle=True) as server, pytest.raises(Ad2Error) as error:
        ask(wrapper(server), task)
    assert server.requests == 1
    assert stored(task) == 0
    text = str(error.value)
    assert text.startswith(f"{server.url} refuses every request: Error code: {status}") and "\n" not in text
    assert ("OPENAI_API_KEY" in text) == (status == "401")
    assert "the answers so far are kept" in text and KEY not in text


@BOTH
def test_answers_before_a_key_is_revoked_are_kept_and_not_requested_again(
    wrapper: type, task: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(reply="yes", failures=lambda n, body: "ok" if n < 20 else "401") as server:
        with pytest.raises(Ad2Error, match="refuses every request"):
            ask(wrapper(server), task)
        assert 20 < server.requests <= 20 + IN_FLIGHT
        assert stored(task) == 20
        gc.collect()  # asyncio logs an exception that nobody retrieved when its task is collected
        assert "RefusedRequestsError" not in caplog.text
        server.behaviour.failures, before = (), server.requests
        assert ask(wrapper(server), task) == ["yes"] * ROWS
        assert server.requests == before + ROWS - 20


@BOTH
def test_a_request_that_a_gateway_rejects_is_that_requests_failure(wrapper: type, task: Path) -> None:
    """OpenRouter's moderation answers with 403."""
    rejected = lambda n, body: "403" if body["messages"][0]["content"] in ("q0", "q7") else "ok"  # noqa: E731
    with serve(reply="yes", failures=rejected) as server:
        answers = ask(wrapper(server), task)
    assert [i for i, answer in enumerate(answers) if answer != "yes"] == [0, 7]


@BOTH
def test_rejections_without_an_answer_between_them_end_the_run(wrapper: type, task: Path) -> None:
    with serve(failures=["403"], cycle=True) as server, pytest.raises(Ad2Error, match="no right to this model"):
        ask(wrapper(server), task)
    assert server.requests <= 8 + IN_FLIGHT


@BOTH
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("filtered", "[SAFETY_BLOCKED] the endpoint withheld the reply"),
        ("refusal", "[SAFETY_BLOCKED] the endpoint withheld the reply"),
        ("broken_off", "[GENERATION_FAILED] the endpoint broke off the reply"),
        ("empty", "[GENERATION_FAILED] the model returned no text"),
        ("truncated", "One could say yes, but then agai"),  # the answer that fits into the token limit
    ],
)
def test_a_reply_without_an_answer_is_a_failure(wrapper: type, kind: str, text: str, task: Path) -> None:
    """The wrappers ignore finish_reason; what a filter has left of a reply must not be scored."""
    failing = lambda n, body: kind if body["messages"][0]["content"] in ("q0", "q7") else "ok"  # noqa: E731
    with serve(reply="yes", decoy="yes", failures=failing) as server:
        answers = ask(wrapper(server), task)
        assert server.requests == ROWS, "a repeated request would get the same reply"
    assert [answers[0], answers[7]] == [text, text] and answers.count("yes") == ROWS - 2
    assert stored(task) == ROWS - 2 * (kind != "truncated")


@BOTH
def test_an_error_with_status_200_is_repeated_and_shown(wrapper: type, task: Path) -> None:
    failing = lambda n, body: "error_200" if body["messages"][0]["content"] == "q7" else "ok"  # noqa: E731
    with serve(reply="yes", decoy="Provider is overloaded", failures=failing) as server:
        answers = ask(wrapper(server), task)
        assert server.requests == ROWS - 1 + ATTEMPTS
    assert failure_reason(answers[7]) == "request_failed" and "Provider is overloaded" in answers[7]


def test_requests_of_other_tasks_are_not_observed(task: Path) -> None:
    with serve(failures=["401"], cycle=True) as server:
        answers = ask(Wrapper(server), task, "host")
        assert server.requests == ROWS * ATTEMPTS
    assert all(answer.startswith("[LMMS_EVAL_REQUEST_FAILED") for answer in answers)


def test_the_client_is_restored(task: Path) -> None:
    with serve(reply="yes") as server:
        model = Wrapper(server)
        ask(model, task)
        assert "create" not in vars(model.client.chat.completions)


@pytest.mark.parametrize("text", ["", "[LMMS_EVAL_REQUEST_FAILED after 5 retries] invalid x-api-key"])
def test_a_client_that_cannot_be_observed_ends_the_run_if_nothing_is_answered(text: str, task: Path) -> None:
    """lmms-eval's claude makes a client in each call and returns an empty text after its failures."""
    model = unobservable(lambda i: text)
    with pytest.raises(Ad2Error, match=r"none of the first 8 requests was answered.*ANTHROPIC_API_KEY"):
        ask(model, task)
    model = unobservable(lambda i: "yes" if i == 3 else text)
    assert ask(model, task).count("yes") == 1


def test_an_empty_answer_of_a_client_that_cannot_be_observed_is_a_failure(task: Path) -> None:
    """It may be a failed request, and must not be scored as a wrong answer."""
    answers = ask(unobservable(lambda i: "" if i in (3, 7) else "yes"), task)
    assert [i for i, answer in enumerate(answers) if failure_reason(answer) == "generation_failed"] == [3, 7]
    assert stored(task) == ROWS - 2


def unobservable(answer: Callable[[int], str]) -> Any:
    class Claude:
        __module__ = "lmms_eval.models.simple.claude"
        is_simple, rank, batch_size = True, 0, 1

        def generate_until(self, requests: list[Any]) -> list[str]:
            return [answer(request.args[3]) for request in requests]

    return Claude()
