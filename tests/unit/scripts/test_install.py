"""install.py and lock_file.py: what pip is called with, and which packages of the lock an installation gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.scripts import script

install: ModuleType = script("install")
lock_file: ModuleType = script("lock_file")
Calls = list[tuple[tuple[str, ...], str]]

LOCK = """\
# comment of the file
#     with an example
# base
setuptools==84.0 \\
    --hash=sha256:{0}
# drive dev
shapely==2.0 ; python_version < "3.12" \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
""".format("0" * 64, "1" * 64)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """pip's arguments with the text of the requirements file."""
    made: Calls = []

    def pip(python: Path, *arguments: str) -> None:
        file = Path(arguments[arguments.index("-r") + 1]) if "-r" in arguments else None
        made.append((arguments, file.read_text("utf-8") if file else ""))

    monkeypatch.setattr(install, "pip", pip)
    monkeypatch.setattr(install, "check_torch", lambda python, index: None)
    monkeypatch.setattr(install.subprocess, "run", lambda *args, **kwargs: None)
    return made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()

    def call(*arguments: str, uncovered: str = "") -> Any:
        monkeypatch.setattr(install.sys, "argv", ["install.py", "--venv", str(tmp_path), *arguments])
        monkeypatch.setattr(lock_file, "uncovered", lambda: uncovered)
        return install.main()

    return call


def test_the_lock_is_installed_before_the_checkout(calls: Calls, run: Callable[..., Any]) -> None:
    assert run("--extras", "drive") == 0
    setuptools, locked, torch, checkout = calls
    for arguments, _ in (setuptools, locked):
        assert {"--no-deps", "--require-hashes"} <= set(arguments)
    assert setuptools[1].count("==") == 1
    assert "\nscenic==" in locked[1]
    assert "\ngradio==" not in locked[1]  # of another extra
    assert torch[0][-2:] == tuple(lock_file.read_torch())
    assert "--no-deps" in checkout[0]
    assert checkout[0][-1] == str(install.ROOT)


def test_elsewhere_pip_resolves_within_the_bounds(
    calls: Calls, run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run("--extras", "drive", "--torch-index", "INDEX", uncovered="cpython 3.14.0")
    [(arguments, _)] = calls
    assert "--no-deps" not in arguments
    assert arguments[-2:] == ("-e", f"{install.ROOT}[drive]")
    assert "INDEX" in arguments
    assert "the lock does not cover cpython 3.14.0" in capsys.readouterr().out


def test_unknown_extra_is_one_line(calls: Calls, run: Callable[..., Any]) -> None:
    with pytest.raises(SystemExit, match=r"^no extra drvie; there are annotate, carla"):
        run("--extras", "drvie")
    assert calls == []


def test_reading_a_lock(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text(LOCK)
    first, second = lock_file.read_lock(tmp_path / "lock.txt")
    assert (first.name, first.version, first.extras, first.marker) == ("setuptools", "84.0", ("base",), "")
    assert (second.marker, second.hashes) == ('python_version < "3.12"', ("0" * 64, "1" * 64))
    assert LOCK.endswith(first.text() + second.text())
    assert lock_file.select([first, second], ["carla"]) == [first]
    assert lock_file.select([first, second], ["dev"]) == [first, second]


@pytest.mark.parametrize("broken", [LOCK.replace("==84.0", ">=84"), LOCK.replace("sha256:" + "1" * 64, "sha256:11")])
def test_an_inexact_line_is_an_error(tmp_path: Path, broken: str) -> None:
    (tmp_path / "lock.txt").write_text(broken)
    with pytest.raises(ValueError, match=r"lock.txt: not a locked package"):
        lock_file.read_lock(tmp_path / "lock.txt")


def test_other_pythons_and_platforms_are_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file.sysconfig, "get_platform", lambda: lock_file.PLATFORM)
    monkeypatch.setattr(lock_file.platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert lock_file.uncovered() == ""
    monkeypatch.setattr(lock_file.platform, "libc_ver", lambda: ("", ""))
    assert lock_file.uncovered() == lock_file.PLATFORM
    monkeypatch.setattr(lock_file.sysconfig, "get_platform", lambda: "macosx-14.0-arm64")
    assert lock_file.uncovered() == "macosx-14.0-arm64"
    monkeypatch.setattr(lock_file, "PYTHONS", ((3, 9),))
    assert lock_file.uncovered().startswith("cpython 3.")
