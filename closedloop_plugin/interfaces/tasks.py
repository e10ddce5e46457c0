"""The `ad2drive_*` tasks: the closed loop in lmms-eval, with the model under test as fast system.

Imported by the YAMLs of the tasks only. lmms-eval passes the documents of a `generate_until_agentic` task to one
function, which processes them one by one. For tasks with `metadata: ad2drive:` this module replaces that function at
import by the runner of `ad2 drive run`: worlds in separate processes, and the model called through generate_until for
all waiting worlds at once. A document is a route, its answer the EpisodeRecord as JSON. The same seed gives the scores
of `ad2 drive run`.

The suite "threat" is a folder made by `ad2 threats generate` for one target model: AD2_THREATS, else HOME/threats. The
results contain folder, target and fuser in the task's metadata.

Environment variables override the YAML's settings: AD2_DRIVE_INTERPRETER, AD2_DRIVE_MODE, AD2_DRIVE_PROFILE,
AD2_DRIVE_SEED, AD2_DRIVE_WORKERS, AD2_DRIVE_WORLD, AD2_DRIVE_CAMERA, AD2_DRIVE_HISTORY, AD2_DRIVE_STOP_AFTER_UNREAD,
AD2_DRIVE_SKIP_UNMAPPED.
AD2_DRIVE_OUT keeps the run's folder, so that an interrupted run can be resumed with the same model and model_args, but
not if lmms-eval was called with a model object.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval import evaluator
from lmms_eval.api.task import ConfigurableTask

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.record import EpisodeRecord
from closedloop_plugin.core.routes import select
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.history import with_history
from closedloop_plugin.driver.agents.lmms_model import LmmsModel
from closedloop_plugin.driver.agents.make import cameras_of
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.interpreters.make import make_interpreter
from closedloop_plugin.driver.prompts.texts import texts_of
from closedloop_plugin.learn.contamination import of_models
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble
from closedloop_plugin.runner.decisions import DecisionRules
from closedloop_plugin.runner.early_stop import STOP_AFTER_UNREAD
from closedloop_plugin.runner.pool import PoolLimits
from closedloop_plugin.runner.recipe import FactoryRecipe
from closedloop_plugin.runner.routes import check_mapped, drivable, left_out_note, not_played, without
from closedloop_plugin.runner.run import run
from closedloop_plugin.scenarios.suites.lookup import Suite, suite
from closedloop_plugin.scoring.official import from_episode
from closedloop_plugin.scoring.summary import summarise
from closedloop_plugin.threats.task_suite import THREAT, about, suite_of
from closedloop_plugin.worlds.recipes import workers_for, world_recipe
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.harness.run import current
from lmms_eval_ad2.storage.redaction import redacted
from lmms_eval_ad2.storage.training_card import STRICT_ENV

PREFIX = "ad2drive:"  # dataset_path: "ad2drive:SUITE"
DEFAULTS: Mapping[str, Any] = {
    "interpreter": "rules",
    "mode": "rules",
    "profile": "bench2advlm",
    "camera": "front",
    "history": 0,
    "seed": 0,
    "workers": 1,
    "world": "embedded",
    "servers": None,
    "stop_after_unread": STOP_AFTER_UNREAD,
    "skip_unmapped": 0,
}
TASKS: dict[str, dict[str, Any]] = {}  # task -> its settings, filled when its documents are loaded
SUITES: dict[str, Suite] = {}  # by name in records, filled likewise, since a folder's name does not give its path
_model_spec: tuple[str, str] | None = None  # model and model_args of the running evaluation, if known


def settings_of(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings from defaults, overridden by the YAML's `metadata: ad2drive:`, overridden by the environment."""
    given = dict((metadata or {}).get("ad2drive") or {})
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise Ad2Error(f"metadata ad2drive: unknown {', '.join(unknown)}; known: {', '.join(DEFAULTS)}")
    settings = {**DEFAULTS, **given}
    for name in DEFAULTS:
        if (text := os.environ.get(f"AD2_DRIVE_{name.upper()}")) is not None:
            settings[name] = text
    for name in ("seed", "workers", "history", "stop_after_unread", "skip_unmapped"):
        try:
            settings[name] = int(settings[name])
        except (TypeError, ValueError):
            raise Ad2Error(f"AD2_DRIVE_{name.upper()}: expected a whole number, found '{settings[name]}'") from None
    if settings["workers"] < 1:
        raise Ad2Error(f"AD2_DRIVE_WORKERS {settings['workers']}: 1 or more")
    if settings["stop_after_unread"] < 0:
        raise Ad2Error(f"AD2_DRIVE_STOP_AFTER_UNREAD {settings['stop_after_unread']}: 0 or more")
    if settings["skip_unmapped"] not in (0, 1):
        raise Ad2Error(f"AD2_DRIVE_SKIP_UNMAPPED {settings['skip_unmapped']}: 0 or 1")
    return settings


