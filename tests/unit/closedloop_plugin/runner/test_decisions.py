"""ControlScheduler: when responses take effect, and invalid ones. bench2drive: 20 Hz, bench2advlm: 10 Hz."""

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
from closedloop_plugin.runner.decisions import (
    WAITS,
    ControlScheduler,
    DecisionResponse,
    DecisionRules,
    LatencyModel,
    most_decisions,
    read_latency,
)
from lmms_eval_ad2.core.errors import Ad2Error, DataError

B2D, ADVLM = PROFILES["bench2drive"], PROFILES["bench2advlm"]
AT_20_HZ = replace(ADVLM, hz=20.0)  # a decision every second tick
GO, TURN = Control(throttle=0.5), Control(steer=0.5)


def control_response(control: Control, latency_s: float = 0.0) -> DecisionResponse:
    return DecisionResponse(Decision(control=control, latency_s=latency_s))


def reply_response(control: Control | None, reason: str | None = None) -> DecisionResponse:
    return DecisionResponse(Decision({"action": "x"}), InterpretedControl(control, "x", reason, "cng"))


def run_scheduler(
    scheduler: ControlScheduler, ticks: int, responses: list[DecisionResponse]
) -> tuple[list[int], list[Control]]:
    requested, applied = [], []
    for tick in range(ticks):
        if scheduler.due(tick):
            requested.append(tick)
            scheduler.take(responses[min(len(requested), len(responses)) - 1], tick)
        applied.append(scheduler.control(tick, 3.0))
    return requested, applied


def test_without_latency_a_decision_applies_in_its_own_tick_and_is_held() -> None:
    scheduler = ControlScheduler(AT_20_HZ, DecisionRules(), 0)
    requested, applied = run_scheduler(
        scheduler, 5, [control_response(GO), control_response(TURN), control_response(COAST)]
    )
    assert requested == [0, 2, 4]  # 20 Hz ticks, 10 Hz decisions
    assert applied == [GO, GO, TURN, TURN, COAST]


def test_a_latency_of_125_ms_holds_the_last_control_for_three_ticks() -> None:
    """0.125 s at 20 Hz = 2.5 ticks -> 3. Decisions in every tick: requested at 0, applied and requested again at 3."""
    scheduler = ControlScheduler(B2D, DecisionRules(latency=read_latency("0.125")), 0)
    requested, applied = run_scheduler(scheduler, 7, [control_response(GO), control_response(TURN)])
    assert requested == [0, 3, 6]
    assert applied == [COAST, COAST, COAST, GO, GO, GO, TURN]


def test_with_latency_the_next_request_waits_for_a_decision_tick() -> None:
    """10 Hz decisions (even ticks), latency 0.15 s = 3 ticks: the decision applies from 3, the next request is at 4."""
    scheduler = ControlScheduler(AT_20_HZ, DecisionRules(latency=read_latency("0.15")), 0)
    requested, applied = run_scheduler(scheduler, 9, [control_response(GO), control_response(TURN)])
    assert requested == [0, 4, 8]
    assert applied == [COAST, COAST, COAST, GO, GO, GO, GO, TURN, TURN]


def test_measured_latency_is_the_sum_of_both_systems() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(latency=read_latency("measured")), 0)
    response = DecisionResponse(Decision({"action": "x"}, latency_s=0.06), InterpretedControl(GO, latency_s=0.05))
    scheduler.take(response, 0)  # 0.11 s -> 3 ticks
    assert [scheduler.control(t, 1.0) for t in range(4)] == [COAST, COAST, COAST, GO]
    assert not scheduler.due(2)
    assert scheduler.due(3)
    assert "not reproducible" in scheduler.rules.latency.label


def test_a_latency_file_is_cycled_from_an_offset_given_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "lat.txt"
    file.write_text("0.1\n0.2 # slow\n\n0.3\n")
    latency = read_latency(str(file))
    assert [latency.of(n, 4, 9.0) for n in range(4)] == [0.2, 0.3, 0.1, 0.2]


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "no-such-file"])
def test_an_invalid_latency_is_refused(text: str) -> None:
    with pytest.raises(Ad2Error, match=f"--config latency={text}"):
        read_latency(text)


def test_an_invalid_latency_file_is_refused_with_its_row(tmp_path: Path) -> None:
    file = tmp_path / "lat.txt"
    file.write_text("0.1\nfast\n")
    with pytest.raises(DataError, match=r"row 2.*'fast'"):
        read_latency(str(file))
    file.write_text("# nothing\n")
    with pytest.raises(DataError, match="at least one line"):
        read_latency(str(file))


@given(st.floats(0, 5), st.sampled_from([20.0, 10.0, 7.0, 2.0]))
def test_requests_do_not_overlap_and_decisions_never_apply_early(delay: float, hz: float) -> None:
    scheduler = ControlScheduler(replace(B2D, decision_hz=hz), DecisionRules(latency=LatencyModel("", (delay,))), 0)
    requested, applied = run_scheduler(scheduler, 250, [control_response(GO)])
    assert all(b - a >= max(1, delay * 20 - 1e-6) for a, b in itertools.pairwise(requested))
    assert all(math.ceil(round(t * hz / 20) * 20 / hz - 1e-9) == t for t in requested)
    first = next((t for t, c in enumerate(applied) if c == GO), None)
    assert first is None or (first - 1) / 20 < delay <= first / 20 + 1e-9 or (first == 0 and delay < 1e-6)


