"""scripts/verify_carla.sh from start to end: against a fake server, one that dies, and none."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fake_carla
import pytest
from fake_carla.server import state_of
from PIL import Image
from support.running import PATIENCE_S, REPO, refusing_port

SCRIPT = REPO / "scripts" / "verify_carla.sh"
LINE = re.compile(r"^(PASS|FAIL|SKIP)  (.{22}) +\d+\.\d s  (.+)$", re.M)
STEPS = 15
CANNOT = {"hang probe"}  # of a fake: a call that it may lack


@pytest.fixture(scope="module")
def maps(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(data_dir / "opendrive", tmp_path_factory.mktemp("towns") / "opendrive"))


@contextmanager
def server(maps: Path, *modes: str) -> Iterator[int]:
    """The fake server as a process; its port."""
    env = {**os.environ, "FAKE_CARLA_MAPS": str(maps), "PYTHONPATH": str(REPO / "tests")}
    words = [sys.executable, "-m", "fake_carla.server", *modes]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()


def verify(maps: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **fake_carla.worker_environment(maps), "PYTHON": sys.executable}
    return subprocess.run(
        [str(SCRIPT), *map(str, words)],
        cwd=maps.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def lines(text: str) -> dict[str, tuple[str, str]]:
    return {name.strip(): (status, finding) for status, name, finding in LINE.findall(text)}


def test_a_working_server_passes(maps: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with server(maps) as port:
        done = verify(maps, f"localhost:{port}", "--out", out, "--quick")
        left = state_of(port)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (out / "report.txt").read_text()
    found = lines(text)
    assert len(found) == STEPS
    assert {name for name, (status, _) in found.items() if status != "PASS"} <= CANNOT
    assert text.strip() in done.stdout, "what is to be sent stands in the terminal too"
    assert not left["actors"]
    assert not left["synchronous"]
    assert left["town"] == "Town01"
    assert "unknown by their id: 0" in text
    assert re.search(r"steps per second: [\d.]+; with a camera of 1600x900: [\d.]+", text)
    assert "collisions_vehicle" in found["collision"][1]
    ends = r"crossed and left the road by \d|was still walking, [5-9]|walked until the scenario removed it, [5-9]"
    assert re.search(f"the walker ({ends})", found["walker"][1])
    with Image.open(out / "frame.jpg") as picture:
        assert picture.size == (400, 225)
    for private in (str(out), str(REPO), str(Path.home()) + "/", f"localhost:{port}", platform.node() or "/tmp"):
        assert private not in text
    assert not list(Path(os.environ["AD2_HOME"]).iterdir()), "nothing is written beside --out"


def test_a_dying_server_of_another_version_fails_and_the_report_is_written(maps: Path, tmp_path: Path) -> None:
    with server(maps, "--die-after", "60", "--version", "0.9.15") as port:
        done = verify(maps, f"127.0.0.1:{port}", "--out", tmp_path / "out", "--quick")
    found = lines((tmp_path / "out" / "report.txt").read_text())
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(found) == STEPS
    assert found["probe"][0] == "FAIL"
    assert "SERVER is CARLA 0.9.15, the client installed here is 0.9.16" in found["probe"][1]
    assert found["map fetch"][0] == "PASS"
    assert "fault of the world" in found["expert, with pictures"][1]
    assert found["clean-up"] == ("FAIL", "the server does not answer any more")


def test_a_missing_server_is_reported_with_the_start_command(maps: Path, tmp_path: Path) -> None:
    with refusing_port() as port:
        done = verify(maps, f"localhost:{port}", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert f"ad2 carla up --binary .../CarlaUE4.sh --ports {port}" in done.stderr
    assert "docs/carla.md" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_nonempty_folder_and_an_invalid_address_are_refused(maps: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with server(maps) as port:
        done = verify(maps, f"localhost:{port}", "--out", tmp_path)
    assert done.returncode == 2
    assert "name a new folder" in done.stderr
    assert [f.name for f in tmp_path.iterdir()] == ["mine"]
    done = verify(maps, "localhost")
    assert done.returncode == 2
    assert "expected host:port" in done.stderr