# Functions that the YAMLs refer to. The result of doc_to_text is not used: the agent makes a prompt for every tick.


def doc_to_text(doc: Mapping[str, Any], **_: Any) -> str:
    return f"Drive route {doc['id']} ({doc['scenario']})."


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    return []


def doc_to_target(doc: Mapping[str, Any]) -> str:
    return "completed"


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Values of the metrics for one route; for those defined over the whole run the record (see `aggregated`).

    A route on an experimental map, or not driven by somebody's fault, has no score and is not part of means, as in
    `ad2 drive run`.
    """
    line = results[0]
    record = EpisodeRecord.from_json(line)
    counts = not record.map.get("experimental", False) and not record.blamed
    return {
        "driving_score": record.score_composed if counts else None,
        "success_rate": 100.0 * record.success if counts else None,
        "efficiency": line,
        "comfortness": line,
        "skill_score": line,
        "unparsed": record.counts.get("unparsed", 0),
        "faulted": int(bool(record.blamed)),
    }


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def total(values: Sequence[int]) -> int:
    return sum(values)


def efficiency(lines: Sequence[str]) -> float | None:
    return aggregated(lines, "efficiency")


def comfortness(lines: Sequence[str]) -> float | None:
    return aggregated(lines, "comfortness")


def skill_score(lines: Sequence[str]) -> float | None:
    return aggregated(lines, "skill_score")


def aggregated(lines: Sequence[str], name: str) -> float | None:
    """One value of the summary that `ad2 drive score` prints; None if the routes do not define it."""
    records = [EpisodeRecord.from_json(line) for line in lines]
    found = SUITES.get(records[0].suite) or suite(records[0].suite, records[0].world["backend"])
    driven = {r.route_id for r in records}
    routes = [route for route in found.routes if route.id in driven]
    return summarise([from_episode(r) for r in records], routes, profile(records[0].profile))[name]


# Patches of lmms-eval.


def _wrap_download(original: Callable[..., Any]) -> Callable[..., Any]:
    def download(self: Any, dataset_kwargs: Any = None) -> Any:
        path = self.config.dataset_path
        if not (isinstance(path, str) and path.startswith(PREFIX)):
            return original(self, dataset_kwargs)
        import datasets

        settings = settings_of(self.config.metadata)
        name = path[len(PREFIX) :]
        TASKS[self.config.task] = {**settings, "suite": name}
        found = SUITES[name] = _to_drive(suite_of(name), settings)
        SUITES[found.name] = found
        if found.left_out and name != THREAT:
            self.config.metadata = {**(self.config.metadata or {}), "left_out": dict(found.left_out)}
        if trained := _training(found, settings["world"]):
            self.config.metadata = {**(self.config.metadata or {}), "training": trained}
        if name == THREAT:
            self.config.metadata = {**(self.config.metadata or {}), "threats": about(found)}
        rows = [{"id": r.id, "scenario": r.scenario, "town": r.town} for r in found.routes]
        self.dataset = self.dataset_no_image = {self.config.test_split or "test": datasets.Dataset.from_list(rows)}
        return None

    return download


def _to_drive(found: Suite, settings: Mapping[str, Any]) -> Suite:
    """The suite without the routes that cannot be read and, with skip_unmapped, without those that have no map."""
    kept = drivable(found, settings["world"])
    if settings["skip_unmapped"] and settings["world"] == "embedded":
        kept = without(kept, check_mapped(kept.name, kept.routes, {}, skip=True))
    for note in left_out_note(kept):
        show(f"ad2: {kept.name}: {note}", file=sys.stderr, flush=True)
    return kept


def _training(found: Suite, world: str) -> dict[str, Any]:
    """The routes that the model was trained on, for the task's metadata; {} if it does not name its training data.

    Raises Ad2Error if there are some and AD2_STRICT_CONTAMINATION is set.
    """
    source = "town" if world == "carla" else "corridor"
    trained = of_models(
        [current().model_args], found.routes, asked=found.ids, maps=lambda route: source,
        strict=os.environ.get(STRICT_ENV) == "1",
    )  # fmt: skip
    if trained is None:
        return {}
    if trained.leaks:
        show(f"ad2: {found.name}: {trained.line()}", file=sys.stderr, flush=True)
    return trained.to_dict()


def _wrap_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note name and arguments of the model, which functions called later do not receive."""

    @functools.wraps(original)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        global _model_spec
        before, _model_spec = _model_spec, _spec_of(kwargs.get("cli_args"))
        try:
            return original(*args, **kwargs)
        finally:
            _model_spec = before

    return evaluate


