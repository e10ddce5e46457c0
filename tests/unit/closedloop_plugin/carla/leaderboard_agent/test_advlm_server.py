"""advlm_server: answers, queueing and error messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.bench2drive.advlm_serving import Served, chat, data_url, picture, python_name, serving
from support.closedloop.time_limits import with_growing_limits

# The parameter names the interpreter that was used.
pytestmark = [pytest.mark.integration, pytest.mark.parametrize("python", [python_name()])]

RED, BLUE = data_url(picture((200, 30, 30))), data_url(picture((30, 30, 200), "JPEG"), "jpeg")
# For the question "wait FILE", waits until FILE exists.
GATED = """
import os, time
def answer(images, question):
    while question.startswith("wait") and not os.path.exists(question.split()[1]):
        time.sleep(0.005)
    return "done: " + question
"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    code = """
def load():
    return {"seen": 0}
def answer(images, question, model):
    model["seen"] += 1
    if question == "raise":
        raise ValueError("no such\\nlane")
    if question == "leave":
        raise SystemExit(3)
    if question in ("None", "7", "''"):
        return eval(question)
    return question + "|" + " ".join("%s %s %d" % (i.name, i.media_type, len(i.bytes)) for i in images)
"""
    with serving(tmp_path_factory.mktemp("echo"), code, "--max-images", 3, "--max-body-mb", 1) as server:
        yield server


def test_images_and_question_reach_the_function_in_order(echo: Served, python: str) -> None:
    red, blue = len(picture()), len(picture((30, 30, 200), "JPEG"))
    status, text = echo.ask(chat("Left or right?", RED, BLUE))
    assert (status, text) == (200, f"Left or right?|image0 image/png {red} image1 image/jpeg {blue}")


def test_a_reply_has_the_form_of_a_chat_completion(echo: Served, python: str) -> None:
    status, headers, data = echo.send("POST", "/v1/chat/completions", chat("x", temperature=0, seed=1, max_tokens=9))
    assert status == 200 and headers["Content-Type"] == "application/json"
    assert data["object"] == "chat.completion" and data["model"] == "model" and data["id"].startswith("chatcmpl-")
    (choice,) = data["choices"]
    assert choice == {"index": 0, "message": {"role": "assistant", "content": "x|"}, "finish_reason": "stop"}
    assert [m["id"] for m in echo.send("GET", "/v1/models")[2]["data"]] == ["model"]


def test_the_model_gets_the_system_prompt_the_last_question_and_all_user_images(echo: Served, python: str) -> None:
    earlier = chat("old question", RED)["messages"]
    messages = [
        {"role": "system", "content": "Be brief."}, *earlier, {"role": "assistant", "content": "old answer"},
        {"role": "user", "content": "new question"},
    ]  # fmt: skip
    status, text = echo.ask({"model": "model", "messages": messages})
    assert (status, text.split("|")) == (200, ["Be brief.\n\nnew question", f"image0 image/png {len(picture())}"])


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"{", 400, "no JSON"),
        (b"[]", 400, "the body"),
        (b"\xff\xfe", 400, "no JSON"),
        ({"messages": []}, 404, 'model: this server has only "model", found null'),
        (chat(model="dolphins"), 404, 'found "dolphins"'),
        (chat(stream=True), 400, "stream"),
        (chat(n=2), 400, "n:"),
        ({"model": "model"}, 400, "messages"),
        ({"model": "model", "messages": [7]}, 400, "messages[0].role"),
        ({"model": "model", "messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
        ({"model": "model", "messages": [{"role": "assistant", "content": "x"}]}, 400, "messages[0]: expected a user"),
        ({"model": "model", "messages": [{"role": "user"}]}, 400, "messages[0].content[0]"),
        ({"model": "model", "messages": [{"role": "user", "content": " "}]}, 400, "with a text in it"),
        (chat("x", "https://example.org/a.png"), 400, "messages[0].content[0].image_url.url: expected data:image"),
        (chat("x", "data:image/png;base64,####"), 400, "content[0].image_url.url: no valid base64"),
        (chat("x", RED, data_url(b"GIF89a")), 400, "content[1].image_url.url: the data are no png"),
        (chat("x", RED, RED, RED, RED), 400, "at most 3 images, found 4"),
        (chat("x" * 1_100_000), 413, "--max-body-mb is 1"),
    ],
)  # fmt: skip
def test_the_error_for_a_bad_request_names_the_field(
    echo: Served, body: object, status: int, named: str, python
) -> None:
    found, message = echo.ask(body)
    assert (found, named in message) == (status, True), message


@pytest.mark.parametrize(
    ("question", "named"),
    [("raise", "the model failed: ValueError: no such lane"), ("leave", "SystemExit: 3"),
     ("None", "no text but NoneType"), ("7", "no text but int"), ("''", "an empty text")],
)  # fmt: skip
def test_a_model_error_fails_only_the_current_question(echo: Served, question: str, named: str, python: str) -> None:
    before = echo.health()["failed"]
    status, message = echo.ask(chat(question))
    assert status == 500 and named in message and "Traceback" not in message
    assert echo.health()["failed"] == before + 1
    assert echo.ask(chat("go on")) == (200, "go on|")
    if question == "raise":
        echo.wait_for("^ValueError: no such")  # the traceback goes to the terminal only


def test_an_unknown_path_gets_404_with_the_known_paths(echo: Served, python: str) -> None:
    for method, path in [("GET", "/"), ("POST", "/v1/completions"), ("GET", "/v1/chat/completions")]:
        status, _, data = echo.send(method, path, b"" if method == "POST" else None)
        assert status == 404 and "POST /v1/chat/completions" in data["error"]["message"]


def test_a_full_queue_refuses_with_retry_after(tmp_path: Path, python: str) -> None:
    with serving(tmp_path, GATED, "--queue", 1) as server, ThreadPoolExecutor(2) as executor:
        first = executor.submit(server.ask, chat("wait gate"))
        server.until(lambda health: health["running"] == 1)
        second = executor.submit(server.ask, chat("second"))
        server.until(lambda health: health["waiting"] == 1)
        status, headers, data = server.send("POST", "/v1/chat/completions", chat("third"))
        assert status == 429 and int(headers["Retry-After"]) >= 1 and "1 questions wait" in data["error"]["message"]
        assert server.health()["refused"] == 1
        (tmp_path / "gate").touch()
        assert first.result() == (200, "done: wait gate") and second.result() == (200, "done: second")
        health = server.until(lambda health: health["running"] == 0)
    assert (health["answered"], health["waiting"], health["failed"]) == (2, 0, 0) and health["seconds"] > 0


def test_workers_limit_the_concurrent_calls(tmp_path: Path, python: str) -> None:
    with serving(tmp_path, GATED, "--workers", 2) as server, ThreadPoolExecutor(3) as executor:
        jobs = [executor.submit(server.ask, chat(f"wait gate {i}")) for i in range(3)]
        server.until(lambda health: (health["running"], health["waiting"]) == (2, 1))
        (tmp_path / "gate").touch()
        assert [job.result()[0] for job in jobs] == [200] * 3


def test_a_timed_out_question_gets_504_and_new_ones_503_while_the_model_hangs(tmp_path: Path, python: str) -> None:
    with serving(tmp_path, GATED, "--timeout", 1) as server:
        at_work = "the model is still at work on it"
        status, message = ask_until(server, "wait gate", at_work)
        assert status == 504 and "within 1 s" in message and at_work in message
        health = server.until(lambda health: health["overdue"])
        assert health["running"] == 1 and health["busy_s"] >= 1 and health["given_up"] >= 1
        status, headers, data = server.send("POST", "/v1/chat/completions", chat())
        assert status == 503 and "Retry-After" in headers and "at work on one question" in data["error"]["message"]
        (tmp_path / "gate").touch()
        server.until(lambda health: health["running"] == 0)
        assert ask_until(server, "again", "done") == (200, "done: again")


def ask_until(server: Served, question: str, expected: str) -> tuple[int, str]:
    """The first reply that contains `expected`, of at most five: on a stalled machine, questions time out."""
    for _ in range(5):
        status, message = server.ask(chat(question))
        if expected in message:
            break
        print(f"asked again: {message}")
    return status, message


def test_a_question_that_timed_out_in_the_queue_never_reaches_the_model(tmp_path: Path, python: str) -> None:
    code = GATED + "\nasked = []\ninner = answer\ndef answer(images, question):\n    asked.append(question)\n"
    code += "    return 'asked: ' + ' '.join(asked) if question == 'list' else inner(images, question)\n"

    def answers(limit_s: float) -> tuple[int, str, str]:
        """Reply to a second question while the first one runs, and the list of questions that the model received."""
        gate = f"gate{limit_s}"
        with serving(tmp_path, code, "--timeout", limit_s) as server, ThreadPoolExecutor(2) as executor:
            first = executor.submit(server.ask, chat(f"wait {gate}"))
            server.until(lambda health: health["running"] == 1 or health["given_up"])
            second = executor.submit(server.ask, chat("second"))
            assert first.result()[0] == 504
            status, message = second.result()
            (tmp_path / gate).touch()
            server.until(lambda health: health["running"] == 0)
            return status, message, ask_until(server, "list", "asked: ")[1]

    # Other statuses: the first question was overdue, or not yet running, when the second arrived.
    status, message, asked = with_growing_limits(answers, lambda found: found[0] != 504, (2, 10, 30))
    assert status == 504 and "its turn never came" in message
    assert asked.startswith("asked: wait gate") and "list" in asked and "second" not in asked


def test_requests_get_503_until_the_model_is_loaded(tmp_path: Path, python: str) -> None:
    code = "import os, time\ndef load():\n    while not os.path.exists('gate'):\n        time.sleep(0.005)\n"
    with serving(tmp_path, code + "def answer(images, question, model):\n    return 'ok'\n", ready=False) as server:
        assert server.send("GET", "/health")[0] == 503 and server.health()["status"] == "loading"
        status, headers, _ = server.send("POST", "/v1/chat/completions", chat())
        assert status == 503 and headers["Retry-After"] == "5"
        (tmp_path / "gate").touch()
        server.wait_for("model is ok after")
        assert server.ask(chat()) == (200, "ok") and server.send("GET", "/health")[0] == 200


def test_a_failed_load_is_reported_in_replies_and_health(tmp_path: Path, python: str) -> None:
    code = "def load():\n    raise FileNotFoundError('checkpoint.pt')\ndef answer(images, question, model):\n    pass\n"
    with serving(tmp_path, code, ready=False) as server:
        server.wait_for("fix it and restart")
        status, headers, data = server.send("POST", "/v1/chat/completions", chat())
        assert status == 503 and "Retry-After" not in headers
        assert data["error"]["message"] == "load() failed: FileNotFoundError: checkpoint.pt"
        assert server.health()["status"] == "failed" and "checkpoint.pt" in server.health()["error"]


def test_requests_need_the_api_key_and_errors_do_not_contain_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-123")
    with serving(tmp_path, "def answer(images, question):\n    return 'ok'\n", "--api-key-env", "MY_KEY") as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer s\xe9cret"}):
            status, message = server.ask(chat(), **headers)
            assert status == 401 and "secret" not in message
        assert server.send("GET", "/v1/models")[0] == 401 and server.health()["status"] == "ok"
        assert server.ask(chat(), Authorization="Bearer secret-123") == (200, "ok")


def test_cameras_name_the_images_and_fix_their_number(tmp_path: Path, python: str) -> None:
    code = "def answer(images, question):\n    return ' '.join('%s%d' % (i.name, i.index) for i in images)\n"
    with serving(tmp_path, code, "--cameras", "front, back") as server:
        assert server.ask(chat("x", RED, BLUE)) == (200, "front0 back1")
        assert server.ask(chat("x", RED)) == (400, "messages: expected 2 images (front, back), found 1")


def test_several_moments_repeat_the_cameras_names(tmp_path: Path, python: str) -> None:
    code = "def answer(images, question):\n    return ' '.join('%s%d' % (i.name, i.index) for i in images)\n"
    with serving(tmp_path, code, "--cameras", "front,back", "--frames", "2") as server:
        assert server.ask(chat("x", RED, BLUE)) == (200, "front0 back1")
        assert server.ask(chat("x", RED, BLUE, BLUE, RED)) == (200, "front0 back1 front2 back3")
        expected = "messages: expected 2 images (front, back) at up to 2 moments"
        for number in (0, 3, 6):
            assert server.ask(chat("x", *[RED] * number)) == (400, f"{expected}, found {number}")


def test_images_open_in_pillow_and_are_saved_unchanged(tmp_path: Path, python: str) -> None:
    code = """
