"""lock.py, check_latest.py and licences.py on small inputs."""

from __future__ import annotations

from email.message import Message
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.scripts import script

lock: ModuleType = script("lock")
latest: ModuleType = script("check_latest")
licences: ModuleType = script("licences")
resolving: ModuleType = script("resolving")


def file(name: str, digest: str) -> dict[str, Any]:
    return {"url": f"x/{name}", "hashes": {"sha256": digest}}


def package(*wheels: str, marker: str = "", sdist: bool = True) -> dict[str, Any]:
    found = {"name": "p", "version": "1", "wheels": [file(name, name) for name in wheels], "marker": marker}
    return {**found, **({"sdist": file("p-1.tar.gz", "sdist")} if sdist else {})}


def test_only_files_for_the_covered_environments_are_locked() -> None:
    fits = ("p-1-cp311-cp311-manylinux_2_28_x86_64.whl", "p-1-cp312-cp312-manylinux2014_x86_64.whl")
    other = (
        "p-1-cp313-cp313-manylinux_2_28_x86_64.whl", "p-1-cp311-cp311-macosx_11_0_arm64.whl",
        "p-1-cp311-cp311-musllinux_1_2_x86_64.whl", "p-1-cp311-cp311-manylinux_2_28_aarch64.whl", "not-a-wheel.whl",
    )  # fmt: skip
    assert lock.locked_package(package(*fits, *other), ["drive", "dev"]).hashes == fits
    # Python 3.12 has no wheel.
    assert lock.locked_package(package(fits[0]), ["dev"]).hashes == (fits[0], "sdist")
    assert lock.locked_package(package("p-1-py3-none-any.whl"), ["base", "dev"]).extras == ("base",)


def test_markers_are_kept_only_if_they_matter() -> None:
    both = package("p-1-py3-none-any.whl", marker="python_version >= '3.11'")
    one = package("p-1-py3-none-any.whl", marker="python_version < '3.12'")
    assert lock.locked_package(both, ["dev"]).marker == ""
    assert lock.locked_package(one, ["dev"]).marker == "python_version < '3.12'"
    assert lock.pythons_of(package(marker="sys_platform == 'win32'")) == []


def test_kept_versions() -> None:
    every = lock.kept(None)
    assert len(every) > 200
    assert lock.kept([]) == []
    fewer = lock.kept(["AIOHTTP", "torch"])
    assert {pair.split("==")[0] for pair in set(every) - set(fewer)} == {"aiohttp", "torch"}


def test_extras_contain_the_base_and_each_other(tmp_path: Path) -> None:
    (tmp_path / "setup.cfg").write_text(
        "[options]\ninstall_requires =\n    a==1\n    # why\n    b\n"
        "[options.extras_require]\none =\n    c<2\ntwo =\n    lmms-eval-ad2[one]\n    d\n"
    )
    assert resolving.setup_requirements(tmp_path / "setup.cfg") == {
        "base": ["a==1", "b"], "one": ["a==1", "b", "c<2"], "two": ["a==1", "b", "c<2", "d"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [("lmms-eval==0.7.3", "lmms-eval>=0.7.3"), ("pillow>=10,<13", "pillow>=10"), ("torch<3", "torch")],
)
def test_bounds_are_removed_for_the_latest_versions(line: str, expected: str) -> None:
    assert latest.unbounded(line) == expected


@pytest.mark.parametrize(
    ("expression", "text", "classifier", "expected"),
    [
        ("MIT AND PSF-2.0", "", "MIT License", "MIT AND PSF-2.0"),
        (None, "Apache License 2.0", "", "Apache-2.0"),
        (None, "MIT License\n\nCopyright (c) 2022\n" + "x" * 500, "", "MIT"),
        (None, "Copyright (c) 2001", "BSD License", "BSD"),
        (None, "UNKNOWN", "Mozilla Public License 2.0 (MPL 2.0)", "MPL-2.0"),
        (None, "LICENCE.txt", "", ""),
        (None, "", "", ""),
    ],
)
def test_licence_of_metadata(
    monkeypatch: pytest.MonkeyPatch, expression: str | None, text: str, classifier: str, expected: str
) -> None:
    about = Message()
    if expression:
        about["License-Expression"] = expression
    about["License"] = text
    if classifier:
        about["Classifier"] = f"License :: OSI Approved :: {classifier}"
    monkeypatch.setattr(licences.metadata, "metadata", lambda name: about)
    assert licences.licence("some-package") == expected


def test_copyleft_packages_are_named() -> None:
    declared = {"a": "GPL-3.0-or-later", "b": "LGPL-2.1", "c": "MIT", "d": "MPL-2.0 AND MIT"}
    page = licences.page({name: ("1", licence, "base") for name, licence in declared.items()})
    assert "Copyleft: GPL: a; LGPL: b; MPL: d.\n" in page
    assert page.endswith("| d | 1 | MPL-2.0 AND MIT | base |\n")
