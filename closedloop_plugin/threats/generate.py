"""Generate threat scenarios for the routes of a suite: the target's drive, its interview, and rounds of scenarios.

Every result is stored at once (folder.py), so that the same command resumes after a kill without repeating requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from closedloop_plugin.scenarios.suites.programs import index_of
from closedloop_plugin.scoring.failure_cause import FailureCause
from closedloop_plugin.threats.base import Fuser, Interviewee
from closedloop_plugin.threats.folder import ThreatFolder, valid_names
from closedloop_plugin.threats.interview import interview
from closedloop_plugin.threats.rounds import GenerationRounds, failed_rounds
from closedloop_plugin.threats.rounds import ThreatGenerationConfig as ThreatGenerationConfig
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import ThreatTranscript
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.lock import lock_folder

NAME = 80  # maximum length of a suite's name, see suites/programs.py


@dataclass(frozen=True)
class GeneratedThreats:
    """Results by route id. `failed`: why there is no scenario; `unsound`: why the scenario is left out; `unscored`: why
    the target's drive of its scenario has no outcome."""

    transcripts: Mapping[str, ThreatTranscript]
    failed: Mapping[str, str]
    unsound: Mapping[str, str]
    unscored: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed_in(self) -> dict[str, int | None]:
        """{route: round in which a threat made the target fail, None if none did} of the sound scenarios that it
        drove."""
        left_out = {*self.failed, *self.unsound}
        return {route: number for route, number in failed_rounds(self.transcripts).items() if route not in left_out}

    @property
    def causes(self) -> dict[str, FailureCause | None]:
        """{route: cause of the target's failure on the scenario of the suite, None if it did not fail}."""
        final = {route: self.transcripts[route].last for route in self.failed_in}
        return {route: last.outcome.cause for route, last in final.items() if last and last.outcome}


def generate(job: ThreatGenerationConfig, interviewee: Interviewee, fuser: Fuser) -> GeneratedThreats:
    """Generate the missing scenarios. Raises Ad2Error for errors that the user must fix; stored results remain."""
    _check_config(job)
    folder = ThreatFolder(job.folder)
    with lock_folder(job.folder):
        identity = job.identity(interviewee, fuser)  # at the start: descriptions of endpoints change with use
        folder.begin(identity)
        failures = _interviews(job, folder, interviewee)
        transcripts = {r.id: t for r in job.routes if (t := folder.transcript(r.id)) is not None}
        rounds = GenerationRounds(job, folder, fuser, transcripts)
        rounds.adopt()
        rounds.run()
        failed, unsound = _outcome(job, transcripts, failures)
        made = GeneratedThreats(transcripts, failed, unsound, rounds.unscored)
        folder.write_index(_index(job, identity, made))
    return made


def _check_config(job: ThreatGenerationConfig) -> None:
    """Fail before hours of work: a program contains suite and route in one line, and files are named by the route."""
    if job.reflect and not job.checked:
        raise Ad2Error(
            "--config reflect drives what the check has accepted: omit --no-check, or use --config reflect=0"
        )
    wrong = next((r.id for r in job.routes if not valid_names(job.suite.name, r.id)), None)
    if wrong is not None:
        raise Ad2Error(
            f"route {wrong!r} of suite {job.suite.name!r}: programs refer to both as SUITE:ID. Rename the route file "
            "(no spaces, quotes, colons) or the id (letters, digits, '_', '-', '.', at most 80)"
        )


def _interviews(job: ThreatGenerationConfig, folder: ThreatFolder, interviewee: Interviewee) -> dict[str, str]:
    """Drive and interview about every route without a complete interview; {route id: reason} of those without one."""
    missing = [r for r in job.routes if (t := folder.transcript(r.id)) is None or not t.interview.complete]
    done = len(job.routes) - len(missing)
    if done and not job.quiet:
        print(f"{done} of {len(job.routes)} routes already have an interview; {len(missing)} missing", flush=True)
    if not missing:
        return {}
    logs, failed = job.standard(missing, job.moments, job.frames, job.cameras)
    silent = interview(logs=logs, interviewee=interviewee, folder=job.folder, keep=folder.keep, quiet=job.quiet)
    return {**failed, **silent}


# -- results -------------------------------------------------------------------------------------------------------


def _outcome(
    job: ThreatGenerationConfig, transcripts: Mapping[str, ThreatTranscript], failures: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """({route: why it has no scenario}, {route: why its scenario is left out})."""
    failed, unsound = {}, {}
    for route in job.routes:
        transcript = transcripts.get(route.id)
        last = transcript.last if transcript else None
        if transcript is None:
            failed[route.id] = failures.get(route.id, "no interview")
        elif transcript.interview.error:
            failed[route.id] = f"interview: {transcript.interview.error}"
        elif last is None or last.spec is None:
            failed[route.id] = f"fuser: {last.refused if last else 'no attempt'}"
        elif last.verdict is not None and not last.verdict.passed:
            unsound[route.id] = last.verdict.reason
    return failed, unsound


def _index(job: ThreatGenerationConfig, identity: Mapping[str, Any], made: GeneratedThreats) -> dict[str, Any]:
    """The final suite.json; entries of routes that only an earlier start requested are kept."""
    before, requested = index_of(job.folder), {r.id for r in job.routes}

    def earlier(name: str) -> dict[str, Any]:
        return {k: v for k, v in before.get(name, {}).items() if k not in requested}

    return {
        "name": short(f"threat {job.suite.name} ({identity['agent'].get('name', '?')})", NAME),
        "base_file": str(job.base_file.absolute()) if job.base_file else None,
        "asked": identity,
        "finished": True,
        "checked": job.checked,
        "reflect": job.reflect,
        "rounds": rounds_of(made),
        "left_out": {**earlier("left_out"), **made.unsound},
        "failed": {**earlier("failed"), **made.failed},
        "failed_in_round": {**earlier("failed_in_round"), **made.failed_in},
        "causes": {**earlier("causes"), **{route: cause and cause.to_json() for route, cause in made.causes.items()}},
        "not_scored": {**earlier("not_scored"), **made.unscored},
    }


def rounds_of(made: GeneratedThreats) -> dict[str, int]:
    """Number of routes by the round in which a threat made the target fail, and of the others by what became of
    them."""
    failed_in = made.failed_in
    counts = Counter(f"threat failure in round {number}" for number in failed_in.values() if number is not None)
    found = {name: counts[name] for name in sorted(counts)}
    never = sum(number is None for number in failed_in.values())
    not_driven = len(made.transcripts.keys() - {*failed_in, *made.failed, *made.unsound, *made.unscored})
    return {
        **found,
        "no threat failure": never,
        "not scored": len(made.unscored.keys() - failed_in.keys()),
        "not driven": not_driven,
        "unsound": len(made.unsound),
        "no scenario": len(made.failed),
    }
