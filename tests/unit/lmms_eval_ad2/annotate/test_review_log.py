"""actions.jsonl: on disk before the reply, intact after kill -9, shared by processes, validated when read."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.disk import files_of_at_most
from support.tiers import seeds

from lmms_eval_ad2.annotate.review_log import ReviewLog, fault, reviewer_name
from lmms_eval_ad2.core.errors import Ad2Error, DataError

VALUE = {"verdict": "keep", "name": "", "question": "", "text": "A dog."}


def line(**changes: object) -> bytes:
    row = {"time": "t", "reviewer": "a", "id": "r", "field": "note", "action": "n", "before": None, "after": "x"}
    return json.dumps(row | changes).encode() + b"\n"


WRITER = """
import sys
from pathlib import Path
from lmms_eval_ad2.annotate.review_log import ReviewLog
actions = ReviewLog(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    actions.append(sys.argv[2], f"r{number}", "note", "note", f"{number} " + "x" * 300)
    print(number, flush=True)
"""


def write(path: Path, reviewer: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), reviewer, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_state_is_restored_from_the_log(tmp_path: Path) -> None:
    actions = ReviewLog(tmp_path / "a.jsonl")
    actions.append("anna", "r1", "answer", "keep", VALUE)
    done = actions.append("anna", "r1", "answer", "change", VALUE | {"verdict": "change", "text": "A cat."})
    assert done.before == VALUE
    actions.append("bo", "r1", "complete", "complete", True)
    actions.append("anna", "r1", "note", "note", "hm")
    actions.append("anna", "r1", "note", "note", None)
    again = ReviewLog(tmp_path / "a.jsonl")
    assert again.states == actions.states
    assert again.fields("anna", "r1") == {"answer": VALUE | {"verdict": "change", "text": "A cat."}}
    assert again.fields("bo", "r1") == {"complete": True}
    assert again.reviewers() == ["anna", "bo"]
    assert again.count == 5


@pytest.mark.integration
@pytest.mark.parametrize("seed", [0, *seeds(60)])
def test_all_confirmed_actions_survive_kill_9(
    tmp_path: Path, record_property: Callable[[str, object], None], seed: int
) -> None:
    path = tmp_path / "a.jsonl"
    writer = write(path, "anna", 100_000)
    assert writer.stdout is not None
    confirmed = [int(next(writer.stdout)) for _ in range(random.Random(seed).randint(1, 200))]
    os.kill(writer.pid, signal.SIGKILL)
    confirmed += [int(line) for line in writer.stdout.read().splitlines() if line]
    writer.wait()
    actions = ReviewLog(path)
    assert {f"r{n}" for n in confirmed} <= {name for _, name in actions.states}
    actions.append("anna", "after", "note", "note", "goes on")
    assert ReviewLog(path).fields("anna", "after") == {"note": "goes on"}
    record_property("confirmed actions", len(confirmed))


def test_incomplete_last_line_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    actions = ReviewLog(path)
    actions.append("anna", "r1", "note", "note", "one")
    complete = path.read_bytes()
    path.write_bytes(complete + complete[:40])
    found = ReviewLog(path)
    assert found.count == 1  # a reader leaves it in place: another process may be writing
    found.append("anna", "r1", "note", "note", "two")
    assert [json.loads(line)["after"] for line in path.read_text("utf-8").splitlines()] == ["one", "two"]


@pytest.mark.integration
def test_concurrent_writers_lose_no_action(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    log = ReviewLog(path)
    writers = [write(path, reviewer, 150) for reviewer in ("anna", "bo")]
    appended = 0
    while any(writer.poll() is None for writer in writers):
        log.append("cy", f"r{appended}", "complete", "complete", True)
        appended += 1
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    log.refresh()
    assert log.count == 300 + appended == len(path.read_bytes().splitlines())
    assert log.states == ReviewLog(path).states
    assert log.fields("bo", "r149")["note"].startswith("149 ")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (b"nonsense\n", "row 1: field 'line': expected one JSON object"),
        (b"[" * 100_000 + b"\n", "row 1: field 'line'"),
        (b'{"time": "t"}\n', "an object with time, reviewer"),
        (line(reviewer="a/../b"), "reviewer"),
        (line(field="../x"), "a known field"),
        (line(field="complete", after=1), "true or false"),
    ],
)
def test_invalid_line_is_reported(tmp_path: Path, found: bytes, message: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(found)
    with pytest.raises(DataError, match=message):
        ReviewLog(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("answer", {"verdict": "burn", "name": "", "question": "", "text": ""}),
        ("answer", {"verdict": "keep", "name": "", "question": "", "text": "x" * 20_001}),
        ("answer", "text"),
        ("score/answer", 11),
        ("score/answer", True),
        ("score/nothing", 3),
        ("mark", {"kind": "box", "coords": [[5, 5, 1, 1]]}),
        ("mark", {"kind": "box", "coords": [[0, 0, float("nan"), 1]]}),
        ("mark", {"kind": "none", "coords": [[1, 2]]}),
        ("order", ["../../x"]),
        ("letter", "AB"),
        ("unknown", 1),
    ],
)
def test_invalid_values_are_refused_and_not_written(tmp_path: Path, field: str, value: object) -> None:
    actions = ReviewLog(tmp_path / "a.jsonl")
    with pytest.raises(Ad2Error, match="expected"):
        actions.append("anna", "r1", field, "x", value)
    assert actions.count == 0


def test_failed_write_changes_neither_file_nor_state(tmp_path: Path) -> None:
    actions = ReviewLog(tmp_path / "a.jsonl")
    actions.append("anna", "r1", "note", "note", "one")
    before = actions.path.read_bytes()
    with pytest.raises(OSError, match="File too large"), files_of_at_most(len(before) + 20):
        actions.append("anna", "r1", "note", "note", "two")
    assert actions.fields("anna", "r1") == {"note": "one"}
    assert actions.path.read_bytes() == before
    actions.append("anna", "r1", "note", "note", "three")
    assert [json.loads(line)["after"] for line in actions.path.read_text("utf-8").splitlines()] == ["one", "three"]


def test_reviewer_names() -> None:
    assert reviewer_name("  Anna   Müller ") == "Anna Müller"
    assert reviewer_name("李") == "李"
    for bad in ("", None, "<b>", "../x", "x" * 61, "-x", "a\n\x00b"):
        with pytest.raises(Ad2Error, match="reviewer"):
            reviewer_name(bad)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.sampled_from(["answer", "order", "mark", "letter", "complete", "note", "score/answer", "x"]), JSON)
def test_value_check_never_raises(field: str, value: object) -> None:
    assert fault(field, value) is None or isinstance(fault(field, value), str)
