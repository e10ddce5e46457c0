"""Outcomes of drivers in the scenarios, read from run folders of `ad2 drive run --suite DIR`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.report.top_view import NAMES
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.scoring.failure_cause import CauseSource, cause_of
from closedloop_plugin.threats.robustness import scored
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.identity import read_run


class SurvivalStatus(StrEnum):
    """Result of a driver in a scenario."""

    SURVIVED = "survived"  # in every repetition
    FAILED_BY_THREAT = "failed by the threat"  # this and the following in at least one repetition
    FAILED_BY_BOTH = "failed by both"
    FAILED_BY_STANDARD = "failed by the standard scenario"
    FAILED_BY_ITSELF = "failed by itself"
    NOT_SCORED = "not scored"  # the world or the driver failed; no valid drive
    NOT_DRIVEN = "not driven"


BY_SOURCE = {
    CauseSource.THREAT: SurvivalStatus.FAILED_BY_THREAT,
    CauseSource.STANDARD: SurvivalStatus.FAILED_BY_STANDARD,
    CauseSource.ITSELF: SurvivalStatus.FAILED_BY_ITSELF,
}


@dataclass(frozen=True)
class ScenarioOutcome:
    """Outcome of a driver in a scenario.

    `score`: mean driving score in percent over `scored` repetitions, None if there is none. `first`: the first
    infraction, or why there is no score.
    """

    status: SurvivalStatus = SurvivalStatus.NOT_DRIVEN
    score: float | None = None
    failures: int = 0
    scored: int = 0
    first: str = ""


@dataclass(frozen=True)
class GalleryRun:
    label: str
    outcomes: Mapping[str, ScenarioOutcome] = field(default_factory=dict)

    def of(self, scenario: str) -> ScenarioOutcome:
        return self.outcomes.get(scenario, ScenarioOutcome())


def read(folder: Path, runs: Sequence[Path]) -> list[GalleryRun]:
    """The runs of this folder's scenarios. Raises Ad2Error for a run of another suite or of other programs."""
    found: list[GalleryRun] = []
    gallery_suite = suite(str(folder)) if runs else None
    for run in runs:
        assert gallery_suite is not None
        identity = read_run(run)["identity"]
        _check_suite(run, identity, gallery_suite.name, gallery_suite.sha256, folder)
        by_scenario: dict[str, dict[int, EpisodeRecord]] = {}
        for record in read_records(run):
            by_scenario.setdefault(record.route_id, {})[record.repetition] = record
        outcomes = {name: outcome([several[k] for k in sorted(several)]) for name, several in by_scenario.items()}
        found.append(GalleryRun(label_of(identity.get("agent")), outcomes))
    # Runs of one agent: with the folder's name (not the path, which may be private).
    counts = Counter(run.label for run in found)
    return [
        replace(one, label=f"{one.label} ({run.absolute().name})") if counts[one.label] > 1 else one
        for one, run in zip(found, runs, strict=True)
    ]


def outcome(records: Sequence[EpisodeRecord]) -> ScenarioOutcome:
    """Outcome of one or more repetitions of a scenario, in order; unscored ones are excluded."""
    driven = [r for r in records if scored(r)]
    if not driven:
        first = f"{records[0].end}: {records[0].reason}".rstrip(": ")
        return ScenarioOutcome(SurvivalStatus.NOT_SCORED, first=first)
    bad = [(r, cause) for r in driven if (cause := cause_of(r)) is not None]
    sources = {cause.by for _, cause in bad}
    if not sources:
        status = SurvivalStatus.SURVIVED
    elif CauseSource.BOTH in sources or sources >= {CauseSource.THREAT, CauseSource.STANDARD}:
        status = SurvivalStatus.FAILED_BY_BOTH
    else:
        status = BY_SOURCE[min(sources, key=list(BY_SOURCE).index)]
    text = ""
    if bad:
        record, cause = bad[0]
        text = f"{record.status}, {record.score_route:.0f} % of the route"  # without an infraction
        if cause.first.kind in NAMES:
            text = str(replace(cause.first, kind=NAMES[cause.first.kind]))
    return ScenarioOutcome(status, sum(r.score_composed for r in driven) / len(driven), len(bad), len(driven), text)


def label_of(agent: Any) -> str:
    """An agent's or a model's name from its describe()."""
    description = agent if isinstance(agent, Mapping) else {}
    return str(description.get("name") or description.get("model") or "?")


def _check_suite(run: Path, identity: Mapping[str, Any], name: str, sha256: str, folder: Path) -> None:
    if identity.get("suite") != name:
        raise Ad2Error(
            f"--runs {run}: a run of suite {identity.get('suite')}, and {folder} is suite {name}; give runs of "
            f"`ad2 drive run --suite {folder}`"
        )
    if identity.get("suite_sha256") != sha256:
        raise Ad2Error(
            f"--runs {run}: it drove other programs than {folder} holds now (sha256 "
            f"{str(identity.get('suite_sha256'))[:12]} there, {sha256[:12]} here): scenarios were changed or left out "
            f"since. Drive them again: ad2 drive run --suite {folder} --out NEW"
        )