def test_the_decision_rate_can_be_lower_but_not_higher_than_the_tick_rate() -> None:
    assert run_scheduler(ControlScheduler(B2D, DecisionRules(decision_hz=2), 0), 21, [control_response(GO)])[0] == [
        0,
        10,
        20,
    ]
    assert run_scheduler(ControlScheduler(B2D, DecisionRules(decision_hz=100), 0), 3, [control_response(GO)])[0] == [
        0,
        1,
        2,
    ]


def test_only_an_interpreted_control_is_post_processed() -> None:
    """bench2advlm: throttle at most 0.75; the expert's full throttle stays."""
    full = Control(throttle=1.0)
    for response, expected in ((control_response(full), 1.0), (reply_response(full), 0.75)):
        scheduler = ControlScheduler(ADVLM, DecisionRules(), 0)
        scheduler.take(response, 0)
        assert scheduler.control(0, 1.0).throttle == expected


def test_the_control_of_an_agent_is_clamped() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(control_response(Control(-3.0, 2.0, -1.0)), 0)
    assert scheduler.control(0, 1.0) == Control(-1.0, 1.0, 0.0)


def test_an_unparsed_reply_coasts_and_is_counted_under_official() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(reply_response(GO), 0)
    assert scheduler.control(0, 1.0) == GO
    scheduler.take(reply_response(None, "no JSON object"), 1)
    assert scheduler.control(1, 1.0) == COAST
    assert scheduler.end is None
    assert scheduler.counts["unparsed"] == scheduler.counts["unparsed: no JSON object"] == 1
    assert scheduler.counts["mode cng"] == scheduler.counts["decisions"] == 2


def test_an_unparsed_reply_ends_the_episode_under_strict() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(policy="strict"), 0)
    scheduler.take(reply_response(None, "no JSON object"), 0)
    assert (scheduler.end, scheduler.reason) == (EndReason.UNPARSED, "no JSON object")
    assert not scheduler.due(1)


def test_the_number_of_counted_unparsed_reasons_is_limited() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    for i in range(100):
        scheduler.take(reply_response(None, f"strange {i}\nand more"), i)
    assert scheduler.counts["unparsed"] == 100
    assert len(scheduler.counts) < 30
    assert scheduler.counts["unparsed: other"] == 80


def test_adapted_numbers_are_counted() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    for tick in range(2):
        read = InterpretedControl(GO, "{}", None, "dcs", adapted=("snapped", "snapped"))
        scheduler.take(DecisionResponse(Decision({"action": "go"}), read), tick)
    assert scheduler.counts["snapped"] == 4 and scheduler.counts["unparsed"] == 0


def test_non_finite_controls_are_refused_and_counted() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(), 0)
    scheduler.take(control_response(Control(steer=math.nan)), 0)
    scheduler.take(reply_response(Control(throttle=math.inf)), 1)
    assert scheduler.control(1, 1.0) == COAST
    assert (scheduler.counts["not_finite"], scheduler.counts["agent_errors"], scheduler.counts["unparsed"]) == (2, 1, 1)


def test_failures_in_a_row_end_the_episode_and_a_good_decision_resets_them() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(patience=3), 0)
    failed = DecisionResponse(Decision(error="timeout"))
    for tick, response in enumerate([failed, failed, control_response(GO), failed, failed]):
        scheduler.take(response, tick)
    assert scheduler.end is None
    scheduler.take(failed, 5)
    assert scheduler.end == EndReason.AGENT_FAILED
    assert "3 failures in a row" in scheduler.reason
    assert scheduler.counts["agent_errors"] == 5


def test_a_text_reply_without_an_interpreter_is_an_agent_failure() -> None:
    scheduler = ControlScheduler(B2D, DecisionRules(patience=1), 0)
    scheduler.take(DecisionResponse(Decision({"action": "brake"})), 0)
    assert scheduler.end == EndReason.AGENT_FAILED
    assert WAITS.label == "waits"


def test_the_times_of_each_decision_in_words_are_kept() -> None:
    """20 Hz, 0.1 s: requested at tick 0, applied in the steps from ticks 2 and 3, until that of the next at tick 4."""
    scheduler = ControlScheduler(AT_20_HZ, DecisionRules(latency=read_latency("0.1")), 0)
    begun = []
    for tick in range(5):
        if scheduler.due(tick):
            scheduler.take(reply_response(GO if tick < 2 else TURN), tick)
        before = scheduler.current
        scheduler.control(tick, 3.0)
        if scheduler.current is not before:
            begun.append((tick, scheduler.current.control if scheduler.current else None))
    assert begun == [(2, GO), (4, TURN)]
    assert scheduler.finish() == [[0.0, 0.1, 0.1, 0.2], [0.1, 0.2, 0.2, 0.25], [0.2, 0.3, None, None]]


def test_controls_of_an_agent_have_no_times() -> None:
    scheduler = ControlScheduler(AT_20_HZ, DecisionRules(), 0)
    run_scheduler(scheduler, 6, [control_response(GO)])
    assert scheduler.finish() == []


@pytest.mark.parametrize("hz", [None, 10, 7, 3, 1, 0.3, 0.25, 1e-300])
@pytest.mark.parametrize("latency", [None, "0.05", "0.4", "3"])
def test_most_decisions_are_those_that_become_due(hz: float | None, latency: str | None) -> None:
    rules = DecisionRules(decision_hz=hz, latency=read_latency(latency))
    scheduler, response = ControlScheduler(PROFILES["bench2advlm"], rules, 0), DecisionResponse(Decision(control=COAST))
    for tick in range(200):
        if scheduler.due(tick):
            scheduler.take(response, tick)
    assert most_decisions(PROFILES["bench2advlm"], rules, 200) == scheduler.counts["decisions"]
