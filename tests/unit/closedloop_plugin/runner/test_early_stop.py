"""Runs that measure nothing end early; replies that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.doubles import RemoteReader, TextFollower
from support.closedloop.models import decision_request
from support.closedloop.runs import run_into, tasks, worker_config

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Control, Decision, EndReason, EpisodeFault, InterpretedControl
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.decisions import TEXT, DecisionResponse, DecisionRules, UnreadReply, unread_reply
from closedloop_plugin.runner.early_stop import KEPT, EarlyStop, RunEndedEarly, UnreadReplies
from closedloop_plugin.runner.episode_record import EpisodeResult, blank_record
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.store import EpisodeStore, read_records
from closedloop_plugin.runner.task import EvaluationConditions
from lmms_eval_ad2.core.errors import Ad2Error

WORDS = Decision({"action": "turtles"})


def reply(text: str = "turtles", time_s: float = 0.0, **other: object) -> UnreadReply:
    known = {"reason": "no_command", "mode": "rules", "texts": {"action": text}}
    return UnreadReply(**{"episode": "101_rep0", "time_s": time_s, "reply": text, **known, **other})  # type: ignore[arg-type]


def filled(*texts: str) -> UnreadReplies:
    replies = UnreadReplies()
    for i, text in enumerate(texts):
        replies.add(reply(text, time_s=i / 10))
    return replies


@pytest.mark.parametrize(
    ("response", "replied", "unread"),
    [
        (DecisionResponse(Decision(control=Control())), False, None),
        (DecisionResponse(Decision(error="timeout")), False, None),
        (DecisionResponse(WORDS), False, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "500", "no_reply HTTP 500", "cng")), False, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "", "no_description", "cng")), False, None),
        (DecisionResponse(WORDS, InterpretedControl(Control(), "{}", mode="cng")), True, None),
        (DecisionResponse(WORDS, InterpretedControl(None, "{}", "no_keys", "cng")), True, "no_keys"),
        (DecisionResponse(WORDS, InterpretedControl(None, "{}", None, "cng")), True, "no reason given"),
        (
            DecisionResponse(WORDS, InterpretedControl(Control(float("nan")), "nan", mode="cng")),
            True,
            "control is not finite",
        ),
    ],
)
def test_a_failure_is_neither_read_nor_unread(response: DecisionResponse, replied: bool, unread: str | None) -> None:
    assert (response.replied, response.unread) == (replied, unread)
    found = unread_reply(decision_request(), response)
    assert (found and found.reason) == unread


def test_a_sample_has_the_slow_systems_text_or_else_the_fast_systems() -> None:
    slow = unread_reply(decision_request(), DecisionResponse(WORDS, InterpretedControl(None, "{}", "no_keys", "cng")))
    fast = unread_reply(decision_request(), DecisionResponse(WORDS, InterpretedControl(None, "", "failed", "cng")))
    assert slow and fast and (slow.reply, fast.reply) == ("{}", "turtles")
    assert slow.texts == {"action": "turtles"}


def test_long_texts_are_cut_before_they_are_sent() -> None:
    text = "x" * 10 * TEXT
    response = DecisionResponse(Decision({"action": text}), InterpretedControl(None, text, text, "rules"))
    found = unread_reply(decision_request(), response)
    assert found and {len(found.reply), len(found.reason), len(found.texts["action"])} == {TEXT}
    assert len(str(found)) < 300


def test_a_read_reply_starts_the_count_again() -> None:
    replies = filled("a", "b")
    assert replies.count == 2
    replies.add(None)
    assert replies.count == 0 and replies.samples() == []


def test_samples_are_different_texts_if_there_are_enough() -> None:
    assert [s.reply for s in filled("a", "a", "b", "a", "c").samples()] == ["a", "b", "c"]
    assert [s.reply for s in filled("a", "a", "b", "a").samples()] == ["a", "a", "b"]
    assert [s.time_s for s in filled("a", "a", "a", "a").samples()] == [0.0, 0.1, 0.2]
    assert [s.reply for s in filled("a").samples()] == ["a"]


def test_a_sample_is_one_line_without_control_characters() -> None:
    shown = str(reply("red\x1b[31m\nnext\u2028\u202eline " + "é" * 100, time_s=1.25))
    assert shown.splitlines() == [shown] and shown.isprintable()
    assert shown.startswith(r"101_rep0 at 1.2 s 'red\x1b[31m next")
    assert shown.endswith("ééé...' (no_command)")


def test_the_file_has_the_whole_texts_of_the_first_replies(tmp_path: Path) -> None:
    replies = filled("turtles\n\ud800", *("b" for _ in range(2 * KEPT)))
    assert replies.count == 2 * KEPT + 1
    assert replies.write(tmp_path / "logs/unread.jsonl") == KEPT
    rows = [json.loads(line) for line in (tmp_path / "logs/unread.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == KEPT and rows[0]["reply"].startswith("turtles\n")
    assert set(rows[0]) == {"episode", "time_s", "reason", "mode", "reply", "texts"}


@pytest.mark.parametrize(
    ("unread", "policy", "command"),
    [
        (reply(), "strict", "ad2 drive read"),
        (reply(texts={"trajectory": "turtles"}), "official", "ad2 drive read --task trajectory"),
        (reply(mode="cng"), "official", "ad2 drive read --interpreter cng"),
        (reply(mode="dcs"), "strict", "ad2 drive read --interpreter dcs --config policy=strict"),
    ],
)
def test_the_command_reads_as_the_run_does(unread: UnreadReply, policy: str, command: str) -> None:
    assert unread.command("bench2advlm", policy) == f"{command} --profile bench2advlm TEXT"


READER = FactoryRecipe("support.closedloop.doubles:Reader")
UNREAD = UnreadReply("101_rep0", 0.5, "no_command", "cng", "turtles", {"action": "turtles"})


class Mumbler(TextFollower):
    """Drives well, except that the replies of these numbers, counted over all episodes, are not two numbers."""

    def __init__(self, mumbled: range) -> None:
        super().__init__()
        self.mumbled, self.replies = mumbled, 0

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        decisions = super().decide(requests)
        for i in range(len(decisions)):
            if self.replies in self.mumbled:
                decisions[i] = Decision({"action": f"turtles {self.replies}"})
            self.replies += 1
        return decisions


ALWAYS = range(10**9)


def drive(
    folder: Path, agent: Mumbler, *, far: bool = False, policy: str = "official", **more: object
) -> list[EpisodeRecord]:
    """Six episodes of 60 decisions; `far`: the interpreter is in this process too."""
    config = worker_config(
        rules=DecisionRules(policy=policy), agent=None, interpreter=None if far else READER, interprets=True
    )
    return run_into(folder, tasks(max_ticks=60), config, agent, interpreter=RemoteReader() if far else None, **more)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EpisodeStore]:
    with EpisodeStore(tmp_path / "run", {"seed": 0}, {"routes": [], "repetitions": 1}) as opened:
        yield opened


def early_stop(store: EpisodeStore, after: int) -> EarlyStop:
    return EarlyStop(store, store.save, EvaluationConditions(profile("bench2advlm")), after)


def test_the_twentieth_reply_in_a_row_stops(store: EpisodeStore) -> None:
    stop = early_stop(store, after=20)
    for unread in [UNREAD] * 19 + [None] + [UNREAD] * 19:
        stop.reply(unread)
    assert not (store.folder / "logs").exists()
    with pytest.raises(Ad2Error) as found:
        stop.reply(UNREAD)
    text = str(found.value)
    assert text.startswith("20 replies in a row cannot be read: 101_rep0 at 0.5 s 'turtles' (no_command); ")
    assert text.count("'turtles' (no_command)") == 3
    assert f"20 of them are in {store.folder / 'logs/unread.jsonl'}; `ad2 drive read --interpreter cng" in text
    assert "0 episodes are safe" in text and "--config stop_after_unread=0" in text
    assert len(text.splitlines()) == 1
    assert json.loads((store.folder / "logs/unread.jsonl").read_text().splitlines()[19])["reply"] == "turtles"


def test_one_reply_is_counted_in_the_singular(store: EpisodeStore) -> None:
    with pytest.raises(Ad2Error, match=r"^1 reply cannot be read: .*\. It is in .*unread\.jsonl; "):
        early_stop(store, after=1).reply(UNREAD)


def test_the_error_counts_results_that_are_kept_after_it(store: EpisodeStore) -> None:
    stop = early_stop(store, after=1)
    with pytest.raises(RunEndedEarly, match="0 episodes are safe") as found:
        stop.reply(UNREAD)
    record = blank_record(
        task=tasks()[0], conditions=stop.conditions, end=EndReason.COMPLETED, reason="", backend="fake", version="1"
    )
    stop.add(EpisodeResult(record))  # of another world
    assert " 1 episode is safe, those in progress were not saved. When" in str(found.value)


def failed(store: EpisodeStore, route: int, reason: str, fault: EpisodeFault = EpisodeFault.WORLD) -> EpisodeResult:
    end = EndReason.WORLD_FAILED
    record = blank_record(tasks()[route], EvaluationConditions(profile("bench2advlm")), end, reason, "fake", "1", fault)
    return EpisodeResult(record)


def test_three_first_episodes_that_fail_for_one_cause_stop_the_run(store: EpisodeStore) -> None:
    stop = early_stop(store, after=20)
    stop.add(failed(store, 0, "route 101: no memory"))
    stop.add(failed(store, 1, "route 102: no memory"))
    with pytest.raises(RunEndedEarly) as found:
        stop.add(failed(store, 2, "route 103: no memory"))
    assert str(found.value) == (
        "the first 3 episodes failed for one cause, a fault of the world: route 103: no memory. Fix that and run the "
        "same command again: 0 episodes are safe, the failed ones were not saved"
    )
    assert found.value.exit_code == 3


def test_failures_of_several_causes_or_after_a_drive_are_kept(store: EpisodeStore) -> None:
    stop = early_stop(store, after=20)
    for route, reason in enumerate(("no memory", "lost", "no memory", "no memory", "no memory", "no memory")):
        stop.add(failed(store, route, reason))
    stop.finish()
    assert [record.reason for record in store.records] == ["no memory", "lost", *["no memory"] * 4]


def test_failures_are_kept_once_an_episode_was_driven(store: EpisodeStore) -> None:
    stop = early_stop(store, after=20)
    stop.add(failed(store, 0, "lost"))
    driven = failed(store, 1, "").record
    stop.add(EpisodeResult(replace(driven, end=EndReason.COMPLETED, fault="")))
    for route in (2, 3, 4, 5):
        stop.add(failed(store, route, "lost"))
    stop.finish()
    assert [record.route_id for record in store.records] == ["101", "102", "103", "104", "105", "106"]


def test_zero_never_stops(store: EpisodeStore) -> None:
    stop = early_stop(store, after=0)
    for _ in range(1000):
        stop.reply(UNREAD)
    stop.finish()
    assert not (store.folder / "logs").exists()


@pytest.mark.integration
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_is_never_read_ends_the_run_of_all_worlds(tmp_path: Path, far: bool, workers: int) -> None:
    agent = Mumbler(ALWAYS)
    with pytest.raises(Ad2Error, match=r"^20 replies in a row cannot be read: 10[12]_rep0 .*'turtles \d+' \(not two"):
        drive(tmp_path, agent, far=far, limits=PoolLimits(workers=workers))
    assert 20 <= agent.replies <= 20 + workers and agent.open == set()
    assert read_records(tmp_path) == []
    records = drive(tmp_path, Mumbler(range(0)), far=far)  # the same run, with a model that answers
    assert len(records) == 6 and not any(r.counts.get("unparsed") for r in records)


@pytest.mark.integration
def test_episodes_driven_before_are_kept_and_the_count_starts_again_with_the_run(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="2 episodes are safe"):
        drive(tmp_path, Mumbler(range(130, 10**9)))
    assert [r.route_id for r in read_records(tmp_path)] == ["101", "102"]
    official = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert len(official["_checkpoint"]["records"]) == 2
    records = drive(tmp_path, Mumbler(range(19)))
    assert [r.counts.get("unparsed", 0) for r in records] == [0, 0, 19, 0, 0, 0]


@pytest.mark.integration
def test_the_count_goes_on_over_episodes_that_unread_replies_end(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match=r"^5 replies in a row .*4 episodes are safe"):
        drive(tmp_path, Mumbler(ALWAYS), policy="strict", stop_after_unread=5)
    assert [r.end for r in read_records(tmp_path)] == ["unparsed reply"] * 4


@pytest.mark.integration
def test_a_run_that_must_not_stop_counts_all_replies(tmp_path: Path) -> None:
    records = drive(tmp_path, Mumbler(ALWAYS), stop_after_unread=0)
    assert [r.counts["unparsed"] for r in records] == [r.counts["decisions"] for r in records]
    assert len(records) == 6 and records[0].counts["unparsed"] > 20
    assert not (tmp_path / "logs/unread.jsonl").exists()
