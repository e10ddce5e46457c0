"""requirements/lock.txt, setup.cfg, the installed packages and docs/licences.md agree."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any

import pytest
from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import Requirement
from support.scripts import script

lock_file: ModuleType = script("lock_file")
resolving: ModuleType = script("resolving")
licences: ModuleType = script("licences")
PACKAGES: dict[str, Any] = {package.name: package for package in lock_file.read_lock()}
BUILDS: dict[str, str] = dict(line.split("==") for line in lock_file.read_torch())
VERSIONS = {name: package.version for name, package in PACKAGES.items()} | BUILDS
EXTRAS = resolving.setup_requirements()
UNBOUNDED = {"packaging>=24", "setuptools>=77"}  # of dev, used by scripts only; they raise the major version often
REPLACED = Requirement(resolving.OMITTED).name  # the GUI build of OpenCV; the headless build is locked


@cache
def needed_with(name: str) -> frozenset[str]:
    """The extras that install the package."""
    extras = PACKAGES[name].extras if name in PACKAGES else (lock_file.BASE,)
    return frozenset(EXTRAS) if lock_file.BASE in extras else frozenset(extras)


@pytest.mark.parametrize("extra", EXTRAS)
def test_locked_versions_are_within_the_bounds_of_setup_cfg(extra: str) -> None:
    for line in EXTRAS[extra]:
        required = Requirement(line)
        name = lock_file.normalized(required.name)
        assert name in VERSIONS, f"{line}: run scripts/lock.py"
        assert required.specifier.contains(VERSIONS[name]), f"{line}, locked {VERSIONS[name]}: run scripts/lock.py"
        assert extra in needed_with(name)


def test_every_requirement_has_an_upper_bound() -> None:
    lines = {line for requirements in EXTRAS.values() for line in requirements}
    assert len(lines) > 40
    assert {line for line in lines if not re.search(r"<|==", line)} == UNBOUNDED


def test_every_locked_package_has_a_hash() -> None:
    text = lock_file.LOCK.read_text("utf-8")
    assert lock_file.lock_text(PACKAGES.values()) == text
    assert text.count("==") == len(PACKAGES)  # none was lost in reading
    assert all(package.hashes for package in PACKAGES.values())
    assert list(PACKAGES) == sorted(PACKAGES)


def test_builds_of_torch_are_not_in_the_lock() -> None:
    assert set(BUILDS) == set(lock_file.BUILDS)
    assert {name for name in PACKAGES if name in BUILDS or lock_file.GPU_ONLY.match(name)} == set()


def test_the_lock_contains_the_dependencies_of_what_it_contains() -> None:
    """`--no-deps` installs nothing else. Compared with the metadata of packages in their locked version."""
    missing, compared = [], 0
    for name, version in VERSIONS.items():
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if found.version.partition("+")[0] != version:
            continue
        for line in found.requires or ():
            compared += 1
            required = Requirement(line)
            other = lock_file.normalized(required.name)
            if not applies(required) or other == REPLACED or lock_file.GPU_ONLY.match(other):
                continue
            fits = other in VERSIONS and required.specifier.contains(VERSIONS[other], prereleases=True)
            if not fits or not needed_with(name) <= needed_with(other):
                missing.append(f"{name} requires {line}")
    assert missing == []
    assert compared > 500


def applies(required: Requirement) -> bool:
    try:
        return required.marker is None or required.marker.evaluate({"extra": ""})
    except UndefinedEnvironmentName:
        return False


def test_licences_page_lists_the_lock() -> None:
    rows = re.findall(r"(?m)^\| ([a-z0-9-]+) \| (\d\S*) \| (.+) \| (.+) \|$", licences.PAGE.read_text("utf-8"))
    expected = {name: " ".join(p.extras) for name, p in PACKAGES.items()} | dict.fromkeys(BUILDS, lock_file.BASE)
    assert {name: (version, extras) for name, version, _, extras in rows} == {
        name: (VERSIONS[name], extras) for name, extras in expected.items()
    }, "install the lock and run scripts/licences.py"
    assert not [row for row in rows if re.fullmatch(r"(?i)\W*|unknown|none", row[2])]
    assert set(licences.STATED) <= set(PACKAGES)
