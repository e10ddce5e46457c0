"""`ad2 carla` on the command line, with a stand-in for CarlaUE4.sh."""

from __future__ import annotations

import json
import platform
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.carla.standin import binary, free_ports, until
from support.running import BIN, environment, kill_on_error, run

AD2 = BIN / "ad2"


@pytest.fixture
def carla(tmp_path: Path) -> Iterator[Path]:
    """The folder of the stand-in. All servers are ended after the test."""
    binary(tmp_path / "carla")
    yield tmp_path / "carla"
    run(AD2, "carla", "down", cwd=tmp_path)


def test_up_status_down(carla: Path, tmp_path: Path, own_home: Path) -> None:
    port, other = sorted(free_ports(2))
    done = run(AD2, "carla", "up", "--binary", "carla/CarlaUE4.sh", "--ports", f"{port},{other}",
               "--config", "gpus=0,1",
               "--config", "quality=Low", "--config=extra=-fps=20", cwd=tmp_path)  # fmt: skip
    assert done.stdout.rstrip().endswith(f"--servers localhost:{port},localhost:{other}")
    row = next(line for line in done.stdout.splitlines() if line.startswith(f"localhost:{other} "))
    log = own_home / "carla" / platform.node() / f"{other}.log"
    assert re.search(rf"answers +\d+ +1 +0:00:\d\d +0 +0\.9\.16 +{re.escape(str(log))}$", row)
    words = "-RenderOffScreen -nosound -carla-rpc-port={} -graphicsadapter={} -quality-level=Low -fps=20"
    assert {line.split(" ", 1)[1] for line in (carla / "starts").read_text().splitlines()} == {
        words.format(port, 0),
        words.format(other, 1),
    }
    rows = json.loads(run(AD2, "carla", "status", "--json", cwd=tmp_path).stdout)
    assert [(r["server"], r["state"], r["good"], r["ours"]["gpu"]) for r in rows] == [
        (f"localhost:{port}", "answers", True, 0),
        (f"localhost:{other}", "answers", True, 1),
    ]
    stopped = run(AD2, "carla", "down", "--port", str(port), cwd=tmp_path)
    assert f"localhost:{port}: ended process" in stopped.stdout and str(other) not in stopped.stdout
    assert f"localhost:{other}: ended" in run(AD2, "carla", "down", cwd=tmp_path).stdout
    assert "nothing was stopped" in run(AD2, "carla", "down", cwd=tmp_path).stdout
    assert "no server of ad2 runs" in run(AD2, "carla", "status", cwd=tmp_path, code=1).stdout


def test_a_server_of_another_release_is_exit_code_1_with_advice(carla: Path, tmp_path: Path) -> None:
    (carla / "mode").write_text("0.9.15")
    (port,) = free_ports()
    done = run(AD2, "carla", "up", "--binary", "carla/CarlaUE4.sh", "--ports", str(port), cwd=tmp_path, code=1)
    assert "CARLA 0.9.15, the client installed here is 0.9.16" in done.stdout and "Python 3.10" in done.stdout


def test_a_server_that_does_not_answer_is_exit_code_1_with_its_log(carla: Path, tmp_path: Path) -> None:
    (carla / "wait").touch()
    (port,) = free_ports()
    words = ("carla", "up", "--binary", "carla/CarlaUE4.sh", "--ports", str(port), "--config", "wait=0.1")
    done = run(AD2, *words, cwd=tmp_path, code=1)
    assert f"localhost:{port}: starting, no answer within 0.1 s; its log ends:" in done.stdout
    assert "-RenderOffScreen" in done.stdout and "--servers" not in done.stdout


def test_status_of_servers_that_ad2_did_not_start(tmp_path: Path) -> None:
    (port,) = free_ports()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        done = run(AD2, "carla", "status", "--servers", f"{server},127.0.0.1:{port}", "--timeout", "1",
                   cwd=tmp_path, code=1)  # fmt: skip
    assert re.search(rf"{server} +silent +not ours", done.stdout) and "no server listens" in done.stdout
    assert f"nothing listens at 127.0.0.1:{port}" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_in_the_foreground_reports_events_and_ends_its_servers(
    number: signal.Signals, carla: Path, tmp_path: Path
) -> None:
    (port,) = free_ports()
    command = [AD2, "carla", "up", "--binary", carla / "CarlaUE4.sh", "--ports", str(port), "--foreground"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True)
    with kill_on_error(process) as running:
        assert running.stdout
        lines = iter(running.stdout.readline, "")
        assert next(line for line in lines if re.match(rf"\d\d:\d\d:\d\d localhost:{port}: answers", line))
        (carla / "die").touch()
        assert "exit code 7" in next(line for line in lines if "restarting" in line)
        running.send_signal(number)
        assert f"localhost:{port}: ended" in "".join(lines)
        assert running.wait() == 0
    until(lambda: run(AD2, "carla", "status", cwd=tmp_path, code=1).stdout.startswith("no server"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--binary PATH/CarlaUE4.sh"),
        (("--binary", "nowhere.sh"), "no such file"),
        (("--binary", "carla/CarlaUE4.sh", "--ports", "2000,2002"), "overlap"),
        (("--binary", "carla/CarlaUE4.sh", "--ports", "x"), "--ports x: expected numbers"),
        (("--binary", "carla/CarlaUE4.sh", "--config", "gpus=0,-1"), "--config gpus 0,-1: expected numbers"),
        (("--binary", "carla/CarlaUE4.sh", "--ports", ""), "names no port"),
        (("--binary", "carla/CarlaUE4.sh", "--config", "extra='"), "not valid shell syntax"),
        (("--binary", "carla/CarlaUE4.sh", "--config", "wait=0"), "seconds above 0"),
        (("--binary", "carla/CarlaUE4.sh", "--config", "hang=nan"), "seconds above 0"),
    ],
)
def test_a_mistake_is_reported_in_one_line_and_nothing_starts(
    words: tuple[str, ...], says: str, carla: Path, tmp_path: Path
) -> None:
    done = run(AD2, "carla", "up", *words, cwd=tmp_path, code=2)
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (carla / "starts").exists()


def test_mistakes_of_status_and_down_are_reported(tmp_path: Path) -> None:
    for words, message in (
        (("status", "--servers", "2000"), "expected host:port"),
        (("status", "--timeout", "-1"), "--timeout is seconds above 0"),
        (("down", "--port", "2000"), "ad2 has no server on this port"),
    ):
        assert message in run(AD2, "carla", *words, cwd=tmp_path, code=2).stderr
