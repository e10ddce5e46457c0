"""Generate one threat scenario per route of a suite: interview, fusion, program, check; failed ones are retried.

Every result is stored at once (folder.py), so that the same command resumes after a kill without repeating requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import episode_seed
from closedloop_plugin.runner.world_processes import LocalEngine, WorldEngine
from closedloop_plugin.suites.lookup import Suite
from closedloop_plugin.suites.programs import index_of
from closedloop_plugin.threats.base import Fuser, Interviewee, ThreatRequest
from closedloop_plugin.threats.check import ScenarioProgram, check, write_verdicts
from closedloop_plugin.threats.draws import DrawPlan
from closedloop_plugin.threats.folder import ThreatFolder, failed_technically, valid_names
from closedloop_plugin.threats.interview import interview
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatTranscript
from closedloop_plugin.threats.verdict_files import read_verdicts
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.code_state import code_identity
from lmms_eval_ad2.storage.lock import lock_folder

BATCH = 32  # maximum number of requests per call of the fuser; a kill loses at most one batch
NAME = 80  # maximum length of a suite's name, see suites/programs.py


@dataclass(frozen=True)
class ThreatGenerationConfig:
    """Options of a generation. `routes`: those requested of the suite; `base_file`: the suite's route file, if any."""

    folder: Path
    suite: Suite
    routes: Sequence[Route]
    world: FactoryRecipe
    profile: Profile
    cameras: Sequence[Camera]
    base_file: Path | None = None
    towns: Mapping[str, Path] = field(default_factory=dict)
    seed: int = 0
    frames: int = 1
    workers: int = 1
    engine: WorldEngine = field(default_factory=LocalEngine)
    attempts: int = 3  # maximum number of scenarios generated for one route
    tries: int = 4  # maximum number of draws of each that the judge drives
    others: int = DrawPlan.others  # number of other draws of each that the judge drives
    share: Fraction = DrawPlan.share  # of these, to be survived
    alone: bool = False  # threats replace the standard scenarios of their routes
    checked: bool = True
    prompts_sha256: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class GeneratedThreats:
    """Results by route id. `failed`: why there is no scenario; `unsound`: why the scenario is left out."""

    transcripts: Mapping[str, ThreatTranscript]
    failed: Mapping[str, str]
    unsound: Mapping[str, str]


def generate(job: ThreatGenerationConfig, interviewee: Interviewee, fuser: Fuser) -> GeneratedThreats:
    """Generate the missing scenarios. Raises Ad2Error for errors that the user must fix; stored results remain."""
    _check_names(job)
    folder = ThreatFolder(job.folder)
    with lock_folder(job.folder):
        identity = _identity(job, interviewee, fuser)  # at the start: descriptions of endpoints change with use
        folder.begin(identity)
        failures = _interviews(job, folder, interviewee)
        transcripts = {r.id: t for r in job.routes if (t := folder.transcript(r.id)) is not None}
        _adopt(folder, transcripts)
        for number in range(job.attempts):
            _attempts(job, folder, fuser, transcripts, number)
            if job.checked:
                _check(job, folder, transcripts)
            if not any(_unsound(t) for t in transcripts.values()):
                break
        made = GeneratedThreats(transcripts, *_outcome(job, transcripts, failures))
        folder.write_index(_index(job, identity, made))
    return made


def _check_names(job: ThreatGenerationConfig) -> None:
    """Fail before hours of work: a program contains suite and route in one line, and files are named by the route."""
    wrong = next((r.id for r in job.routes if not valid_names(job.suite.name, r.id)), None)
    if wrong is not None:
        raise Ad2Error(
            f"route {wrong!r} of suite {job.suite.name!r}: programs refer to both as SUITE:ID. Rename the route file "
            "(no spaces, quotes, colons) or the id (letters, digits, '_', '-', '.', at most 80)"
        )


def _identity(job: ThreatGenerationConfig, interviewee: Interviewee, fuser: Fuser) -> dict[str, Any]:
    """Facts that must be equal at every start in one folder. The set of requested routes may differ."""
    return {
        "base": job.suite.name,
        "base_sha256": job.suite.sha256,
        "agent": interviewee.describe(),
        "fuser": fuser.describe(),
        "seed": job.seed,
        "frames": job.frames,
        "cameras": [f"{c.name} {c.width}x{c.height}" for c in job.cameras],
        "world": job.world.target,
        "towns": sorted(job.towns),
        "profile": job.profile.name,
        "prompts_sha256": job.prompts_sha256,
        "alone": job.alone,
        **code_identity(),
    }


# -- interviews ----------------------------------------------------------------------------------------------------


def _interviews(job: ThreatGenerationConfig, folder: ThreatFolder, interviewee: Interviewee) -> dict[str, str]:
    """Interview about every route without a complete interview; {route id: reason} of routes without frames."""
    missing = [r for r in job.routes if _incomplete(folder.transcript(r.id))]
    done = len(job.routes) - len(missing)
    if done and not job.quiet:
        print(f"{done} of {len(job.routes)} routes already have an interview; {len(missing)} missing", flush=True)
    if not missing:
        return {}
    return interview(
        suite_name=job.suite.name,
        routes=missing,
        setups=None,
        world=job.world,
        interviewee=interviewee,
        cameras=job.cameras,
        folder=job.folder,
        keep=folder.keep,
        seed=job.seed,
        frames=job.frames,
        workers=job.workers,
        engine=job.engine,
        profile=job.profile,
        towns=job.towns,
        quiet=job.quiet,
    )


