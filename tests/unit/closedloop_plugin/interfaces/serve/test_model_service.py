"""ModelService through a real socket: OpenAI's client, our endpoint model, and every refusal."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai
import pytest
from support.closedloop.models import FakeModel, decision_request, picture
from support.closedloop.serving import Tunable, chat, client, served, user

from closedloop_plugin.driver.agents.endpoint import EndpointModel
from closedloop_plugin.driver.agents.lmms_model import LmmsModel
from closedloop_plugin.driver.agents.make import make_agent
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.interfaces.serve.batching import RequestBatcher
from closedloop_plugin.interfaces.serve.http_api import RequestLimits
from closedloop_plugin.interfaces.serve.services import ModelService
from lmms_eval_ad2.llm.client import ChatClient, ChatReply
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.testing.fake_endpoint import serve as fake_endpoint

pytestmark = pytest.mark.integration


def test_openais_client_gets_text_for_images() -> None:
    model = FakeModel(lambda q: f"{len(q.images)} pictures, blue {q.images[0][0, 0, 2]}: {q.text}")
    with served(model) as server, client(server.url) as openai_client:
        assert [m.id for m in openai_client.models.list()] == ["fake"]
        assert openai_client.models.retrieve("fake").id == "fake"
        messages = [{"role": "system", "content": "Be brief."}, *user(picture("front"), picture("back"), "What?")]
        reply = openai_client.chat.completions.create(
            model="fake", messages=messages, seed=1, top_p=0.5, user="ignored"
        )
    (choice,) = reply.choices
    assert choice.message.content == f"2 pictures, blue {sum(map(ord, 'front')) % 256}: Be brief.\n\nWhat?"
    assert (choice.finish_reason, reply.usage, reply.model, reply.object) == ("stop", None, "fake", "chat.completion")
    (question,) = model.calls[0]
    assert np.array_equal(question.images[1], picture("back"))


def test_a_stream_has_the_same_text() -> None:
    with served(FakeModel(lambda q: ModelReply("Slow dówn.", cut=True))) as server, client(server.url) as openai_client:
        chunks = list(openai_client.chat.completions.create(model="fake", messages=user("?"), stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Slow dówn."
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, "length"]
    assert len({c.id for c in chunks}) == 1 and chunks[0].choices[0].delta.role == "assistant"


def test_a_stream_ends_with_a_usage_chunk_if_one_is_requested() -> None:
    options = {"include_usage": True}
    with served(FakeModel(lambda q: "Slow down.")) as server, client(server.url) as openai_client:
        *chunks, last = openai_client.chat.completions.create(
            model="fake", messages=user("?"), stream=True, stream_options=options
        )
    assert (last.choices, last.usage) == ([], None)
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, "stop"]


def test_our_own_client_and_endpoint_model_can_use_it() -> None:
    async def complete(url: str):
        async with ChatClient(EndpointConfig(url, max_retries=0)) as own:
            return await own.complete({"model": "fake", "messages": user("x")})

    with served(Tunable(lambda q: ModelReply("yes " + q.text[:1], cut=q.text == "cut"))) as server:
        assert asyncio.run(complete(server.url)) == ChatReply("yes x", "stop", "fake")
        model = EndpointModel.from_spec(f"fake@{server.url},max_retries=0")
        answers = model.ask([ModelQuestion("a", "cut"), ModelQuestion("b", "b", (picture("front"),))])
        agent = make_agent(f"endpoint:fake@{server.url}", cameras="front@80x45")
        (decision,) = agent.decide([decision_request()])
    assert [(s.text, s.cut, s.error) for s in answers] == [("yes c", True, None), ("yes b", False, None)]
    assert decision.error is None and decision.texts["action"].startswith("yes ")


def test_concurrent_requests_share_calls_and_each_gets_its_own_answer() -> None:
    all_queued, started = threading.Event(), threading.Event()

    class CountingBatcher(RequestBatcher):
        puts = 0

        def put(self, service, request):
            future = super().put(service, request)
            self.puts += 1
            if self.puts == 9:
                all_queued.set()
            return future

    def answer(question: ModelQuestion) -> str:
        if not started.is_set():
            started.set()
            assert all_queued.wait(60)
        return f"to {question.text}"

    async def all_at_once(url: str) -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as openai_client:
            create = openai_client.chat.completions.create
            replies = await asyncio.gather(*(create(model="fake", messages=user(str(i))) for i in range(9)))
        return [r.choices[0].message.content for r in replies]

    model = FakeModel(answer)
    with served(model, batcher=CountingBatcher(4)) as server:
        assert asyncio.run(all_at_once(server.url)) == [f"to {i}" for i in range(9)]
        status, health, _ = server.call("/health")
    sizes = [len(call) for call in model.calls]
    assert sum(sizes) == 9 and len(sizes) <= 4 and sizes[1] == 4
    assert (status, health["status"], health["answered"], health["failed"], health["waiting"]) == (200, "ok", 9, 0, 0)
    assert health["batches"] == len(sizes) and health["mean_batch"] == round(9 / len(sizes), 2)


def test_settings_reach_the_model_and_are_not_mixed_in_a_call() -> None:
    model = Tunable(lambda q: "x")
    with served(model) as server:
        assert server.chat(max_tokens=5)[0] == 200
        assert server.chat(max_completion_tokens=7, max_tokens=5, temperature=0.5)[0] == 200
        assert server.chat()[0] == 200
    assert model.call_settings == [(5, None), (7, 0.5), (None, None)]
    requests = [ModelService(model).read(chat(max_tokens=n)) for n in (5, 6, 5)]
    assert requests[0].group == requests[2].group != requests[1].group


def test_an_lmms_model_is_tuned_without_being_loaded_again() -> None:
    model = LmmsModel(object(), "some", "api_key=x", {"max_new_tokens": 9})
    tuned = model.tuned(7, 0.5)
    described = {**model.describe(), "max_new_tokens": 7, "temperature": 0.5, "do_sample": True}
    assert tuned.lm is model.lm and tuned.describe() == described != model.describe()
    assert model.tuned().describe() == model.describe()


def test_a_relay_passes_on_settings_and_content_filter() -> None:
    with fake_endpoint(reply="far", failures=["ok", "filtered", "500"], keep_bodies=True) as upstream:
        model = EndpointModel.from_spec(f"far@{upstream.url},max_retries=0,seed=3")
        with served([ModelService(model)]) as server:
            assert server.chat(model="far", max_tokens=9)[1]["choices"][0]["message"]["content"] == "far"
            withheld = server.chat(model="far")[1]["choices"][0]
            status, failed, _ = server.chat(model="far")
        assert [(b["max_tokens"], b["seed"]) for b in upstream.bodies[:2]] == [(9, 3), (256, 3)]
    assert (withheld["finish_reason"], withheld["message"]["content"]) == ("content_filter", "")
    assert status == 500 and "http_500" in failed["error"]["message"]


def test_settings_are_refused_for_a_model_without_settings() -> None:
    with served(FakeModel(lambda q: "x")) as server:
        status, body, _ = server.chat(max_tokens=5)
    assert status == 400 and "max_tokens" in body["error"]["message"]


def test_a_failing_model_is_a_500_with_its_reason_and_counted() -> None:
    def answer(question: ModelQuestion) -> ModelReply | str:
        if question.text == "raise":
            raise RuntimeError("CUDA out of memory")
        return ModelReply(error="generation_failed: RuntimeError: no") if question.text == "fail" else "fine"

    with served(FakeModel(answer)) as server:
        for text, named in (("raise", "CUDA out of memory"), ("fail", "generation_failed")):
            status, body, _ = server.chat(messages=user(text))
            assert status == 500 and named in body["error"]["message"] and body["error"]["code"] == "model_failed"
        with client(server.url) as openai_client, pytest.raises(openai.InternalServerError):
            openai_client.chat.completions.create(model="fake", messages=user("raise"))
        assert server.chat()[0] == 200
        health = server.call("/health")[1]
        assert "last failure" in server.api.summary()
    assert (health["failed"], health["answered"]) == (3, 1)


def test_after_a_failed_batch_each_request_is_retried_alone() -> None:
    """LmmsModel reports an exception for all questions of a batch; one bad image must not fail the other requests."""

    class AllOrNothing(FakeModel):
        def ask(self, questions):
            answers = super().ask(questions)
            return (
                [ModelReply(error="generation_failed: x")] * len(answers) if any(a.error for a in answers) else answers
            )

    model = AllOrNothing(lambda q: ModelReply(error="x") if q.text == "bad" else "good")
    batcher, service = RequestBatcher(8, 0.0), ModelService(model)
    futures = [batcher.put(service, service.read(chat(messages=user(t)))) for t in ("a", "bad", "b")]
    worker = threading.Thread(target=batcher.work, daemon=True)
    worker.start()
    done = [f.result(30) for f in futures]
    batcher.close()
    worker.join(30)
    assert [d.text for d in done] == ["good", "", "good"] and (done[1].error or "").startswith("generation_failed")


def test_a_full_queue_is_a_429_with_retry_after() -> None:
    asked, release = threading.Event(), threading.Event()

    def answer(question: ModelQuestion) -> str:
        asked.set()
        assert release.wait(60)
        return "late"

    with served(FakeModel(answer), limits=RequestLimits(queue=1)) as server:
        replies: list[int] = []
        waiting = threading.Thread(target=lambda: replies.append(server.chat()[0]))
        waiting.start()
        try:
            assert asked.wait(60)
            status, body, headers = server.chat()
        finally:
            release.set()
            waiting.join(60)
        assert (status, headers["Retry-After"], body["error"]["code"]) == (429, "1", "queue_full")
        assert replies == [200]
        assert server.chat()[0] == 200  # the queue has room again


def test_requests_while_the_model_loads_are_a_503() -> None:
    with served(opened=False) as server:
        status, health, _ = server.call("/health")
        assert (status, health["status"], health["model"]) == (503, "loading", "loading-model")
        for path in ("/v1/models", "/v1/ad2/driver"):
            status, body, headers = server.call(path)
            assert status == 503 and headers["Retry-After"] == "5" and "loading-model" in body["error"]["message"]
        assert server.chat()[0] == 503


def test_a_disconnected_client_cancels_its_request() -> None:
    """The first request is being answered; the second client disconnects before its turn, the third is answered."""
    asked, release, queued, cancelled = (threading.Event() for _ in range(4))

    class WatchedBatcher(RequestBatcher):
        def put(self, service, request):
            future = super().put(service, request)
            future.add_done_callback(lambda f: cancelled.set() if f.cancelled() else None)
            if request.payload[1].text == "leaves":
                queued.set()
            return future

    def answer(question: ModelQuestion) -> str:
        asked.set()
        assert release.wait(60)
        return question.text

    model = FakeModel(answer)
    replies: dict[str, Any] = {}
    with served(model, batcher=WatchedBatcher(1)) as server:
        first = threading.Thread(target=lambda: replies.update(first=server.chat()[0]))
        first.start()
        try:
            assert asked.wait(60)
            leaving = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
            body = json.dumps({"model": "fake", "messages": user("leaves")})
            leaving.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            assert queued.wait(60)
            leaving.close()
            assert cancelled.wait(60)
        finally:
            release.set()
            first.join(60)
        third = server.chat(messages=user("stays"))
    assert replies == {"first": 200} and third[0] == 200
    assert [q.text for call in model.calls for q in call] == ["hi", "stays"]
