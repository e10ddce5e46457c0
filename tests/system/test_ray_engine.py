"""Engine ray on clusters of several nodes on this machine: lost nodes, lost commands, replicas, wrong tokens."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.closedloop import ray_runs
from support.closedloop.ray_cluster import RayClusterProcess
from support.closedloop.ray_runs import FREE, QUESTIONS, REPETITIONS
from support.closedloop.runs import comparable, run_into, tasks, worker_config
from support.running import BIN, run
from support.tiers import count

from closedloop_plugin.runner.store import read_records

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]
Records = list[dict[str, object]]
NODES = 2  # besides the head


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayClusterProcess]:
    """A head and two nodes, each with one CPU and the place of a CARLA server."""
    with RayClusterProcess(NODES, carla=1) as found:
        yield found


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Records:
    """The records of the local engine."""
    return comparable(run_into(tmp_path_factory.mktemp("local"), tasks(REPETITIONS), worker_config()))


def start(
    kind: str, cluster: RayClusterProcess | None, folder: Path, *more: Path, **environment: str
) -> subprocess.Popen[str]:
    """Start a program of ray_runs.py."""
    settings = {"PYTHONPATH": os.pathsep.join([p for p in sys.path if p]), "HOME": str(folder.parent)}
    settings |= {**(cluster.environment if cluster else {}), **environment}
    command = [sys.executable, ray_runs.__file__, kind, cluster.address if cluster else "", folder, *more]
    return subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def stored(folder: Path) -> int:
    """Number of episodes of a run."""
    with contextlib.suppress(FileNotFoundError):
        return (folder / "episodes.jsonl").read_bytes().count(b"\n")
    return 0


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> str:
    """The standard output of a program that must succeed."""
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out


def processes_with(environment: str) -> list[Path]:
    """Folders in /proc of the processes whose environment has this text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if environment.encode() in (entry / "environ").read_bytes():
                found.append(entry)
    return found


def actors_of(environment: str) -> list[Path]:
    found = []
    for entry in processes_with(environment):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(b"ray::WorldActor"):
                found.append(entry)
    return found


def listening(entry: Path) -> set[str]:
    """Addresses of the network sockets on which a process listens, as in /proc/net."""
    with contextlib.suppress(OSError):
        inodes = {str(f.readlink()).removeprefix("socket:[").rstrip("]") for f in (entry / "fd").iterdir()}
        rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()]
        return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and row[9] in inodes}
    return set()


def test_lost_nodes_lose_nothing(
    tmp_path: Path, cluster: RayClusterProcess, local: Records, record_property: Callable[[str, object], None]
) -> None:
    """Raylets are killed at random moments, and come back; all scores are those of the local engine."""
    rng, folder, hold = random.Random(5), tmp_path / "run", tmp_path / "hold"
    hold.touch()
    process = start("run", cluster, folder, hold)
    wait_until(lambda: stored(folder) >= 1, process)
    for _ in range(count(20)):
        before = stored(folder)
        time.sleep(rng.uniform(0.0, 4.0))  # the moment
        cluster.kill_node(rng.randrange(NODES))
        cluster.add_node()
        wait_until(lambda before=before: stored(folder) >= min(before + 1, FREE), process)  # type: ignore[misc]
    hold.unlink()
    assert finish(process) == ""  # of Ray's texts on lost nodes, none is printed
    records = read_records(folder)
    assert comparable(records) == local
    assert not any("retries" in r.counts for r in records)
    record_property("killed raylets", count(20))


def test_a_killed_command_leaves_no_actor_and_the_local_engine_completes_its_run(
    tmp_path: Path, cluster: RayClusterProcess, local: Records
) -> None:
    folder, hold = tmp_path / "run", tmp_path / "hold"
    hold.touch()
    process = start("run", cluster, folder, hold)
    wait_until(lambda: stored(folder) >= 3, process)
    token = cluster.environment["RAY_AUTH_TOKEN"]
    assert actors_of(token)
    process.kill()
    process.communicate()
    wait_until(lambda: not actors_of(token))
    before = read_records(folder)
    resumed = run_into(folder, tasks(REPETITIONS), worker_config())
    assert comparable(resumed) == local and read_records(folder)[: len(before)] == before


def test_worlds_with_servers_are_placed_where_servers_are(
    tmp_path: Path, cluster: RayClusterProcess, local: Records
) -> None:
    finish(start("servers", cluster, tmp_path / "run"))
    assert comparable(read_records(tmp_path / "run")) == local
    servers = Counter(line.split()[0] for line in (tmp_path / "drives.txt").read_text().splitlines())
    assert set(servers) == {"127.0.0.1:2000", "127.0.0.1:2010"}


def test_replicas_answer_at_the_same_time_and_outlive_a_node(tmp_path: Path, cluster: RayClusterProcess) -> None:
    calls = tmp_path / "calls"
    process = start("replicas", cluster, tmp_path)
    wait_until(lambda: calls.exists() and len(set(calls.read_text().split())) == 2, process)
    cluster.kill_node(0)
    answers = json.loads(finish(process))
    cluster.add_node()
    assert [int(number) for number, _, _ in answers] == list(range(QUESTIONS))
    assert max(int(size) for _, _, size in answers) > 1


def test_another_token_is_refused_in_one_line(tmp_path: Path, cluster: RayClusterProcess) -> None:
    process = start("run", cluster, tmp_path / "run", RAY_AUTH_TOKEN="0" * 64)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (1, "")
    assert re.fullmatch(r"error: --config ray_address=\S+: the cluster refuses this machine's token; [^\n]*\n", err)


def test_ray_of_this_machine_listens_on_loopback_addresses_only(tmp_path: Path) -> None:
    folder, hold = tmp_path / "run", tmp_path / "hold"
    hold.touch()
    process = start("run", None, folder, hold, AD2_TEST_RUN=str(tmp_path))
    wait_until(lambda: stored(folder) >= 1, process)
    found = {address for entry in processes_with(f"AD2_TEST_RUN={tmp_path}") for address in listening(entry)}
    hold.unlink()
    finish(process)
    assert found and found <= {"0100007F", "0000000000000000FFFF00000100007F", f"{1 << 24:032X}"}
    assert not (tmp_path / ".ray").exists()  # no token in a file: HOME is tmp_path
    wait_until(lambda: not processes_with(f"AD2_TEST_RUN={tmp_path}"))


def test_the_command_starts_ray_on_this_machine(tmp_path: Path) -> None:
    """Real worlds: each record is that of the local engine, bit by bit; the folder may be resumed by either engine."""
    words = (BIN / "ad2", "drive", "run", "--suite", "demo", "--agent", "expert", "--routes-ids", "101,104")
    run(*words, "--out", "local", cwd=tmp_path)
    run(*words, "--limit", "1", "--out", "ray", "--config", "engine=ray", "--video", cwd=tmp_path, cold=True)
    text = run(*words, "--out", "ray", cwd=tmp_path).stdout
    assert "Driving Score" in text
    first, second = (comparable(read_records(tmp_path / name)) for name in ("local", "ray"))
    assert first == second
    assert list((tmp_path / "ray" / "frames").rglob("*.mp4"))
