"""The comparison of recordings, and that every section has one."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest
from support.running import REPO


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_script", REPO / "scripts" / "golden.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kept", "new", "where"),
    [
        ({"a": 1}, {"a": 2}, "/a: 1 -> 2"),
        ({"a": 1}, {"a": 1.0}, "/a: 1 -> 1.0"),
        ({"a": 1}, {"a": True}, "/a: 1 -> true"),
        ({"a": 0.1}, {"a": 0.1 + 1e-18}, None),
        ({"a": 0.1}, {"a": 0.30000000000000004 - 0.2}, "/a: 0.1 -> 0.10000000000000003"),
        ({"a": 0.0}, {"a": -0.0}, "/a: 0.0 -> -0.0"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "/a[1]: 2 -> 3"),
        ({"a": [1]}, {"a": [1, 2]}, "/a: [1] -> [1, 2]"),
        ({"a": None}, {}, "/a: missing"),
        ({}, {"a": {"b": 1}}, '/a: new: {"b": 1}'),
        ({"a": float("nan")}, {"a": float("nan")}, None),
    ],
)
def test_differences_are_reported_with_their_path(golden: ModuleType, kept: Any, new: Any, where: str | None) -> None:
    assert list(golden.differences(kept, new)) == ([where] if where else [])


def test_every_section_has_a_recording_and_every_recording_a_section(golden: ModuleType) -> None:
    sections = {path.stem for path in golden.SECTIONS.glob("*.py")}
    recordings = {path.stem for path in golden.RECORDINGS.glob("*.json")}
    assert sections == recordings
    assert all(json.loads((golden.RECORDINGS / f"{name}.json").read_text("utf-8")) for name in recordings)
