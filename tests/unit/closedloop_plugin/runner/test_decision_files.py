"""Files of decisions: the lines of a running episode, their file, and its reader."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.closedloop.doubles import RemoteReader, TextFollower
from support.closedloop.models import observation
from support.closedloop.runs import IDENTITY, run_into, tasks, worker_config

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, ModelUsage
from closedloop_plugin.runner.decision_files import (
    BLOCK,
    TEXT,
    DecisionFiles,
    DecisionLog,
    StoredDecision,
    decision_file,
    read_decisions,
)
from closedloop_plugin.runner.decisions import DecisionResponse, TimedDecision
from closedloop_plugin.runner.merge import merge
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.store import EpisodeStore
from closedloop_plugin.runner.task import shard
from lmms_eval_ad2.core.errors import Ad2Error, DataError

GO = Control(0.1, 0.5, 0.0)


def timed(decision: Decision, interpreted: InterpretedControl | None = None, **known: Any) -> TimedDecision:
    response = DecisionResponse(decision, interpreted, waited_s=0.5)
    return TimedDecision(response, GO, interpreted=True, requested=12, arrived=12, **known)


def line(decision: TimedDecision) -> dict[str, Any]:
    blocks: list[bytes] = []
    log = DecisionLog(10.0, blocks.append)
    log(decision)
    log.flush()
    (found,) = gzip.decompress(b"".join(blocks)).splitlines()
    return json.loads(found)


def test_a_line_holds_what_was_asked_answered_read_applied_and_spent() -> None:
    decision = Decision({"action": "Go."}, latency_s=0.25, usage=ModelUsage("ab", 812, 12))
    interpreted = InterpretedControl(
        GO, '{"throttle": 0.5}', None, "cng", 0.5, ("snapped",), usage=ModelUsage("cd", 90, None)
    )
    seen = observation(speed=3.5, target=(8.0, -0.1), route_offset=0.2)
    found = line(timed(decision, interpreted, applied=(12, 15), held=Control(0.1, 0.4), observation=seen))
    assert found == {
        "format": 1,
        "t": 1.2,
        "tick": 12,
        "seen": {
            "speed": 3.5, "command": "lane follow", "target": [8.0, -0.1], "speed_limit": 13.9, "route_offset": 0.2,
        },
        "words": {"action": "Go."},
        "error": None,
        "prompt_sha256": "ab",
        "seconds": 0.25,
        "tokens_in": 812,
        "tokens_out": 12,
        "reading": {
            "mode": "cng", "raw": '{"throttle": 0.5}', "reason": None, "meaning": "", "adapted": ["snapped"],
            "prompt_sha256": "cd", "seconds": 0.5, "tokens_in": 90, "tokens_out": None,
        },
        "control": {"requested": [0.1, 0.5, 0.0], "applied": [0.1, 0.4, 0.0], "from_tick": 12, "to_tick": 15},
        "waited_s": 0.5,
    }  # fmt: skip


def test_what_is_not_reported_is_null_and_never_0() -> None:
    found = line(timed(Decision(control=GO, usage=ModelUsage(None, 0, 0))))
    assert [found[name] for name in ("prompt_sha256", "seconds", "tokens_in", "tokens_out", "reading")] == [None] * 5
    assert found["control"] == {"requested": [0.1, 0.5, 0.0], "applied": None, "from_tick": None, "to_tick": None}


def test_numbers_that_are_not_finite_become_null() -> None:
    found = line(timed(Decision(control=Control(math.nan, math.inf, 0.5)), observation=observation(speed=math.nan)))
    assert found["control"]["requested"] == [None, None, 0.5]
    assert found["seen"]["speed"] is None


def test_long_texts_are_cut_and_say_so() -> None:
    reply = "ä" * (TEXT + 1)
    found = line(timed(Decision({"action": reply, "x" * 500: "y"}), InterpretedControl(None, reply, "r" * 20_000)))
    assert found["words"] == {"action": "ä" * TEXT, "x" * 80: "y"}
    assert [len(found["reading"][name]) for name in ("raw", "reason")] == [TEXT, TEXT]
    assert found["cut"] == {"words.action": TEXT + 1, "raw": TEXT + 1, "reason": 20_000}
    assert "cut" not in line(timed(Decision({"action": "ä" * TEXT})))
    assert len(line(timed(Decision({str(i): "x" for i in range(1000)})))["words"]) == 16


@pytest.mark.parametrize("text", ["\ud800", "\x00\n\r\u2028", '"}\n{"'])
def test_any_text_stays_one_line_of_json(text: str) -> None:
    assert line(timed(Decision({"action": text}, error=text)))["words"] == {"action": text}


def test_keys_of_the_environment_are_removed_also_at_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcdefgh12345678")
    texts = {"action": "key abcdefgh12345678", "long": "x" * (TEXT - 4) + "abcdefgh12345678"}
    found = line(timed(Decision(texts, error="abcdefgh12345678"), InterpretedControl(None, "abcdefgh12345678", "why")))
    assert "abcd" not in json.dumps(found)
    assert found["words"]["action"] == "key [REDACTED]"


def test_lines_are_sent_in_blocks_so_that_memory_is_bounded() -> None:
    blocks: list[bytes] = []
    log = DecisionLog(10.0, blocks.append)
    for _ in range(300):
        log(timed(Decision({"action": "z" * 1000})))
    before = len(blocks)
    assert before >= 5
    log.flush()
    log.flush()  # nothing is left
    assert len(blocks) == before + 1
    assert all(len(gzip.decompress(block)) < BLOCK + 2000 for block in blocks)
    assert gzip.decompress(b"".join(blocks)).count(b"\n") == 300


READER = FactoryRecipe("support.closedloop.doubles:Reader")


def block(n: int = 1, first: int = 0, **known: Any) -> bytes:
    found: list[bytes] = []
    log = DecisionLog(10.0, found.append)
    for tick in range(first, first + n):
        known.setdefault("observation", observation())
        response = known.get("response") or DecisionResponse(Decision({"action": "go"}))
        log(TimedDecision(response, Control(), interpreted=True, requested=tick, arrived=tick,
                          observation=known["observation"]))  # fmt: skip
    log.flush()
    return b"".join(found)


def changed(before: bytes, after: bytes) -> bytes:
    """A file of one decision with another text in its line."""
    line = gzip.decompress(block())
    assert before in line
    return gzip.compress(line.replace(before, after, 1))


def stored(run: Path, key: str = "101_rep0") -> list[StoredDecision]:
    return list(read_decisions(decision_file(run, key)))


def names(run: Path) -> list[str]:
    return sorted(file.name for file in (run / "decisions").iterdir())


def complete(run: Path, records: list[EpisodeRecord]) -> bool:
    """Whether each record has one line per counted decision, in order."""
    ticks = {f"{r.route_id}_rep{r.repetition}": r.counts.get("decisions", 0) for r in records}
    found = {key: [d.tick for d in stored(run, key)] for key in ticks}
    return all(len(t) == ticks[key] and t == sorted(set(t)) for key, t in found.items())


def test_a_file_appears_when_its_episode_is_kept_and_replaces_the_earlier_one(tmp_path: Path) -> None:
    files = DecisionFiles(tmp_path)
    for n in (2, 3):
        files.begin("101_rep0")
        files.add("101_rep0", block(7))
        files.begin("101_rep0")  # the episode is tried again
        files.add("101_rep0", block(n))
        files.add("101_rep0", block(n, first=n))
        assert names(tmp_path) == [".101_rep0.jsonl.gz.tmp"] + ["101_rep0.jsonl.gz"] * (n == 3)
        files.keep("101_rep0")
        assert len(stored(tmp_path)) == 2 * n
    files.begin("101_rep0")
    files.keep("101_rep0")  # driven again, without a decision
    assert names(tmp_path) == []


def test_costs_add_up_over_both_systems_and_unknown_ones_stay_unknown(tmp_path: Path) -> None:
    def spent(fast: ModelUsage, slow: ModelUsage | None) -> list[float | None]:
        read = (
            None if slow is None else InterpretedControl(None, latency_s=0.5 * (slow.tokens_in is not None), usage=slow)
        )
        files = DecisionFiles(tmp_path)
        files.begin("101_rep0")
        decision = Decision({"action": "go"}, latency_s=0.25, usage=fast)
        files.add("101_rep0", block(response=DecisionResponse(decision, read)))
        files.keep("101_rep0")
        (found,) = stored(tmp_path)
        return [found.seconds, found.tokens("tokens_in"), found.tokens("tokens_out")]

    fast = ModelUsage("a", 800, 12)
    assert spent(fast, None) == [0.25, 800, 12]
    assert spent(fast, ModelUsage()) == [0.25, 800, 12]  # rules make no request
    assert spent(fast, ModelUsage("b", 90, 8)) == [0.75, 890, 20]
    assert spent(fast, ModelUsage("b")) == [0.25, None, None]
    assert spent(ModelUsage("a"), None) == [0.25, None, None]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no gzip", "gzip file of decisions"),
        (block()[:-9], "gzip file of decisions"),
        (gzip.compress(b'{"format": 1}\n'), "a decision, format 1"),
        (gzip.compress(b'{"format": 2}\n'), r"expected 1"),
        (gzip.compress(b"[]\n"), "a decision, format 1"),
        (gzip.compress(b"[" * 5_000_000), "a whole line"),
        (gzip.compress(gzip.decompress(block())[:-1]), "a whole line"),
        (gzip.compress(gzip.decompress(block()).replace(b'"tick":0', b'"tick":true')), "unexpected value True"),
        (gzip.compress(gzip.decompress(block()).replace(b'"go"', b"[1]")), "unexpected value"),
        (gzip.compress(gzip.decompress(block()).replace(b'"lane follow"', b'"fly"')), "fly"),
        (changed(b'"tick":0', b'"tick":10000001'), "unexpected value 10000001"),
        (changed(b'"t":0.0', b'"t":1e15'), r"unexpected value 1000000000000000\.0"),
        (changed(b'"seconds":null', b'"seconds":-1'), "unexpected value -1"),
        (changed(b'"seconds":null', b'"seconds":1e13'), r"unexpected value 1"),
        (changed(b'"tokens_in":null', b'"tokens_in":1' + b"0" * 400), r"unexpected value \(1000"),
        (changed(b'"tokens_out":null', b'"tokens_out":1.5'), r"unexpected value \(None, 1.5\)"),
        (changed(b'"tokens_out":null', b'"tokens_out":true'), r"unexpected value \(None, True\)"),
        (changed(b'"prompt_sha256":null', b'"prompt_sha256":{}'), "unexpected value {}"),
        (changed(b'"requested":null', b'"requested":[1e300,0,0]'), "unexpected value"),
    ],
    ids=range(19),
)
def test_a_broken_file_is_named_with_its_row(tmp_path: Path, content: bytes, why: str) -> None:
    file = decision_file(tmp_path, "101_rep0")
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(DataError, match=why) as error:
        stored(tmp_path)
    assert str(error.value).startswith(f"{file}, row {1 + content.startswith(block()[:-9])}")


@pytest.mark.parametrize("second", [block(), block(2, first=4) + block(first=5)])
def test_rows_that_are_not_in_order_are_refused(tmp_path: Path, second: bytes) -> None:
    """So a file of others has no more rows than ticks, and no decision counts twice."""
    file = decision_file(tmp_path, "101_rep0")
    file.parent.mkdir()
    file.write_bytes(block() + second)
    with pytest.raises(DataError, match=r"'tick': expected more than .* Remove the file to go on without") as error:
        stored(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.integration
@pytest.mark.parametrize("workers", [1, 3])
def test_every_decision_of_a_run_is_kept(tmp_path: Path, workers: int) -> None:
    """Own agents in the world's process, which set controls, and models in the parent, which speak."""
    records = run_into(tmp_path / "own", tasks(), worker_config(), limits=PoolLimits(workers=workers))
    assert complete(tmp_path / "own", records)
    assert len(names(tmp_path / "own")) == 6
    first = stored(tmp_path / "own")[0]
    assert (first.requested, first.words, first.reading) == (first.applied, {}, None)
    config = worker_config(name="bench2advlm", agent=None, interprets=True)
    limits = PoolLimits(workers=workers)
    spoken = run_into(tmp_path / "far", tasks(), config, TextFollower(), interpreter=RemoteReader(), limits=limits)
    assert complete(tmp_path / "far", spoken)
    second = stored(tmp_path / "far")[1]
    steer, throttle = map(float, second.words["action"].split())
    assert second.requested == (steer, throttle, 0.0)
    assert second.reading is not None
    assert (second.reading["raw"], second.reading["mode"]) == (second.words["action"], "cng")


