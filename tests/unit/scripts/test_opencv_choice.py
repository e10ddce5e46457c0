"""opencv_choice with both builds, one, or none installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "opencv_choice.py"


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, list[tuple[str, ...]], dict[str, str]]:
    spec = importlib.util.spec_from_file_location("opencv_choice", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    calls: list[tuple[str, ...]] = []
    installed: dict[str, str] = {}
    monkeypatch.setattr(module, "pip", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(module, "version", installed.get)
    return module, calls, installed


def test_both_builds_are_replaced_by_headless_in_the_version_for_scenic(choice) -> None:
    module, calls, installed = choice
    installed |= {"opencv-python": "4.14.0.94", "opencv-python-headless": "5.0.0.93"}
    assert module.main() == 0
    assert calls == [
        ("uninstall", "-y", "opencv-python"),
        ("install", "--force-reinstall", "--no-deps", "opencv-python-headless==4.14.0.94"),
    ]


@pytest.mark.parametrize("there_is", [{}, {"opencv-python": "4.14"}, {"opencv-python-headless": "4.14"}])
def test_one_or_no_build_is_left_unchanged(choice, there_is: dict[str, str]) -> None:
    module, calls, installed = choice
    installed |= there_is
    assert module.main() == 0
    assert calls == []
