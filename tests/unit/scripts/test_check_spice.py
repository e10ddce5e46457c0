"""scripts/check_spice.py with a fake Java: agreeing and differing scores, and nothing to run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.java import SPICE_MODELS, fake_java, fake_spice_folder, on_path
from support.scripts import script

pytestmark = pytest.mark.integration

check_spice = script("check_spice")
# Scores by number of the pair.
ANSWERS = """
source, target = args[args.index('-jar') + 2], args[args.index('-out') + 1]
rows = json.load(open(source))
out = [{'image_id': r['image_id'], 'scores': {'All': {'f': SCORES[r['image_id']]}}} for r in rows]
json.dump(out, open(target, 'w'))
"""


@pytest.mark.parametrize(("last", "status"), [(0.8, 0), (0.5, 1)])
def test_scores_are_compared_with_those_by_hand(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], last: float, status: int
) -> None:
    fake_spice_folder(monkeypatch, tmp_path, SPICE_MODELS)
    fake_java(tmp_path, f"SCORES = [1.0, 0.0, 0.6667, {last}]\n{ANSWERS}")
    on_path(monkeypatch, tmp_path)
    assert check_spice.main() == status
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "DIFFERS" if status else "ok"]
    assert f"{last:.3f} (by hand 0.800" in lines[3]


def test_missing_jars_and_java_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_spice_folder(monkeypatch, tmp_path, SPICE_MODELS[:1])
    on_path(monkeypatch, tmp_path)
    assert check_spice.main() == 2
    out = capsys.readouterr().out
    assert "No `java` on PATH" in out and f"put {SPICE_MODELS[1]} into {tmp_path / 'lib'}" in out


def test_a_failing_program_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_spice_folder(monkeypatch, tmp_path, SPICE_MODELS)
    fake_java(tmp_path, "print('out of memory', file=sys.stderr); sys.exit(3)")
    on_path(monkeypatch, tmp_path)
    assert check_spice.main() == 2
    assert "SPICE failed: SPICE ended with status 3: out of memory" in capsys.readouterr().out
