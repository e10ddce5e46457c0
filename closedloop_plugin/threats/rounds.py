"""Rounds of a generation: scenarios for the routes that need one, their check, and the target's drives of them.

Round 1 makes a scenario for every interviewed route. A later round makes another one for each route on which no
scenario has made the target fail (scoring/failure_cause.py): no actor of a threat was involved in its failures, and it
fails in the same way on the standard route. Its fuser gets what happened. An attempt that is refused or fails the check
is repeated within its round. Every result is stored at once (folder.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route
from closedloop_plugin.runner.task import episode_seed
from closedloop_plugin.threats.base import Fuser, Interviewee, ThreatRequest
from closedloop_plugin.threats.check import DrawPlan, ScenarioProgram, check, write_verdicts
from closedloop_plugin.threats.driven.target import PlayedScenario, TargetDrives
from closedloop_plugin.threats.folder import ThreatFolder, failed_technically
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatAttempt, ThreatTranscript
from closedloop_plugin.threats.verdicts import read_verdicts
from lmms_eval_ad2.storage.identity import code_identity


@dataclass(frozen=True, kw_only=True)
class ThreatGenerationConfig(TargetDrives):
    """Options of a generation, in addition to those of the target's drives.

    `routes`: those requested of the suite; `base_file`: the suite's route file, if any; `cameras`: of the interview's
    frames.
    """

    routes: Sequence[Route]
    cameras: Sequence[Camera]
    base_file: Path | None = None
    moments: int = 3
    frames: int = 3  # at each moment, 1 s apart
    reflect: int = 2  # maximum number of rounds that the target drives; 0: none, and one round of scenarios
    attempts: int = 6  # maximum number of scenarios generated for one route and round
    tries: int = 2  # maximum number of draws of each that the judge drives
    others: int = DrawPlan.others  # number of other draws of each that the judge drives
    share: Fraction = DrawPlan.share  # of these, to be survived
    checked: bool = True
    prompts_sha256: str = ""

    def identity(self, interviewee: Interviewee, fuser: Fuser) -> dict[str, Any]:
        """Facts that must be equal at every start in one folder.

        The set of requested routes and the numbers of rounds, attempts and draws may grow: what is stored stays.
        """
        latency = self.rules.latency
        return {
            "base": self.suite.name,
            "base_sha256": self.suite.sha256,
            "agent": interviewee.describe(),
            "driver": self.driver.agent.describe(),
            "interpreter": self.driver.interpreter.describe() if self.driver.interpreter else None,
            "policy": self.rules.policy,
            "decision_hz": self.rules.decision_hz,
            "latency": {"label": latency.label, "values": list(latency.values)},
            "fuser": fuser.describe(),
            "seed": self.seed,
            "moments": self.moments,
            "frames": self.frames,
            "cameras": [camera.sized_name for camera in self.cameras],
            "world": self.world.target,
            "towns": sorted(self.towns),
            "profile": self.profile.name,
            "prompts_sha256": self.prompts_sha256,
            "alone": self.alone,
            **code_identity(),
        }


BATCH = 32  # maximum number of requests per call of the fuser; a kill loses at most one batch
ROUND_SEEDS = 1000  # distance of the seeds of two rounds: more than attempts in one


@dataclass
class GenerationRounds:
    """The rounds of one folder. `transcripts`: by route, kept up to date; `unscored`: why a drive has no outcome."""

    job: ThreatGenerationConfig
    folder: ThreatFolder
    fuser: Fuser
    transcripts: dict[str, ThreatTranscript]
    unscored: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Run all rounds; at the end each program is that of the attempt that counts."""
        for number in range(1, max(self.job.reflect, 1) + 1):
            routes = [t.route for t in self.transcripts.values() if needs_round(t, number)]
            if not routes:
                break
            self._make(number, routes)
            if self.job.reflect:
                self._drive(number, routes)
        self._place_final()

    def adopt(self) -> None:
        """Take over newer verdicts of `ad2 threats check`, and restore missing programs."""
        stored = read_verdicts(self.folder.path)
        for route, transcript in self.transcripts.items():
            self.folder.place(transcript, transcript.last)
            newest, found = transcript.newest, stored.get(route, {})
            if newest is None or newest.verdict is not None or not newest.program_sha256:
                continue
            if found.get("program_sha256") == newest.program_sha256:
                verdict = ScenarioVerdict.model_validate(
                    {k: v for k, v in found.items() if k in ScenarioVerdict.model_fields}
                )
                self._replace_newest(transcript, newest.model_copy(update={"verdict": verdict}))

    # -- attempts ------------------------------------------------------------------------------------------------------

    def _make(self, number: int, routes: Sequence[str]) -> None:
        """Generate and check until every route has a sound scenario in this round, at most `attempts` each."""
        for attempt in range(self.job.attempts):
            self._attempt(number, attempt, routes)
            if self.job.checked:
                self._check(routes)
            if not any(is_unsound(self.transcripts[r].of_round(number)) for r in routes):
                break

    def _attempt(self, number: int, attempt: int, routes: Sequence[str]) -> None:
        """Generate another scenario for every route whose last one of the round is missing, refused or unsound."""
        pending = [self.transcripts[r] for r in routes if _needs_attempt(self.transcripts[r].of_round(number), attempt)]
        title = f"fusing, round {number}, attempt {attempt + 1}"
        with tqdm(total=len(pending), desc=title, unit="route", disable=self.job.quiet) as bar:
            for part in _parts(pending, BATCH):
                requests = [self._request(t, number, attempt) for t in part]
                for transcript, made in zip(part, self.fuser.make(requests), strict=True):
                    made = made.model_copy(update={"round": number})
                    self.transcripts[transcript.route] = self.folder.add(transcript, made)
                    bar.update()

    def _request(self, transcript: ThreatTranscript, number: int, attempt: int) -> ThreatRequest:
        seed = episode_seed(self.job.seed, transcript.route, (number - 1) * ROUND_SEEDS + attempt)
        return ThreatRequest(transcript, attempt, seed, self.folder.images(transcript), number)

    # -- checking ------------------------------------------------------------------------------------------------------

    def _check(self, routes: Sequence[str]) -> None:
        """Check every newest scenario that has no verdict."""
        unchecked = [self.transcripts[r] for r in routes if _is_unchecked(self.transcripts[r].newest)]
        verdicts = self._verdicts([(t, t.newest) for t in unchecked if t.newest])
        for transcript in unchecked:
            assert transcript.newest is not None
            self._replace_newest(
                transcript, transcript.newest.model_copy(update={"verdict": verdicts[transcript.route]})
            )
        self._write_verdicts()

    def _verdicts(self, attempts: Sequence[tuple[ThreatTranscript, ThreatAttempt]]) -> dict[str, ScenarioVerdict]:
        """Verdicts on the programs of these attempts, which are placed first."""
        if not attempts:
            return {}
        job, known = self.job, {r.id: r for r in self.job.routes}
        for transcript, attempt in attempts:
            self.folder.place(transcript, attempt)
        programs = [
            ScenarioProgram(t.route, self.folder.program_file(t.route), known[t.route], spec=a.spec)
            for t, a in attempts
        ]
        return check(
            programs, job.folder / "check", world=job.world, tries=job.tries, others=job.others, share=job.share,
            alone=job.alone, workers=job.limits.workers,
            engine=job.engine, seed=job.seed, profile=job.profile, towns=job.towns, quiet=job.quiet,
        )  # fmt: skip

    def _write_verdicts(self) -> None:
        """Write verdicts that check.json does not have, for example after a kill before it was written."""
        if missing := self._unwritten():
            write_verdicts(self.folder.path, missing)

    def _unwritten(self) -> dict[str, ScenarioVerdict]:
        """Of the program that is in place. Edited programs are excluded: `ad2 threats check` judges them."""
        stored, found = read_verdicts(self.folder.path), {}
        for transcript in self.transcripts.values():
            sha = self.folder.program_sha(transcript.route)
            judged = next((a for a in transcript.attempts if sha and a.program_sha256 == sha and a.verdict), None)
            if judged and judged.verdict and stored.get(transcript.route, {}).get("program_sha256") != sha:
                found[transcript.route] = judged.verdict
        return found

    # -- the target's drives -------------------------------------------------------------------------------------------

    def _drive(self, number: int, routes: Sequence[str]) -> None:
        """Let the target drive the sound scenarios of the round that have no outcome."""
        known = {r.id: r for r in self.job.routes}
        scenarios = []
        for route in routes:
            transcript = self.transcripts[route]
            made = transcript.of_round(number)
            if made is not None and made.passed and made.outcome is None and made.verdict is not None:
                self.folder.place(transcript, made)
                assert made.verdict.draw_seed is not None
                program = self.folder.program_file(route)
                scenarios.append(PlayedScenario(known[route], program, made.verdict.drawn, made.verdict.draw_seed))
        if not scenarios:
            return
        logs, unscored = self.job.round(number, scenarios)
        self.unscored |= unscored
        for route, log in logs.items():
            made = self.transcripts[route].newest
            assert made is not None
            self._replace_newest(self.transcripts[route], made.model_copy(update={"outcome": log.summary}))

    def _place_final(self) -> None:
        """Put the program of the attempt that counts in place, with its verdict and its drives of the check."""
        changed = [
            (t, t.last)
            for t in self.transcripts.values()
            if t.last is not None and t.last is not t.newest and t.last.spec is not None
        ]
        stored = read_verdicts(self.folder.path)
        stale = [(t, a) for t, a in changed if stored.get(t.route, {}).get("program_sha256") != a.program_sha256]
        for transcript, attempt in changed:
            self.folder.place(transcript, attempt)
        if self.job.checked:
            self._verdicts(stale)  # the same drives as before: the folder of the check must hold those of this program
            self._write_verdicts()

    def _replace_newest(self, transcript: ThreatTranscript, attempt: ThreatAttempt) -> None:
        updated = transcript.model_copy(update={"attempts": [*transcript.attempts[:-1], attempt]})
        self.folder.keep(updated)
        self.transcripts[transcript.route] = updated


