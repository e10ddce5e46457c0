"""Which attempt counts, which routes get another round, and transcripts of earlier versions."""

from __future__ import annotations

from typing import Any

from support.threats.threat_requests import attempt, drive, transcript, valid_spec

from closedloop_plugin.threats.rounds import failed_rounds, is_unsound, needs_round
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.transcript import InterviewRecord, ScenarioVerdict, ThreatAttempt, ThreatTranscript

SPEC = ThreatSpec.model_validate(valid_spec())
PASSED = ScenarioVerdict(passed=True, compiles=True, runs=True, acts=True, survivable=True, tries=3, survived=1)
UNSOUND = ScenarioVerdict(passed=False, compiles=True, reason="nothing acts")


def driven(round: int, **outcome: Any) -> ThreatAttempt:
    return attempt(SPEC, PASSED, round=round, outcome=drive(**outcome))


def after(*attempts: ThreatAttempt) -> ThreatTranscript:
    return transcript(attempts=list(attempts))


def test_the_round_in_which_the_target_failed_counts() -> None:
    kept = after(driven(1), driven(2, failed=True, robustness=-0.5))
    assert kept.last is kept.attempts[1] and failed_rounds({"101": kept}) == {"101": 2}
    assert not needs_round(kept, 3) and needs_round(after(driven(1)), 2)


def test_without_a_failure_the_closest_round_counts() -> None:
    kept = after(driven(1, robustness=0.7), driven(2, robustness=0.2), attempt(SPEC, UNSOUND, round=3))
    assert kept.last is kept.attempts[1] and failed_rounds({"101": kept}) == {"101": None}
    assert is_unsound(kept.of_round(3)) and needs_round(kept, 3)


def test_a_route_without_a_sound_scenario_gets_no_later_round() -> None:
    kept = after(attempt(SPEC, UNSOUND))
    assert kept.last is kept.attempts[0] and not needs_round(kept, 2) and failed_rounds({"101": kept}) == {}


def test_transcripts_of_an_interview_at_standstill_are_read_as_one_moment() -> None:
    answers = [{"stage": "perception", "question": "?", "text": "a road"}]
    stored = {"agent": {}, "source": "said", "frames": ["frames/1_0.jpg"], "time_s": [1.0], "answers": answers}
    read = InterviewRecord.model_validate(stored)
    assert [m.frames for m in read.moments] == [["frames/1_0.jpg"]] and read.answers[0].text == "a road"
    assert read.drive is None and read.moments[0].speed == 0.0
    assert InterviewRecord.model_validate(read.model_dump()) == read
