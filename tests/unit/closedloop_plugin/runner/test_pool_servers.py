"""Workers with a server each: retries on another server, and when a server is given up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.closedloop.runs import comparable, run_into, tasks, worker_config

from closedloop_plugin.runner.episode_record import EpisodeResult
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.scheduler import EpisodeScheduler
from lmms_eval_ad2.core.errors import Ad2Error


def recipe(folder: Path, *servers: str, bad_route: str = "", together: int = 1, **modes: str) -> FactoryRecipe:
    for server, mode in modes.items():
        (folder / server).write_text(mode)
    worker_options = tuple({"server": server} for server in servers)
    return FactoryRecipe(
        "support.closedloop.server_worlds:ServerWorld",
        {"folder": str(folder), "bad_route": bad_route, "together": together},
        worker_options,
    )


def drives(folder: Path) -> list[tuple[str, str]]:
    """(server, route) of every started episode."""
    return [(server, route) for server, route in map(str.split, (folder / "drives.txt").read_text().splitlines())]


def make_scheduler(**options: int) -> EpisodeScheduler:
    scheduler = EpisodeScheduler(options.pop("workers", 2), own=True, starts=5, first_starts=2)
    scheduler.waiting.extend(tasks())
    return scheduler


@pytest.mark.integration
def test_records_do_not_depend_on_the_server(tmp_path: Path) -> None:
    two = run_into(
        tmp_path / "a", tasks(), worker_config(recipe(tmp_path, "one", "two", together=2)), limits=PoolLimits(workers=2)
    )
    assert {server for server, _ in drives(tmp_path)} == {"one", "two"}
    assert comparable(two) == comparable(
        run_into(tmp_path / "b", tasks(), worker_config(), limits=PoolLimits(workers=1))
    )


@pytest.mark.integration
def test_the_episode_of_a_lost_server_is_retried_on_another(tmp_path: Path) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", "two", together=2, one="goes"))
    records = run_into(tmp_path / "out", tasks(), run_plan, limits=PoolLimits(workers=2))
    assert {r.end for r in records} == {"completed"}
    assert sum(r.counts.get("retries", 0) for r in records) == 1
    begun = drives(tmp_path)
    (lost,) = [route for server, route in begun if server == "one"]
    assert ("two", lost) in begun
    assert len(begun) == 7


@pytest.mark.integration
def test_one_server_that_fails_every_episode_does_not_fail_the_suite(tmp_path: Path) -> None:
    """It restarts each time: without counting its failures, it would use up the attempts of every episode."""
    run_plan = worker_config(recipe(tmp_path, "one", "two", together=2, one="broken"))
    records = run_into(tmp_path / "out", tasks(3), run_plan, limits=PoolLimits(workers=2))
    assert {r.end for r in records} == {"completed"}
    assert max(Counter(drives(tmp_path)).values()) <= 3  # at most one start per repetition on each server
    assert 1 <= sum(server == "one" for server, _ in drives(tmp_path)) <= 5


@pytest.mark.integration
def test_a_server_that_never_starts_is_given_up_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", "two", one="gone", two="gone"))
    limits = PoolLimits(workers=2, first_starts=1)
    with pytest.raises(Ad2Error) as caught:
        run_into(tmp_path / "out", tasks(), run_plan, limits=limits)
    for server in ("one", "two"):
        assert f"{server} is given up: the world does not start (1 tries): WorldError: {server}: no" in str(
            caught.value
        )
    (tmp_path / "two").unlink()
    assert {r.end for r in run_into(tmp_path / "out", tasks(), run_plan, limits=limits)} == {"completed"}


@pytest.mark.integration
def test_the_run_ends_without_waiting_for_a_server_that_is_not_ready(tmp_path: Path) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", "two", one="silent"))
    done: list[EpisodeResult] = []
    lost: list[str] = []
    WorldPool(
        worker_config=run_plan,
        limits=PoolLimits(workers=2, start_timeout_s=200.0),
        agent=None,
        interpreter=None,
        on_result=done.append,
        on_restart=lost.append,
    ).run(tasks(routes=2))
    assert len(done) == 2
    assert [reason.partition(": ")[2] for reason in lost] == ["not ready when the last episode ended"]


@pytest.mark.integration
def test_a_completed_episode_resets_the_failures_of_its_worker(tmp_path: Path) -> None:
    pool = WorldPool(
        worker_config=worker_config(recipe(tmp_path, "one")),
        limits=PoolLimits(),
        agent=None,
        interpreter=None,
        on_result=lambda result: None,
    )
    pool._scheduler.world_lost(0, tasks()[0], was_ready=True)
    assert pool._scheduler.failures(0) == 1
    pool.run(tasks(routes=1))
    assert pool._scheduler.failures(0) == 0


@pytest.mark.integration
def test_a_client_that_dies_at_the_start_is_reported_with_its_server(tmp_path: Path) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", one="babbles"))
    with pytest.raises(Ad2Error, match=r"one is given up: .*\(1 tries\): the world process died \(signal 6\)"):
        run_into(tmp_path / "out", tasks(), run_plan, limits=PoolLimits(first_starts=1))


@pytest.mark.integration
def test_an_episode_that_fails_on_every_server_is_recorded_with_the_last_one(tmp_path: Path) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", "two", bad_route="102"))
    records = run_into(tmp_path / "out", tasks(routes=4), run_plan, limits=PoolLimits(workers=2))
    assert [r.end for r in records].count("completed") == 3
    (bad,) = [r for r in records if r.end != "completed"]
    assert bad.reason.endswith(": WorldError: this route kills the server") and bad.reason[:3] in ("one", "two")
    assert {server for server, route in drives(tmp_path) if route == "102"} == {"one", "two"}


@pytest.mark.integration
def test_the_only_server_is_not_given_up_for_episodes_that_fail(tmp_path: Path) -> None:
    run_plan = worker_config(recipe(tmp_path, "one", bad_route="all"))
    records = run_into(tmp_path / "out", tasks(routes=2), run_plan, limits=PoolLimits(workers=1, retries=1))
    assert [r.end for r in records] == ["world failed"] * 2


def test_failed_starts_in_a_row_give_up_a_server_earlier_if_it_was_never_ready() -> None:
    scheduler = make_scheduler()
    scheduler.world_ready(0)
    for worker, failures in ((0, 5), (1, 2)):
        for n in range(failures):
            assert not scheduler.is_given_up(worker), (worker, n)
            scheduler.world_lost(worker, None, was_ready=False)
        assert scheduler.is_given_up(worker)
    scheduler.world_ready(0)
    assert not scheduler.is_given_up(0)
    assert scheduler.replacement(1, busy=()) == 0


def test_an_episode_waits_for_a_server_on_which_it_has_not_failed() -> None:
    scheduler = make_scheduler()
    task = scheduler.next_task(0, running=(0, 1))
    assert task is not None
    scheduler.world_lost(0, task, was_ready=True)
    scheduler.waiting.clear()
    scheduler.waiting.append(task)
    assert scheduler.next_task(0, running=(0, 1)) is None
    assert scheduler.next_task(0, running=(0,)) is task  # no other server is left
    scheduler.waiting.append(task)
    assert scheduler.next_task(1, running=(0, 1)) is task


def test_a_lost_world_is_replaced_on_another_server_if_one_is_free() -> None:
    scheduler = make_scheduler(workers=3)
    assert scheduler.replacement(0, busy=(1,)) == 2
    assert scheduler.replacement(0, busy=(1, 2)) == 0
    without_servers = EpisodeScheduler(3, own=False, starts=5, first_starts=2)
    assert without_servers.replacement(0, busy=(1,)) == 0


def test_servers_that_fail_equally_often_are_kept() -> None:
    """Failures on every server are probably caused by the episodes."""
    scheduler = make_scheduler()
    for worker in (0, 1):
        scheduler.world_ready(worker)
        for _ in range(5):
            scheduler.world_lost(worker, tasks()[0], was_ready=True)
        assert scheduler.is_given_up(0) is (worker == 0)
    assert not scheduler.is_given_up(0) and not scheduler.is_given_up(1)
    scheduler.episode_finished(1)
    assert scheduler.is_given_up(0)