def _spec_of(cli: Any) -> tuple[str, str] | None:
    """Model and model_args as text, with redacted keys and tokens."""
    model, args = getattr(cli, "model", None), getattr(cli, "model_args", None) or ""
    if not isinstance(model, str):
        return None
    if isinstance(args, Mapping):
        args = ",".join(f"{key}={value}" for key, value in args.items())
    return model, redacted(str(args))


def _wrap_agentic(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def play(lm: Any, requests: list[Any], agentic_trace_mode: str = "basic", response_cache: Any = None) -> list[str]:
        answers: dict[int, str] = {}
        for task in TASKS:
            own = [i for i, r in enumerate(requests) if r.args[5] == task]
            if own:
                answers.update(zip(own, drive(lm, [requests[i] for i in own], task), strict=True))
        others = [i for i in range(len(requests)) if i not in answers]
        if others:
            remaining = [requests[i] for i in others]
            rest = original(lm, remaining, agentic_trace_mode=agentic_trace_mode, response_cache=response_cache)
            answers.update(zip(others, rest, strict=True))
        return [answers[i] for i in range(len(requests))]

    return play


def drive(lm: Any, requests: Sequence[Any], task: str) -> list[str]:
    """One EpisodeRecord as JSON per request, in order. A route requested twice (rank padding) is run once."""
    settings = TASKS[task]
    ids = [_doc(lm, request)["id"] for request in requests]
    found = SUITES[settings["suite"]]
    routes = tuple(select(found.routes, dict.fromkeys(ids)))
    if settings["world"] == "embedded":
        check_mapped(found.name, routes, {}, skip=False)
    driver = _driver(lm, requests[0].args[1], settings)
    with tempfile.TemporaryDirectory(prefix="ad2drive_") as scratch:
        kept = os.environ.get("AD2_DRIVE_OUT")
        # A folder has one writer, so each rank and each task has its own.
        folder = Path(kept or scratch) / f"{task}_rank{int(os.environ.get('RANK', 0))}"
        if _model_spec is None and (folder / "run.json").exists():
            raise Ad2Error(
                f"{folder}: contains a run, possibly of another model; choose another AD2_DRIVE_OUT, or use the "
                "command line of lmms-eval"
            )
        world = world_recipe(settings["world"], settings["servers"])
        workers = workers_for(world, None if world.each else settings["workers"])
        config = RunConfig(
            folder=folder,
            world=world,
            profile=profile(settings["profile"]),
            seed=settings["seed"],
            track=FactoryRecipe("closedloop_plugin.report.track_log:TrackLog"),
            limits=PoolLimits(workers),
            stop_after_unread=settings["stop_after_unread"],
        )
        selection = RouteSelection(
            name=found.name, sha256=found.sha256, all_ids=found.ids, routes=routes, programs=found.programs,
            alone=found.alone,
            draws={route: draw.seed for route, draw in found.draws.items() if draw.alone == found.alone},
            left_out=found.left_out, not_played=not_played(routes, {}, settings["world"]),
        )  # fmt: skip
        records = run(assemble(config, selection, driver))
    for record in records:
        if record.blamed:
            show(f"ad2: failed: {record.failure}", file=sys.stderr, flush=True)
    lines = {record.route_id: record.to_json() for record in records}
    return [lines[i] for i in ids]


def _driver(lm: Any, generation: Mapping[str, Any], settings: Mapping[str, Any]) -> DriverSetup:
    """Fast and slow system as in `ad2 drive run`, with the model that lmms-eval has loaded."""
    rules = profile(settings["profile"])
    cameras = cameras_of(settings["camera"], rules)
    generation_settings = {name: generation[name] for name in ("max_new_tokens", "temperature") if name in generation}
    name, args = _model_spec or (type(lm).__name__, "")
    model = LmmsModel(lm, name, args, generation_settings)
    names, past = tuple(c.name for c in cameras), settings["history"]
    agent = with_history(
        ModelAgent(model, DrivingPrompts(texts_of(None), rules, names, history=past), cameras), length=past
    )
    spec = settings["interpreter"]
    mode = settings["mode"] if spec == "rules" or settings["mode"] != "rules" else "cng"
    interpreter = make_interpreter(
        spec, mode, rules, seed=settings["seed"], official=DecisionRules.policy == "official"
    )
    return DriverSetup(agent, interpreter, cameras=cameras)


def _doc(lm: Any, request: Any) -> Mapping[str, Any]:
    _, _, _, _, doc_id, task, split = request.args
    return lm.task_dict[task][split][doc_id]


def _install() -> None:
    """Works because lmms-eval looks these functions up at each call, and reads the importing YAML before the first."""
    ConfigurableTask.download = _wrap_download(ConfigurableTask.download)
    evaluator.evaluate = _wrap_evaluate(evaluator.evaluate)
    evaluator._run_generate_until_agentic = _wrap_agentic(evaluator._run_generate_until_agentic)


_install()
