"""The folder of a build: recovery after a kill, locking, settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disk import files_of_at_most

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.mcq.store import QuestionStore, transcript_path, write_lines

SETTINGS = {"seed": 0, "maker": {"model": "m", "n": 6}}


def line(name: str = "q1", status: str = "made", **more: Any) -> dict[str, Any]:
    row = {"row": {"id": name}} if status == "made" else {"reason": "ambiguous"}
    return {"source": "drivelm", "id": name, "status": status, "notes": {}, **row, **more}


def test_outcomes_are_read_back_and_the_latest_one_counts(tmp_path: Path) -> None:
    with QuestionStore(tmp_path / "out", SETTINGS) as store:
        store.save(line("q1", "passing"))
        store.save(line("q2"))
        store.save(line("q1", "rejected", reason="ambiguous"))
    with QuestionStore(tmp_path / "out", SETTINGS) as store:
        assert store.status("drivelm", "q1") == "rejected"
        assert store.status("drivelm", "q2") == "made"
        assert store.status("lingoqa", "q1") is None
        keys = [("drivelm", "q2"), ("drivelm", "unknown"), ("drivelm", "q1")]
        assert [(got["id"], got["status"]) for got in store.lines(keys)] == [("q2", "made"), ("q1", "rejected")]


@pytest.mark.parametrize("torn", ['{"source": "drivelm", "id": "q2", "sta', '{"source": "drivelm", "id": "\u00e4', "{"])
def test_an_incomplete_last_line_is_cut_off(tmp_path: Path, torn: str) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        store.save(line("q1"))
    with (out / "journal.jsonl").open("ab") as handle:
        handle.write(torn.encode()[:-1] if torn.endswith("\u00e4") else torn.encode())
    with QuestionStore(out, SETTINGS) as store:
        assert store.status("drivelm", "q2") is None
        store.save(line("q3"))
    with QuestionStore(out, SETTINGS) as store:
        assert [store.status("drivelm", name) for name in ("q1", "q3")] == ["made", "made"]


@pytest.mark.parametrize(
    "bad", ["[]", "{}", '{"source": "a", "id": "b", "status": "perhaps"}', "[" * 100_000, '{"start": 0, "account": {}}',
            '{"source": "a", "id": "b", "status": "made", "notes": {}}', '{"start": 1.5, "account": {}}',
            '{"source": 1, "id": "b", "status": "passing", "notes": {}, "reason": "x"}',
            '{"source": "a", "id": "b", "status": "rejected", "notes": {"x": "y"}, "reason": "x"}',
            '{"source": "a", "id": "b", "status": "rejected", "notes": {}}', "\ufffe", ""],
)  # fmt: skip
def test_a_corrupt_line_is_reported_with_file_and_row(tmp_path: Path, bad: str) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        store.save(line("q1"))
    with (out / "journal.jsonl").open("a") as handle:
        handle.write(bad + "\n")
    with pytest.raises(DataError, match=r"journal\.jsonl, row 2"):
        QuestionStore(out, SETTINGS)


def test_changed_settings_are_refused_with_their_names(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS):
        pass
    with QuestionStore(out, {"seed": 1}) as store:  # nothing was made yet, so settings may change
        store.save(line())
    with pytest.raises(Ad2Error, match=r"seed is 1 there and 0 here.*Choose another --out"):
        QuestionStore(out, SETTINGS)


def test_settings_may_change_before_the_first_outcome(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        store.save(line("q1", "passing"))
        store.save_account({"requests": 1})
    with QuestionStore(out, {"seed": 1}) as store:
        assert store.status("drivelm", "q1") == "passing"
    assert json.loads((out / "settings.json").read_text()) == {"seed": 1}


def test_corrupt_settings_are_an_error(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        store.save(line())
    for corrupt in ("[" * 100_000, "[1]", "\0"):
        (out / "settings.json").write_text(corrupt)
        with pytest.raises(Ad2Error, match=r"settings\.json: not the settings of a build"):
            QuestionStore(out, SETTINGS)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with QuestionStore(tmp_path / "out", SETTINGS), pytest.raises(Ad2Error, match="another process"):
        QuestionStore(tmp_path / "out", SETTINGS)
    QuestionStore(tmp_path / "out", SETTINGS).close()


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(Ad2Error, match="is a file; a folder is needed"):
        QuestionStore(tmp_path / "out", SETTINGS)


def test_the_account_of_every_run_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for requests in (3, 5):
        with QuestionStore(out, SETTINGS) as store:
            store.save_account({"requests": 1})
            store.save(line())
            store.save_account({"requests": requests})
    with QuestionStore(out, SETTINGS) as store:
        assert store.accounts == [{"requests": 3}, {"requests": 5}, {}]


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=20))
def test_no_id_leads_outside_the_folder(name: str, source: str) -> None:
    folder = Path("/out")
    path = transcript_path(folder, source, name)
    assert len(path.relative_to(folder).parts) == 4
    assert os.path.normpath(path) == str(path)
    assert len(path.name.encode()) < 200


def test_similar_ids_have_separate_files() -> None:
    names = ["a/b", "a_b", "a:b", "a\\b", "\ud800", "\ud801", "x" * 300, "x" * 301, "q1", "Q1"]
    # Some file systems are not case-sensitive. The folder is derived from the hash and is not compared.
    assert len({transcript_path(Path("o"), "s", name).name.lower() for name in names}) == len(names)


def test_transcripts_are_written_before_their_journal_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        monkeypatch.setattr(QuestionStore, "_append", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            store.save(line("q1"), {"said": "\ud800 ä"})
    assert json.loads(transcript_path(out, "drivelm", "q1").read_text("utf-8"))["said"] == "\ud800 ä"
    with QuestionStore(out, SETTINGS) as store:
        assert store.status("drivelm", "q1") is None


def test_a_failed_write_leaves_no_partial_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with QuestionStore(out, SETTINGS) as store:
        store.save(line("q1"))
        before = (out / "journal.jsonl").read_bytes()
        with pytest.raises(OSError, match="File too large"), files_of_at_most(len(before) + 10):
            store.save(line("q2"))
        assert (out / "journal.jsonl").read_bytes() == before
        assert store.status("drivelm", "q2") is None
    assert (out / "journal.jsonl").read_bytes() == before


def test_images_are_linked_again(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        with QuestionStore(tmp_path / "out", SETTINGS) as store:
            store.link_images({"drivelm": tmp_path / name})
    assert (tmp_path / "out/images/drivelm").resolve() == (tmp_path / "new").resolve()


def test_a_folder_in_the_place_of_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out/images/drivelm").mkdir(parents=True)
    with QuestionStore(tmp_path / "out", SETTINGS) as store, pytest.raises(Ad2Error, match="expected a link"):
        store.link_images({"drivelm": tmp_path})


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    digest = write_lines(tmp_path / "a.jsonl", [{"a": "ä"}, {"b": "\ud800"}])
    content = (tmp_path / "a.jsonl").read_bytes()
    assert digest == hashlib.sha256(content).hexdigest()
    assert [json.loads(text) for text in content.decode().splitlines()] == [{"a": "ä"}, {"b": "\ud800"}]
