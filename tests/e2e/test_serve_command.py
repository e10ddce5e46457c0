"""`ad2 serve` on the command line: starts, answers, ends cleanly, and reports errors in one line."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import struct
import subprocess
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.closedloop.serving import user
from support.peak_memory import need_proc, peak_kib
from support.running import BIN, REPO, environment

from closedloop_plugin.driver.agents.make import BUILT_IN
from lmms_eval_ad2.cli.main import main, parser
from lmms_eval_ad2.testing.fake_endpoint import serve as fake_endpoint

BODIES_MIB = 2048  # docs/security.md
DRIVE_REQUEST = {
    "ad2_drive": 1, "episode": "e", "tick": 0, "time_s": 0.0, "speed": 0.0, "command": "lane follow",
    "target": [8.0, 0.0], "speed_limit": None, "cameras": [],
}  # fmt: skip


@contextmanager
def serving(*words: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """(process, base URL) of a server that has reported that it is ready."""
    command = [str(BIN / "ad2"), "serve", "--port", "0", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(**env), **pipes) as process:  # type: ignore[call-overload]
        try:
            line = process.stdout.readline()
            assert ": ready, models: " in line, line + process.communicate(timeout=60)[1]
            yield process, line.split(": ready")[0]
        finally:
            if process.poll() is None:
                process.kill()


def post(url: str, body: Any) -> tuple[int, Any]:
    data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", data, kind), timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, json.loads(exc.read())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_server_starts_drives_and_ends_cleanly(how: signal.Signals) -> None:
    with serving("--model", "straight") as (process, url):
        message = {"role": "user", "content": json.dumps(DRIVE_REQUEST)}
        status, reply = post(url, {"model": "ad2-driver", "messages": [message]})
        answer = json.loads(reply["choices"][0]["message"]["content"])
        assert status == 200 and answer["control"]["throttle"] > 0 and answer["error"] is None
        with urllib.request.urlopen(f"{url}/ad2/driver", timeout=60) as described:
            assert json.loads(described.read())["agent"]["name"] == "straight"
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in err and "stopped; answered 1, failed 0" in err and out == ""


def test_a_relay_forwards_requests_and_ends_cleanly_during_one() -> None:
    hanging = threading.Event()

    def failures(number: int, body: Any) -> str:
        if number < 1:
            return "ok"
        hanging.set()
        return "hang"

    with (
        fake_endpoint(reply="Slow down.", failures=failures) as endpoint,
        serving("--model", f"endpoint:far@{endpoint.url}", "--size", "80x45") as (process, url),
    ):
        request = {"model": "far", "messages": [{"role": "user", "content": "Well?"}]}
        assert post(url, request)[1]["choices"][0]["message"]["content"] == "Slow down."
        replies: list[int] = []
        waiting = threading.Thread(target=lambda: replies.append(post(url, request)[0]))
        waiting.start()
        assert hanging.wait(60)
        process.terminate()
        _, err = process.communicate(timeout=60)
        waiting.join(60)
    assert process.returncode == 0 and "Traceback" not in err
    assert replies == [503]


def test_a_served_driver_keeps_the_frames_that_its_prompts_need() -> None:
    """One client drives one episode, then starts it again; every picture has a colour of its own."""
    prompts = str(REPO / "configs/advlm/prompts_dolphins.yaml")
    ticks = [*range(8), 0, 1]
    with (
        fake_endpoint(reply="Slow down.", keep_bodies=True) as endpoint,
        serving("--model", f"endpoint:far@{endpoint.url}", "--config", f"prompts={prompts}", "--size", "80x45") as (
            _,
            url,
        ),
    ):
        for i, tick in enumerate(ticks):
            asked = json.dumps({**DRIVE_REQUEST, "tick": tick, "cameras": ["front"]})
            messages = user(np.full((45, 80, 3), 20 * i, np.uint8), asked)
            assert post(url, {"model": "ad2-driver", "messages": messages})[0] == 200
        request = {"model": "far", "messages": [{"role": "user", "content": "Well?"}]}
        assert post(url, request)[1]["choices"][0]["message"]["content"] == "Slow down."  # the model alone
    contents = [body["messages"][0]["content"] for body in endpoint.bodies[: len(ticks)]]
    sent = [[part["image_url"]["url"] for part in content if part["type"] == "image_url"] for content in contents]
    present = [urls[-1] for urls in sent]
    assert len(set(present)) == len(ticks)
    assert sent[:8] == [present[max(0, i - 5) : i + 1] for i in range(8)]
    assert sent[8:] == [present[8:9], present[8:10]]


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--model", "expert"], "privileged"), (["--model", "steer-only"], "privileged"),
     (["--model", "nonsense"], "known: expert, late, still"),
     (["--model", "straight", "--mode", "dcs"], "--model straight"),
     (["--model", "straight", "--config", "camera=front"], "no effect"),
     (["--model", "lmms:x", "--mode", "hybrid"], "--config interpreter2"),
     (["--model", "endpoint:m@http://127.0.0.1:9/v1", "--config", "prompts=none.yaml"], "none.yaml"),
     (["--model", "straight", "--profile", "x"], "no profile"),
     (["--model", "straight", "--config", "batch=0"], "--config batch=0"),
     (["--model", "straight", "--config", "decision_hz=50"], "--config decision_hz=50"),
     (["--model", "straight", "--config", "window_ms=-1"], "window_ms=-1"),
     (["--model", "straight", "--port", "70000"], "--port"),
     (["--model", "straight", "--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
     (["--model", "straight", "--config", "api_key_env=AD2_NO_SUCH_KEY"], "AD2_NO_SUCH_KEY"),
     (["--model", "straight", "--config", "max_body_mb=nan"], "max_body_mb=nan")],
)  # fmt: skip
def test_invalid_arguments_are_reported_in_one_line(
    words: list[str], named: str, capfd: pytest.CaptureFixture[str]
) -> None:
    port = [] if "--port" in words else ["--port", "0"]
    assert main(["serve", *words, *port]) == 2
    (error,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert named in error


def test_a_port_in_use_is_reported_before_the_model_is_loaded(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--model", "lmms:never_loaded", "--port", port]) == 2
    err = capfd.readouterr().err
    assert f"port {port}" in err and "choose another --port" in err and "loading" not in err


def test_a_public_address_without_a_key_causes_a_warning(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_KEY", "k")
    words = ["serve", "--model", "nonsense", "--port", "0", "--host", "0.0.0.0"]
    assert main(words) == 2
    assert "warning: on 0.0.0.0 anyone" in capfd.readouterr().err
    assert main([*words, "--config", "api_key_env=AD2_KEY"]) == 2
    assert "warning" not in capfd.readouterr().err


def test_a_key_in_the_spec_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "nonsense:x,api_key=sesame", "--port", "0"]) == 2
    assert "loading nonsense:x,api_key=[REDACTED]" in capfd.readouterr().err


def test_serve_has_the_driver_options_of_drive_run() -> None:
    args = parser().parse_args(["serve", "--model", "straight"])
    driving = parser().parse_args(["drive", "run", "--suite", "demo", "--agent", "still", "--out", "x"])
    assert {"interpreter", "mode", "tasks", "camera", "policy", "decision_hz"} <= set(vars(args)) & set(vars(driving))
    assert not {"agent", "latency"} & set(vars(args))
    assert {"expert", "straight"} <= set(BUILT_IN)


def exchange(url: str, body: bytes, **headers: str) -> tuple[int, str]:
    """Send one chat request; (status, error code), (0, "") if the server ends the connection before it has read it."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", **headers})
        reply = connection.getresponse()
        return reply.status, str((json.loads(reply.read()).get("error") or {}).get("code"))
    except ConnectionError:
        return 0, ""
    finally:
        connection.close()


