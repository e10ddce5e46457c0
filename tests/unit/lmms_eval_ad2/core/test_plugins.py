"""Entry points: found, loaded once, left out with one warning if they cannot be imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.distributions import installed

from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.plugins import COMMANDS, DEMO, DOCTOR, RUN_KINDS, TASK_SOURCES, RunKind, TaskSource
from lmms_eval_ad2.data.releases import find_release, releases

SIGNS = """
from lmms_eval_ad2.data.releases import BenchmarkRelease
from lmms_eval_ad2.data.releases.record_rows import open_release

SIGNS = BenchmarkRelease("my_signs", "Signs of my town", "one record per line\\n", open_release)
TAKEN = BenchmarkRelease("coda_lm", "Not CODA-LM", "", open_release)
"""

GROUPS = (COMMANDS, RUN_KINDS, TASK_SOURCES, DOCTOR, DEMO)


def test_every_packaged_entry_can_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    found = {group: [plugins.load(entry) for entry in plugins.declared(group)] for group in GROUPS}
    assert capsys.readouterr().err == ""
    assert all(isinstance(kind, RunKind) for kind in found[RUN_KINDS])
    assert all(isinstance(source, TaskSource) and source.prefix.endswith(":") for source in found[TASK_SOURCES])
    assert all(found.values()) and all(callable(f) for group in (COMMANDS, DOCTOR, DEMO) for f in found[group])


@pytest.fixture
def foreign_releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    lines = "a = my_signs:SIGNS\nb = my_signs:TAKEN\nc = my_signs:open_release\n"
    releases.cache_clear()
    with installed(tmp_path, {plugins.RELEASES: lines}, {"my_signs.py": SIGNS}):
        monkeypatch.delitem(sys.modules, "my_signs", raising=False)
        yield
    releases.cache_clear()


@pytest.mark.usefixtures("foreign_releases")
def test_a_reader_of_another_distribution_is_a_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert find_release("my_signs").title == "Signs of my town"
    assert find_release("coda_lm").title.startswith("CODA-LM")
    with pytest.raises(Ad2Error, match="no release 'my_sign': did you mean 'my_signs'"):
        find_release("my_sign")
    assert capsys.readouterr().err.splitlines() == [
        "warning: an entry of ad2.releases is left out: there is a release 'coda_lm' already",
        "warning: an entry of ad2.releases is left out: expected a BenchmarkRelease, found function",
    ]


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
