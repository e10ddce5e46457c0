"""Seconds and tokens of a run's decisions; what is unknown is not 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.closedloop.models import observation
from support.closedloop.runs import tasks, worker_config

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import Control, Decision, EndReason, InterpretedControl, ModelUsage
from closedloop_plugin.runner.decision_costs import DecisionCosts, decision_costs
from closedloop_plugin.runner.decision_files import DecisionFiles, DecisionLog
from closedloop_plugin.runner.decisions import DecisionResponse, TimedDecision
from closedloop_plugin.runner.episode_record import blank_record

MODEL, EXPERT, OWN = {"kind": "model"}, {"privileged": True}, {"name": "own"}


def record(route: int = 0, agent: dict[str, Any] = MODEL, decisions: int = 0) -> EpisodeRecord:
    blank = blank_record(tasks()[route], worker_config().conditions, EndReason.COMPLETED, "", "fake", "1")
    return replace(blank, agent=agent, counts={"decisions": decisions})


def spoken(seconds: float, tokens: tuple[int | None, int | None]) -> DecisionResponse:
    usage = ModelUsage("a" if seconds else None, *tokens)
    return DecisionResponse(Decision({"action": "go"}, latency_s=seconds, usage=usage), InterpretedControl(Control()))


def keep(run: Path, responses: Sequence[DecisionResponse], key: str = "101_rep0") -> None:
    files = DecisionFiles(run)
    log = DecisionLog(10.0, lambda block: files.add(key, block))
    for tick, response in enumerate(responses):
        log(TimedDecision(response, Control(), True, requested=tick, arrived=tick, observation=observation()))
    log.flush()
    files.keep(key)


def test_quantiles_are_of_all_decisions_and_tokens_are_added(tmp_path: Path) -> None:
    """Seconds 0.1 to 1.0: median 0.55, 95th percentile 0.955 (linear between 0.9 and 1.0)."""
    keep(tmp_path, [spoken(0.1 * n, (800, 12)) for n in range(1, 6)])
    keep(tmp_path, [spoken(0.1 * n, (900, 8)) for n in range(6, 11)], "102_rep0")
    found = decision_costs(tmp_path, [record(0), record(1)])
    assert found is not None
    assert (found.decisions, found.timed, found.counted) == (10, 10, 10)
    assert (round(found.median_s or 0, 6), round(found.p95_s or 0, 6)) == (0.55, 0.955)
    assert (found.tokens_in, found.tokens_out) == (8500, 100)
    assert str(found) == (
        "seconds per decision: median 0.55, 95th percentile 0.955; tokens per decision: 850 in, 10 out; in all: 8,500 "
        "in, 100 out"
    )


def test_a_part_without_counts_is_named(tmp_path: Path) -> None:
    failed = DecisionResponse(Decision(error="timeout", latency_s=2.0, usage=ModelUsage("a")))
    keep(tmp_path, [spoken(0.5, (800, 12)), failed, spoken(0.5, (800, None))])
    found = decision_costs(tmp_path, [record()])
    assert found is not None
    assert (found.decisions, found.timed, found.counted, found.tokens_in) == (3, 3, 1, 800)
    assert found.all_text == "800 in, 12 out (of 1 of 3 decisions, the others not reported)"


def test_decisions_that_are_not_kept_are_named_as_a_part(tmp_path: Path) -> None:
    """Of an episode of an earlier version, and of a file with fewer rows than its episode has decisions."""
    keep(tmp_path, [spoken(0.5, (800, 12))] * 3)
    found = decision_costs(tmp_path, [record(0, decisions=4), record(1, decisions=6)])
    assert found is not None
    assert (found.decisions, found.timed, found.counted, found.tokens_in) == (10, 3, 3, 2400)
    assert "(of 3 of 10 decisions, the others not reported)" in found.all_text


def test_what_no_backend_reports_is_not_reported(tmp_path: Path) -> None:
    keep(tmp_path, [spoken(0.0, (None, None))] * 2)
    found = decision_costs(tmp_path, [record(agent=OWN)])
    assert str(found) == "seconds per decision: not reported; tokens: not reported"
    assert found == DecisionCosts(2)


def test_drivers_without_a_model_have_no_costs(tmp_path: Path) -> None:
    keep(tmp_path, [DecisionResponse(Decision(control=Control()))])
    assert decision_costs(tmp_path, [record(agent=OWN)]) is None
    keep(tmp_path, [spoken(0.0, (None, None))])
    assert decision_costs(tmp_path, [record(agent=EXPERT)]) is None  # the speaking expert


def test_a_models_run_of_an_earlier_version_is_not_reported(tmp_path: Path) -> None:
    assert decision_costs(tmp_path, [record(decisions=7), record(1, decisions=2)]) == DecisionCosts(9)
    assert decision_costs(tmp_path, [record(agent=EXPERT, decisions=7)]) is None
