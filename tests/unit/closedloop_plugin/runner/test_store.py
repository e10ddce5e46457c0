"""The run's folder: whole lines only, one run a folder, a full disk loses nothing."""

from __future__ import annotations

import errno
import json
import os
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.runs import IDENTITY, SUITE, essence, plan, run_into, tasks

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import EndReason
from closedloop_plugin.runner import store as store_module
from closedloop_plugin.runner.episode import EpisodeResult, blank_record
from closedloop_plugin.runner.store import EpisodeStore, read_records
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.storage import journal
from lmms_eval_ad2.storage.identity import read_run

SELECTION = {"routes": SUITE.ids, "repetitions": 1}


def record(route: int, end: EndReason = EndReason.COMPLETED) -> EpisodeRecord:
    return blank_record(tasks()[route], plan().conditions, end, "", "fake", "1")


def opened(folder: Path) -> EpisodeStore:
    return EpisodeStore(folder, IDENTITY, SELECTION)


def test_a_record_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path / "run") as store:
        store.save(EpisodeResult(record(0), {"0": {}}, {"ego": []}))
    with opened(tmp_path / "run") as store:
        assert store.records == [record(0)]
        assert store.has("101", 0)
        assert store.has("102", 0) is None
    assert json.loads((tmp_path / "run/metric_info/101_rep0.json").read_text()) == {"0": {}}
    assert json.loads((tmp_path / "run/tracks/101_rep0.json").read_text()) == {"ego": []}


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_half_a_line_at_the_end_is_cut_off(tmp_path: Path, keep: int) -> None:
    with opened(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
        whole = (tmp_path / "episodes.jsonl").read_bytes()
        store.save(EpisodeResult(record(1)))
    both = (tmp_path / "episodes.jsonl").read_bytes()
    (tmp_path / "episodes.jsonl").write_bytes(whole + both[len(whole) :][:keep])
    with opened(tmp_path) as store:
        assert [r.route_id for r in store.records] == ["101"]
        store.save(EpisodeResult(record(1)))
    assert (tmp_path / "episodes.jsonl").read_bytes() == both


def test_a_broken_line_in_the_middle_is_named_and_nothing_is_cut(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
        store.save(EpisodeResult(record(1)))
    content = b"{oops\n" + (tmp_path / "episodes.jsonl").read_bytes()
    (tmp_path / "episodes.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=r"episodes.jsonl, row 1"):
        opened(tmp_path)
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
def test_a_field_of_another_form_is_told_where_the_file_is_read(tmp_path: Path, field: str, value: Any) -> None:
    changed = json.loads(record(0).to_json()) | {field: value}
    (tmp_path / "episodes.jsonl").write_text(record(1).to_json() + "\n" + json.dumps(changed) + "\n")
    with pytest.raises(DataError, match=r"episodes.jsonl, row 2: .*Remove the line"):
        read_records(tmp_path)


def test_another_run_is_refused_and_each_difference_named(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.save(EpisodeResult(record(0)))  # a folder without an episode binds nobody
    with pytest.raises(Ad2Error, match=r"seed is 1 there and 2 here") as caught:
        EpisodeStore(tmp_path, {**IDENTITY, "seed": 2}, SELECTION)
    assert "\n" not in str(caught.value)
    assert "--out" in str(caught.value)
    assert read_run(tmp_path)["identity"] == IDENTITY
    EpisodeStore(tmp_path, IDENTITY, {**SELECTION, "repetitions": 3}).close()  # a larger selection is the same run


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(Ad2Error, match="another process is writing to this folder"):
        opened(tmp_path)


def test_a_foreign_run_json_is_one_line(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.save(EpisodeResult(record(0)))
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(Ad2Error, match=r"run.json: not a run description"):
        opened(tmp_path)


def test_the_later_line_of_an_episode_counts(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.save(EpisodeResult(record(0, EndReason.WORLD_FAILED)))
        store.save(EpisodeResult(record(0)))
    with opened(tmp_path) as store:
        assert [r.end for r in store.records] == ["completed"]
    assert len(read_records(tmp_path)) == 2


@pytest.mark.parametrize("at", ["write", "fsync", "metric_info"])
def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    full, real = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), journal._write_all
    store = opened(tmp_path)
    store.save(EpisodeResult(record(0)))
    before = store.lines.read_bytes()

    def half(file: FileIO, content: bytes) -> None:
        """The disk takes 10 bytes, then is full."""
        real(file, content[:10])
        raise full

    def fail(*_: object) -> None:
        raise full

    with monkeypatch.context() as patch:
        if at == "write":
            patch.setattr(journal, "_write_all", half)
        elif at == "fsync":
            patch.setattr(journal.os, "fsync", fail)
        else:
            patch.setattr(store_module, "_write_json", fail)
        with pytest.raises(Ad2Error, match=r"disk is full.*1 episodes are safe") as caught:
            store.save(EpisodeResult(record(1), {"0": {}}))
    assert "\n" not in str(caught.value)
    assert store.lines.read_bytes() == before
    store.save(EpisodeResult(record(1)))  # space was made
    store.close()
    assert [r.route_id for r in read_records(tmp_path)] == ["101", "102"]


@pytest.mark.integration
def test_a_disk_that_fills_in_a_run_ends_it_and_the_same_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
            run_into(tmp_path / "a", tasks(), plan())
    assert essence(read_records(tmp_path / "a")) == essence(kept)
    resumed = run_into(tmp_path / "a", tasks(), plan())
    assert essence(resumed) == essence(run_into(tmp_path / "b", tasks(), plan()))
    assert len(resumed) == 6