@pytest.mark.integration
def test_a_retried_episode_has_the_decisions_of_its_last_try(tmp_path: Path) -> None:
    bad = FactoryRecipe(
        "support.closedloop.doubles:Faulty", {"how": "die", "route": "103", "once": str(tmp_path / "once")}
    )
    records = run_into(tmp_path / "run", tasks(), worker_config(bad))
    assert records[2].counts["retries"] == 1
    assert complete(tmp_path / "run", records)


@pytest.mark.integration
def test_a_continued_run_removes_leftovers_and_keeps_finished_files(tmp_path: Path) -> None:
    records = run_into(tmp_path, tasks()[:1], worker_config())
    before = decision_file(tmp_path, "101_rep0").read_bytes()
    (tmp_path / "decisions/.102_rep0.jsonl.gz.tmp").write_bytes(block())  # of a killed process
    records = run_into(tmp_path, tasks()[:2], worker_config())
    assert names(tmp_path) == ["101_rep0.jsonl.gz", "102_rep0.jsonl.gz"]
    assert complete(tmp_path, records)
    assert decision_file(tmp_path, "101_rep0").read_bytes() == before


@pytest.mark.integration
def test_merged_shards_have_the_decisions_of_the_kept_episodes(tmp_path: Path) -> None:
    for i in (1, 2):
        run_into(tmp_path / f"s{i}", shard(tasks(), f"{i}/2"), worker_config())
    found = merge(tmp_path / "all", [tmp_path / "s1", tmp_path / "s2"])
    assert complete(tmp_path / "all", found.records)
    for i, key in ((1, "101_rep0"), (2, "102_rep0")):
        there, here = decision_file(tmp_path / f"s{i}", key), decision_file(tmp_path / "all", key)
        assert there.read_bytes() == here.read_bytes()


