"""The command line that all benchmarks share: one form of results, trials, parts that fail or cannot be measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.scripts import script

measured_json = script("measured_json", "benchmarks")


def fails(scale: float) -> dict[str, float]:
    raise ValueError("broken")


def missing(scale: float) -> dict[str, float]:
    raise measured_json.UnavailablePart("no sshd")


PARTS = {
    "first": lambda scale: {"share": 0.123456 * scale},
    "broken": fails,
    "missing": missing,
    "last": lambda s: {"n": 3},
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the benchmark `bench.py` with some words; exit code and what it wrote, or None."""
    monkeypatch.setattr(measured_json, "code_label", lambda: "1.2.3+abc")

    def run(*words: str) -> tuple[int, dict[str, Any] | None]:
        out = tmp_path / "new" / "bench.json"
        monkeypatch.setattr("sys.argv", ["benchmarks/bench.py", "--json", str(out), *words])
        code = measured_json.run_benchmark("A benchmark.", PARTS)
        return code, json.loads(out.read_text("utf-8")) if out.exists() else None

    return run


def test_results_have_the_form_of_all_benchmarks(run: Any) -> None:
    code, found = run("--only", "first,last", "--scale", "2")
    assert code == 0
    assert found.keys() == {"benchmark", "version", "date", "machine", "scale", "results"}
    assert (found["benchmark"], found["version"], found["scale"]) == ("bench", "1.2.3+abc", 2.0)
    assert found["results"] == {"first": {"share": 0.2469}, "last": {"n": 3}}
    assert len(found["date"]) == 10 and found["machine"].endswith(" cores")


def test_a_part_that_fails_does_not_stop_the_others(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run()
    assert code == 1 and list(found["results"]) == ["first", "last"]
    printed = capsys.readouterr()
    assert "left out: no sshd" in printed.out and "ValueError: broken" in printed.err


def test_a_part_that_cannot_be_measured_here_is_no_failure(run: Any) -> None:
    assert run("--only", "missing") == (0, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "first,frist"), "--only frist: known parts: first, broken, missing, last"),
        (("--scale", "0"), "--scale 0.0: expected a number above 0"),
        (("--scale", "nan"), "--scale nan: expected a number above 0"),
    ],
)
def test_mistakes_end_in_one_line(
    run: Any, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_counts_are_scaled_but_never_zero() -> None:
    assert [measured_json.scaled(7, x) for x in (0.01, 0.5, 2)] == [1, 4, 14]
    assert measured_json.scaled(15, 0.1, least=10) == 10