def needs_round(transcript: ThreatTranscript, number: int) -> bool:
    """Whether a round concerns a route: round 1 all, later ones those on which no threat made the target fail."""
    if transcript.interview.error is not None or not transcript.interview.moments:
        return False
    if number == 1:
        return True
    return any(a.survived for a in transcript.attempts) and transcript.failed_attempt is None


def is_unsound(attempt: ThreatAttempt | None) -> bool:
    return attempt is not None and (
        attempt.spec is None or (attempt.verdict is not None and not attempt.verdict.passed)
    )


def _is_unchecked(attempt: ThreatAttempt | None) -> bool:
    return attempt is not None and attempt.spec is not None and attempt.verdict is None


def _needs_attempt(newest: ThreatAttempt | None, number: int) -> bool:
    """Whether attempt `number` of a round is still missing. A resumed run finds earlier ones in the transcript."""
    if newest is None or failed_technically(newest):
        return number == (0 if newest is None else newest.number)
    return is_unsound(newest) and newest.number < number


def _parts(items: Sequence[ThreatTranscript], size: int) -> Iterator[Sequence[ThreatTranscript]]:
    for i in range(0, len(items), size):
        yield items[i : i + size]


def failed_rounds(transcripts: Mapping[str, ThreatTranscript]) -> dict[str, int | None]:
    """{route: round in which a threat made the target fail, None if none did} of routes whose scenario it drove."""
    return {
        route: t.failed_attempt.round if t.failed_attempt else None
        for route, t in transcripts.items()
        if any(a.outcome is not None for a in t.attempts)
    }
