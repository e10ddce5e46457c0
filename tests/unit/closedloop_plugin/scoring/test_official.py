"""Official result files: complete, split, truncated or malformed; written from our episodes and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.closedloop.scored import episode, raw, write
from support.tiers import examples

from closedloop_plugin.scoring import official
from closedloop_plugin.scoring.official import (
    from_episode,
    official_files,
    read,
    read_apart,
    read_file,
    to_official,
)
from closedloop_plugin.scoring.official_record import parse_record
from lmms_eval_ad2.core.errors import Ad2Error, DataError


def test_a_record_is_parsed() -> None:
    found = parse_record(raw("4937", 3, "T_Junction", 45.14, 0.6, town="Town05"), "f.json", 0)
    assert (found.route_id, found.repetition, found.scenario, found.town) == ("4937", 3, "T_Junction", "Town05")
    assert (found.score_route, found.score_penalty, found.score_composed) == (45.14, 0.6, 27.084)
    assert found.meta == {"route_length": 100.0, "duration_game": 20.0, "duration_system": 40.0}
    assert found.gaps == ()
    assert found.origin == {}


def test_all_records_of_pdm_lite_are_read(data_dir: Path) -> None:
    found = read([data_dir / "bench2drive" / "pdm_lite_results.json"])
    assert len(found.records) == 220
    assert len({r.key for r in found.records}) == 220
    assert len({r.scenario for r in found.records}) == 44
    assert found.lost == ()
    assert not any(r.gaps for r in found.records)


def test_missing_keys_are_listed_and_are_no_success() -> None:
    bare = parse_record({"route_id": "RouteScenario_1_rep0"}, "f", 0)
    assert set(bare.gaps) >= {"status", "infractions", "scores", "scores.score_composed", "meta"}
    assert bare.score == 0.0
    assert not bare.success
    partial = raw(score=50.0, penalty=0.6)
    del partial["scores"]["score_composed"], partial["infractions"]["route_dev"]
    assert parse_record(partial, "f", 0).score == 30.0
    without = raw()
    del without["infractions"]
    assert not parse_record(without, "f", 0).success


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"route_id": None}, "route_id"),
        ({"route_id": "4937"}, "route_id"),
        ({"route_id": "RouteScenario_4937_rep"}, "route_id"),
        ({"route_id": "RouteScenario_x"}, "route_id"),
        ({"status": 3}, "status"),
        ({"scores": []}, "scores"),
        ({"scores": {"score_route": "100"}}, "scores.score_route"),
        ({"scores": {"score_route": float("nan")}}, "scores.score_route"),
        ({"scores": {"score_composed": 100.1}}, "scores.score_composed"),
        ({"scores": {"score_composed": -1}}, "scores.score_composed"),
        ({"scores": {"score_composed": 10**400}}, "scores.score_composed"),
        ({"scores": {"score_penalty": 1.5}}, "scores.score_penalty"),
        ({"scores": {"score_route": True}}, "scores.score_route"),
        ({"infractions": {"red_light": "x"}}, "infractions.red_light"),
        ({"infractions": {"red_light": [1]}}, "infractions.red_light"),
        ({"ad2": 1}, "ad2"),
        ({"ad2": {}}, "ad2.origin"),
        ({"ad2": {"origin": {"suite": 1}}}, "ad2.origin"),
        ({"ad2": {"origin": {"suite": "x"}, "comfort": {"official": "good"}}}, "ad2.comfort"),
        ({"ad2": {"origin": {"suite": "x"}, "junctions_passed": -1}}, "ad2.junctions_passed"),
        ({"ad2": {"origin": {"suite": "x"}, "experimental": 1}}, "ad2.experimental"),
    ],
)
def test_a_wrong_value_names_file_record_and_field(change: Mapping[str, Any], field: str, tmp_path: Path) -> None:
    file = write(tmp_path / "r.json", [raw("1"), {**raw("2"), **change}])
    with pytest.raises(DataError) as error:
        read([file])
    assert (error.value.file, error.value.row, error.value.field) == (file, 1, field)


def test_split_files_are_read_without_the_merged_file(tmp_path: Path) -> None:
    a = write(tmp_path / "b2d" / "a.json", [raw("1"), raw("2")])
    b = write(tmp_path / "b2d" / "b.json", [raw("3")])
    write(tmp_path / "b2d" / "merged.json", [raw("1"), raw("2"), raw("3")])
    (tmp_path / "b2d" / "ability.json").write_text('{"Overtaking": 1}')
    assert [r.route_id for r in read([b, a]).records] == ["3", "1", "2"]
    folder = read([tmp_path / "b2d"])
    assert [r.route_id for r in folder.records] == ["1", "2", "3"]
    assert folder.files == (str(a), str(b))


def test_a_merged_file_alone_in_a_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path / "merged.json", [raw("1")])
    assert len(read([tmp_path]).records) == 1


def test_a_merged_file_with_episodes_of_its_own_is_not_mixed_with_the_others(tmp_path: Path) -> None:
    a = write(tmp_path / "a.json", [raw("1"), raw("2")])
    merged = write(tmp_path / "merged.json", [raw("1"), raw("3")])
    assert official_files(tmp_path) == [a, merged]
    with pytest.raises(Ad2Error, match="episodes that the other result files in it lack; name the files instead"):
        read([tmp_path])


def test_files_too_large_for_a_result_file_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small, large = write(tmp_path / "a.json", [raw("1")]), write(tmp_path / "b.json", [raw("2"), raw("3")])
    monkeypatch.setattr(official, "LARGEST_BYTES", small.stat().st_size)
    assert official_files(tmp_path) == [small]
    assert [r.getMessage() for r in caplog.records] == [
        f"{large}: left out, {large.stat().st_size:,} bytes are too many for an official result file"
    ]
    with pytest.raises(Ad2Error, match=r"more than .* bytes; an official result file"):
        read([large])


def test_read_apart_takes_each_file_as_a_repetition(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{k}.json", [raw("1"), raw("2")]) for k in range(3)]
    assert [r.key for r in read_apart(files).records] == [("1", 0), ("2", 0), ("1", 1), ("2", 1), ("1", 2), ("2", 2)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not a JSON file"),
        ("hello", "not a JSON file"),
        ("[1]", "_checkpoint"),
        ("{}", "_checkpoint"),
        ('{"_checkpoint": {}}', "_checkpoint.records"),
        ('{"_checkpoint": {"records": {}}}', "_checkpoint.records"),
        ('{"_checkpoint": {"records": []}}', "no complete record"),
        ('{"_checkpoint": {"records": [{"route_id"', "no complete record"),
        ('{"_checkpoint": {"records": [3]}}', "row 0: field 'record': expected an object"),
        ("[" * 100_000, "64 levels"),
    ],
)
def test_other_files_are_refused(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(content)
    with pytest.raises(Ad2Error, match=says):
        read([file])


def test_a_missing_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="no such file or folder"):
        read([tmp_path / "gone"])
    with pytest.raises(Ad2Error, match=r"neither episodes\.jsonl nor"):
        read([tmp_path])


COMPLETE = json.dumps({"_checkpoint": {"global_record": {}, "records": [raw(str(i)) for i in range(4)]}}, indent=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(150))
@given(cut=st.integers(0, len(COMPLETE.encode())))
def test_truncated_files_keep_all_complete_records(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_bytes(COMPLETE.encode()[:cut])
    try:
        records, lost = read_file(file)
    except Ad2Error:
        assert '"records": [' not in COMPLETE[:cut]
        return
    assert [r.route_id for r in records] == ["0", "1", "2", "3"][: len(records)]
    begun = COMPLETE[:cut].count('"route_id"')
    assert len(records) <= begun <= len(records) + 1
    assert lost in (0, 1)
    assert lost >= begun - len(records)


def test_all_records_from_a_broken_one_on_are_counted_as_lost(tmp_path: Path) -> None:
    text = COMPLETE.replace('"route_id": "RouteScenario_1_rep0"', '"route_id": RouteScenario_1_rep0"')
    file = tmp_path / "r.json"
    file.write_text(text)
    records, lost = read_file(file)
    assert ([r.route_id for r in records], lost) == (["0"], 3)


TWO = json.dumps({"_checkpoint": {"records": [raw("8"), raw("9")], "global_record": {"route_id": -1}}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (COMPLETE + TWO, r"continues after its end \(line 1\d\d\), with 2 further record.*, the first RouteScenario_8"),
        (COMPLETE + "\n" + TWO[: len(TWO) // 2], "with 1 further record"),
        (COMPLETE + '  "score_composed": 50.0\n }\n}', r"with '\"score_composed\": 50.0"),
        (TWO + "\n" + TWO, r"continues after its end \(line 2\)"),
        (COMPLETE.replace("]\n }\n}", "]") + TWO, r"records ends in line 1\d\d, the file does not, with 2 further"),
        (TWO.replace('"global_record": {', '"more": [{"route_id": "RouteScenario_7_rep0"}], "global_record": {'),
         r"1 record\(s\) outside _checkpoint\.records, the first RouteScenario_7_rep0"),
    ],
    ids=["two", "second-cut", "tail", "lines", "first-cut", "second-list"],
)  # fmt: skip
def test_no_record_behind_the_first_list_is_dropped_silently(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "merged.json"
    file.write_text(text)
    with pytest.raises(Ad2Error, match=says):
        read([file])


def test_the_global_record_and_repeated_ids_outside_the_list_are_no_further_records(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(
        TWO.replace('"global_record"', '"crashed": [{"route_id": "RouteScenario_9_rep0"}], "global_record"')
    )
    assert [r.route_id for r in read([file]).records] == ["8", "9"]
    file.write_text(TWO[:-3])  # cut within the global record
    assert read_file(file)[1] == 0
    file.write_text(TWO[: TWO.index('"global_record"')].rstrip(" ,]") + ",")
    assert read_file(file)[1] == 1


def test_ids_of_leaderboard_1_are_read_unless_their_repetition_is_ambiguous(tmp_path: Path) -> None:
    rows = [{**raw(str(i)), "route_id": f"RouteScenario_{i}"} for i in range(2)]
    file = write(tmp_path / "r.json", rows)
    assert [r.key for r in read([file]).records] == [("0", 0), ("1", 0)]
    write(file, [*rows, rows[1]])
    with pytest.raises(DataError, match=r"expected RouteScenario_1_rep0, .* found 'RouteScenario_1 2 times'"):
        read([file])


LISTS = {**episode().infractions, "red_light": ["Agent ran a red light"], "min_speed_infractions": ["x is 50%"]}


def test_our_episodes_round_trip_through_the_official_form(tmp_path: Path) -> None:
    episodes = [
        episode("1"),
        episode("2", infractions=LISTS, score_route=50.0, score_penalty=0.7, score_composed=35.0, junctions_passed=1),
    ]
    data = to_official(episodes, n_routes=4)
    assert data["driving score"] == pytest.approx(135 / 4)
    assert data["success rate"] == 0.25
    assert data["eval num"] == 2
    assert data["ad2"]["origin"] == {
        "backend": "embedded", "waiting": "waits", "suite": "embedded220", "profile": "bench2drive",
        "agent": "expert (privileged)", "interpreter": "", "mode": "",
    }  # fmt: skip
    assert data["ad2"]["versions"] == ["world 1, lmms-eval-ad2 0.1.0"]
    file = tmp_path / "results.json"
    file.write_text(json.dumps(data))
    read_again = [r.__class__(**{**vars(r), "source": ""}) for r in read([file]).records]
    direct = [from_episode(e) for e in episodes]
    assert read_again == [r.__class__(**{**vars(r), "source": ""}) for r in direct]
    assert read_again[1].junctions_passed == 1
    assert read_again[0].comfort["corrected"] == 0.75


def test_our_records_have_the_official_keys() -> None:
    ours, theirs = to_official([episode()])["_checkpoint"]["records"][0], raw()
    assert set(theirs) <= set(ours)
    assert list(ours["infractions"]) == list(theirs["infractions"])
    assert set(ours["scores"]) == set(theirs["scores"])
    assert set(ours["meta"]) == set(theirs["meta"])


def test_the_later_of_two_lines_for_an_episode_counts() -> None:
    data = to_official([episode(score_composed=10.0), episode(score_composed=90.0)])
    assert (data["eval num"], data["driving score"]) == (1, 90.0)


def test_two_runs_cannot_be_in_one_file() -> None:
    with pytest.raises(Ad2Error, match="2 different runs"):
        to_official([episode("1"), episode("2", profile="bench2advlm")])


def test_records_of_a_truncated_file_of_ours_keep_their_origin(tmp_path: Path) -> None:
    text = json.dumps(to_official([episode("1"), episode("2")]))
    file = tmp_path / "results.json"
    file.write_text(text[: text.index('"driving score"')])
    assert [r.origin["backend"] for r in read_file(file)[0]] == ["embedded", "embedded"]


def test_a_run_folder_is_read_without_its_incomplete_last_line(tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    line = episode("3", 1).to_json()
    file.write_text(episode("1").to_json() + "\n" + episode("2").to_json() + "\n" + line[:50])
    found = read([tmp_path])
    assert [r.route_id for r in found.records] == ["1", "2"]
    assert found.lost == ((str(file), 1),)
    assert read([file]).records == found.records
    file.write_text(line + "\n" + line[:50] + "\n")
    with pytest.raises(DataError, match="row 2"):
        read([file])


@pytest.mark.parametrize("change", [{"infractions": []}, {"agent": 3}, {"map": None}, {"score_route": "x"}])
def test_a_line_with_wrong_fields_is_a_data_error(change: dict[str, Any], tmp_path: Path) -> None:
    line = {**json.loads(episode().to_json()), **change}
    file = tmp_path / "episodes.jsonl"
    file.write_text(json.dumps(line) + "\n")
    with pytest.raises(DataError, match="row 1"):
        read([file])
