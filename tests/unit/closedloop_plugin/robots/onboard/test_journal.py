"""The on-board log never blocks its callers, and counts dropped lines."""

from __future__ import annotations

import io
import json
import os
import threading

from support.robots.onboard import until

from closedloop_plugin.robots.onboard.journal import OnboardJournal


def test_lines_are_json_and_refusals_are_all_counted_but_not_all_written() -> None:
    stream = io.StringIO()
    journal = OnboardJournal("client", stream.write)
    journal.log("begins", vehicle="limo")
    for _ in range(500):
        journal.count("late", "x" * 5000)
    journal.count("malformed")
    journal.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert lines[0]["event"] == "begins" and lines[0]["who"] == "client" and lines[0]["vehicle"] == "limo"
    refused = [line for line in lines if line["event"] == "refused"]
    assert 2 <= len(refused) < 100 and all(len(line["detail"]) <= 200 for line in refused)
    assert lines[-1]["counts"] == {"late": 500, "malformed": 1}


def test_a_blocked_reader_loses_lines_without_blocking_the_caller() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb"):
        journal = OnboardJournal("client", lambda line: os.write(write, line.encode()))
        done = threading.Event()

        def write_lines() -> None:
            for number in range(5000):  # far more than a pipe of 64 KiB holds
                journal.log("motion", number=number, padding="x" * 100)
            done.set()

        threading.Thread(target=write_lines, daemon=True).start()
        assert done.wait(30)
        # The writer thread may still be filling the pipe here; once it is full, every line is dropped.
        until(lambda: journal.log("motion", padding="x" * 100) or journal._dropped > 0)
        os.set_blocking(read, False)
        until(lambda: not journal._lines.qsize() or not drained(read))


def drained(read: int) -> bytes:
    try:
        return os.read(read, 1 << 20)
    except BlockingIOError:
        return b""


def test_a_closed_reader_is_tolerated() -> None:
    stream = io.StringIO()
    stream.close()
    journal = OnboardJournal("client", stream.write)
    journal.log("begins")
    until(lambda: journal._dropped)
    journal.count("late")
    journal.close()
    assert journal.counts["late"] == 1
