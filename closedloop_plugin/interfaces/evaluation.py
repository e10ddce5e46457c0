"""`closedloop_plugin.evaluate`: a drive as a function (docs/training-loop.md).

The records and scores are those of `ad2 drive run` with the same agent and options.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.driver.agent import Agent
from closedloop_plugin.driver.agents.make import spec_of
from closedloop_plugin.driver.agents.model_backend import ModelBackend
from closedloop_plugin.scoring.ability import VARIANTS
from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from closedloop_plugin.runner.assemble import RunConfig

    pass


# Options that `evaluate` takes by other names (model, routes) or not at all.
_ARGUMENTS = {"agent", "routes_ids", "dry_run", "no_probe"}


@dataclass(frozen=True)
class DriveResult:
    """A finished drive.

    `folder`: of its records and tracks; None if it was temporary. `records`: one per episode, in the order of the
    suite. `scores`: as `ad2 drive score --json` (driving_score in 0..100, success_rate in percent, intervals, counts,
    provenance); None for a Scenic program, for a shard, and if an episode is missing. `table`: the text that `ad2 drive
    run` prints.
    """

    folder: Path | None
    records: tuple[EpisodeRecord, ...]
    scores: Mapping[str, Any] | None
    table: str

    @property
    def failed(self) -> tuple[EpisodeRecord, ...]:
        """The episodes that were not driven, by the fault that each names (`blamed`); no score includes them."""
        return tuple(record for record in self.records if record.blamed)

    def __str__(self) -> str:
        return self.table


def evaluate(
    model: str | Any,
    suite: str = "demo",
    *,
    out: Path | str | None = None,
    name: str | None = None,
    workers: int = 1,
    batch_size: int | None = None,
    seed: int = 0,
    routes: Sequence[str] | None = None,
    limit: int | None = None,
    repetitions: int = 1,
    quiet: bool = True,
    traffic_signs: str | None = None,
    **options: Any,
) -> DriveResult:
    """Drive the routes of a suite. May be called any number of times in one process.

    model: an agent as in `ad2 drive run --agent` ("expert", "endpoint:...", "lmms:..."); a loaded model object of
    lmms-eval; a function that answers prompts, `answer(prompts, settings) -> texts` (see `lmms_eval_ad2.evaluate`), in
    batches of at most `batch_size` (default: `workers`); a ModelBackend; or an Agent object. Objects and functions are
    called in this process, by one thread.
    suite: "demo" (six routes), "embedded220", a route file or a folder of programs; routes: only these ids.
    out: the run's folder, in which an equal call continues; None: a temporary one. name: of an object or function and
    its weights; without a name, `out` must not hold another run.
    traffic_signs: variant of this ability, "v0.0.3" or "v0.0.4" (default: that of the suite).
    workers: parallel worlds, each in a process. options: the other options of `ad2 drive run`, e.g.
    profile="bench2drive", decision_hz=2.0, camera="front", size="800x450", no_traffic=True.

    Raises Ad2Error for a mistake of the user, and if the replies cannot be read (option stop_after_unread).
    """
    from closedloop_plugin.runner.options import DriveRunOptions, drive_options
    from closedloop_plugin.runner.prepare import prepare

    given = None if isinstance(model, str) else _system(model, name, batch_size or workers)
    unknown = sorted(set(options) - {field.name for field in fields(DriveRunOptions)} | set(options) & _ARGUMENTS)
    if unknown:
        raise Ad2Error(f"evaluate: no option {', '.join(unknown)}; they are those of `ad2 drive run`")
    if traffic_signs not in (None, *VARIANTS):
        raise Ad2Error(f"evaluate: traffic_signs {traffic_signs!r}: expected one of {', '.join(VARIANTS)}")
    with contextlib.ExitStack() as held:
        folder = Path(out) if out else Path(held.enter_context(tempfile.TemporaryDirectory(prefix="ad2_drive_")))
        settings: dict[str, Any] = {
            "suite": None if options.get("scenario") else suite,
            "workers": workers,
            "seed": seed,
        }
        settings |= {"routes_ids": ",".join(routes) if routes else None, "limit": limit, "repetitions": repetitions}
        agent = model if given is None else spec_of(given)
        drive = drive_options({"agent": agent, "out": folder, **settings, **options})
        return _driven(prepare(drive, given, quiet), folder if out else None, traffic_signs)


def _system(model: Any, name: str | None, batch_size: int) -> ModelBackend | Agent:
    """A ModelBackend or an Agent as it is; a model object of lmms-eval or a function as a ModelBackend."""
    if hasattr(model, "ask") or hasattr(model, "decide"):
        return model
    from closedloop_plugin.driver.agents.lmms_model import LmmsModel

    return LmmsModel.from_object(model, name, batch_size)


def _driven(config: RunConfig, folder: Path | None, traffic_signs: str | None) -> DriveResult:
    """Drive the episodes that are missing, and summarise all."""
    from closedloop_plugin.report.score_text import closing_text
    from closedloop_plugin.runner.run import other_values, run
    from closedloop_plugin.scoring.official import from_episode
    from closedloop_plugin.scoring.summary import summarise

    records = tuple(run(config))
    selection, rules = config.routes, config.profile
    assert selection is not None
    routes, repetitions = selection.routes, selection.repetitions
    whole = bool(routes) and len(records) == len(routes) * repetitions
    official = [from_episode(record) for record in records]
    more: dict[str, Any] = {"identity": config.identity, "traffic_signs": traffic_signs}
    scores = summarise(official, routes, rules, repetitions, **more) if whole else None
    table = closing_text(records, routes, rules, repetitions, folder=config.folder, **more)
    return DriveResult(
        folder, records, scores, "\n".join([table, *selection.notes, *other_values(records, selection.drawn)])
    )
