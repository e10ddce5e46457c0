"""A wheel built from a clean copy is complete and works when installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support.running import REPO, listed_tasks, run


def tracked() -> list[str]:
    """The files of a clone: tracked by git, or new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    return [f for f in done.stdout.splitlines() if (REPO / f).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a clean copy."""
    clone = tmp_path_factory.mktemp("clone")
    for name in tracked():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / name, clone / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", clone / "dist", clone, cwd=clone)
    (built,) = (clone / "dist").glob("*.whl")
    return built


def test_the_wheel_has_every_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in tracked():
        if path.startswith(("lmms_eval_ad2/", "closedloop_plugin/")):
            assert path in names, path
        if path.startswith("tasks/") and not path.endswith("TEMPLATE.md"):
            assert f"lmms_eval_ad2/{path}" in names, path
    assert not [n for n in names if n.startswith(("tests/", "benchmarks/", "tasks/"))]


@pytest.mark.system
def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    """In a new environment with the dependencies of this one, but not this package."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel, cwd=tmp_path)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    shim = Path(sysconfig.get_path("purelib"))
    (site / "borrowed.pth").write_text(f"{shim}\n")
    for extra in shim.glob("*torchvision*shim*"):  # .pth files in an added folder are not run
        if extra.suffix == ".pth":
            shutil.copy(extra, site / extra.name)
    where = run(python, "-c", "import lmms_eval_ad2; print(lmms_eval_ad2.__file__)", cwd=tmp_path).stdout
    assert str(tmp_path) in where
    for command in ([python, "-m", "lmms_eval"], [tmp_path / "venv" / "bin" / "lmms_eval"]):
        names = listed_tasks(run(*command, "--tasks", "list", cwd=tmp_path).stdout)
        assert {"ad2_perception_base", "ad2demo_mcq_planning", "bench_coda_lm"} <= names
    out = tmp_path / "out"
    words = ("--model", "ad2_oracle", "--tasks", "ad2demo_mcq_planning", "--out", out)
    done = run(tmp_path / "venv" / "bin" / "ad2", "eval", *words, cwd=tmp_path)
    assert "AutoDrive-QA" in done.stdout
    assert list(out.rglob("summary.json"))