def test_request_bodies_need_bounded_memory() -> None:
    """Compressed bodies, those with the most values, and the largest texts, several at once."""
    need_proc()
    packed = zlib.compress(bytes(400 << 20), 1)
    largest = (64 << 20) - 200
    text = {"model": "ad2-driver", "messages": user("TEXT")}
    long = json.dumps(text).encode().replace(b"TEXT", "\U0001f600".encode() + b"x" * largest)
    values = b'{"messages":[' + b"{}," * (largest // 3) + b"{}]}"
    with serving("--model", "straight") as (process, url), ThreadPoolExecutor(8) as pool:
        before = peak_kib(process.pid)
        refused = list(pool.map(lambda _: exchange(url, packed, **{"Content-Encoding": "deflate"}), range(8)))
        assert set(refused) <= {(415, "unsupported_encoding"), (0, "")}
        assert peak_kib(process.pid) - before < 64 << 10
        assert set(pool.map(lambda _: exchange(url, values)[0], range(4))) == {400}
        assert set(pool.map(lambda _: exchange(url, long)[0], range(3))) == {400}
        assert (peak_kib(process.pid) - before) >> 10 < BODIES_MIB
        message = {"role": "user", "content": json.dumps(DRIVE_REQUEST)}
        assert post(url, {"model": "ad2-driver", "messages": [message]})[0] == 200


def test_only_the_names_of_this_server_are_accepted() -> None:
    with serving("--model", "straight", "--config", "allow_host=gpu7,other") as (_, url):
        hosts = ("gpu7", "localhost:80", "evil.example", "gpu7.evil")
        codes = {host: exchange(url, b"{}", Host=host) for host in hosts}
    assert codes["gpu7"][0] == codes["localhost:80"][0] == 400
    assert codes["evil.example"] == codes["gpu7.evil"] == (421, "wrong_host")


def test_clients_that_leave_leave_no_traceback() -> None:
    """At every point of a request, by a reset or an orderly end; and bytes that are not HTTP."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = json.dumps({"model": "ad2-driver", "messages": user("x")}).encode()
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    parts = [
        head, b"\x16\x03\x01 no HTTP\r\n\r\n", head + b"Content-Length: 99\r\n\r\n{", whole,
        head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{",
    ]  # fmt: skip
    with serving("--model", "straight") as (process, url):
        address = urlsplit(url)
        for part in parts:
            for linger in (struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)):  # a reset, an orderly end
                with socket.create_connection((address.hostname, address.port)) as client:
                    client.sendall(part)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        message = {"role": "user", "content": json.dumps(DRIVE_REQUEST)}
        assert post(url, {"model": "ad2-driver", "messages": [message]})[0] == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err and "Error" not in err
