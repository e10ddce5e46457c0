"""`ad2 judge rate` and `ad2 judge agree` on the command line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.cli import judge
from lmms_eval_ad2.testing.fake_endpoint import serve


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    judge.register(parser.add_subparsers(required=True))
    args = parser.parse_args([str(w) for w in ("judge", *words)])
    return int(args.func(args))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return path


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Two models on four samples: "good" repeats the reference, "bad" is about something else."""
    common = {"task": "general", "rubric": "coda_general"}
    rows = [
        {**common, "id": f"s{i}", "reference": f"truck {i} ahead", "model": model, "answer": text}
        for i in range(4)
        for model, text in (("good", f"truck {i} ahead"), ("bad", "no idea at all"))
    ]
    return write(tmp_path / "items.jsonl", rows)


def test_ratings_are_compared_with_human_votes(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ratings.jsonl"
    assert run("rate", answers, "--judge", "lexical", "--out", out) == 0
    assert "lexical: 8 of 8 rated" in capsys.readouterr().out
    human = write(
        tmp_path / "human.jsonl",
        [
            {"id": f"s{i}", "task": "general", "models": ["good", "bad"], "votes": ["good", "good", "bad"]}
            for i in range(3)
        ]
        + [{"id": "s3", "task": "general", "models": ["bad", "good"], "votes": ["bad", "bad", "bad"]}],
    )
    assert run("agree", out, human, "--json") == 0
    table = json.loads(capsys.readouterr().out)["general"]
    assert (table["consistency"], table["pairs"], table["judge_ties"], table["unrated"]) == (0.75, 4, 0, 0)
    low, high = table["ci"]
    assert 0 <= low < 0.75 < high <= 1
    assert run("agree", out, human) == 0
    printed = capsys.readouterr().out
    assert "general: consistency 75.0% (95% CI" in printed
    assert "GPT-4V region 42 %, suggestion 57 %; GPT-4 general 70 %, region 87 %, suggestion 77 %" in printed


def test_rate_resumes(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ratings.jsonl"
    with serve(reply="overlap", failures=lambda n, body: "400" if n == 2 else "ok") as server:
        spec = f"openai:model=m,base_url={server.url},concurrency=1"
        assert run("rate", answers, "--judge", spec, "--out", out) == 0
        printed = capsys.readouterr()
        assert "not rated: 1 http_400 (HTTP 400" in printed.out
        assert f"ad2: judge openai:m at {server.url}\n" in printed.err
        assert run("rate", answers, "--judge", spec, "--out", out) == 0
        assert server.requests == 9
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(r["model"], r["score"]) for r in rows[:2]] == [("good", 10.0), ("bad", 1.0)]
    assert all(r["judge"] == "openai:m" for r in rows)


def test_no_rating_at_all_is_exit_code_1(answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rate", answers, "--judge", "fake:fail_every=1", "--out", tmp_path / "r.jsonl") == 1
    assert "0 of 8 rated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unread", "code", "warned"), [(0, 0, False), (1, 0, True), (8, 1, True)], ids=["none", "one of eight", "all"]
)
def test_many_replies_without_a_mark_are_warned_of_with_an_example(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], unread: int, code: int, warned: bool
) -> None:
    left = iter(["Rating: 8"] * unread)
    with serve(reply=lambda body: next(left, "[[7]]")) as server:
        spec = f"openai:model=m,base_url={server.url},concurrency=1"
        assert run("rate", answers, "--judge", spec, "--out", tmp_path / "r.jsonl") == code
    found = capsys.readouterr()
    warnings, errors = ([x for x in found.err.splitlines() if x.startswith(w)] for w in ("warning: ", "error: "))
    assert f"{8 - unread} of 8 rated" in found.out
    assert len(warnings) == warned
    if warned:
        assert warnings[0].startswith(
            f"warning: {unread} of 8 replies of openai:m have no valid mark, e.g. 'Rating: 8' "
        )
        assert "(unparsed_reply): a mark is one number from 1 to 10 in the form [[7]]" in warnings[0]
    assert errors == ([] if code == 0 else ["error: openai:m has rated no item; the reasons are above"])
