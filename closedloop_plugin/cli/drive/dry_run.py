"""`ad2 drive run --dry-run`: what a run would ask and take, and what is wrong with it; nothing is driven.

lmms-eval's models are not loaded. Each endpoint gets one request, with a grey picture, unless `no_probe` is given.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import Observation, RouteCommand
from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.driver.agents.endpoint import EndpointModel, endpoint_options
from closedloop_plugin.driver.agents.make import MODELS, check_backend
from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble, config_identity
from closedloop_plugin.runner.decisions import most_decisions
from closedloop_plugin.runner.driver import driver_of
from closedloop_plugin.runner.faults import needs_interpreter
from closedloop_plugin.runner.prepare import check_options, config_of, engine_of, routes_of
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.task import EpisodeTask
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.options import identity_of
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.storage.identity import check_folder

if TYPE_CHECKING:
    from closedloop_plugin.runner.options import DriveRunOptions

T = TypeVar("T")
GREY = 128
REPLY = "Keep the speed and follow the lane."  # of a model that is not asked


class RecordingModel:
    """Stands in for a model: checks its spec, records questions and answers each with REPLY."""

    def __init__(self, spec: str, seed: int = 0) -> None:
        check_backend(spec)
        self.spec, self.name = spec.strip(), spec.strip().partition(",")[0]
        self.described: dict[str, Any] | None = None  # as by the model itself; None: it must be loaded for that
        kind, _, rest = self.spec.partition(":")
        if kind == "endpoint":
            model = EndpointModel.from_spec(rest, seed=seed)
            self.name, self.described = model.name, model.describe()
        self.questions: list[ModelQuestion] = []

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        self.questions.extend(questions)
        return [ModelReply(REPLY)] * len(questions)

    def describe(self) -> dict[str, Any]:
        return self.described or {"model": self.name}


def dry_run(options: DriveRunOptions) -> int:
    """Print the plan, then every fault on a line of its own; 0 if the run could start, else 2."""
    faults: list[str] = []

    def taken(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except Ad2Error as exc:
            faults.append(str(exc))
            return None

    models: list[RecordingModel] = []
    taken(lambda: check_options(options))
    rules = taken(lambda: profile(options.profile))
    driver = taken(lambda: _driver(options, rules, models)) if rules and not faults else None
    subject = taken(lambda: routes_of(options))
    config = taken(lambda: _config(options)) if rules else None
    if subject and config:
        taken(lambda: _plan(options, config, subject, driver, models))
    for fault in dict.fromkeys(faults):
        show(f"error: {fault}", file=sys.stderr)
    print("the run can start" if not faults else f"the run cannot start: {len({*faults})} to correct, see above")
    return 2 if faults else 0


def _config(options: DriveRunOptions) -> RunConfig:
    """The run's settings, after the imports that its world needs."""
    config = config_of(options)
    config.world.maker()
    if options.engine == "local":  # the other one starts a cluster
        engine_of(options, config.world, config.limits.workers)
    return config


def _driver(options: DriveRunOptions, rules: Profile, models: list[RecordingModel]) -> DriverSetup:
    """The driver with a RecordingModel for each of its models; they have the questions of one decision afterwards."""

    def make_model(spec: str, **_: object) -> ModelBackend:
        models.append(RecordingModel(spec, options.seed))
        return models[-1]

    given = make_model(options.agent) if options.agent.strip().partition(":")[0] in MODELS else None
    driver = driver_of(options, rules, options.policy, given, make_model)
    if models:
        for tick in range(getattr(driver.agent, "length", 0) + 1):  # until its history is complete
            for model in models:
                model.questions.clear()
            request = _request(driver, tick)
            (decision,) = driver.agent.decide([request])
            if driver.interpreter is not None and needs_interpreter(decision):
                driver.interpreter.interpret([(request, decision)])
    return driver


def _request(driver: DriverSetup, tick: int) -> DecisionRequest:
    sizes = {camera.name: (camera.height, camera.width, 3) for camera in driver.cameras}
    images = {name: np.full(size, GREY, np.uint8) for name, size in sizes.items()}
    observation = Observation(tick, 0.1 * tick, 3.0, RouteCommand.FOLLOW, (10.0, 0.0), images.__getitem__)
    return DecisionRequest("dry run", observation)


def _plan(
    options: DriveRunOptions,
    config: RunConfig,
    subject: RouteSelection,
    driver: DriverSetup | None,
    models: list[RecordingModel],
) -> None:
    """Check the folder, and print what is to come."""
    check_folder(options.out, config_identity(config, subject))
    if driver is None:
        return
    run = assemble(config, subject, driver)
    if all(model.described for model in models):
        check_folder(options.out, {**run.identity, **identity_of(options, run.identity)})
    records = {(r.route_id, r.repetition): r for r in read_records(options.out)}
    finished = [r for t in run.tasks if (r := records.get((t.route_id, t.repetition)))]
    done = [r for r in finished if not (options.retry_failed and r.retryable)]
    over = {(r.route_id, r.repetition) for r in done}
    bound = _bound(config, [t for t in run.tasks if (t.route_id, t.repetition) not in over])
    to_come = len(run.tasks) - len(done)
    rate = min(options.decision_hz or config.profile.decision_hz, config.profile.hz)
    mean = sum(r.counts.get("decisions", 0) for r in done) / len(done) if done else 0.0
    typical = f", about {to_come * mean:,.0f} as in the episodes that are done" if done else ""
    show(f"episodes   {len(run.tasks)}, of which {len(done)} are done in {options.out}; {to_come} to come")
    show(f"decisions  {rate:g} per simulated second: {bound} to come{typical}")
    asked = [model for model in models if model.questions]
    for model in models if asked else ():
        if not model.questions:  # the second slow system of --mode hybrid; its probe gets the first one's question
            show(f"requests   in situations with a threat to {model.name}, instead of {asked[-1].name}")
            model.questions.extend(asked[-1].questions)
            _probe(model, options.no_probe)
    if asked:
        _print_requests(asked, bound, min(config.limits.workers, max(to_come, 1)), options.no_probe)
    else:
        print("requests   none: no model is asked")


