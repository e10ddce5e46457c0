"""One threat scenario for each route of a suite: interview, fusion, program, check; what fails is made anew.

Everything is kept as it comes (folder.py), so that the same command goes on after a kill -9, and asks nobody twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.task import episode_seed
from closedloop_plugin.suites.lookup import Suite
from closedloop_plugin.suites.programs import index_of
from closedloop_plugin.threats.base import Fuser, Interviewee, ThreatRequest
from closedloop_plugin.threats.check import ScenarioProgram, check, write_verdicts
from closedloop_plugin.threats.folder import ThreatFolder, failed_technically, speakable
from closedloop_plugin.threats.interview import interview
from closedloop_plugin.threats.spec_parsing import short
from closedloop_plugin.threats.transcript import ScenarioVerdict, ThreatTranscript
from closedloop_plugin.threats.verdict_files import read_verdicts
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.storage.lock import lock_folder

AT_ONCE = 32  # wishes in one call of the fuser: what a kill -9 may lose
NAME = 80  # characters of a suite's name, see program_suites


@dataclass(frozen=True)
class ThreatGenerationConfig:
    """What is asked. `base_file`: of a suite that is a route file; `routes`: those asked for, of the suite."""

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
    attempts: int = 3  # scenarios made for one route at most
    tries: int = 4  # draws of each that the judge may drive
    checked: bool = True
    prompts_sha256: str = ""
    quiet: bool = False


@dataclass(frozen=True)
class GeneratedThreats:
    """What came of it, by route. `failed`: why there is no scenario; `unsound`: why the scenario is left out."""

    transcripts: Mapping[str, ThreatTranscript]
    failed: Mapping[str, str]
    unsound: Mapping[str, str]


def generate(job: ThreatGenerationConfig, teller: Interviewee, fuser: Fuser) -> GeneratedThreats:
    """Make what is lacking. Ad2Error for what the user must mend; what is made until then stays."""
    _speakable(job)
    folder = ThreatFolder(job.folder)
    with lock_folder(job.folder):
        asked = _asked(job, teller, fuser)  # now: what endpoints say of themselves changes while they are used
        folder.begin(asked)
        failures = _interviews(job, folder, teller)
        transcripts = {r.id: t for r in job.routes if (t := folder.transcript(r.id)) is not None}
        _adopt(folder, transcripts)
        for number in range(job.attempts):
            _attempts(job, folder, fuser, transcripts, number)
            if job.checked:
                _check(job, folder, transcripts)
            if not any(_unsound(t) for t in transcripts.values()):
                break
        made = GeneratedThreats(transcripts, *_outcome(job, transcripts, failures))
        folder.write_index(_index(job, asked, made))
    return made


def _speakable(job: ThreatGenerationConfig) -> None:
    """Before hours of work: a program names suite and route in one line, files are named by the route."""
    wrong = next((r.id for r in job.routes if not speakable(job.suite.name, r.id)), None)
    if wrong is not None:
        raise Ad2Error(
            f"route {wrong!r} of suite {job.suite.name!r}: a program names both as SUITE:ID. Rename the route file (no "
            "spaces, quotes, colons), or the id (letters, digits, '_', '-', '.', at most 80)"
        )


def _asked(job: ThreatGenerationConfig, teller: Interviewee, fuser: Fuser) -> dict[str, Any]:
    """What must be equal at every start of one folder. How many routes are asked for may differ."""
    return {
        "base": job.suite.name,
        "base_sha256": job.suite.sha256,
        "agent": teller.describe(),
        "fuser": fuser.describe(),
        "seed": job.seed,
        "frames": job.frames,
        "cameras": [f"{c.name} {c.width}x{c.height}" for c in job.cameras],
        "world": job.world.target,
        "towns": sorted(job.towns),
        "profile": job.profile.name,
        "prompts_sha256": job.prompts_sha256,
        "version": __version__,
    }


# -- interviews ----------------------------------------------------------------------------------------------------


def _interviews(job: ThreatGenerationConfig, folder: ThreatFolder, teller: Interviewee) -> dict[str, str]:
    """Ask for every route that has no whole interview; the reasons of those whose world failed."""
    lacking = [r for r in job.routes if _unasked(folder.transcript(r.id))]
    there = len(job.routes) - len(lacking)
    if there and not job.quiet:
        print(f"{there} of {len(job.routes)} routes are interviewed already; asking {len(lacking)}", flush=True)
    if not lacking:
        return {}
    return interview(
        job.suite.name, lacking, None, job.world, teller, job.cameras, job.folder, folder.keep,
        seed=job.seed, frames=job.frames, workers=job.workers, profile=job.profile, towns=job.towns, quiet=job.quiet,
    )  # fmt: skip


def _unasked(transcript: ThreatTranscript | None) -> bool:
    return transcript is None or transcript.interview.error is not None


# -- attempts ------------------------------------------------------------------------------------------------------


def _attempts(
    job: ThreatGenerationConfig,
    folder: ThreatFolder,
    fuser: Fuser,
    transcripts: dict[str, ThreatTranscript],
    number: int,
) -> None:
    """One more scenario for every route whose last one is lacking, refused or unsound."""
    wanting = [t for t in transcripts.values() if t.interview.error is None and _wanting(t, number)]
    with tqdm(total=len(wanting), desc=f"fusing, round {number + 1}", unit="route", disable=job.quiet) as bar:
        for part in _parts(wanting, AT_ONCE):
            wishes = [ThreatRequest(t, number, episode_seed(job.seed, t.route, number), folder.images(t)) for t in part]
            for transcript, attempt in zip(part, fuser.make(wishes), strict=True):
                transcripts[transcript.route] = folder.add(transcript, attempt)
                bar.update()


def _wanting(transcript: ThreatTranscript, number: int) -> bool:
    """Whether attempt `number` is still to be made. A resumed run finds earlier ones in the transcript."""
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
    """Judge every scenario that has no verdict."""
    routes = {r.id: r for r in job.routes}
    open_ones = [(t, t.last.spec) for t in transcripts.values() if t.last and t.last.spec and t.last.verdict is None]
    if open_ones:
        programs = [
            ScenarioProgram(t.route, folder.program_file(t.route), routes[t.route], spec=s) for t, s in open_ones
        ]
        verdicts = check(
            programs, job.folder / "check", world=job.world, tries=job.tries, workers=job.workers, seed=job.seed,
            profile=job.profile, towns=job.towns, quiet=job.quiet,
        )  # fmt: skip
        for transcript, _ in open_ones:
            judged = _judged(transcript, verdicts[transcript.route])
            folder.keep(judged)
            transcripts[transcript.route] = judged
    lacking = _unwritten(folder, transcripts)
    if lacking:
        write_verdicts(job.folder, lacking)


def _adopt(folder: ThreatFolder, transcripts: dict[str, ThreatTranscript]) -> None:
    """Take over what `ad2 threats check` has found since, and write programs again that are gone."""
    there = read_verdicts(folder.path)
    for route, transcript in transcripts.items():
        folder.restore(transcript)
        last, found = transcript.last, there.get(route, {})
        if last is None or last.verdict is not None or not last.program_sha256:
            continue
        if found.get("program_sha256") == last.program_sha256:
            verdict = ScenarioVerdict.model_validate(
                {k: v for k, v in found.items() if k in ScenarioVerdict.model_fields}
            )
            transcripts[route] = _judged(transcript, verdict)
            folder.keep(transcripts[route])


def _judged(transcript: ThreatTranscript, verdict: ScenarioVerdict) -> ThreatTranscript:
    last = transcript.attempts[-1].model_copy(update={"verdict": verdict})
    return transcript.model_copy(update={"attempts": [*transcript.attempts[:-1], last]})


def _unwritten(folder: ThreatFolder, transcripts: Mapping[str, ThreatTranscript]) -> dict[str, ScenarioVerdict]:
    """Verdicts that check.json has not, or has of an earlier attempt, also after a kill -9 before it was written. Not
    those of programs that were edited since: `ad2 threats check` judges them."""
    there = read_verdicts(folder.path)
    found = {}
    for route, last in ((t.route, t.last) for t in transcripts.values()):
        if last is None or last.verdict is None or folder.program_sha(route) != last.program_sha256:
            continue
        if there.get(route, {}).get("program_sha256") != last.program_sha256:
            found[route] = last.verdict
    return found


def _unsound(transcript: ThreatTranscript) -> bool:
    last = transcript.last
    return last is not None and (last.spec is None or (last.verdict is not None and not last.verdict.passed))


# -- what came of it -----------------------------------------------------------------------------------------------


def _outcome(
    job: ThreatGenerationConfig, transcripts: Mapping[str, ThreatTranscript], failures: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """(why a route has no scenario, why its scenario is left out)."""
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


def _index(job: ThreatGenerationConfig, asked: Mapping[str, Any], made: GeneratedThreats) -> dict[str, Any]:
    """suite.json at the end: also of routes that an earlier start was asked for."""
    before, mine = index_of(job.folder), {r.id for r in job.routes}

    def earlier(name: str) -> dict[str, str]:
        return {k: v for k, v in before.get(name, {}).items() if k not in mine}

    return {
        "name": short(f"threat {job.suite.name} ({asked['agent'].get('name', '?')})", NAME),
        "base_file": str(job.base_file.absolute()) if job.base_file else None,
        "asked": asked,
        "finished": True,
        "checked": job.checked,
        "left_out": {**earlier("left_out"), **made.unsound},
        "failed": {**earlier("failed"), **made.failed},
    }
