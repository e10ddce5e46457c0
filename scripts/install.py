"""Create `.venv` and install this checkout into it. Standard library only: it runs before anything is installed.

    python3 scripts/install.py [--extras dev] [--venv .venv]

On the platform of requirements/lock.txt, everything but torch and torchvision is installed from the lock, with hashes;
elsewhere pip chooses versions within the bounds of setup.cfg. Installs CPU PyTorch unless this machine has an NVIDIA
GPU. If there is no GPU and pip's index offers only a CUDA build (several gigabytes), it stops with instructions instead
of downloading.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import lock_file
from lock_file import LockedPackage

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--venv", type=Path, default=ROOT / ".venv")
    p.add_argument("--extras", default="", help="separated by commas")
    p.add_argument("--torch-index", default=os.environ.get("TORCH_INDEX", ""), help="an extra index with CPU wheels")
    args = p.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 (it runs before anything could check)
        sys.exit(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}")
    started = time.monotonic()
    python = environment(args.venv)
    index = ["--extra-index-url", args.torch_index] if args.torch_index else []
    check_torch(python, index)
    reason = lock_file.uncovered()
    bounds = f"within the bounds of setup.cfg: the lock does not cover {reason}"
    print(
        f"installing {bounds if reason else 'from requirements/lock.txt'} (2 to 4 minutes the first time) ...",
        flush=True,
    )
    if reason:
        # A single command: a second one could replace the CPU build by a newer CUDA build.
        target = f"{ROOT}[{args.extras}]" if args.extras else str(ROOT)
        pip(python, "install", "-q", *index, *lock_file.read_torch(), "-e", target)
    else:
        install_locked(python, locked_for(args.extras))
        install_checkout(python, index)
    for script in ("torchvision_shim.py", "opencv_choice.py"):
        subprocess.run([python, ROOT / "scripts" / script], check=True)
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def environment(folder: Path) -> Path:
    """The interpreter of a virtual environment, which is created if it does not exist."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"creating {folder} ...", flush=True)
        venv.create(folder, with_pip=True)
    return python


def locked_for(extras: str) -> list[LockedPackage]:
    """The locked packages for extras separated by commas."""
    names = [name.strip() for name in extras.split(",") if name.strip()]
    packages = lock_file.read_lock()
    known = {extra for package in packages for extra in package.extras} - {lock_file.BASE}
    if unknown := sorted(set(names) - known):
        sys.exit(f"no extra {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return lock_file.select(packages, names)


def install_locked(python: Path, packages: Sequence[LockedPackage]) -> None:
    """Install packages as locked. setuptools is first: it builds those that have no wheel, without a download."""
    first = [package for package in packages if package.name == "setuptools"]
    for part in (first, packages):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "lock.txt")
            file.write_text(lock_file.lock_text(part), "utf-8")
            hashed = ("--no-deps", "--require-hashes", "--no-build-isolation", "--use-pep517")
            pip(python, "install", "-q", *hashed, "-r", str(file))


def install_checkout(python: Path, index: Sequence[str]) -> None:
    """Install torch, torchvision and this checkout; all other dependencies, except those of CUDA builds, are there."""
    pip(python, "install", "-q", *index, *lock_file.read_torch())
    pip(python, "install", "-q", "--no-deps", "--no-build-isolation", "-e", str(ROOT))


def pip(python: Path, *arguments: str) -> None:
    done = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], check=False)
    if done.returncode:
        sys.exit(f"pip failed (code {done.returncode}); see its message above")


def check_torch(python: Path, index: Sequence[str]) -> None:
    """Exit before pip downloads a CUDA build of several gigabytes that this machine cannot use (dry run)."""
    here = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    if here.returncode == 0 or shutil.which("nvidia-smi") or os.environ.get("AD2_ALLOW_CUDA") == "1":
        return
    torch = next(line for line in lock_file.read_torch() if line.startswith("torch=="))
    dry_run = ("install", "-q", "--dry-run", "--report", "-")
    command: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", *dry_run]
    done = subprocess.run([*command, *index, torch], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"pip cannot find {torch}:\n{done.stderr.strip()[-600:]}")
    names = [lock_file.normalized(item["metadata"]["name"]) for item in json.loads(done.stdout)["install"]]
    cuda = [name for name in names if lock_file.GPU_ONLY.match(name)]
    if cuda:
        sys.exit(
            f"this machine has no NVIDIA GPU, and pip's index would install the CUDA build of {torch} "
            f"with {len(cuda)} GPU packages (several gigabytes).\n"
            "For the CPU build: make demo TORCH_INDEX=<the CPU wheel index from PyTorch's install page>\n"
            "To install the CUDA build anyway: AD2_ALLOW_CUDA=1 make demo"
        )


if __name__ == "__main__":
    raise SystemExit(main())
