"""Worlds in processes: crashes, hangs, failures, batched requests, equal results for any number of workers."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.doubles import RemoteReader, TextFollower, WithoutStart
from support.closedloop.runs import comparable, run_into, tasks, worker_config
from support.closedloop.time_limits import speed_up_clock

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Decision, EndReason
from closedloop_plugin.runner.decisions import DecisionRules, read_latency
from closedloop_plugin.runner.episode_record import EpisodeResult, blank_record
from closedloop_plugin.runner.faults import UnhealthyRun
from closedloop_plugin.runner.pool import PoolLimits, WorldPool, _WorkerHandle
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.worker import WorkerConfig
from closedloop_plugin.runner.world_processes import LocalEngine, LocalProcess, ProcessDeath
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

READER = FactoryRecipe("support.closedloop.doubles:Reader")


def faulty(fault: str, **options: object) -> FactoryRecipe:
    return FactoryRecipe("support.closedloop.doubles:Faulty", {"how": fault, "route": "103", **options})


def together(folder: Path, number: int) -> FactoryRecipe:
    return FactoryRecipe("support.closedloop.barrier:BarrierWorld", {"folder": str(folder), "number": number})


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[EpisodeRecord], Path]:
    """Records and folder of the six episodes in one world without faults."""
    folder = tmp_path_factory.mktemp("clean")
    return run_into(folder, tasks(), worker_config(), limits=PoolLimits(workers=1)), folder


def test_any_number_of_workers_gives_the_same_records_and_tracks(
    tmp_path: Path, clean: tuple[list[EpisodeRecord], Path]
) -> None:
    one, folder = clean
    three = run_into(tmp_path, tasks(), worker_config(), limits=PoolLimits(workers=3))
    assert comparable(one) == comparable(three)
    assert [r.key for r in one] == [("demo", t.route_id, t.repetition) for t in tasks()]
    names = sorted(f.name for f in (folder / "metric_info").iterdir())
    assert len(names) == 6
    for name in names:
        assert (folder / "metric_info" / name).read_bytes() == (tmp_path / "metric_info" / name).read_bytes()
    assert (folder / "results.json").exists()


def test_seeds_differ_between_routes_and_repetitions() -> None:
    assert len({t.setup.seed for t in tasks(3)}) == 18


@pytest.mark.parametrize("how", ["die", "raise"])
def test_an_episode_whose_world_fails_once_is_retried(
    tmp_path: Path, how: str, clean: tuple[list[EpisodeRecord], Path]
) -> None:
    bad = faulty(how, once=str(tmp_path / "happened"))
    records = run_into(tmp_path / "bad", tasks(), worker_config(bad))
    assert comparable(records) == comparable(clean[0])
    assert [r.counts.get("retries") for r in records] == [None, None, 1, None, None, None]


@pytest.mark.parametrize(
    ("how", "retries", "why"), [("die", 2, "signal 9.*about to die"), ("raise", 1, "WorldError: lost a frame")]
)
def test_a_world_that_always_fails_is_recorded_with_its_reason(
    tmp_path: Path, how: str, retries: int, why: str
) -> None:
    # The same exception twice is not tried a third time; a death without an exception says less.
    records = run_into(tmp_path, tasks(routes=4), worker_config(faulty(how)))
    bad = records[2]
    assert (bad.end, bad.status) == (EndReason.WORLD_FAILED, "Failed - Simulation crashed")
    assert (bad.counts, bad.fault) == ({"retries": retries}, "world")
    assert pytest.importorskip("re").search(why, bad.reason)
    assert (bad.score_composed, bad.world["backend"]) == (0.0, "fake")
    assert [r.end for r in records if r is not bad] == ["completed"] * 3


@pytest.mark.parametrize("far", [False, True])
def test_an_exception_in_the_start_of_an_agent_is_its_fault_and_not_tried_again(tmp_path: Path, far: bool) -> None:
    reader = FactoryRecipe("support.closedloop.doubles:Reader")
    own = FactoryRecipe("support.closedloop.doubles:WithoutStart") if not far else None
    config = worker_config(agent=own, interpreter=reader, interprets=True)
    records = run_into(tmp_path, tasks(routes=4), config, WithoutStart() if far else None)
    bad = records[2]
    assert (bad.end, bad.fault, bad.counts) == (EndReason.AGENT_FAILED, "driver", {"retries": 0})
    assert bad.reason.endswith("the agent talker: start() raised RuntimeError: no weights")
    assert [r.end for r in records if r is not bad] == ["completed"] * 3


def test_a_hanging_world_is_killed_and_its_episode_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened, lines = tmp_path / "happened", tmp_path / "run/episodes.jsonl"
    speed_up_clock(monkeypatch, lambda: happened.exists() and lines.read_bytes().count(b"\n") == 3)
    bad = faulty("hang", once=str(happened))
    records = run_into(tmp_path / "run", tasks(routes=4), worker_config(bad), limits=PoolLimits(workers=2))
    assert records[2].counts["retries"] == 1
    assert {r.end for r in records} == {"completed"}


def test_a_hang_without_retries_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = tmp_path / "happened"
    speed_up_clock(monkeypatch, happened.exists)
    limits = PoolLimits(workers=1, world_timeout_s=100.0, retries=0)
    records = run_into(tmp_path / "run", tasks()[2:4], worker_config(faulty("hang", once=str(happened))), limits=limits)
    assert (records[0].end, records[0].reason) == ("world failed", "hung: no sign of life for 100 s")
    assert records[1].end == "completed"


def test_failed_episodes_are_run_again_only_on_request(tmp_path: Path) -> None:
    once = str(tmp_path / "happened")
    bad, limits = worker_config(faulty("die", once=once)), PoolLimits(workers=2, retries=0)
    assert run_into(tmp_path / "run", tasks(routes=3), bad, limits=limits)[2].end == "world failed"
    assert run_into(tmp_path / "run", tasks(routes=3), bad, limits=limits)[2].end == "world failed"
    assert run_into(tmp_path / "run", tasks(routes=3), bad, limits=limits, retry_failed=True)[2].end == "completed"


def test_a_rejected_scene_is_an_invalid_episode_and_the_run_continues(tmp_path: Path) -> None:
    records = run_into(tmp_path, tasks(), worker_config(faulty("invalid")))
    assert (records[2].end, records[2].reason) == (EndReason.INVALID, "two cars in one place")
    assert "retries" not in records[2].counts
    assert [r.end for r in records].count("completed") == 5


def test_a_reason_is_one_line_of_bounded_length() -> None:
    conditions = worker_config().conditions
    text = "first\nsecond\x1b[31m" + "x" * 5000
    reason = blank_record(tasks()[0], conditions, EndReason.WORLD_FAILED, text, "fake", "1").reason
    assert reason.startswith("first\\nsecond\\x1b[31mxxx") and len(reason) == 1000


def test_a_map_that_a_reader_refuses_is_a_fault_of_one_route(tmp_path: Path) -> None:
    records = run_into(tmp_path, tasks(routes=4), worker_config(faulty("map")))
    assert (records[2].end, records[2].fault) == (EndReason.INVALID, "map")
    assert records[2].reason == "corridor.xodr: a reader cannot use this map: no driving lane in it"
    assert [r.end for r in records if r is not records[2]] == ["completed"] * 3


@pytest.mark.parametrize(
    ("name", "why", "times"),
    [
        ("wrong_world", "a fault of the world: TypeError: no argument 'port'", "2"),
        ("driver_without_weights", "a fault of the driver: the driver cannot be made: RuntimeError: no weights", "1"),
    ],
)
def test_what_cannot_be_made_is_named_and_not_tried_three_times(
    tmp_path: Path, name: str, why: str, times: str
) -> None:
    recipe = FactoryRecipe(f"support.closedloop.doubles:{name}", {"made": str(tmp_path / "n")})
    config = worker_config(**({"world": recipe} if name == "wrong_world" else {"agent": recipe}))
    with pytest.raises(UnhealthyRun, match=re.escape(why)) as found:
        run_into(tmp_path / "run", tasks(), config, limits=PoolLimits(workers=1))
    assert ((tmp_path / "n").read_text(), found.value.exit_code) == (times, 3)


def test_an_ad2_error_of_a_world_ends_the_run_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="Town99: no map; give --towns DIR"):
        run_into(tmp_path, tasks(), worker_config(faulty("user")))


def test_a_world_that_never_starts_ends_the_run_with_the_path_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"does not start \(5 tries\): WorldError: no display; see .*worker0.log"):
        run_into(
            tmp_path,
            tasks(),
            worker_config(FactoryRecipe("support.closedloop.doubles:world_without_display")),
            limits=PoolLimits(workers=1),
        )


def test_a_recipe_that_cannot_be_imported_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="'no_such:thing' cannot be imported"):
        run_into(tmp_path, tasks(), worker_config(FactoryRecipe("no_such:thing")), limits=PoolLimits(workers=1))


@pytest.mark.parametrize("far", [False, True])
def test_replies_of_a_model_are_requested_in_batches(tmp_path: Path, far: bool) -> None:
    """The interpreter runs in the world's process or, if `far`, in the model's."""
    agent = TextFollower(0.01)
    run_plan = worker_config(
        together(tmp_path, 4), name="bench2advlm", agent=None, interpreter=None if far else READER, interprets=True
    )
    reader = RemoteReader() if far else None
    records = run_into(
        tmp_path / "run", tasks(routes=4), run_plan, agent, interpreter=reader, limits=PoolLimits(workers=4)
    )
    assert {r.end for r in records} == {"completed"}
    assert sum(agent.batches) == sum(r.counts["decisions"] for r in records)
    assert sum(agent.batches) / len(agent.batches) > 2  # of 4: they start and end at different times
    assert agent.open == set()
    assert records[0].counts["mode cng"] == records[0].counts["decisions"]


def test_records_of_a_batched_model_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    run_plan = worker_config(name="bench2advlm", agent=None, interpreter=READER, interprets=True)
    one = run_into(tmp_path / "1", tasks(routes=3), run_plan, TextFollower(), limits=PoolLimits(workers=1))
    assert comparable(one) == comparable(
        run_into(tmp_path / "3", tasks(routes=3), run_plan, TextFollower(), limits=PoolLimits(workers=3))
    )


def test_the_agent_is_notified_of_the_end_of_an_episode_whose_world_died(tmp_path: Path) -> None:
    agent = TextFollower()
    run_plan = worker_config(faulty("die", once=str(tmp_path / "x")), agent=None, interpreter=READER, interprets=True)
    run_into(tmp_path / "run", tasks()[2:3], run_plan, agent, limits=PoolLimits(workers=1))
    assert agent.log == [("start", "103_rep0"), ("end", "103_rep0")] * 2


def test_a_given_latency_is_reproducible_and_changes_the_drive(tmp_path: Path) -> None:
    def drive(name: str, latency: str) -> list[dict[str, object]]:
        return comparable(
            run_into(
                tmp_path / name, tasks(routes=2), worker_config(rules=DecisionRules(latency=read_latency(latency)))
            )
        )

    waits, slow, again = drive("w", "waits"), drive("a", "0.8"), drive("b", "0.8")
    assert slow == again
    assert slow[0]["world"] == {"backend": "fake", "version": "1", "waiting": "latency 0.8"}
    assert [r["ticks"] for r in slow] != [r["ticks"] for r in waits]


def test_eight_worlds_share_a_slow_model(tmp_path: Path) -> None:
    """200 ms per batch of any size: asserts that the batches are large, not the wall time."""
    agent = TextFollower(0.2)
    todo = tasks(2, max_ticks=60)[:8]
    run_plan = worker_config(
        together(tmp_path, 8), rules=DecisionRules(decision_hz=4), agent=None, interpreter=READER, interprets=True
    )
    started = time.monotonic()
    run_into(tmp_path / "run", todo, run_plan, agent, limits=PoolLimits(workers=8))
    print(f"{time.monotonic() - started:.1f} s, {len(agent.batches)} batches of {sum(agent.batches)} questions")
    assert sum(agent.batches) / len(agent.batches) > 2  # 8 on an idle machine


def test_a_world_that_dies_in_the_middle_of_a_message_is_a_lost_world(tmp_path: Path) -> None:
    parent_end, world_end = socket.socketpair()
    world_end.sendall(struct.pack("!i", 100) + b"half")  # multiprocessing's header: 100 bytes follow
    world_end.close()
    lost: list[str] = []
    pool = WorldPool(
        worker_config=worker_config(), limits=PoolLimits(), agent=None, interpreter=None, on_result=lambda result: None
    )
    pool._replace_lost = lambda worker, reason, machine_lost: lost.append(reason)  # type: ignore[method-assign]
    with subprocess.Popen(["true"]) as process:
        pool._workers = [_WorkerHandle(0, LocalProcess(process, Connection(parent_end.detach())))]
        pool._receive()
    assert lost == ["the world process died (exit code 0)"]


@pytest.mark.parametrize("ended_by", ["another world", "the model"])
def test_results_that_have_arrived_are_kept_when_an_error_ends_the_run(ended_by: str) -> None:
    def stop(*_: object) -> None:
        raise Ad2Error("20 replies in a row cannot be read")

    kept: list[str] = []
    agent = TextFollower()
    pool = WorldPool(
        worker_config=worker_config(),
        limits=PoolLimits(),
        agent=agent,
        interpreter=None,
        on_result=lambda result: kept.append(result.record.route_id),
        on_reply=stop,
    )
    with contextlib.ExitStack() as stack:
        for number, task in enumerate(tasks()[:4]):
            parent_end, world_end = socket.socketpair()
            world = stack.enter_context(Connection(world_end.detach()))
            if number == 0:
                world.send(("reply", None))
            if number in (1, 2):  # behind an earlier message
                blank = blank_record(
                    task=task,
                    conditions=worker_config().conditions,
                    end=EndReason.COMPLETED,
                    reason="",
                    backend="fake",
                    version="1",
                )
                world.send(("beat", 0.7, 7))
                world.send(("done", EpisodeResult(blank)))
            if number == 3:  # dead
                world.close()
            process = stack.enter_context(subprocess.Popen(["true"]))
            agent.start(task.key, 0)
            pipe = stack.enter_context(Connection(parent_end.detach()))
            pool._workers.append(_WorkerHandle(number, LocalProcess(process, pipe), task, started=True))
        pool._replace_lost = lambda worker, reason, machine_lost: None  # type: ignore[method-assign]
        if ended_by == "the model":
            pool._responses.collect = stop  # type: ignore[method-assign]
        with pytest.raises(Ad2Error, match=r"^20 replies in a row"):
            pool._answer() if ended_by == "the model" else pool._receive()
    assert sorted(kept) == ["102", "103"]
    assert not agent.open & {"102_rep0", "103_rep0"} and "101_rep0" in agent.open


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("closedloop_plugin.runner.world_processes.TAIL_BYTES", 14)
    log = tmp_path / "worker0.log"
    log.write_text("warning\n" * 9 + "für\nzu wenig \N{SNOWMAN}\n\n", "utf-8")
    with subprocess.Popen(["true"]) as process, socket.socket() as unused:
        world = LocalProcess(process, Connection(unused.detach()), log)
        reason = "the world process died (exit code 0); it last printed: zu wenig \N{SNOWMAN}"
        assert world.death() == ProcessDeath(reason)
        world.close()


class LostMachineEngine(LocalEngine):
    """Reports each death of a process as the loss of its machine."""

    def start(self, config: WorkerConfig, log: Path | None) -> LocalProcess:
        process = super().start(config, log)
        process.death = lambda: ProcessDeath("node a was lost", machine_lost=True)  # type: ignore[method-assign]
        return process


def test_the_loss_of_a_machine_does_not_use_up_retries(tmp_path: Path, clean: tuple[list[EpisodeRecord], Path]) -> None:
    bad = worker_config(faulty("die", once=str(tmp_path / "happened")))
    records = run_into(
        tmp_path / "run", tasks(), bad, limits=PoolLimits(workers=1, retries=0), engine=LostMachineEngine()
    )
    assert comparable(records) == comparable(clean[0])
    assert not any("retries" in r.counts for r in records)


def test_an_episode_that_brings_down_every_machine_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("closedloop_plugin.runner.pool.MACHINE_LOSSES", 1)
    records = run_into(tmp_path, tasks()[2:4], worker_config(faulty("die")), engine=LostMachineEngine())
    assert (records[0].end, records[0].reason) == (EndReason.WORLD_FAILED, "node a was lost")
    assert records[1].end == "completed"


class PlacelessEngine(LocalEngine):
    """Processes that wait for a place."""

    def start(self, config: WorkerConfig, log: Path | None) -> LocalProcess:
        process = super().start(config, log)
        process.waits_for = "a node with a free CPU"
        return process


def test_an_episode_is_not_left_to_a_world_without_a_place() -> None:
    """The node of the other world may never come back."""
    pool = WorldPool(
        worker_config=worker_config(), limits=PoolLimits(workers=2), engine=PlacelessEngine(), agent=None,
        interpreter=None, on_result=lambda result: None,
    )  # fmt: skip
    pool._workers = [pool._start(0), pool._start(1)]
    pool._workers[1].process.waits_for = ""  # type: ignore[misc]
    assert [worker.number for worker in pool._placed()] == [1]
    pool._shut_down(pool._workers)


def test_a_process_without_a_place_is_not_hung_but_reported_once() -> None:
    notes: list[str] = []
    pool = WorldPool(
        worker_config=worker_config(), limits=PoolLimits(start_timeout_s=0.0, workers=2), engine=PlacelessEngine(),
        agent=None, interpreter=None, on_result=lambda result: None, on_wait=notes.append,
    )  # fmt: skip
    pool._workers = [pool._start(0), pool._start(1)]
    pool._workers[0].created -= 100.0
    for _ in range(3):
        pool._check_timeouts()
    assert notes == ["1 of 2 wait for a node with a free CPU"] and pool.restarts == 0
    pool._shut_down(pool._workers)


class WrongAgent(TextFollower):
    """Returns `answer` instead of decisions."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def decide(self, requests: object) -> Any:
        self.batches.append(1)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([{"control": None}], "a list with a dict"),
        ({"control": None}, "a dict"),
        (Decision(), "a Decision"),
        (None, "a NoneType"),
        ([Decision(control=(0.0, 1.0, 0.0))], "a Decision whose control is a tuple, no Control"),
        ([Decision({"action": 3})], "a Decision whose texts are no mapping of tasks to texts"),
        ([Decision("go")], "a Decision whose texts are no mapping of tasks to texts"),
        ([Decision(error=ValueError("x"))], "a Decision whose error is a ValueError, no text"),
    ],
)
def test_an_agent_that_returns_no_decisions_is_named_at_its_first_call(tmp_path: Path, answer: Any, why: str) -> None:
    agent = WrongAgent(answer)
    with pytest.raises(Ad2Error, match=re.escape(f"the agent talker: decide() returned {why}; it must return a list")):
        run_into(tmp_path, tasks()[:1], worker_config(agent=None, interpreter=READER, interprets=True), agent)
    assert agent.batches == [1]  # no second try


@pytest.mark.parametrize("name", ["close", "truth", "done", "version"])
def test_a_world_that_lacks_something_is_named_without_another_try(tmp_path: Path, name: str) -> None:
    world = FactoryRecipe("support.closedloop.doubles:incomplete_world", {"without": name, "made": str(tmp_path / "n")})
    with pytest.raises(Ad2Error, match=rf"incomplete_world: the PartOfWorld lacks {name}(\(\))?: see World in"):
        run_into(tmp_path / "run", tasks(), worker_config(world), limits=PoolLimits(workers=1))
    assert (tmp_path / "n").read_text() == "1"
