"""Run `make quick` with the newest version of every dependency, without upper bounds and exact versions of setup.cfg.

    python scripts/check_latest.py                    # installs into .venv-latest, about 5 minutes
    python scripts/check_latest.py --list             # only prints what differs from the lock

Bounds that other packages set remain. torch and torchvision keep their locked versions, since a newer CPU build may not
be available. Ends with the exit code of `make quick`; tests/contracts/test_lmms_eval_api.py names each part of
lmms-eval that changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import install
import lock_file
from lock_file import BASE, BUILDS, GPU_ONLY, LockedPackage
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import sys_tags
from resolving import resolve, setup_requirements, wheels_for


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--venv", type=Path, default=install.ROOT / ".venv-latest")
    p.add_argument("--list", action="store_true", help="install nothing")
    args = p.parse_args()
    version = ".".join(map(str, sys.version_info[:2]))
    wanted = [unbounded(line) for line in setup_requirements()["dev"]]
    found = resolve(wanted, lock_file.read_torch(), ("--python-version", version))
    latest = [package for package in found if package["name"] not in BUILDS and not GPU_ONLY.match(package["name"])]
    print_differences(latest)
    if args.list:
        return 0
    shutil.rmtree(args.venv, ignore_errors=True)
    python = install.environment(args.venv)
    index = os.environ.get("TORCH_INDEX")
    options = ["--extra-index-url", index] if index else []
    install.check_torch(python, options)
    install.install_locked(python, [with_hashes(package) for package in latest])
    install.install_checkout(python, options)
    for script in ("torchvision_shim.py", "opencv_choice.py"):
        subprocess.run([python, install.ROOT / "scripts" / script], check=True)
    (args.venv / ".installed-dev").touch()  # the environment is complete for make
    return subprocess.run(["make", "quick", f"VENV={args.venv}"], cwd=install.ROOT, check=False).returncode


def unbounded(line: str) -> str:
    """The requirement with its lower bound only; an exact version is a lower bound."""
    required = Requirement(line)
    lower = [s.version for s in required.specifier if s.operator in (">=", "==")]
    required.specifier = SpecifierSet(",".join(f">={version}" for version in lower))
    return str(required)


def print_differences(latest: list[dict[str, Any]]) -> None:
    locked = {package.name: package.version for package in lock_file.read_lock()}
    newest = {package["name"]: package["version"] for package in latest}
    for name in sorted(locked | newest):
        if locked.get(name) != newest.get(name):
            print(f"{name:32} locked {locked.get(name, '-'):16} latest {newest.get(name, '-')}")


def with_hashes(package: dict[str, Any]) -> LockedPackage:
    files = wheels_for(package, frozenset(sys_tags())) or [package["sdist"]]
    hashes = tuple(sorted(file["hashes"]["sha256"] for file in files))
    return LockedPackage(package["name"], package["version"], (BASE,), hashes)


if __name__ == "__main__":
    raise SystemExit(main())
