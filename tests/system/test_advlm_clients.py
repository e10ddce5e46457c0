"""The adapter and its clients: our endpoint agent, the openai package, and arbitrary requests."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bench2drive.advlm_serving import Served, chat, data_url, picture, python_name, serving
from support.closedloop.models import decision_request
from support.tiers import examples

from closedloop_plugin.driver.agents.make import make_agent
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.parametrize("python", [python_name()])

MODEL = """
def answer(images, question):
    if "break" in question:
        raise RuntimeError("CUDA out of memory")
    return "%d images: %s" % (len(images), question)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), MODEL, "--max-body-mb", 1) as served:
        yield served


def test_our_endpoint_agent_gets_a_decision_for_each_world(server: Served, python: str) -> None:
    agent = make_agent(f"endpoint:model@{server.url}", cameras="surround@80x45", tasks=("action", "threat"))
    decisions = agent.decide([decision_request(f"e{i}", speed=float(i)) for i in range(3)])
    for i, decision in enumerate(decisions):
        assert decision.error is None
        assert decision.texts["action"].startswith("6 images: ") and f"travel at {i}.0 m/s" in decision.texts["action"]
        assert "threat" in decision.texts["threat"]
    assert agent.describe()["served_as"] == ["model"]


def test_all_worlds_get_decisions_although_the_queue_is_too_short(tmp_path: Path, python: str) -> None:
    with serving(tmp_path, MODEL, "--queue", 0) as small:
        agent = make_agent(f"endpoint:model@{small.url},max_retries=9,backoff=0.01")
        decisions = agent.decide([decision_request(f"e{i}") for i in range(3)])
        assert [d.error for d in decisions] == [None] * 3
        assert small.health()["answered"] == 3


def test_an_error_of_the_model_becomes_the_error_of_the_decision(server: Served, tmp_path: Path, python: str) -> None:
    prompts = tmp_path / "p.yaml"
    prompts.write_text("action: break\n")
    agent = make_agent(f"endpoint:model@{server.url},max_retries=0", prompts=prompts)
    (decision,) = agent.decide([decision_request()])
    assert decision.error == "action: http_500: HTTP 500: the model failed: RuntimeError: CUDA out of memory"


def test_a_server_of_another_model_ends_the_run_at_once(server: Served, python: str) -> None:
    agent = make_agent(f"endpoint:dolphins@{server.url}")
    with pytest.raises(Ad2Error, match='this server has only "model", found "dolphins"'):
        agent.decide([decision_request()])


def test_the_openai_package_understands_answers_and_errors(server: Served, python: str) -> None:
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["model"]
        reply = client.chat.completions.create(**chat("Where to?", data_url(picture())))
        assert reply.choices[0].message.content == "1 images: Where to?" and reply.choices[0].finish_reason == "stop"
        with pytest.raises(openai.BadRequestError, match="stream"):
            client.chat.completions.create(**chat(), stream=True)
        with pytest.raises(openai.InternalServerError, match="CUDA out of memory"):
            client.chat.completions.create(**chat("break"))
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(**chat(model="another"))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["user", "text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "image_url", "url", "model"]) | st.text(max_size=5),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(
    messages=JSON_VALUES,
    more=st.dictionaries(st.sampled_from(["stream", "n", "model", "seed", "x"]), JSON_VALUES, max_size=3),
)
def test_arbitrary_json_is_answered_or_refused(
    server: Served, python: str, messages: object, more: dict[str, object]
) -> None:
    status, reply = server.ask({"model": "model", "messages": messages, **more})
    assert status in (200, 400, 404, 500) and isinstance(reply, str)
    assert status != 500 or "the model failed" in reply  # a question that contains "break"


@settings(max_examples=examples(100), deadline=None)
@given(url=st.text(max_size=40) | st.binary(max_size=60).map(data_url) | st.binary(max_size=60).map(
    lambda tail: data_url(b"\x89PNG\r\n\x1a\n" + tail)
))  # fmt: skip
def test_an_arbitrary_image_is_accepted_or_refused(server: Served, python: str, url: str) -> None:
    status, reply = server.ask(chat("What?", url))
    assert (status, reply) == (200, "1 images: What?") or (status == 400 and "image_url.url" in reply)


@settings(max_examples=examples(60), deadline=None)
@given(raw=st.binary(max_size=300) | st.tuples(
    st.sampled_from([b"POST /v1/chat/completions HTTP/1.1\r\n", b"GET /health HTTP/1.0\r\n", b"PUT / HTTP/1.1\r\n"]),
    st.sampled_from([b"", b"Content-Length: -5\r\n", b"Content-Length: 9999999999999999\r\n", b"Content-Length: 4\r\n",
                     b"Transfer-Encoding: chunked\r\n", b"Authorization: \xff\xfe\r\n", b": \r\n"]),
    st.binary(max_size=30),
).map(lambda parts: parts[0] + parts[1] + b"\r\n" + parts[2]))  # fmt: skip
def test_arbitrary_bytes_do_not_stop_the_server(server: Served, python: str, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as peer, contextlib.suppress(OSError):
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 16):
            pass
    assert server.health()["status"] == "ok"


def test_earlier_requests_left_nothing_waiting_or_running(server: Served, python: str) -> None:
    """After the tests above. Only the model's own errors have printed tracebacks."""
    assert server.until(lambda health: health["running"] == 0)["waiting"] == 0
    assert server.ask(chat("still there?")) == (200, "0 images: still there?")
    output = "\n".join(server.lines)
    assert "Exception occurred" not in output and "Exception happened" not in output
    assert output.count("Traceback") == output.count("RuntimeError: CUDA out of memory")


def test_deep_and_long_bodies_are_refused(server: Served, python: str) -> None:
    for body in (b"[" * 900_000, b'{"model": ' + b"9" * 900_000 + b"}", json.dumps("x" * 900_000).encode()):
        status, _ = server.ask(body)
        assert status in (400, 404)
    assert server.ask(b"x" * 3_000_000)[0] == 413


def test_images_of_the_agent_reach_the_model_unchanged(tmp_path: Path, python: str) -> None:
    code = "def answer(images, question):\n    images[0].save('seen.png')\n    return 'Stop.'\n"
    with serving(tmp_path, code) as server:
        make_agent(f"endpoint:model@{server.url},format=png").decide([decision_request()])
    from PIL import Image
    from support.closedloop.models import picture as camera_image

    assert np.array_equal(np.asarray(Image.open(tmp_path / "seen.png")), camera_image("front"))
