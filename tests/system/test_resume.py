"""kill -9 in the middle of generation or of judging: the same command resumes and ends with the same table."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.running import BIN, kill_when, run, run_folder, run_lmms_eval, tables
from support.tiers import seeds

from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.data.sample import ensure_sample
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

IN_FLIGHT = 4
TASKS = "ad2demo_perception_base,ad2demo_coda_suggestion,ad2demo_coda_general"


def answer(body: dict) -> str:
    """Depends on the question alone, so that two runs can be compared."""
    text = next(p["text"] for p in body["messages"][-1]["content"] if p["type"] == "text")
    return f"The answer is ({'ABCD'[len(text) % 4]})." if len(text) % 5 else "I cannot tell."


def words(server: FakeEndpointServer, out: Path) -> list[str]:
    args = f"model_version=fake,base_url={server.url},api_key=none,num_concurrent={IN_FLIGHT},max_retries=1"
    return ["--model", "openai", "--model_args", args, "--tasks", TASKS, "--output_path", str(out)]


def hanging_from(number: int) -> Callable[[int, dict], str]:
    """Failures of an endpoint that hangs from request `number` on, so that no run finishes."""
    return lambda n, body: "hang" if n >= number else "ok"


@dataclass(frozen=True)
class UndisturbedRun:
    """`requests` to the model, `ratings` of the judge, and the tables with this judge and with the lexical one."""

    requests: int
    ratings: int
    judged: dict[str, Any]
    lexical: dict[str, Any]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> UndisturbedRun:
    folder, home = tmp_path_factory.mktemp("calm"), str(tmp_path_factory.mktemp("ad2home"))
    with serve(reply=answer) as model:
        run_lmms_eval(*words(model, folder / "lexical"), cwd=folder, AD2_HOME=home)
        requests = model.requests
    with serve(reply=answer) as model, serve(reply="hash") as judge:
        run_lmms_eval(*words(model, folder / "judged"), cwd=folder, AD2_HOME=home, **judge_variables(judge))
        ratings = judge.requests
    assert requests > 40 and ratings > 12
    return UndisturbedRun(requests, ratings, tables(folder / "judged"), tables(folder / "lexical"))


def judge_variables(judge: FakeEndpointServer) -> dict[str, str]:
    spec = f"openai:model=fake,base_url={judge.url},concurrency={IN_FLIGHT}"
    return {"AD2_JUDGE": spec, "OPENAI_API_KEY": "none"}


@pytest.mark.parametrize("seed", seeds(10))
def test_a_run_killed_while_generating_resumes(
    tmp_path: Path, calm: UndisturbedRun, record_property: Callable[[str, object], None], seed: int
) -> None:
    total, kill_at = calm.requests, random.Random(seed).randint(2 * IN_FLIGHT, calm.requests - 2 * IN_FLIGHT)
    with serve(reply=answer, latency_s=0.05, failures=hanging_from(total - IN_FLIGHT)) as server:
        command = words(server, tmp_path / "killed")
        kill_when(command, tmp_path, lambda: server.replies >= kill_at)
        server.behaviour.failures = ()
        with (journal := next((tmp_path / "killed").rglob("rank0.jsonl"))).open("a") as torn:
            torn.write('{"key": "abc", "te')  # as after a kill in the middle of a line
        run_lmms_eval(*command, cwd=tmp_path)
        again = server.requests - total
    assert 0 <= again <= IN_FLIGHT, f"{again} answers were asked for again, killed after {kill_at} replies"
    assert tables(tmp_path / "killed") == calm.lexical
    lines = journal.read_text("utf-8").splitlines()
    keys = [json.loads(line)["key"] for line in lines]
    assert len(keys) == len(set(keys)) == total, "the torn line was cut off, and the next answer began on its own"
    record_property("requests sent again", again)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_run_killed_while_judging_resumes(
    tmp_path: Path, calm: UndisturbedRun, record_property: Callable[[str, object], None], seed: int
) -> None:
    rated, kill_at = calm.ratings, random.Random(seed).randint(1, calm.ratings - 2 * IN_FLIGHT)
    hanging = hanging_from(rated - IN_FLIGHT)
    with serve(reply=answer) as model, serve(reply="hash", latency_s=0.1, failures=hanging) as judge:
        command, variables = words(model, tmp_path / "killed"), judge_variables(judge)
        kill_when(command, tmp_path, lambda: judge.replies >= kill_at, **variables)
        judge.behaviour.failures = ()
        run_lmms_eval(*command, cwd=tmp_path, **variables)
        assert model.requests == calm.requests, "the model was asked again"
        lost = 2 * IN_FLIGHT  # requests in flight, and replies that were being stored
        assert rated <= judge.requests <= rated + lost, f"killed after {kill_at} ratings"
        record_property("ratings requested again", judge.requests - rated)
    assert tables(tmp_path / "killed") == calm.judged


def test_failures_are_counted_and_requested_again_in_the_next_run(tmp_path: Path) -> None:
    with serve(reply=answer, failures=["400"] * 3) as server:
        run_lmms_eval(*words(server, tmp_path), cwd=tmp_path)
        first, requests = tables(tmp_path), server.requests
        run_lmms_eval(*words(server, tmp_path), cwd=tmp_path)
        assert server.requests == requests + 3, "only what had failed is asked again"
    assert sum(t["n_unscored"] for t in first.values()) == 3
    assert {r for t in first.values() for r in t["reasons"]} >= {"unscored:request_failed"}
    assert sum(t["n_unscored"] for t in tables(tmp_path).values()) == 0


def test_a_changed_image_is_requested_again(tmp_path: Path, own_home: Path) -> None:
    """The cache of lmms-eval itself would return the stale answer."""
    from PIL import Image

    ensure_sample()
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    Image.new("RGB", (64, 48), "red").save(pictures / "a.jpg")
    from support.builders import record

    records = [record(f"q{i}", task="relation", subtask="spatial", image_size=(64, 48)) for i in range(3)]
    write_dataset("ad2_bench", "test", records, image_root=pictures, source={"made": "test"})
    with serve(reply="A") as server:
        args = f"model_version=fake,base_url={server.url},api_key=none"
        command = [
            "--model",
            "openai",
            "--model_args",
            args,
            "--tasks",
            "ad2_relation",
            "--output_path",
            tmp_path / "o",
        ]
        run_lmms_eval(*command, cwd=tmp_path)
        run_lmms_eval(*command, cwd=tmp_path)
        assert server.requests == 3, "the second run had all answers"
        Image.new("RGB", (64, 48), "blue").save(pictures / "a.jpg")
        run_lmms_eval(*command, cwd=tmp_path)
        assert server.requests == 6


def test_images_are_sent_as_jpeg(tmp_path: Path) -> None:
    with serve(reply="A", keep_bodies=True) as server:
        run_lmms_eval(*words(server, tmp_path), cwd=tmp_path)
        parts = [p for b in server.bodies for p in b["messages"][-1]["content"] if p["type"] == "image_url"]
    assert parts
    assert all(p["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/") for p in parts)
    assert run_folder(tmp_path).name.startswith("openai-")


@pytest.mark.parametrize("text", ["", "   ", "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x"])
def test_empty_and_failed_answers_are_not_journaled(text: str, tmp_path: Path) -> None:
    from lmms_eval_ad2.harness.journal import AnswerJournal

    journal = AnswerJournal(tmp_path, 0)
    journal.put([("k1", text), ("k2", "B")])
    journal.close()
    assert AnswerJournal(tmp_path, 1).get("k1") is None
    assert AnswerJournal(tmp_path, 1).get("k2") == "B"


def test_a_dead_endpoint_fails_the_run(tmp_path: Path) -> None:
    with serve(reply="A", failures=lambda number, body: "400") as server:
        done = run_lmms_eval(*words(server, tmp_path), cwd=tmp_path, code=2)
    assert "requests failed (or their images are unreadable)" in done.stderr
    assert all(t["n_unscored"] == t["n"] for t in tables(tmp_path).values()), "and it is written down"


def test_a_dead_judge_stops_the_run_and_the_answers_are_kept(tmp_path: Path) -> None:
    spec = "openai:model=fake,base_url=http://127.0.0.1:9/v1"
    with serve(reply=answer) as server:
        command = words(server, tmp_path)
        done = run_lmms_eval(*command, cwd=tmp_path, code=2, AD2_JUDGE=spec, OPENAI_API_KEY="none")
        assert "no endpoint answers at http://127.0.0.1:9/v1" in done.stderr
        requests = server.requests
        run_lmms_eval(*command, cwd=tmp_path)
        assert server.requests == requests, "the answers were kept"


def test_failed_requests_may_fail_the_command_which_then_repeats_them(tmp_path: Path) -> None:
    with serve(reply=answer, failures=lambda number, body: "400" if number == 3 else "ok") as server:
        args = words(server, tmp_path)[3]
        command = ("eval", "--model", "openai", "--model-args", args, "--tasks", "ad2demo_perception_base", "--out",
                   tmp_path / "out", "--limit", "8", "--config", "strict_requests=true")  # fmt: skip
        failed = run(BIN / "ad2", *command, cwd=tmp_path, code=1)
        n, of = server.requests, "1 of 8 requests failed"
        assert f"error: strict_requests: {of}; the same command repeats them" in failed.stderr
        assert f"ad2: {of}" in failed.stderr, "without the option, too"
        run(BIN / "ad2", *command, cwd=tmp_path)
        assert server.requests == n + 1
