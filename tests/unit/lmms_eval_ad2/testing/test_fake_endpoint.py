"""The fake endpoint with the official client, with image parts, and as a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest

from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import EndpointBehaviour, serve


@pytest.mark.integration
def test_official_client_can_send_an_image() -> None:
    openai = pytest.importorskip("openai")
    content = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "Which option?"},
    ]
    with serve(reply=lambda body: "A" if fake_replies.asked(body) == "Which option?" else "B") as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        completion = client.chat.completions.create(model="m", messages=[{"role": "user", "content": content}])
    assert completion.choices[0].message.content == "A"
    assert completion.usage.total_tokens >= 1


def test_reply_rules() -> None:
    def body(text: str) -> dict[str, object]:
        return {"messages": [{"role": "user", "content": text}]}

    same = "<<<REFERENCE ab>>>\na red car\n<<<END ab>>>\n\n<<<ANSWER ab>>>\na red car\n<<<END ab>>>"
    other = same.replace("a red car\n<<<END ab>>>\n\n", "no such thing\n<<<END ab>>>\n\n")
    assert fake_replies.text("overlap", body(same)).endswith("Rating: [[10]]")
    assert fake_replies.text("overlap", body(other)).endswith("Rating: [[1]]")
    assert "Rating" not in fake_replies.text("overlap", body("nothing fenced"))
    assert fake_replies.text("echo", body("hello")).endswith("hello")
    assert fake_replies.text("quote", body("hello")).endswith("Rating: [[3]]")
    assert fake_replies.text("hash", body("x")) == fake_replies.text("hash", body("x"))
    assert fake_replies.text("anything else", body("x")) == "anything else"


def test_unknown_failures_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown failure '999'"):
        EndpointBehaviour(failures=["999"])


@pytest.mark.integration
def test_endpoint_as_a_separate_process() -> None:
    command = [sys.executable, "-m", "lmms_eval_ad2.testing.fake_endpoint", "--reply", "A", "--failures", "500"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        request = urllib.request.Request(f"{url}/chat/completions", data=b'{"messages": []}')
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(request)
        with urllib.request.urlopen(request) as reply:
            assert json.load(reply)["choices"][0]["message"]["content"] == "A"
        with urllib.request.urlopen(url.removesuffix("/v1") + "/stats") as reply:
            assert json.load(reply)["requests"] == 2
    finally:
        process.kill()
        process.wait()