@dataclass(frozen=True)
class DecisionBound:
    """The largest number of decisions to come; not `exact` where a time limit depends on a map that is not made yet."""

    decisions: int
    exact: bool

    @property
    def words(self) -> str:
        return "at most" if self.exact else "about at most"

    def __str__(self) -> str:
        return f"{self.words} {self.decisions:,}"

    def times(self, n: int) -> DecisionBound:
        return replace(self, decisions=n * self.decisions)


def _bound(config: RunConfig, tasks: Sequence[EpisodeTask]) -> DecisionBound:
    """Decisions of episodes that reach the time limit."""
    rules = config.profile
    phases = len(config.rules.latency.values) or 1  # of the latencies, by which episodes differ
    kinds = Counter((_most_ticks(rules, task.setup.route), task.driver_seed % phases) for task in tasks)
    decisions = sum(n * most_decisions(rules, config.rules, ticks, seed) for (ticks, seed), n in kinds.items())
    return DecisionBound(decisions, exact=rules.max_ticks <= rules.timeout_base_s * rules.hz)


def _most_ticks(rules: Profile, route: Route | None) -> int:
    """Ticks until the limit of ticks or of the route's time, on a road with the usual speed limit."""
    metres = route.length if route else 0.0
    seconds = rules.timeout_base_s + metres / (RoadMap.speed_limit * rules.timeout_limit_share)
    return min(rules.max_ticks, math.floor(seconds * rules.hz) + 1)


def _print_requests(models: Sequence[RecordingModel], bound: DecisionBound, workers: int, no_probe: bool) -> None:
    """Requests, images, and the estimate from one probe of each endpoint."""
    replies = []
    for model in models:
        n, images = len(model.questions), _images(model.questions[0])
        show(f"requests   {n} per decision to {model.name}, each with {images}: {bound.times(n)} to come")
        replies.append((n, _probe(model, no_probe)))
    known = [(n, reply) for n, reply in replies if reply is not None]
    if len(known) < len(replies):
        print("estimate   none without a reply of each model")
        return
    hours = bound.decisions * sum(reply.seconds for _, reply in known) / 3600 / workers
    at_once = f"{workers} episode{'s' * (workers != 1)} at a time"
    spent_in = _tokens([(n, reply.tokens_in) for n, reply in known], bound.decisions)
    spent_out = _tokens([(n, reply.tokens_out) for n, reply in known], bound.decisions)
    show(f"estimate   {bound.words}, from the probe: {spent_in} in, {spent_out} out, and {hours:.2g} hours of waiting")
    show(f"           for replies with {at_once}; the simulation takes its time besides")


def _tokens(counts: Sequence[tuple[int, int | None]], decisions: int) -> str:
    """Tokens of all decisions. `counts`: requests per decision, and tokens of one."""
    each = [n * count for n, count in counts if count]
    return f"{decisions * sum(each):,} tokens" if len(each) == len(counts) else "tokens not reported"


def _images(question: ModelQuestion) -> str:
    """Number and sizes of a question's images."""
    shapes = [image.shape for image in question.images if not isinstance(image, str)]
    sizes = dict.fromkeys(f"{width}x{height}" for height, width, _ in shapes)
    return f"{len(shapes)} image{'s' * (len(shapes) != 1)}" + (f" of {' and '.join(sizes)}" if sizes else "")


def _probe(model: RecordingModel, skipped: bool) -> ModelReply | None:
    """The reply to one request; None if the model is not behind an endpoint, or the probe is skipped."""
    kind, _, rest = model.spec.partition(":")
    if kind != "endpoint" or skipped:
        why = "left out (--config no_probe=true)" if skipped else "none: the model is not loaded"
        show(f"probe      {why}")
        return None
    endpoint = EndpointModel({**endpoint_options(rest), "max_retries": 0})
    show(f"probe      one request to {endpoint.endpoint.base_url}", flush=True)
    (reply,) = endpoint.ask(model.questions[:1])
    if reply.error is not None:
        raise Ad2Error(f"{model.name}: the request of the dry run was not answered: {reply.error}")
    counts = [f"{count:,} tokens {way}" for count, way in ((reply.tokens_in, "in"), (reply.tokens_out, "out")) if count]
    line = " ".join(reply.text.split())
    show(f"           {reply.seconds:.2f} s, {', '.join(counts) or 'tokens not reported'}: {line[:80]!r}")
    return reply