@pytest.mark.integration
def test_a_merge_names_a_broken_file_before_it_writes(tmp_path: Path) -> None:
    run_into(tmp_path / "a", tasks()[:1], worker_config())
    file = decision_file(tmp_path / "a", "101_rep0")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match="gzip file of decisions") as error:
        merge(tmp_path / "all", [tmp_path / "a"], partial=True)
    assert str(error.value).startswith(str(file)) and not (tmp_path / "all").exists()


@pytest.mark.integration
def test_a_full_disk_ends_the_run_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: DecisionFiles, key: str, block: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DecisionFiles, "add", full)
    with pytest.raises(Ad2Error, match="the disk is full"):
        run_into(tmp_path, tasks()[:1], worker_config())


@pytest.mark.integration
def test_a_strict_end_keeps_the_unread_reply(tmp_path: Path) -> None:
    from closedloop_plugin.runner.decisions import DecisionRules

    class Mumbler(TextFollower):
        def decide(self, requests: Any) -> list[Decision]:
            return [Decision({"action": "hm"})] * len(requests)

    config = worker_config(rules=DecisionRules(policy="strict"), agent=None, interpreter=READER, interprets=True)
    (record,) = run_into(tmp_path, tasks()[:1], config, Mumbler())
    (only,) = stored(tmp_path)
    assert record.end == "unparsed reply"
    assert only.reading is not None
    assert (only.words["action"], only.reading["reason"], only.requested, only.applied) == (
        "hm", "not two numbers", None, None,
    )  # fmt: skip


@pytest.mark.integration
def test_an_error_leaves_no_part_of_an_episode(tmp_path: Path) -> None:
    """The second route's world ends the run after decisions of its episode have arrived."""
    (tmp_path / "decisions").mkdir()
    bad = FactoryRecipe("support.closedloop.doubles:Faulty", {"how": "user", "route": "102"})
    with pytest.raises(Ad2Error, match="Town99"):
        run_into(tmp_path, tasks()[:2], worker_config(bad), limits=PoolLimits(workers=1))
    assert names(tmp_path) == ["101_rep0.jsonl.gz"]
    with EpisodeStore(tmp_path, IDENTITY, {"routes": [], "repetitions": 1}) as store:
        store.add_decisions("102_rep0", block())
        assert len(names(tmp_path)) == 2
    assert names(tmp_path) == ["101_rep0.jsonl.gz"]
