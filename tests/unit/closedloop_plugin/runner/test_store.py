"""The run folder: complete lines only, one run per folder, no loss on a full disk."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.runs import IDENTITY, SUITE, comparable, run_into, tasks, worker_config

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner import store as store_module
from closedloop_plugin.runner.episode_record import EpisodeResult, blank_record
from closedloop_plugin.runner.store import EpisodeStore, read_records
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage import journal
from lmms_eval_ad2.storage.identity import read_run

SELECTION = {"routes": SUITE.ids, "repetitions": 1}


def record(route: int, end: EndReason = EndReason.COMPLETED) -> EpisodeRecord:
    return blank_record(tasks()[route], worker_config().conditions, end, "", "fake", "1")


def open_store(folder: Path) -> EpisodeStore:
    return EpisodeStore(folder, IDENTITY, SELECTION)


def test_a_saved_record_is_read_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        store.save(EpisodeResult(record(0), {"0": {}}, {"ego": []}))
    with open_store(tmp_path / "run") as store:
        assert store.records == [record(0)]
        assert store.has("101", 0)
        assert store.has("102", 0) is None
    assert json.loads((tmp_path / "run/metric_info/101_rep0.json").read_text()) == {"0": {}}
    assert json.loads((tmp_path / "run/tracks/101_rep0.json").read_text()) == {"ego": []}


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_an_incomplete_last_line_is_cut_off(tmp_path: Path, keep: int) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
        first = (tmp_path / "episodes.jsonl").read_bytes()
        store.save(EpisodeResult(record(1)))
    both = (tmp_path / "episodes.jsonl").read_bytes()
    (tmp_path / "episodes.jsonl").write_bytes(first + both[len(first) :][:keep])
    with open_store(tmp_path) as store:
        assert [r.route_id for r in store.records] == ["101"]
        store.save(EpisodeResult(record(1)))
    assert (tmp_path / "episodes.jsonl").read_bytes() == both


def test_a_broken_line_in_the_middle_is_refused_with_its_row_and_kept(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
        store.save(EpisodeResult(record(1)))
    content = b"{oops\n" + (tmp_path / "episodes.jsonl").read_bytes()
    (tmp_path / "episodes.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"episodes.jsonl, row 1"):
        open_store(tmp_path)
    assert (tmp_path / "episodes.jsonl").read_bytes() == content


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("events", [["soon", "act"]]),
        ("events", [[1.0]]),
        ("events", [[1.0, 2]]),
        ("events", 3),
        ("places", [{"kind": ["x"], "time_s": 1.0, "x": 0.0, "y": 0.0}]),
        ("places", [{"kind": "collisions_vehicle", "time_s": 1.0}]),
        ("places", ["here"]),
        ("drawn", ["pace"]),
        ("margins", None),
    ],
)
def test_a_field_of_another_form_is_refused_with_its_row(tmp_path: Path, field: str, value: Any) -> None:
    changed = json.loads(record(0).to_json()) | {field: value}
    (tmp_path / "episodes.jsonl").write_text(record(1).to_json() + "\n" + json.dumps(changed) + "\n")
    with pytest.raises(DataError, match=r"episodes.jsonl, row 2: .*Remove the line"):
        read_records(tmp_path)


@pytest.mark.parametrize("route_id", ["../../x", "a/b", "..", ""])
def test_a_route_id_that_names_a_folder_is_refused(tmp_path: Path, route_id: str) -> None:
    line = replace(record(0), route_id=route_id).to_json()
    (tmp_path / "episodes.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match=r"row 1.*expected a name without folders"):
        read_records(tmp_path)


def test_another_run_is_refused_with_the_differences(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0)))  # a folder without an episode accepts any run
    with pytest.raises(Ad2Error, match=r"seed is 1 there and 2 here") as caught:
        EpisodeStore(tmp_path, {**IDENTITY, "seed": 2}, SELECTION)
    assert "\n" not in str(caught.value)
    assert "--out" in str(caught.value)
    assert read_run(tmp_path)["identity"] == IDENTITY
    EpisodeStore(tmp_path, IDENTITY, {**SELECTION, "repetitions": 3}).close()  # a larger selection is the same run


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path), pytest.raises(Ad2Error, match="another process is writing to this folder"):
        open_store(tmp_path)


def test_a_foreign_run_json_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(Ad2Error, match=r"run.json: not a run description"):
        open_store(tmp_path)


def test_the_later_line_of_an_episode_counts(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0, EndReason.WORLD_FAILED)))
        store.save(EpisodeResult(record(0)))
    with open_store(tmp_path) as store:
        assert [r.end for r in store.records] == ["completed"]
    assert len(read_records(tmp_path)) == 2


@pytest.mark.parametrize("at", ["write", "fsync", "metric_info"])
def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    full, real = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), journal._write_all
    store = open_store(tmp_path)
    store.save(EpisodeResult(record(0)))
    before = store.lines.read_bytes()

    def write_part(file: FileIO, content: bytes) -> None:
        """The disk takes 10 bytes, then is full."""
        real(file, content[:10])
        raise full

    def fail(*_: object) -> None:
        raise full

    with monkeypatch.context() as patch:
        if at == "write":
            patch.setattr(journal, "_write_all", write_part)
        elif at == "fsync":
            patch.setattr(journal.os, "fsync", fail)
        else:
            patch.setattr(store_module, "_write_json", fail)
        with pytest.raises(Ad2Error, match=r"disk is full.*1 episode is safe") as caught:
            store.save(EpisodeResult(record(1), {"0": {}}))
    assert "\n" not in str(caught.value)
    assert store.lines.read_bytes() == before
    store.save(EpisodeResult(record(1)))  # space was freed
    store.close()
    assert [r.route_id for r in read_records(tmp_path)] == ["101", "102"]


@pytest.mark.parametrize("repetition", [1000, 99_999, 10**12, -1])
def test_an_absurd_repetition_is_found_while_reading(tmp_path: Path, repetition: int) -> None:
    with open_store(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
    line = {**json.loads((tmp_path / "episodes.jsonl").read_text()), "repetition": repetition}
    # The line after it is broken: reading ends before.
    (tmp_path / "episodes.jsonl").write_text(f"{json.dumps(line)}\n{{broken\n")
    with pytest.raises(DataError, match=rf"episodes\.jsonl, row 1: .*repetition {repetition}: expected 0 to 999"):
        read_records(tmp_path, 1000)


@pytest.mark.integration
def test_a_full_disk_ends_the_run_and_the_run_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, real = [], EpisodeStore.save

    def save(self: EpisodeStore, result: EpisodeResult) -> None:
        if len(kept) == 2:
            with store_module.disk_full(self.folder, lambda: self.count):
                raise OSError(errno.ENOSPC, "No space left on device")
        kept.append(result.record)
        real(self, result)

    with monkeypatch.context() as patch:
        patch.setattr(EpisodeStore, "save", save)
        with pytest.raises(Ad2Error, match="2 episodes are safe"):
            run_into(tmp_path / "a", tasks(), worker_config())
    assert comparable(read_records(tmp_path / "a")) == comparable(kept)
    resumed = run_into(tmp_path / "a", tasks(), worker_config())
    assert comparable(resumed) == comparable(run_into(tmp_path / "b", tasks(), worker_config()))
    assert len(resumed) == 6
