"""Outcomes of drivers in the scenarios, read from run folders of `ad2 drive run --suite DIR`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.state import FAILED as BROKEN
from closedloop_plugin.report.top_view import NAMES
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.scenarios.suites.lookup import suite
from closedloop_plugin.scoring.failure_cause import CauseSource, FailureCause, cause_of
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.code_state import code_label
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


@dataclass(frozen=True)
class ScenarioOutcome:
    """Outcome of a driver in a scenario.

    `score`: mean driving score in percent over `scored` repetitions, None if there is none. `first`: the first
    infraction, or why there is no score. `draws`: (free parameters, survived) of each scored repetition.
    """

    status: SurvivalStatus
    score: float | None = None
    failures: int = 0
    scored: int = 0
    first: str = ""
    draws: tuple[tuple[Mapping[str, Any], bool], ...] = ()


BY_SOURCE = {
    CauseSource.THREAT: SurvivalStatus.FAILED_BY_THREAT,
    CauseSource.STANDARD: SurvivalStatus.FAILED_BY_STANDARD,
    CauseSource.ITSELF: SurvivalStatus.FAILED_BY_ITSELF,
}
FAILED = frozenset({*BY_SOURCE.values(), SurvivalStatus.FAILED_BY_BOTH})
FAILED_WITH_THREAT = frozenset({SurvivalStatus.FAILED_BY_THREAT, SurvivalStatus.FAILED_BY_BOTH})
NOT_DRIVEN = ScenarioOutcome(SurvivalStatus.NOT_DRIVEN)


@dataclass(frozen=True)
class GalleryRun:
    """A run. `setting`: world, profile, seed and version, shown with its figures."""

    label: str
    setting: str
    outcomes: Mapping[str, ScenarioOutcome]

    def of(self, scenario: str) -> ScenarioOutcome:
        return self.outcomes.get(scenario, NOT_DRIVEN)


def read(folder: Path, runs: Sequence[Path]) -> list[GalleryRun]:
    """The runs of this folder's scenarios. Raises Ad2Error for a run of another suite or of other programs."""
    if not runs:
        return []
    gallery_suite = suite(str(folder))
    found = []
    for run in runs:
        identity = read_run(run)["identity"]
        _check_suite(run, identity, gallery_suite.name, gallery_suite.sha256, folder)
        records = {(r.route_id, r.repetition): r for r in read_records(run)}
        by_scenario: dict[str, list[EpisodeRecord]] = {}
        for record in records.values():
            by_scenario.setdefault(record.route_id, []).append(record)
        outcomes = {name: outcome(several) for name, several in by_scenario.items()}
        found.append(GalleryRun(label_of(identity.get("agent")), _setting(identity, list(records.values())), outcomes))
    return _with_unique_labels(found, runs)


def outcome(records: Sequence[EpisodeRecord]) -> ScenarioOutcome:
    """Outcome of one or more repetitions of a scenario; unscored ones are excluded."""
    scored = sorted((r for r in records if r.end not in BROKEN), key=lambda r: r.repetition)
    if not scored:
        return ScenarioOutcome(SurvivalStatus.NOT_SCORED, first=f"{records[0].end}: {records[0].reason}".rstrip(": "))
    bad = [(r, cause) for r in scored if (cause := cause_of(r)) is not None]
    return ScenarioOutcome(
        status=_status([cause for _, cause in bad]),
        score=sum(r.score_composed for r in scored) / len(scored),
        failures=len(bad),
        scored=len(scored),
        first=first_infraction(*bad[0]) if bad else "",
        draws=tuple((r.drawn, r.unharmed) for r in scored),
    )


def _status(causes: Sequence[FailureCause]) -> SurvivalStatus:
    """Of all failed repetitions together."""
    sources = {cause.by for cause in causes}
    if not sources:
        return SurvivalStatus.SURVIVED
    if CauseSource.BOTH in sources or sources >= {CauseSource.THREAT, CauseSource.STANDARD}:
        return SurvivalStatus.FAILED_BY_BOTH
    return BY_SOURCE[min(sources, key=list(BY_SOURCE).index)]


def first_infraction(record: EpisodeRecord, cause: FailureCause) -> str:
    """Text such as "collision: vehicle (s1) at 9.6 s"; without infractions, how the episode ended."""
    first = cause.first
    if first.kind not in NAMES:
        return f"{record.status}, {record.score_route:.0f} % of the route"
    return str(replace(first, kind=NAMES[first.kind]))


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


def _setting(identity: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> str:
    worlds = Counter(f"{r.world.get('backend', '?')} {r.world.get('version', '')}".strip() for r in records)
    world = worlds.most_common(1)[0][0] if worlds else str(identity.get("world", "?")).rsplit(":", 1)[-1]
    code = code_label(str(identity.get("version")), str(identity.get("commit") or ""))
    return f"{world}, profile {identity.get('profile')}, seed {identity.get('seed')}, {code}"


def _with_unique_labels(found: list[GalleryRun], runs: Sequence[Path]) -> list[GalleryRun]:
    """Add the folder's name to the labels of runs of the same agent (not the path, which may be private)."""
    counts = Counter(d.label for d in found)
    labels = [
        f"{d.label} ({run.absolute().name})" if counts[d.label] > 1 else d.label
        for d, run in zip(found, runs, strict=True)
    ]
    return [GalleryRun(label, d.setting, d.outcomes) for label, d in zip(labels, found, strict=True)]
