"""Replicas of a model, with threads in place of Ray's actors: batches in flight, lost replicas, errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from closedloop_plugin.driver.agents.make import make_backend
from closedloop_plugin.driver.agents.model_backend import ModelQuestion, ModelReply
from closedloop_plugin.runner.cluster import model_replicas
from closedloop_plugin.runner.cluster.model_replicas import ReplicatedModel
from closedloop_plugin.runner.recipe import FactoryRecipe
from lmms_eval_ad2.core.errors import Ad2Error


class ActorLostError(Exception):
    pass


class FakeRay:
    """Actors as objects whose methods run in a thread each."""

    def __init__(self, gpus: float = 0.0) -> None:
        self.gpus, self.created = gpus, [0.0]
        self.exceptions = SimpleNamespace(RayActorError=ActorLostError, RayError=ActorLostError)
        self.started: list[dict[str, Any]] = []
        self.kill: Callable[[Any], None] = lambda actor: None

    def cluster_resources(self) -> dict[str, float]:
        return {"GPU": self.gpus} if self.gpus else {}

    def remote(self, kind: type) -> Any:
        def options(**given: Any) -> Any:
            assert "PYTHONPATH" in given.pop("runtime_env")["env_vars"]
            self.started.append(given)
            return SimpleNamespace(remote=lambda *args: FakeActor(kind(*args)))

        return SimpleNamespace(options=options)

    def wait(self, references: list[Future[Any]], timeout: float) -> tuple[list[Future[Any]], list[Future[Any]]]:
        return references, []

    def get(self, reference: Future[Any]) -> Any:
        return reference.result(timeout=60)


class FakeActor:
    def __init__(self, value: Any) -> None:
        self._value, self._threads = value, ThreadPoolExecutor(1)

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args: self._threads.submit(getattr(self._value, name), *args))


class EchoModel:
    """Replies with the question's text. `work`: called first, with the questions of a call."""

    name = "echo"

    def __init__(self, work: Callable[[Sequence[ModelQuestion]], None]) -> None:
        self.work = work

    def ask(self, questions: Sequence[ModelQuestion]) -> list[ModelReply]:
        self.work(questions)
        return [ModelReply(q.text) for q in questions]

    def describe(self) -> dict[str, Any]:
        return {"model": "echo"}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    found = FakeRay()
    monkeypatch.setattr(model_replicas, "connected", lambda: found)
    return found


def replicated(replicas: int, work: Callable[[Sequence[ModelQuestion]], None]) -> ReplicatedModel:
    return ReplicatedModel(FactoryRecipe(f"{__name__}:EchoModel", {"work": work}), replicas)


def ask_all(model: ReplicatedModel, texts: Sequence[str]) -> list[str]:
    """One call of `ask` per text, all at once; the replies."""
    with ThreadPoolExecutor(len(texts)) as threads:
        calls = [threads.submit(model.ask, [ModelQuestion("0", text)]) for text in texts]
        return [call.result(timeout=60)[0].text for call in calls]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, __name__, SimpleNamespace(EchoModel=EchoModel))


def test_two_replicas_answer_two_batches_at_the_same_time(ray: FakeRay) -> None:
    both = threading.Barrier(2, timeout=60)  # broken unless two calls are in flight
    model = replicated(2, lambda questions: (both.wait(), None)[1])
    assert ask_all(model, ["a", "b"]) == ["a", "b"]
    assert (model.name, model.describe(), model.concurrent) == ("echo", {"model": "echo"}, True)
    assert ray.started == [{"num_cpus": 0, "num_gpus": 0.0, "max_restarts": 0}] * 2


def test_questions_that_arrive_during_a_call_are_the_next_batch(ray: FakeRay) -> None:
    first, go_on, sizes = threading.Event(), threading.Event(), []

    def work(questions: Sequence[ModelQuestion]) -> None:
        assert len({q.key for q in questions}) == len(questions)
        sizes.append(len(questions))
        first.set()
        go_on.wait(60)

    model = replicated(1, work)
    with ThreadPoolExecutor(6) as threads:
        calls = [threads.submit(model.ask, [ModelQuestion("0", "a")])]
        first.wait(60)
        calls += [threads.submit(model.ask, [ModelQuestion("0", t), ModelQuestion("1", t)]) for t in "bcdef"]
        while len(model._waiting) < 5:
            pass
        go_on.set()
        replies = [[r.text for r in call.result(60)] for call in calls]
    assert replies == [["a"], ["b"] * 2, ["c"] * 2, ["d"] * 2, ["e"] * 2, ["f"] * 2]
    assert sizes == [1, 10]


