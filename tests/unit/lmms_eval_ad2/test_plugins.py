"""Entry points: found, loaded once, left out with one warning if they cannot be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.distributions import installed

from lmms_eval_ad2 import plugins
from lmms_eval_ad2.plugins import COMMANDS, DEMO, DOCTOR, RUN_KINDS, TASK_SOURCES, RunKind, TaskSource

GROUPS = (COMMANDS, RUN_KINDS, TASK_SOURCES, DOCTOR, DEMO)


def test_every_packaged_entry_can_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    found = {group: [plugins.load(entry) for entry in plugins.declared(group)] for group in GROUPS}
    assert capsys.readouterr().err == ""
    assert all(isinstance(kind, RunKind) for kind in found[RUN_KINDS])
    assert all(isinstance(source, TaskSource) and source.prefix.endswith(":") for source in found[TASK_SOURCES])
    assert all(found.values()) and all(callable(f) for group in (COMMANDS, DOCTOR, DEMO) for f in found[group])


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("import sys; sys.exit('no')", "SystemExit: no"),
        ("", "AttributeError: module 'broken_one' has no attribute 'thing'"),
    ],
)
def test_broken_entry_is_omitted_with_one_warning(
    group: str, text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lines = "a = broken_one:thing\nb = broken_one:thing\nzz = broken_one:thing\n"
    with installed(tmp_path, {group: lines}, {"broken_one.py": text}):
        monkeypatch.delitem(sys.modules, "broken_one", raising=False)
        without = [entry for entry in plugins.declared(group) if entry.name not in ("a", "b", "zz")]
        assert plugins.loaded(group) == tuple(plugins.load(entry) for entry in without)
        assert plugins.loaded(group)
        warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert warnings[0].startswith(f"warning: broken_one: entry 'a' of {group}")
    assert reason in warnings[0]


def test_packaged_entry_is_kept_if_another_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packaged = {entry.name: entry.value for entry in plugins.declared(COMMANDS)}
    with installed(
        tmp_path, {COMMANDS: "eval = other:register\nother = other:register"}, {"other.py": "register = print"}
    ):
        found = {entry.name: entry.value for entry in plugins.declared(COMMANDS)}
    assert found == {**packaged, "other": "other:register"}
    (warning,) = capsys.readouterr().err.splitlines()
    assert (
        warning == f"warning: ad2.commands entry 'eval' (other:register) is left out: {packaged['eval']} has this name"
    )
