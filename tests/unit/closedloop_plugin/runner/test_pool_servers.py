"""Workers with a server each: what fails on one is tried on another, and who is given up when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.closedloop.runs import essence, plan, run_into, tasks

from closedloop_plugin.runner.episode import EpisodeResult
from closedloop_plugin.runner.pool import PoolLimits, WorldPool
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.scheduler import EpisodeScheduler
from lmms_eval_ad2.errors import Ad2Error


def served(folder: Path, *servers: str, bad_route: str = "", together: int = 1, **how: str) -> FactoryRecipe:
    for server, word in how.items():
        (folder / server).write_text(word)
    each = tuple({"server": server} for server in servers)
    return FactoryRecipe(
        "support.closedloop.server_worlds:ServerWorld",
        {"folder": str(folder), "bad_route": bad_route, "together": together},
        each,
    )


def drives(folder: Path) -> list[tuple[str, str]]:
    """(server, route) of every episode that was begun."""
    return [(server, route) for server, route in map(str.split, (folder / "drives.txt").read_text().splitlines())]


def roster(**more: int) -> EpisodeScheduler:
    made = EpisodeScheduler(more.pop("workers", 2), own=True, starts=5, first_starts=2)
    made.waiting.extend(tasks())
    return made


@pytest.mark.integration
def test_records_do_not_depend_on_who_drove_them(tmp_path: Path) -> None:
    two = run_into(
        tmp_path / "a", tasks(), plan(served(tmp_path, "one", "two", together=2)), limits=PoolLimits(workers=2)
    )
    assert {server for server, _ in drives(tmp_path)} == {"one", "two"}
    assert essence(two) == essence(run_into(tmp_path / "b", tasks(), plan(), limits=PoolLimits(workers=1)))


@pytest.mark.integration
def test_a_server_that_goes_away_leaves_its_episode_to_another(tmp_path: Path) -> None:
    how = plan(served(tmp_path, "one", "two", together=2, one="goes"))
    records = run_into(tmp_path / "out", tasks(), how, limits=PoolLimits(workers=2))
    assert {r.end for r in records} == {"completed"}
    assert sum(r.counts.get("retries", 0) for r in records) == 1
    begun = drives(tmp_path)
    (lost,) = [route for server, route in begun if server == "one"]
    assert ("two", lost) in begun
    assert len(begun) == 7


@pytest.mark.integration
def test_a_server_that_fails_every_episode_does_not_spoil_the_suite(tmp_path: Path) -> None:
    """It comes up each time: without memory it would take every episode three times, faster than the other drives."""
    how = plan(served(tmp_path, "one", "two", together=2, one="broken"))
    records = run_into(tmp_path / "out", tasks(3), how, limits=PoolLimits(workers=2))
    assert {r.end for r in records} == {"completed"}
    assert max(Counter(drives(tmp_path)).values()) <= 3  # an episode was begun once a repetition on each at most
    assert 1 <= sum(server == "one" for server, _ in drives(tmp_path)) <= 5


@pytest.mark.integration
def test_a_server_that_never_was_there_is_given_up_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = plan(served(tmp_path, "one", "two", one="gone", two="gone"))
    limits = PoolLimits(workers=2, first_starts=1)
    with pytest.raises(Ad2Error) as told:
        run_into(tmp_path / "out", tasks(), how, limits=limits)
    for server in ("one", "two"):
        assert f"{server} is given up: the world does not start (1 tries): WorldError: {server}: no" in str(told.value)
    (tmp_path / "two").unlink()
    assert {r.end for r in run_into(tmp_path / "out", tasks(), how, limits=limits)} == {"completed"}


@pytest.mark.integration
def test_the_end_waits_for_nobody_who_is_not_there_yet(tmp_path: Path) -> None:
    how = plan(served(tmp_path, "one", "two", one="silent"))
    done: list[EpisodeResult] = []
    lost: list[str] = []
    WorldPool(how, PoolLimits(workers=2, start_timeout_s=200.0), None, None, done.append, lost.append).run(
        tasks(routes=2)
    )
    assert len(done) == 2
    assert [reason.partition(": ")[2] for reason in lost] == ["not ready when the last episode ended"]


@pytest.mark.integration
def test_an_episode_that_is_driven_wipes_out_the_failures_before_it(tmp_path: Path) -> None:
    pool = WorldPool(plan(served(tmp_path, "one")), PoolLimits(), None, None, lambda result: None)
    pool._scheduler.world_lost(0, tasks()[0], was_ready=True)
    assert pool._scheduler.failures(0) == 1
    pool.run(tasks(routes=1))
    assert pool._scheduler.failures(0) == 0


@pytest.mark.integration
def test_a_client_that_dies_at_the_start_is_named_by_its_server(tmp_path: Path) -> None:
    how = plan(served(tmp_path, "one", one="babbles"))
    with pytest.raises(Ad2Error, match=r"one is given up: .*\(1 tries\): the world process died \(signal 6\)"):
        run_into(tmp_path / "out", tasks(), how, limits=PoolLimits(first_starts=1))


@pytest.mark.integration
def test_an_episode_that_fails_everywhere_is_recorded_with_its_last_server(tmp_path: Path) -> None:
    how = plan(served(tmp_path, "one", "two", bad_route="102"))
    records = run_into(tmp_path / "out", tasks(routes=4), how, limits=PoolLimits(workers=2))
    assert [r.end for r in records].count("completed") == 3
    (bad,) = [r for r in records if r.end != "completed"]
    assert bad.reason.endswith(": WorldError: this route kills the server") and bad.reason[:3] in ("one", "two")
    assert {server for server, route in drives(tmp_path) if route == "102"} == {"one", "two"}


@pytest.mark.integration
def test_the_only_server_is_not_given_up_for_episodes_that_fail(tmp_path: Path) -> None:
    how = plan(served(tmp_path, "one", bad_route="all"))
    records = run_into(tmp_path / "out", tasks(routes=3), how, limits=PoolLimits(workers=1, retries=1))
    assert [r.end for r in records] == ["world failed"] * 3


def test_starts_are_counted_in_a_row_and_fewer_of_one_that_never_was_there() -> None:
    made = roster()
    made.world_ready(0)
    for worker, failures in ((0, 5), (1, 2)):
        for n in range(failures):
            assert not made.is_given_up(worker), (worker, n)
            made.world_lost(worker, None, was_ready=False)
        assert made.is_given_up(worker)
    made.world_ready(0)
    assert not made.is_given_up(0)
    assert made.replacement(1, busy=()) == 0


def test_an_episode_waits_for_a_server_on_which_it_has_not_failed() -> None:
    made = roster()
    task = made.next_task(0, running=(0, 1))
    assert task is not None
    made.world_lost(0, task, was_ready=True)
    made.waiting.clear()
    made.waiting.append(task)
    assert made.next_task(0, running=(0, 1)) is None
    assert made.next_task(0, running=(0,)) is task  # nobody else is there: better here than never
    made.waiting.append(task)
    assert made.next_task(1, running=(0, 1)) is task


def test_a_lost_world_is_replaced_on_another_server_if_one_is_free() -> None:
    made = roster(workers=3)
    assert made.replacement(0, busy=(1,)) == 2
    assert made.replacement(0, busy=(1, 2)) == 0
    alike = EpisodeScheduler(3, own=False, starts=5, first_starts=2)
    assert alike.replacement(0, busy=(1,)) == 0


def test_all_that_fail_alike_are_kept() -> None:
    """Episodes that fail on every server say more of the episodes than of the servers."""
    made = roster()
    for worker in (0, 1):
        made.world_ready(worker)
        for _ in range(5):
            made.world_lost(worker, tasks()[0], was_ready=True)
        assert made.is_given_up(0) is (worker == 0)
    assert not made.is_given_up(0) and not made.is_given_up(1)
    made.episode_finished(1)
    assert made.is_given_up(0)
