"""`ad2 drive run` with earlier frames and own decisions in the requests to a model behind an endpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.running import REPO

from closedloop_plugin.runner.store import read_records
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.storage.identity import read_run
from lmms_eval_ad2.testing.fake_endpoint import Body, FakeEndpointServer, serve

WORLD = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld", "--size", "160x90")
DOLPHINS = ("--config", f"prompts={REPO / 'configs/advlm/prompts_dolphins.yaml'}")
LINE = re.compile(r'- ([\d.]+) s ago, at ([\d.]+) m/s: "(.*)" -> throttle ([\d.]+), steer (\S+), brake ([\d.]+)')


def reply(body: Body) -> str:
    """An answer that depends on the question's present picture."""
    return f"Accelerate and go straight, says picture {len(pictures(body)[-1])}."


def pictures(body: Body) -> list[str]:
    return [part["image_url"]["url"] for part in parts(body) if part["type"] == "image_url"]


def text(body: Body) -> str:
    return "\n".join(part["text"] for part in parts(body) if part["type"] == "text")


def parts(body: Body) -> list[Any]:
    (message,) = body["messages"]
    return list(message["content"])


def run(server: FakeEndpointServer, out: Path, *more: str) -> int:
    agent = ("--agent", f"endpoint:fake@{server.url},format=png")
    return main(["drive", "run", "--suite", "demo", "--limit", "1", *agent, *WORLD, "--out", str(out), *more])


def drive(out: Path, *more: str) -> list[Body]:
    """The requests of one episode, in order."""
    with serve(reply=reply, keep_bodies=True) as server:
        assert run(server, out, *more) == 0
        return server.bodies


def test_dolphins_gets_the_last_six_frames_in_order_and_fewer_at_the_start(tmp_path: Path) -> None:
    bodies = drive(tmp_path / "run", *DOLPHINS)
    present = [pictures(body)[-1] for body in bodies]
    assert len(set(present[:40])) == 40  # FakeWorld draws the tick; its drawing repeats after the picture's width
    for i, body in enumerate(bodies):
        assert pictures(body) == present[max(0, i - 5) : i + 1]
        assert text(body) == (
            "What should the ego-car do in the future? Please describe the next driving action in detail."
        )
    assert [len(pictures(body)) for body in bodies[:8]] == [1, 2, 3, 4, 5, 6, 6, 6]
    agent = read_run(tmp_path / "run")["identity"]["agent"]
    assert (agent["frames"], agent["past_decisions"], agent["history"]) == (6, 0, 5)


def test_own_decisions_are_listed_and_their_frames_are_sent(tmp_path: Path) -> None:
    bodies = drive(tmp_path / "run", "--config", "history=3", "--config", "decision_hz=2")
    present = [pictures(body)[-1] for body in bodies]
    assert LINE.findall(text(bodies[0])) == [] and "moments" not in text(bodies[0])
    for i in range(3, len(bodies)):
        assert pictures(bodies[i]) == present[i - 3 : i + 1]
        assert "The pictures show 4 moments, 0.5 s apart" in text(bodies[i])
        lines = LINE.findall(text(bodies[i]))
        assert [line[0] for line in lines] == ["1.5", "1", "0.5"]
        assert [line[2] for line in lines] == [reply(body).rstrip() for body in bodies[i - 3 : i]]
        speeds = [re.search(r"You travel at ([\d.]+) m/s", text(body)) for body in bodies[i - 3 : i]]
        assert [line[1] for line in lines] == [speed[1] for speed in speeds if speed]
    # The control is the applied one: the profile sets the throttle to 0 above 5 m/s.
    applied = {line[3] for body in bodies for line in LINE.findall(text(body))}
    assert len(applied) > 1 and "0.00" in applied
    assert len(bodies) > 10


def test_the_requests_do_not_depend_on_workers_and_latency_lists_what_was_in_effect(tmp_path: Path) -> None:
    def asked(out: str, *more: str) -> list[tuple[str, ...]]:
        bodies = drive(tmp_path / out, "--config", "history=2", "--config", "decision_hz=1", *more)
        return sorted((text(body), *pictures(body)) for body in bodies)

    alone = asked("one", "--limit", "2")
    assert alone == asked("two", "--limit", "2", "--workers", "2")
    late = drive(tmp_path / "late", "--config", "history=1", "--config", "decision_hz=1", "--config", "latency=1")
    controls = [LINE.findall(text(body))[0][3] for body in late[1:3]]
    assert controls[0] == "0.00" and float(controls[1]) > 0  # the first answer takes effect after the second request


def test_a_resumed_run_begins_each_episode_without_a_history(tmp_path: Path) -> None:
    words = ("--config", "history=2", "--config", "decision_hz=1")
    whole = drive(tmp_path / "whole", *words, "--limit", "2")
    with serve(reply=reply, keep_bodies=True) as server:
        assert run(server, tmp_path / "run", *words) == 0
        begun = len(server.bodies)
        assert run(server, tmp_path / "run", *words, "--limit", "2") == 0
        assert server.bodies == whole and LINE.findall(text(server.bodies[begun])) == []
    counts = [[record.counts for record in read_records(tmp_path / name)] for name in ("run", "whole")]
    assert counts[0] == counts[1] and counts[0][0]["decisions"] == begun


def test_a_folder_of_another_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(reply=reply) as server:
        assert run(server, tmp_path / "run", "--config", "history=2", "--config", "decision_hz=1") == 0
        asked = server.requests
        for words in ((), ("--config", "history=1"), DOLPHINS):
            assert run(server, tmp_path / "run", "--config", "decision_hz=1", *words) == 2
            assert "agent.history" in capsys.readouterr().err
        assert server.requests == asked
