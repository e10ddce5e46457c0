"""`ad2 drive run --dry-run`: what a run would ask and take, and what is wrong with it; nothing is driven.

lmms-eval's models are not loaded. Each endpoint gets one request, with a grey picture, unless --no-probe is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from closedloop_plugin.agents.base import DecisionRequest
from closedloop_plugin.agents.endpoint import EndpointModel, endpoint_options
from closedloop_plugin.agents.make import MODELS, check_backend
from closedloop_plugin.agents.model_backend import ModelBackend, ModelQuestion, ModelReply
from closedloop_plugin.cli.drive import prepared_run
from closedloop_plugin.cli.drive.selection import program_subject, suite_subject
from closedloop_plugin.cli.drive.world import engine_of, world_of
from closedloop_plugin.core.profiles import Profile, profile
from closedloop_plugin.core.state import Observation, RouteCommand
from closedloop_plugin.runner.assemble import DriverSetup, RouteSelection, RunConfig, assemble, config_identity
from closedloop_plugin.runner.run import AGAIN
from closedloop_plugin.runner.store import read_records
from closedloop_plugin.runner.system_calls import needs_interpreter
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.options import identity_of
from lmms_eval_ad2.printed import show
from lmms_eval_ad2.storage.identity import check_folder

if TYPE_CHECKING:
    from closedloop_plugin.cli.drive.run import DriveRunOptions

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
    taken(lambda: prepared_run.check_options(options))
    rules = taken(lambda: profile(options.profile))
    driver = taken(lambda: _driver(options, rules, models)) if rules and not faults else None
    subject = taken(lambda: _subject(options))
    config = taken(lambda: _config(options, rules)) if rules else None
    if subject and config:
        taken(lambda: _plan(options, config, subject, driver, models))
    for fault in dict.fromkeys(faults):
        show(f"error: {fault}", file=sys.stderr)
    print("the run can start" if not faults else f"the run cannot start: {len({*faults})} to correct, see above")
    return 2 if faults else 0


def _subject(options: DriveRunOptions) -> RouteSelection:
    if options.scenario:
        return program_subject(options, options.scenario)[0]
    return suite_subject(options, options.suite or "")[0]


def _config(options: DriveRunOptions, rules: Profile) -> RunConfig:
    """The run's settings, after the imports that its world needs."""
    world, workers = world_of(options, options.workers)
    world.maker()
    if options.engine == "local":  # the other one starts a cluster
        engine_of(options, world, workers)
    config = RunConfig(
        folder=options.out,
        world=world,
        profile=rules,
        rules=prepared_run.decision_rules(options),
        seed=options.seed,
        traffic=not options.no_traffic,
    )
    return replace(config, limits=prepared_run.limits_of(options, world, workers))


def _driver(options: DriveRunOptions, rules: Profile, models: list[RecordingModel]) -> DriverSetup:
    """The driver with a RecordingModel for each of its models; they have the questions of one decision afterwards."""

    def make_model(spec: str, **_: object) -> ModelBackend:
        models.append(RecordingModel(spec, options.seed))
        return models[-1]

    given = make_model(options.agent) if options.agent.strip().partition(":")[0] in MODELS else None
    driver = prepared_run.driver_of(options, rules, options.policy, given, make_model)
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
    done = [r for r in finished if not (options.retry_failed and r.end in AGAIN)]
    to_come = len(run.tasks) - len(done)
    rules = config.profile
    rate = min(options.decision_hz or rules.decision_hz, rules.hz)
    decisions = to_come * round(rules.max_ticks * rate / rules.hz)
    mean = sum(r.counts.get("decisions", 0) for r in done) / len(done) if done else 0.0
    typical = f", about {to_come * mean:,.0f} as in the episodes that are done" if done else ""
    show(f"episodes   {len(run.tasks)}, of which {len(done)} are done in {options.out}; {to_come} to come")
    show(f"decisions  {rate:g} per simulated second: at most {decisions:,} to come{typical}")
    asked = [model for model in models if model.questions]
    if asked:
        _print_requests(asked, decisions, min(config.limits.workers, max(to_come, 1)), options.no_probe)
    else:
        print("requests   none: no model is asked")


def _print_requests(models: Sequence[RecordingModel], decisions: int, workers: int, no_probe: bool) -> None:
    """Requests, images, and the estimate from one probe of each endpoint."""
    replies = []
    for model in models:
        n, images = len(model.questions), _images(model.questions[0])
        show(f"requests   {n} per decision to {model.name}, each with {images}: at most {n * decisions:,} to come")
        replies.append((n, _probe(model, no_probe)))
    known = [(n, reply) for n, reply in replies if reply is not None]
    if len(known) < len(replies):
        print("estimate   none without a reply of each model")
        return
    hours = decisions * sum(reply.seconds for _, reply in known) / 3600 / workers
    at_once = f"{workers} episode{'s' * (workers != 1)} at a time"
    spent_in = _tokens([(n, reply.tokens_in) for n, reply in known], decisions)
    spent_out = _tokens([(n, reply.tokens_out) for n, reply in known], decisions)
    show(f"estimate   at most, from the probe: {spent_in} in, {spent_out} out, and {hours:.2g} hours of waiting for")
    show(f"           replies with {at_once}; the simulation takes its time besides")


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
        why = "left out (--no-probe)" if skipped else "none: the model is not loaded"
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