def answer(images, question):
    image = images[0].pil()
    with open(images[0].save("kept.png"), "rb") as file:
        assert file.read() == images[0].bytes
    return "%s %s %s" % (image.mode, image.size, image.getpixel((3, 3)))
"""
    with serving(tmp_path, code, python=sys.executable) as server:  # the oldest Python has no Pillow
        assert server.ask(chat("x", RED)) == (200, "RGB (32, 18) (200, 30, 30)")
        status, message = server.ask(chat("x", data_url(picture()[:40])))
        assert status == 400 and message.startswith("image0: no readable image")
        huge = bytearray(picture())
        huge[16:24] = (20_000).to_bytes(4, "big") * 2  # width and height in the PNG header
        status, message = server.ask(chat("x", data_url(bytes(huge))))
        assert status == 400 and "image0" in message
        assert server.health()["refused"] == 2


def test_a_disconnected_client_frees_its_place_in_the_queue(tmp_path: Path, python: str) -> None:
    import http.client
    import json

    with serving(tmp_path, GATED, "--queue", 1) as server, ThreadPoolExecutor(1) as executor:
        first = executor.submit(server.ask, chat("wait gate"))
        server.until(lambda health: health["running"] == 1)
        leaving = http.client.HTTPConnection("127.0.0.1", server.port)
        leaving.request("POST", "/v1/chat/completions", json.dumps(chat("second")))
        server.until(lambda health: health["waiting"] == 1)
        leaving.close()
        assert server.until(lambda health: health["waiting"] == 0)["given_up"] == 1
        (tmp_path / "gate").touch()
        assert first.result() == (200, "done: wait gate")