def _incomplete(transcript: ThreatTranscript | None) -> bool:
    return transcript is None or transcript.interview.error is not None


# -- attempts ------------------------------------------------------------------------------------------------------


def _attempts(
    job: ThreatGenerationConfig,
    folder: ThreatFolder,
    fuser: Fuser,
    transcripts: dict[str, ThreatTranscript],
    number: int,
) -> None:
    """Generate another scenario for every route whose last one is missing, refused or unsound."""
    pending = [t for t in transcripts.values() if t.interview.error is None and _needs_attempt(t, number)]
    with tqdm(total=len(pending), desc=f"fusing, round {number + 1}", unit="route", disable=job.quiet) as bar:
        for part in _parts(pending, BATCH):
            seeds = [episode_seed(job.seed, t.route, number) for t in part]
            requests = [ThreatRequest(t, number, s, folder.images(t)) for t, s in zip(part, seeds, strict=True)]
            for transcript, attempt in zip(part, fuser.make(requests), strict=True):
                transcripts[transcript.route] = folder.add(transcript, attempt)
                bar.update()


def _needs_attempt(transcript: ThreatTranscript, number: int) -> bool:
    """Whether attempt `number` is still missing. A resumed run finds earlier attempts in the transcript."""
    last = transcript.last
    if last is None or failed_technically(last):
        return last is None or last.number == number
    unsound = last.spec is None or (last.verdict is not None and not last.verdict.passed)
    return unsound and last.number < number


def _parts(items: Sequence[ThreatTranscript], size: int) -> Iterator[Sequence[ThreatTranscript]]:
    for i in range(0, len(items), size):
        yield items[i : i + size]


# -- checking ------------------------------------------------------------------------------------------------------


def _check(job: ThreatGenerationConfig, folder: ThreatFolder, transcripts: dict[str, ThreatTranscript]) -> None:
    """Check every scenario that has no verdict."""
    routes = {r.id: r for r in job.routes}
    unchecked = [(t, t.last.spec) for t in transcripts.values() if t.last and t.last.spec and t.last.verdict is None]
    if unchecked:
        programs = [
            ScenarioProgram(t.route, folder.program_file(t.route), routes[t.route], spec=s) for t, s in unchecked
        ]
        verdicts = check(
            programs, job.folder / "check", world=job.world, tries=job.tries, others=job.others, share=job.share,
            alone=job.alone, workers=job.workers, engine=job.engine, seed=job.seed, profile=job.profile,
            towns=job.towns, quiet=job.quiet,
        )  # fmt: skip
        for transcript, _ in unchecked:
            updated = _with_verdict(transcript, verdicts[transcript.route])
            folder.keep(updated)
            transcripts[transcript.route] = updated
    missing = _unwritten(folder, transcripts)
    if missing:
        write_verdicts(job.folder, missing)


def _adopt(folder: ThreatFolder, transcripts: dict[str, ThreatTranscript]) -> None:
    """Take over newer verdicts of `ad2 threats check`, and restore missing programs."""
    stored = read_verdicts(folder.path)
    for route, transcript in transcripts.items():
        folder.restore(transcript)
        last, found = transcript.last, stored.get(route, {})
        if last is None or last.verdict is not None or not last.program_sha256:
            continue
        if found.get("program_sha256") == last.program_sha256:
            verdict = ScenarioVerdict.model_validate(
                {k: v for k, v in found.items() if k in ScenarioVerdict.model_fields}
            )
            transcripts[route] = _with_verdict(transcript, verdict)
            folder.keep(transcripts[route])


def _with_verdict(transcript: ThreatTranscript, verdict: ScenarioVerdict) -> ThreatTranscript:
    last = transcript.attempts[-1].model_copy(update={"verdict": verdict})
    return transcript.model_copy(update={"attempts": [*transcript.attempts[:-1], last]})


def _unwritten(folder: ThreatFolder, transcripts: Mapping[str, ThreatTranscript]) -> dict[str, ScenarioVerdict]:
    """Verdicts of the last attempts that check.json does not have, for example after a kill before it was written.

    Edited programs are excluded: `ad2 threats check` judges them.
    """
    stored = read_verdicts(folder.path)
    found = {}
    for route, last in ((t.route, t.last) for t in transcripts.values()):
        if last is None or last.verdict is None or folder.program_sha(route) != last.program_sha256:
            continue
        if stored.get(route, {}).get("program_sha256") != last.program_sha256:
            found[route] = last.verdict
    return found


def _unsound(transcript: ThreatTranscript) -> bool:
    last = transcript.last
    return last is not None and (last.spec is None or (last.verdict is not None and not last.verdict.passed))


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

    def earlier(name: str) -> dict[str, str]:
        return {k: v for k, v in before.get(name, {}).items() if k not in requested}

    return {
        "name": short(f"threat {job.suite.name} ({identity['agent'].get('name', '?')})", NAME),
        "base_file": str(job.base_file.absolute()) if job.base_file else None,
        "asked": identity,
        "finished": True,
        "checked": job.checked,
        "left_out": {**earlier("left_out"), **made.unsound},
        "failed": {**earlier("failed"), **made.failed},
    }
