"""Journals: completed lines are never lost, torn tails never join later lines, broken lines are reported."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.disk import files_of_at_most
from support.tiers import examples

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage import journal, lock
from lmms_eval_ad2.storage.files import DISK_FULL
from lmms_eval_ad2.storage.journal import BrokenLine, JournalFile, JournalLine, has_lines, parse_object, read, scan

ROWS = [{"n": 1, "text": "first"}, {"n": 2, "text": "zweite Zeile: ä, 李, 🚗"}, {"n": 3, "text": ""}]
LINES = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]
CONTENT = b"".join(line + b"\n" for line in LINES)
NEXT = b'{"n": 4}'


def values(path: Path) -> list[dict[str, object]]:
    return [line.value for line in read(path, parse_object)]


@pytest.mark.parametrize("cut", range(len(CONTENT) + 1))
def test_file_cut_at_any_byte_keeps_its_complete_lines(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(CONTENT[:cut])
    complete = CONTENT[:cut].count(b"\n")
    assert values(path) == ROWS[:complete]
    assert path.read_bytes() == CONTENT[:cut], "a reader changes nothing"
    assert has_lines(path) == bool(complete)
    with JournalFile(path) as opened:
        kept = CONTENT[: CONTENT[:cut].rfind(b"\n") + 1]
        assert path.read_bytes() == kept
        assert opened.append(NEXT) == len(kept)
    assert path.read_bytes() == kept + NEXT + b"\n"
    assert values(path) == [*ROWS[:complete], {"n": 4}]


@pytest.mark.parametrize(
    "tail", [b"\xff", b"\x80\x80", '{"a": "ä'.encode()[:-1], b'{"a": "\xed\xa0', b"\x00" * 100, b"\r"]
)
@pytest.mark.parametrize("before", [b"", CONTENT])
def test_torn_tail_that_is_not_text_is_removed(tmp_path: Path, before: bytes, tail: bytes) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(before + tail)
    assert len(values(path)) == before.count(b"\n")
    with JournalFile(path) as opened:
        opened.append(NEXT)
    assert path.read_bytes() == before + NEXT + b"\n"


@pytest.mark.parametrize(
    "length", [1, 2, journal._BLOCK - 1, journal._BLOCK, journal._BLOCK + 1, 3 * journal._BLOCK + 7]
)
@pytest.mark.parametrize("before", [b"", b"\n", CONTENT])
def test_torn_tail_of_any_length_is_removed(tmp_path: Path, before: bytes, length: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(before + b"x" * length)
    JournalFile(path).close()
    assert path.read_bytes() == before


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=200) | st.lists(st.sampled_from([*LINES, b"\n", b"{", b"\xff", NEXT])).map(b"".join))
def test_any_file_can_be_read_and_appended_to(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(content)
    complete = content[: content.rfind(b"\n") + 1]
    found = list(scan(path, parse_object))
    assert [line.number for line in found] == list(range(1, complete.count(b"\n") + 1))
    assert b"".join(content[line.start : line.end] for line in found) == complete
    with JournalFile(path) as opened:
        assert opened.append(NEXT) == len(complete)
    assert path.read_bytes() == complete + NEXT + b"\n"


def test_a_broken_line_in_the_middle_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    content = b"\n".join([LINES[0], b"{oops", b"\xff\xfe", b"[1]", b"", LINES[1], b""])
    path.write_bytes(content)
    found = list(scan(path, parse_object))
    assert [line.number for line in found if isinstance(line, BrokenLine)] == [2, 3, 4, 5]
    assert [line.value for line in found if isinstance(line, JournalLine)] == ROWS[:2]
    with pytest.raises(
        DataError, match=r"j\.jsonl, row 2: .*expected an answer, found '\{oops'.* Remove the line"
    ) as caught:
        list(read(path, parse_object, expected="an answer", hint="Remove the line"))
    assert caught.value.row == 2
    JournalFile(path).close()
    assert path.read_bytes() == content, "nothing is cut but a torn tail"


def test_data_errors_of_the_parser_are_passed_on(tmp_path: Path) -> None:
    def parse(content: bytes) -> None:
        raise DataError("j", 7, "score", "a number")

    path = tmp_path / "j.jsonl"
    path.write_bytes(CONTENT)
    with pytest.raises(DataError, match="row 7: field 'score'"):
        list(read(path, parse))


def test_deep_nesting_is_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"[" * 100_000 + b"\n" + LINES[0] + b"\n")
    broken, good = scan(path, parse_object)
    assert isinstance(broken, BrokenLine) and "64 levels" in str(broken.error)
    assert isinstance(good, JournalLine) and good.value == ROWS[0]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + CONTENT)
    assert values(path) == ROWS


def test_reading_continues_at_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(CONTENT + b'{"n": 4')
    *_, last = read(path, parse_object)
    assert (last.number, last.end) == (3, len(CONTENT))
    assert list(read(path, parse_object, start=last.end, before=last.number)) == []
    with path.open("ab") as other:
        other.write(b"}\nx\n")
    four, broken = scan(path, parse_object, start=last.end, before=last.number)
    assert isinstance(four, JournalLine) and (four.number, four.value) == (4, {"n": 4})
    assert isinstance(broken, BrokenLine) and broken.number == 5


def test_missing_file_has_no_lines(tmp_path: Path) -> None:
    assert values(tmp_path / "absent") == [] and not has_lines(tmp_path / "absent")
    assert values(tmp_path) == [] and not has_lines(tmp_path / "absent" / "below")


def test_a_line_that_is_too_long_is_broken_and_not_kept_in_memory(tmp_path: Path) -> None:
    path, megabytes = tmp_path / "j.jsonl", 8 << 20
    with path.open("wb") as out:
        out.write(LINES[0] + b"\n" + b"x" * megabytes + b"\n" + b"".join(LINES[1] + b"\n" for _ in range(2_000)))
    tracemalloc.start()
    found = [line.number for line in scan(path, parse_object, longest=1000) if isinstance(line, BrokenLine)]
    good = sum(isinstance(line, JournalLine) for line in scan(path, parse_object, longest=1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [2] and good == 2_001
    assert peak < 1 << 20
    assert next(iter(scan(path, len, longest=len(LINES[0])))).value == len(LINES[0])  # type: ignore[union-attr]


def test_several_lines_are_one_write(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "new" / "j.jsonl") as opened:
        assert opened.append(*LINES[:2]) == 0
        assert opened.append(LINES[2]) == len(LINES[0]) + len(LINES[1]) + 2
        with pytest.raises(ValueError, match="must not contain a newline"):
            opened.append(b"a\nb")
    opened.close()
    assert values(opened.path) == ROWS


def test_a_partial_line_on_a_full_disk_is_undone(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "j.jsonl") as opened:
        opened.append(*LINES)
        with pytest.raises(OSError) as caught, files_of_at_most(len(CONTENT) + 20):
            opened.append(NEXT, b"x" * 100)
        assert caught.value.errno in DISK_FULL
        assert opened.path.read_bytes() == CONTENT
        opened.append(NEXT)  # there is space again
    assert opened.path.read_bytes() == CONTENT + NEXT + b"\n"


def test_a_line_that_could_not_be_synced_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    with JournalFile(tmp_path / "j.jsonl") as opened:
        assert opened.append(b"one") == 0
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(journal.os, "fsync", full)
            opened.append(b"two")
        assert opened.append(b"three") == 4
    assert opened.path.read_bytes() == b"one\nthree\n"


def test_tail_that_could_not_be_undone_is_removed_before_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with JournalFile(tmp_path / "j.jsonl") as opened:
        opened.append(b"one")
        with monkeypatch.context() as patch, files_of_at_most(10), pytest.raises(OSError, match="input/output"):
            patch.setattr(journal.os, "ftruncate", broken)
            opened.append(b"two, and more than fits")
        assert opened.path.read_bytes() == b"one\ntwo, a"
        opened.append(b"three")
    assert opened.path.read_bytes() == b"one\nthree\n"


@pytest.mark.parametrize(("sync_s", "expected"), [(0.0, 3), (60.0, 1), (math.inf, 0)])
def test_lines_are_synced_at_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_s: float, expected: int
) -> None:
    (tmp_path / "j.jsonl").write_bytes(b"")
    synced: list[int] = []
    monkeypatch.setattr(journal.os, "fsync", synced.append)
    with JournalFile(tmp_path / "j.jsonl", sync_s=sync_s) as opened:
        for line in LINES:
            opened.append(line)
            assert opened.path.read_bytes().endswith(line + b"\n"), "the system has it at once"
    assert len(synced) == expected


def test_without_locks_only_a_single_writer_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with JournalFile(tmp_path / "j.jsonl") as opened:
        opened.append(NEXT)
    with pytest.raises(OSError, match="not implemented"):
        JournalFile(tmp_path / "j.jsonl", shared=True)


def test_no_other_writer_appends_in_an_exclusive_block(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    one, two = JournalFile(path), JournalFile(path)
    with one.exclusive(), one.exclusive():
        one.append(b"1")
        other = threading.Thread(target=two.append, args=(b"2",))
        other.start()
        other.join(0.1)
        assert other.is_alive() and path.read_bytes() == b"1\n"
        one.append(b"3")
    other.join(60)
    one.close()
    two.close()
    assert path.read_bytes() == b"1\n3\n2\n"


@pytest.mark.parametrize("handles", [1, 4])
def test_threads_append_complete_lines(tmp_path: Path, handles: int) -> None:
    opened = [JournalFile(tmp_path / "j.jsonl", sync_s=math.inf) for _ in range(handles)]

    def work(writer: int) -> None:
        for number in range(200):
            opened[writer % handles].append(json.dumps({"who": writer, "number": number, "text": "x" * 5000}).encode())

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in opened:
        one.close()
    found = values(tmp_path / "j.jsonl")
    for writer in range(4):
        assert [row["number"] for row in found if row["who"] == writer] == list(range(200))
