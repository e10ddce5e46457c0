"""ControlScheduler: when responses take effect, and invalid ones. Decisions: bench2drive 20 Hz, bench2advlm 10 Hz."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.profiles import PROFILES
from closedloop_plugin.core.state import COAST, Control, Decision, EndReason, InterpretedControl
from closedloop_plugin.runner.decisions import ControlScheduler, DecisionResponse, DecisionRules
from closedloop_plugin.runner.latency import WAITS, LatencyModel, read_latency
from lmms_eval_ad2.errors import Ad2Error, DataError

B2D, ADVLM = PROFILES["bench2drive"], PROFILES["bench2advlm"]
GO, TURN = Control(throttle=0.5), Control(steer=0.5)


def driven(control: Control, latency_s: float = 0.0) -> DecisionResponse:
    return DecisionResponse(Decision(control=control, latency_s=latency_s))


def said(control: Control | None, reason: str | None = None) -> DecisionResponse:
    return DecisionResponse(Decision({"action": "x"}), InterpretedControl(control, "x", reason, "cng"))


def asked_and_applied(
    scheduler: ControlScheduler, ticks: int, answers: list[DecisionResponse]
) -> tuple[list[int], list[Control]]:
    asked, applied = [], []
    for tick in range(ticks):
        if scheduler.due(tick):
            asked.append(tick)
            scheduler.take(answers[min(len(asked), len(answers)) - 1], tick)
        applied.append(scheduler.control(tick, 3.0))
    return asked, applied


def test_a_waiting_world_applies_an_answer_in_its_own_tick_and_holds_it() -> None:
    scheduler = ControlScheduler(ADVLM, DecisionRules(), 0)
    asked, applied = asked_and_applied(scheduler, 5, [driven(GO), driven(TURN), driven(COAST)])
    assert asked == [0, 2, 4]  # 20 Hz ticks, 10 Hz decisions
    assert applied == [GO, GO, TURN, TURN, COAST]


def test_a_latency_of_125_ms_holds_the_last_control_for_three_ticks() -> None:
    """0.125 s at 20 Hz = 2.5 ticks -> 3. Every-tick decisions: asked at 0, applied and asked again at 3."""
    scheduler = ControlScheduler(B2D, DecisionRules(latency=read_latency("0.125")), 0)
    asked, applied = asked_and_applied(scheduler, 7, [driven(GO), driven(TURN)])
    assert asked == [0, 3, 6]
    assert applied == [COAST, COAST, COAST, GO, GO, GO, TURN]


def test_with_latency_the_next_question_waits_for_a_decision_tick() -> None:
    """10 Hz decisions (even ticks), latency 0.15 s = 3 ticks: the answer counts from 3, the next question is at 4."""
    scheduler = ControlScheduler(ADVLM, DecisionRules(latency=read_latency("0.15")), 0)
    asked, applied = asked_and_applied(scheduler, 9, [driven(GO), driven(TURN)])
    assert asked == [0, 4, 8]
    assert applied == [COAST, COAST, COAST, GO, GO, GO, GO, TURN, TURN]


def test_measured_latency_is_what_both_systems_took() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(latency=read_latency("measured")), 0)
    answer = DecisionResponse(Decision({"action": "x"}, latency_s=0.06), InterpretedControl(GO, latency_s=0.05))
    scheduler.take(answer, 0)  # 0.11 s -> 3 ticks
    assert [scheduler.control(t, 1.0) for t in range(4)] == [COAST, COAST, COAST, GO]
    assert not scheduler.due(2)
    assert scheduler.due(3)
    assert "not reproducible" in scheduler.rules.latency.label


def test_a_latency_file_is_cycled_from_a_place_that_the_seed_gives(tmp_path: Path) -> None:
    file = tmp_path / "lat.txt"
    file.write_text("0.1\n0.2 # slow\n\n0.3\n")
    latency = read_latency(str(file))
    assert [latency.of(n, 4, 9.0) for n in range(4)] == [0.2, 0.3, 0.1, 0.2]


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "no-such-file"])
def test_a_wrong_latency_is_one_line(text: str) -> None:
    with pytest.raises(Ad2Error, match=f"--latency {text}"):
        read_latency(text)


def test_a_wrong_latency_file_names_its_row(tmp_path: Path) -> None:
    file = tmp_path / "lat.txt"
    file.write_text("0.1\nfast\n")
    with pytest.raises(DataError, match=r"row 2.*'fast'"):
        read_latency(str(file))
    file.write_text("# nothing\n")
    with pytest.raises(DataError, match="at least one line"):
        read_latency(str(file))


@given(st.floats(0, 5), st.sampled_from([20.0, 10.0, 7.0, 2.0]))
def test_one_question_at_a_time_on_decision_ticks_and_never_early(delay: float, hz: float) -> None:
    scheduler = ControlScheduler(replace(B2D, decision_hz=hz), DecisionRules(latency=LatencyModel("", (delay,))), 0)
    asked, applied = asked_and_applied(scheduler, 250, [driven(GO)])
    assert all(b - a >= max(1, delay * 20 - 1e-6) for a, b in itertools.pairwise(asked))
    assert all(math.ceil(round(t * hz / 20) * 20 / hz - 1e-9) == t for t in asked)
    first = next((t for t, c in enumerate(applied) if c == GO), None)
    assert first is None or (first - 1) / 20 < delay <= first / 20 + 1e-9 or (first == 0 and delay < 1e-6)


def test_a_slower_rate_can_be_asked_for_and_a_faster_one_than_the_simulation_cannot() -> None:
    assert asked_and_applied(ControlScheduler(B2D, DecisionRules(decision_hz=2), 0), 21, [driven(GO)])[0] == [0, 10, 20]
    assert asked_and_applied(ControlScheduler(B2D, DecisionRules(decision_hz=100), 0), 3, [driven(GO)])[0] == [0, 1, 2]


def test_only_a_read_control_is_post_processed() -> None:
    """bench2advlm: throttle at most 0.75; the expert's own full throttle stays."""
    full = Control(throttle=1.0)
    for answer, expected in ((driven(full), 1.0), (said(full), 0.75)):
        scheduler = ControlScheduler(ADVLM, DecisionRules(), 0)
        scheduler.take(answer, 0)
        assert scheduler.control(0, 1.0).throttle == expected