def test_the_questions_of_a_lost_replica_are_answered(ray: FakeRay) -> None:
    lost = threading.Semaphore(1)

    def work(questions: Sequence[ModelQuestion]) -> None:
        if lost.acquire(blocking=False):
            raise ActorLostError("The actor died because its node has died.")

    assert ask_all(replicated(2, work), list("abcdefgh")) == list("abcdefgh")
    assert len(ray.started) == 3


def test_a_replica_that_always_dies_ends_the_run(ray: FakeRay) -> None:
    def work(questions: Sequence[ModelQuestion]) -> None:
        raise ActorLostError("out of memory")

    with pytest.raises(Ad2Error, match="a replica of the model died 3 times: out of memory"):
        ask_all(replicated(1, work), ["a", "b"])


@pytest.mark.parametrize("fault", [RuntimeError("the cluster is lost"), SystemExit("the cluster is lost")])
def test_a_replica_without_a_successor_ends_the_run(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def work(questions: Sequence[ModelQuestion]) -> None:
        raise ActorLostError("out of memory")

    def cannot_start(model: ReplicatedModel) -> None:
        raise fault

    model = replicated(1, work)
    monkeypatch.setattr(ReplicatedModel, "_start", cannot_start)
    with pytest.raises(Ad2Error, match=r"^the cluster is lost$"):
        ask_all(model, ["a"])
    assert not model.usable


def test_a_replica_with_another_number_of_replies_ends_the_run(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EchoModel, "ask", lambda model, questions: [])
    with pytest.raises(Ad2Error, match="gave 0 replies to 1 questions"):
        ask_all(replicated(1, lambda questions: None), ["a"])


def test_closing_ends_threads_and_open_calls(ray: FakeRay) -> None:
    began, go_on = threading.Event(), threading.Event()

    def work(questions: Sequence[ModelQuestion]) -> None:
        began.set()
        go_on.wait(60)

    model = replicated(1, work)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(model.ask, [ModelQuestion("0", "a")])
        began.wait(60)
        ray.kill = lambda actor: go_on.set()
        model.close()
        with contextlib.suppress(Ad2Error):  # unless the answer was faster
            call.result(60)
    assert not any(thread.is_alive() for thread in model._threads)


def test_an_error_of_the_user_in_a_replica_ends_the_run(ray: FakeRay) -> None:
    def work(questions: Sequence[ModelQuestion]) -> None:
        raise Ad2Error("wrong key")

    model = replicated(2, work)
    for _ in range(2):
        with pytest.raises(Ad2Error, match=r"^wrong key$"):
            model.ask([ModelQuestion("0", "a")])


def test_a_model_that_cannot_be_loaded_is_reported(ray: FakeRay) -> None:
    with pytest.raises(Ad2Error, match="cannot be imported"):
        ReplicatedModel(FactoryRecipe("no_such_module:thing"), 1)


@pytest.mark.parametrize(("cluster", "given", "gpus"), [(0.0, None, 0.0), (8.0, None, 1.0), (8.0, 0.5, 0.5)])
def test_each_replica_has_its_gpus(ray: FakeRay, cluster: float, given: float | None, gpus: float) -> None:
    ray.gpus = cluster
    ReplicatedModel(FactoryRecipe(f"{__name__}:EchoModel", {"work": len}), 1, given)
    assert ray.started[0]["num_gpus"] == gpus


def test_a_spec_names_the_replicas_but_its_model_does_not(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(model_replicas, "ReplicatedModel", lambda *args: found.append(args))
    make_backend("lmms:qwen2_5_vl,replicas=4,pretrained=a/b,replica_gpus=2")
    recipe, replicas, gpus = found[0]
    assert (recipe.kwargs, replicas, gpus) == ({"spec": "lmms:qwen2_5_vl,pretrained=a/b"}, 4, 2.0)


@pytest.mark.parametrize("wrong", ["replicas=0", "replicas=two", "replicas=", "replicas=2,replica_gpus=-1"])
def test_wrong_numbers_of_replicas(wrong: str) -> None:
    with pytest.raises(Ad2Error, match="expected a number, such as replicas=4"):
        make_backend(f"lmms:qwen2_5_vl,{wrong}")


def test_gpus_belong_to_replicas() -> None:
    with pytest.raises(Ad2Error, match="replica_gpus belongs to replicas=N"):
        make_backend("lmms:qwen2_5_vl,replica_gpus=1")
