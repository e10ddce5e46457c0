"""Which attempt counts, which routes get another round, and transcripts of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.threats.threat_requests import attempt, drive, transcript, valid_spec

from closedloop_plugin.scoring.failure_cause import CausedInfraction, CauseSource, FailureCause
from closedloop_plugin.threats.driven.summary import ScenarioMargins
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


def fell(by: str, new: bool | None, source: str = "itself") -> FailureCause:
    return FailureCause(CauseSource(by), CausedInfraction("collisions_vehicle", CauseSource(source), 5.0), new)


def test_a_failure_that_the_standard_route_has_too_is_no_reason_to_stop() -> None:
    """Reflection goes on until an actor of a threat is involved, or the standard drive had no such infraction."""
    as_before = [fell("standard", False, "standard"), fell("itself", False), fell("standard", None, "standard")]
    for cause in as_before:
        kept = after(driven(1, failed=True, robustness=-0.5, cause=cause))
        assert needs_round(kept, 2) and failed_rounds({"101": kept}) == {"101": None}
    for cause in (fell("both", False), fell("threat", True), fell("standard", True, "standard"), fell("itself", True)):
        kept = after(driven(1, failed=True, robustness=-0.5, cause=cause))
        assert not needs_round(kept, 2) and failed_rounds({"101": kept}) == {"101": 1}


def test_of_failures_without_the_threat_the_one_that_came_closest_to_it_counts() -> None:
    """A drive that failed by the standard scenario is compared by its margins to the threat's own actors:
    (0.5 / 4 + 1 / 5) / 2 = 0.1625 is closer than 0.3, and (4 / 4 + 5 / 5) / 2 = 1 is not."""
    by_standard = {"failed": True, "robustness": -0.05, "cause": fell("standard", False, "standard")}
    near = driven(2, **by_standard, scenario_margins=ScenarioMargins(gap_m=1.0, ttc_s=0.5))
    far = driven(2, **by_standard, scenario_margins=ScenarioMargins(gap_m=9.0, ttc_s=6.0))
    survived = driven(1, robustness=0.3)
    assert after(survived, near).last == near
    assert after(survived, far).last == survived


def test_a_transcript_without_causes_counts_every_failure() -> None:
    kept = after(driven(1, failed=True, robustness=-0.5))
    assert failed_rounds({"101": kept}) == {"101": 1} and not needs_round(kept, 2)


def test_a_cause_survives_the_transcripts_file(tmp_path: Path) -> None:
    kept = after(driven(1, failed=True, robustness=-0.5, cause=fell("both", False, "standard")))
    kept.write(tmp_path / "101.json")
    assert ThreatTranscript.read(tmp_path / "101.json") == kept
