"""The lock: exact versions and hashes of all dependencies, in pip's format, with the extras that need each package.

Standard library only: scripts/install.py reads the lock before anything is installed. scripts/lock.py writes it.

    # drive robots
    shapely==2.2.0 ; python_version < "3.12" \\
        --hash=sha256:... \\
        --hash=sha256:...
"""

from __future__ import annotations

import platform
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "requirements"
LOCK, TORCH = FOLDER / "lock.txt", FOLDER / "torch.txt"
PYTHONS = ((3, 11), (3, 12))  # CPython versions that the lock covers
PLATFORM = "linux-x86_64"  # with glibc; sysconfig.get_platform()
BASE = "base"  # instead of an extra: needed by every installation
BUILDS = ("torch", "torchvision")  # of one version there are CPU and CUDA builds, so no hash is fixed
GPU_ONLY = re.compile(r"nvidia-|cuda-|triton$")  # packages of the CUDA builds; torch requires exact versions of them
_VERSIONS = " and ".join(f"{major}.{minor}" for major, minor in PYTHONS)
_HEADER = f"""\
# Versions and hashes of all dependencies of [dev], for {PLATFORM} with glibc and CPython {_VERSIONS}.
# Written by scripts/lock.py, do not edit. scripts/install.py installs from it; so does pip:
#     pip install --no-deps --require-hashes -r requirements/lock.txt
# torch and torchvision are in torch.txt without hashes: CPU and CUDA builds are different files of the same version.
# The comment above a package contains the extras that need it; "{BASE}": all installations.
"""
_REQUIREMENT = re.compile(r"([a-z0-9-]+)==([^ ;\\]+)(?: ; (.+?))? \\")


@dataclass(frozen=True)
class LockedPackage:
    """One package of the lock. `marker` is empty if the package is needed by all PYTHONS; `hashes` are SHA-256."""

    name: str
    version: str
    extras: tuple[str, ...]
    hashes: tuple[str, ...]
    marker: str = ""

    def text(self) -> str:
        condition = f" ; {self.marker}" if self.marker else ""
        lines = [f"{self.name}=={self.version}{condition}", *(f"    --hash=sha256:{h}" for h in self.hashes)]
        return f"# {' '.join(self.extras)}\n" + " \\\n".join(lines) + "\n"


def normalized(name: str) -> str:
    """The canonical form of a package name (lower case, hyphens)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_text(packages: Iterable[LockedPackage]) -> str:
    return _HEADER + "".join(package.text() for package in packages)


def read_lock(path: Path = LOCK) -> list[LockedPackage]:
    """The packages of a lock. Raises ValueError for a line that is not in the lock's format."""
    packages: list[LockedPackage] = []
    for block in re.split(r"(?m)^(?=# \S+(?: \S+)*\n[a-z0-9])", path.read_text("utf-8"))[1:]:
        comment, requirement, *hashes = block.rstrip("\n").split("\n")
        found = _REQUIREMENT.fullmatch(requirement)
        digests = [re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})(?: \\)?", line) for line in hashes]
        if not found or not digests or None in digests:
            raise ValueError(f"{path.name}: not a locked package: {requirement}")
        name, version, marker = found.groups()
        sha256 = tuple(digest[1] for digest in digests if digest)
        packages.append(LockedPackage(name, version, tuple(comment[2:].split()), sha256, marker or ""))
    return packages


def read_torch(path: Path = TORCH) -> list[str]:
    """The requirements of torch and torchvision, "name==version"."""
    return [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def select(packages: Iterable[LockedPackage], extras: Collection[str]) -> list[LockedPackage]:
    """The packages that an installation with these extras needs."""
    needed = {BASE, *extras}
    return [package for package in packages if needed & set(package.extras)]


def uncovered() -> str:
    """Why this interpreter cannot install from the lock; empty if it can."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in PYTHONS:
        return f"{sys.implementation.name} {sys.version.split()[0]}"
    if sysconfig.get_platform() != PLATFORM or platform.libc_ver()[0] != "glibc":
        return sysconfig.get_platform()
    return ""
