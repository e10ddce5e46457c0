"""Write requirements/lock.txt and requirements/torch.txt from setup.cfg. Needs [dev] and pip's index.

    python scripts/lock.py                       # after a change of setup.cfg: keeps all versions that are locked
    python scripts/lock.py --upgrade             # the newest versions within the bounds of setup.cfg
    python scripts/lock.py --upgrade aiohttp     # of these packages only

Then run `make verify`, and scripts/licences.py, which writes docs/licences.md from what is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import lock_file
from lock_file import BASE, BUILDS, GPU_ONLY, LOCK, PYTHONS, TORCH, LockedPackage
from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from resolving import marker_environment, resolve, setup_requirements, wheels_for

PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(40, 4, -1)),
    *(f"{name}_x86_64" for name in ("manylinux2014", "manylinux2010", "manylinux1", "linux")),
]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--upgrade", nargs="*", metavar="NAME", help="packages whose locked version is not kept; none: all")
    args = p.parse_args()
    requirements = setup_requirements()
    found = [package for package in resolve(requirements["dev"], kept(args.upgrade)) if pythons_of(package)]
    versions = [f"{package['name']}=={package['version']}" for package in found]
    names = {extra: {package["name"] for package in resolve(lines, versions)} for extra, lines in requirements.items()}
    locked = [
        locked_package(package, [extra for extra in names if package["name"] in names[extra]])
        for package in found
        if package["name"] not in BUILDS and not GPU_ONLY.match(package["name"])
    ]
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text(lock_file.lock_text(locked), "utf-8")
    builds = [f"{package['name']}=={package['version']}" for package in found if package["name"] in BUILDS]
    TORCH.write_text("# Written by scripts/lock.py; see lock.txt.\n" + "\n".join(builds) + "\n", "utf-8")
    print(f"{len(locked)} packages in {LOCK.name}, {', '.join(builds)} in {TORCH.name}")
    return 0


def kept(upgrade: Sequence[str] | None) -> list[str]:
    """The locked versions to keep; `upgrade`: None keeps all, an empty list none, else all but the named packages."""
    if upgrade == [] or not LOCK.exists():
        return []
    changed = {lock_file.normalized(name) for name in upgrade or ()}
    pairs = [f"{package.name}=={package.version}" for package in lock_file.read_lock()] + lock_file.read_torch()
    return [pair for pair in pairs if pair.partition("==")[0] not in changed]


def locked_package(package: dict[str, Any], extras: list[str]) -> LockedPackage:
    """With the hashes of all wheels that fit, and of the source archive if a Python has no wheel."""
    pythons = pythons_of(package)
    wheels = {python: wheels_for(package, tags_of(python)) for python in pythons}
    files = [wheel for fitting in wheels.values() for wheel in fitting]
    if not all(wheels.values()):
        files.append(package["sdist"])
    return LockedPackage(
        name=package["name"],
        version=package["version"],
        extras=(BASE,) if BASE in extras else tuple(extras),
        hashes=tuple(sorted({file["hashes"]["sha256"] for file in files})),
        marker="" if len(pythons) == len(PYTHONS) else package["marker"],
    )


def pythons_of(package: dict[str, Any]) -> list[tuple[int, int]]:
    """The Python versions of the lock that need the package."""
    marker = package.get("marker")
    return [python for python in PYTHONS if not marker or Marker(marker).evaluate(marker_environment(python, "linux"))]


def tags_of(python: tuple[int, int]) -> frozenset[Tag]:
    interpreter = f"cp{python[0]}{python[1]}"
    return frozenset([*cpython_tags(python, platforms=PLATFORMS), *compatible_tags(python, interpreter, PLATFORMS)])


if __name__ == "__main__":
    raise SystemExit(main())