def test_a_driven_control_is_clamped() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(driven(Control(-3.0, 2.0, -1.0)), 0)
    assert scheduler.control(0, 1.0) == Control(-1.0, 1.0, 0.0)


def test_an_unread_reply_coasts_and_counts_under_official() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(said(GO), 0)
    assert scheduler.control(0, 1.0) == GO
    scheduler.take(said(None, "no JSON object"), 1)
    assert scheduler.control(1, 1.0) == COAST
    assert scheduler.end is None
    assert scheduler.counts["unparsed"] == scheduler.counts["unparsed: no JSON object"] == 1
    assert scheduler.counts["mode cng"] == scheduler.counts["decisions"] == 2


def test_an_unread_reply_ends_the_episode_under_strict() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(policy="strict"), 0)
    scheduler.take(said(None, "no JSON object"), 0)
    assert (scheduler.end, scheduler.reason) == (EndReason.UNPARSED, "no JSON object")
    assert not scheduler.due(1)


def test_reasons_of_a_chatty_model_do_not_swell_the_record() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    for i in range(100):
        scheduler.take(said(None, f"strange {i}\nand more"), i)
    assert scheduler.counts["unparsed"] == 100
    assert len(scheduler.counts) < 30
    assert scheduler.counts["unparsed: other"] == 80


def test_nan_is_refused_and_counted() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(driven(Control(steer=math.nan)), 0)
    scheduler.take(said(Control(throttle=math.inf)), 1)
    assert scheduler.control(1, 1.0) == COAST
    assert (scheduler.counts["not_finite"], scheduler.counts["agent_errors"], scheduler.counts["unparsed"]) == (2, 1, 1)


def test_failures_in_a_row_end_the_episode_and_a_good_answer_forgives() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(patience=3), 0)
    failed = DecisionResponse(Decision(error="timeout"))
    for tick, answer in enumerate([failed, failed, driven(GO), failed, failed]):
        scheduler.take(answer, tick)
    assert scheduler.end is None
    scheduler.take(failed, 5)
    assert scheduler.end == EndReason.AGENT_FAILED
    assert "3 failures in a row" in scheduler.reason
    assert scheduler.counts["agent_errors"] == 5


def test_words_without_an_interpreter_are_a_failure_not_a_guess() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(patience=1), 0)
    scheduler.take(DecisionResponse(Decision({"action": "brake"})), 0)
    assert scheduler.end == EndReason.AGENT_FAILED
    assert WAITS.label == "waits"
