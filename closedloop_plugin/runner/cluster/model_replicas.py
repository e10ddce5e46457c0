"""ReplicatedModel: several copies of a model as Ray actors, which answer several batches at the same time.

Each world's question comes in a thread of its own (the model is `concurrent`). A thread per replica collects a batch of
the questions that wait and sends it to its replica. A batch waits for its share of the worlds, at most for half of the
replica's last call. The batch of a lost replica is answered by the others; its successor is placed where its GPUs are
free.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion, ModelReply
from closedloop_plugin.runner.cluster.connection import actor_environment, connected, is_node_loss, last_line_of
from closedloop_plugin.runner.recipe import FactoryRecipe
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show

LEAST_S, MOST_S = 0.005, 1.0  # bounds of the time that a batch waits for further questions
DEATHS = 3  # in a row, besides those of whole nodes, after which a replica is given up, and with it the model
CLOSE_S = 5.0  # for the thread of a replica to end
NOTE_S = 10.0  # of waiting for a replica, after which this is reported


class ModelActor:
    """One copy of the model; Ray constructs it. Errors of the user are returned, since Ray would add a traceback."""

    def __init__(self, recipe: FactoryRecipe) -> None:
        self._model: ModelBackend | Ad2Error
        try:
            self._model = recipe.make()
        except Ad2Error as exc:
            self._model = exc

    def describe(self) -> tuple[str, dict[str, Any]] | str:
        """(name, description) of the model; or the error of its construction."""
        return str(self._model) if isinstance(self._model, Ad2Error) else (self._model.name, self._model.describe())

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply] | str:
        if isinstance(self._model, Ad2Error):
            return str(self._model)
        try:
            return self._model.ask(questions)
        except Ad2Error as exc:
            return str(exc)


@dataclass(eq=False)
class OpenQuestions:
    """The questions of one call of `ask`, and their replies when they are answered."""

    questions: Sequence[ModelQuestion]
    replies: list[ModelReply] | None = None


class ReplicatedModel:
    """A ModelBackend. `recipe`: makes the model in each actor; `gpus`: of each; None: 1 if the cluster has any, else 0.

    Raises Ad2Error if the model cannot be loaded. Returns when the first replica is ready.
    """

    concurrent = True

    def __init__(self, recipe: FactoryRecipe, replicas: int, gpus: float | None = None) -> None:
        self._ray, self._recipe, self._replicas = connected(), recipe, replicas
        found = self._ray.cluster_resources().get("GPU", 0)
        self._gpus = float(found > 0) if gpus is None else gpus
        self._actor = self._ray.remote(ModelActor)
        self._waiting: deque[OpenQuestions] = deque()
        self._open = 0  # calls of `ask` that are not answered
        self._change = threading.Condition()
        self._fault: BaseException | None = None
        self._actors = [self._start() for _ in range(replicas)]
        try:
            self.name, self._description = self._loaded(self._actors[0], note=True)
        except self._ray.exceptions.RayError as exc:
            raise Ad2Error(f"a replica of the model does not start: {last_line_of(exc)}") from exc
        self._threads = [threading.Thread(target=self._serve, args=(n,), daemon=True) for n in range(replicas)]
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)  # before Ray's own, after which a call of Ray ends the process with an error

    @property
    def usable(self) -> bool:
        """Whether it answers: it was not closed, and no error has ended it."""
        return self._fault is None

    def close(self) -> None:
        """End the replicas and their threads; open calls raise Ad2Error."""
        self._end(Ad2Error("the model is closed"))
        for actor in self._actors:
            with contextlib.suppress(Exception):  # the cluster is lost
                self._ray.kill(actor)
        for thread in self._threads:
            thread.join(CLOSE_S)

    def describe(self) -> dict[str, Any]:
        return dict(self._description)

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        """See ModelBackend.ask; may be called in several threads."""
        item = OpenQuestions(questions)
        with self._change:
            self._waiting.append(item)
            self._open += 1
            self._change.notify_all()
            self._change.wait_for(lambda: item.replies is not None or self._fault is not None)
        if item.replies is None:
            raise Ad2Error(str(self._fault) or repr(self._fault)) from self._fault
        return item.replies

    def _start(self) -> Any:
        options = {"num_cpus": 0, "num_gpus": self._gpus, "max_restarts": 0}
        return self._actor.options(**options, runtime_env=actor_environment()).remote(self._recipe)

    def _loaded(self, actor: Any, note: bool = False) -> tuple[str, dict[str, Any]]:
        """Name and description of the model, when a replica has loaded it."""
        reference = actor.describe.remote()
        while note and not self._ray.wait([reference], timeout=NOTE_S)[0]:
            show(
                f"waiting for the first of {self._replicas} replicas of the model, {self._gpus:g} GPUs each", flush=True
            )
            note = False
        described = self._ray.get(reference)
        if isinstance(described, str):
            raise Ad2Error(described)
        return described

    def _serve(self, number: int) -> None:
        """In a thread: answer until the end. Every error is raised by `ask`, in the threads that wait."""
        try:
            self._serve_replica(number)
        except BaseException as exc:  # a thread that ends otherwise would let `ask` wait without end
            self._end(exc)

    def _serve_replica(self, number: int) -> None:
        """Send batches to one replica and, when it is lost, to its successor."""
        deaths, last_call_s, loaded = 0, 0.0, False
        while self._fault is None:
            batch: list[OpenQuestions] = []
            try:
                if not loaded:
                    self._loaded(self._actors[number])
                    loaded = True
                batch = self._batch(last_call_s)
                if not batch:
                    return
                started = time.monotonic()
                self._answer(batch, self._ray.get(self._actors[number].ask.remote(_questions(batch))))
                deaths, last_call_s = 0, time.monotonic() - started
            except self._ray.exceptions.RayActorError as exc:
                deaths += not is_node_loss(exc)
                if deaths >= DEATHS:
                    raise Ad2Error(f"a replica of the model died {deaths} times: {last_line_of(exc)}") from exc
                with self._change:
                    self._waiting.extendleft(reversed(batch))
                    self._change.notify_all()
                    if self._fault is not None:
                        return
                    self._actors[number], loaded = self._start(), False

    def _batch(self, last_call_s: float) -> list[OpenQuestions]:
        """The next batch of a replica: its share of the calls that are open; empty at the end."""
        window = min(max(last_call_s / 2, LEAST_S), MOST_S)
        with self._change:
            while self._fault is None:
                self._change.wait_for(lambda: self._waiting or self._fault)
                self._change.wait_for(lambda: not 0 < len(self._waiting) < self._share(), timeout=window)
                if self._waiting:  # not taken by another replica meanwhile
                    return [self._waiting.popleft() for _ in range(min(len(self._waiting), self._share()))]
        return []

    def _share(self) -> int:
        return math.ceil(self._open / self._replicas)

    def _answer(self, batch: Sequence[OpenQuestions], replies: list[ModelReply] | str) -> None:
        if isinstance(replies, str):
            raise Ad2Error(replies)
        if len(replies) != sum(len(item.questions) for item in batch):
            raise Ad2Error(f"a replica of the model gave {len(replies)} replies to {len(_questions(batch))} questions")
        remaining = iter(replies)
        with self._change:
            for item in batch:
                item.replies = [next(remaining) for _ in item.questions]
            self._open -= len(batch)
            self._change.notify_all()

    def _end(self, fault: BaseException) -> None:
        with self._change:
            self._fault = self._fault or fault
            self._change.notify_all()


def _questions(batch: Sequence[OpenQuestions]) -> list[ModelQuestion]:
    """All questions of a batch, with keys that are unique in it."""
    questions = [question for item in batch for question in item.questions]
    return [replace(question, key=str(number)) for number, question in enumerate(questions)]
