"""Installed without the lock, with the newest version of every dependency that setup.cfg permits, the package works.

torch and torchvision stay those of this environment: their newest builds are gigabytes, and a CPU build may be missing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.running import PATIENCE_S, REPO, environment
from support.scripts import script

resolving: ModuleType = script("resolving")
lock_file: ModuleType = script("lock_file")
TASK = "ad2demo_relation"
CHANCE = ("--model", "ad2_chance", "--tasks", TASK, "--limit", "3")

pytestmark = pytest.mark.system


def newest() -> list[str]:
    """The newest versions for this interpreter, with the builds of torch and torchvision that are installed."""
    version = ".".join(map(str, sys.version_info[:2]))
    kept = [f"{name}=={metadata.version(name).partition('+')[0]}" for name in lock_file.BUILDS]
    found: list[dict[str, Any]] = resolving.resolve(
        resolving.setup_requirements()["base"], kept, ("--python-version", version)
    )
    left_out = [*lock_file.BUILDS, *(p["name"] for p in found if lock_file.GPU_ONLY.match(p["name"]))]
    return [f"{p['name']}=={p['version']}" for p in found if p["name"] not in left_out]


def called(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command, variables = [str(word) for word in words], environment(PYTHONPATH="")
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with this package and the newest versions."""
    folder = tmp_path_factory.mktemp("newest")
    subprocess.run([sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--python", python]
    variables = resolving.uv_environment()
    subprocess.run([*install, *newest()], env=variables, check=True)
    clone = folder / "clone"  # a build writes into the folder of the sources
    shutil.copytree(REPO, clone, ignore=shutil.ignore_patterns(".venv*", ".git", "runs", "build", "*.egg-info"))
    subprocess.run([*install, clone], env=variables, check=True)
    borrow_torch(python)
    return python


def borrow_torch(python: Path) -> None:
    """Link torch and torchvision of this environment, and what a CUDA build of torch needs."""
    here, there = (Path(sysconfig.get_path("purelib")), next(python.parents[1].glob("lib/python*/site-packages")))
    patterns = ("torch", "torch-*", "torchgen", "functorch", "torchvision*", "nvidia*", "cuda*", "triton*")
    for path in [path for pattern in patterns for path in here.glob(pattern)]:
        if not (there / path.name).exists():
            (there / path.name).symlink_to(path)
    for path in here.glob("_ad2_torchvision_shim.*"):
        shutil.copy(path, there)


def test_a_model_of_ours_answers(python: Path, tmp_path: Path) -> None:
    done = called(python.with_name("ad2"), "eval", *CHANCE, "--out", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert list((tmp_path / "x").rglob("summary.json"))


def test_lmms_eval_itself_runs(python: Path, tmp_path: Path) -> None:
    done = called(python, "-m", "lmms_eval", *CHANCE, "--output_path", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert list((tmp_path / "x").rglob("summary.json"))


def test_the_doctor_finds_no_fault_and_notices_an_unfit_version(python: Path, tmp_path: Path) -> None:
    done = called(python.with_name("ad2"), "doctor", cwd=tmp_path)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout
    (module,) = python.parents[1].glob("lib/python*/site-packages/filelock/_api.py")
    hidden = module.with_suffix(".hidden")  # as in filelock 4.3
    module.rename(hidden)
    try:
        text = called(python.with_name("ad2"), "doctor", cwd=tmp_path).stdout
        plan = called(python.with_name("ad2"), "eval", "--dry-run", *CHANCE, "--out", "y", cwd=tmp_path)
    finally:
        hidden.rename(module)
    assert "FAIL  evaluation" in text and "pip install 'filelock<4.3" in text, text
    assert plan.returncode == 2 and "the run cannot start" in plan.stdout, plan.stdout + plan.stderr
