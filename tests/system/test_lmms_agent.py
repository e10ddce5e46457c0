"""In-process lmms-eval models, chat and simple: pictures belong to their question, failures are named."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.closedloop.models import decision_request, picture

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.driver.agents import lmms_model
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.agents.lmms_model import LmmsModel
from closedloop_plugin.driver.agents.make import cameras_of, make_agent
from closedloop_plugin.driver.agents.model_agent import ModelAgent
from closedloop_plugin.driver.prompts.texts import PromptTexts
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.testing.fake_endpoint import serve

RULES = profile("bench2advlm")


@pytest.fixture(scope="module")
def stubs():
    """Two models in lmms-eval's registry that reply with the speed in the prompt and the blue of the pictures."""
    from lmms_eval.api.model import lmms
    from lmms_eval.models import MODEL_REGISTRY_V2
    from lmms_eval.models.registry_v2 import ModelManifest
    from lmms_eval.protocol import ChatMessages

    class Stub(lmms):
        is_simple = True

        def __init__(self, batch_size: int = 1, word: str = "seen", fault: str = "", device: str = "cpu") -> None:
            super().__init__()
            self.batch, self.word, self.fault, self.settings = int(batch_size), word, fault, []

        def loglikelihood(self, requests):
            raise NotImplementedError

        def generate_until_multi_round(self, requests):
            raise NotImplementedError

        def look(self, args):
            text, settings, visual, doc_id, task, split = args
            self.settings.append(settings.pop("max_new_tokens"))  # as some wrappers do
            return text, visual(self.task_dict[task][split][doc_id])

        def generate_until(self, requests):
            if self.fault == "raise":
                raise RuntimeError("CUDA\nout of memory")
            if self.fault == "marker":
                return ["[LMMS_EVAL_REQUEST_FAILED after 5 retries] down"] * len(requests)
            if self.fault == "short":
                return ["x"]
            if self.fault == "empty":
                return [""] * len(requests)
            print("Model Responding 100%", file=sys.stderr)
            answers = []
            for request in requests:
                text, images = self.look(request.args)
                speed = text.split("travel at ")[1].split(" m/s")[0]
                answers.append(f"{self.word} {speed} {[i.getpixel((0, 0))[2] for i in images]}")
            return answers

    class ChatStub(Stub):
        is_simple = False

        def look(self, args):
            text, to_messages, settings, doc_id, task, split = args
            messages = ChatMessages(messages=to_messages(self.task_dict[task][split][doc_id]))
            images, _, _ = messages.extract_media()
            assert messages.messages[0].content[-1].text == text
            self.settings.append(settings.pop("max_new_tokens"))
            return text, images

    module = types.ModuleType("cl_stub_models")
    module.Stub, module.ChatStub = Stub, ChatStub
    sys.modules["cl_stub_models"] = module
    MODEL_REGISTRY_V2.register_manifest(ModelManifest("cl_stub", simple_class_path="cl_stub_models.Stub"))
    MODEL_REGISTRY_V2.register_manifest(ModelManifest("cl_chat_stub", chat_class_path="cl_stub_models.ChatStub"))
    yield
    lmms_model._load.cache_clear()
    for name in ("cl_stub", "cl_chat_stub"):
        MODEL_REGISTRY_V2._manifests.pop(name)
        MODEL_REGISTRY_V2._alias_to_model_id.pop(name)
    del sys.modules["cl_stub_models"]


@pytest.mark.parametrize("name", ["cl_stub", "cl_chat_stub"])
def test_each_question_gets_its_own_text_and_pictures(stubs, capsys, name: str) -> None:
    agent = make_agent(
        f"lmms:{name},batch_size=4,max_new_tokens=77", tasks=("action", "threat"), cameras="surround@80x45"
    )
    decisions = agent.decide([decision_request(f"e{i}", speed=float(i)) for i in range(5)])
    blues = [int(picture(c.name)[0, 0, 2]) for c in agent.cameras]
    assert [d.texts["action"] for d in decisions] == [f"seen {i}.0 {blues}" for i in range(5)]
    assert all(set(d.texts) == {"action", "threat"} and d.latency_s > 0 for d in decisions)
    assert set(agent.backend.lm.settings) == {77} and agent.backend.lm.batch == 4
    assert "Responding" not in capsys.readouterr().err
    assert agent.backend.lm.task_dict == {}


@pytest.mark.parametrize(
    ("fault", "named"),
    [("raise", "generation_failed: RuntimeError: CUDA out of memory"), ("marker", "request_failed"),
     ("short", "generation_failed: 1 answers to 2"), ("empty", "empty_reply")],
)  # fmt: skip
def test_failures_of_a_wrapper_are_named_errors(stubs, fault: str, named: str) -> None:
    decisions = make_agent(f"lmms:cl_stub,fault={fault}").decide([decision_request("a"), decision_request("b")])
    assert all(d.error.startswith(f"action: {named}") and d.texts == {} for d in decisions)


def test_the_same_weights_are_loaded_once(stubs) -> None:
    one, two = (LmmsModel.from_spec(s) for s in ("cl_stub,word=a,batch_size=2", "cl_stub,batch_size=2,word=a"))
    assert one.lm is two.lm
    assert LmmsModel.from_spec("cl_stub,word=b").lm is not one.lm


def test_the_description_contains_the_model_arguments_and_settings(stubs) -> None:
    description = make_agent("lmms:cl_stub,word=a,temperature=0.5").describe()
    assert description["name"] == "lmms:cl_stub" and description["model_args"] == "word=a,temperature=0.5"
    assert description["temperature"] == 0.5 and description["do_sample"] is True and description["lmms_eval"]


@pytest.mark.parametrize("args", ["word=a,api_key=SECRET", "hf_token=SECRET,word=a", "openai-API-key = SECRET"])
def test_secrets_in_the_model_arguments_are_redacted(args: str) -> None:
    model_args = LmmsModel(None, "m", args).describe()["model_args"]
    assert "SECRET" not in model_args and "[REDACTED]" in model_args and ("word=a" in model_args) == ("word=a" in args)
    assert (
        LmmsModel(None, "m", "max_new_tokens=3,pretrained=a/b").describe()["model_args"].startswith("max_new_tokens=3")
    )


@pytest.mark.parametrize(
    ("spec", "says"),
    [("cl_stubb", "did you mean cl_stub"), ("cl_stub,nonsense=1", "cannot be loaded: TypeError"),
     ("cl_stub,word", "KEY=VALUE"), ("cl_stub,temperature=hot", "temperature"), (",a=1", "which model")],
)  # fmt: skip
def test_a_model_that_cannot_be_loaded_is_reported_in_one_line(stubs, spec: str, says: str) -> None:
    with pytest.raises(Ad2Error, match=says) as error:
        make_agent(f"lmms:{spec}")
    assert "\n" not in str(error.value)


def test_a_loaded_model_can_be_passed_in(stubs) -> None:
    """The harness has its model already."""
    lm = LmmsModel.from_spec("cl_chat_stub,word=mine").lm
    cameras = cameras_of("front", RULES)
    agent = ModelAgent(LmmsModel(lm, "cl_chat_stub"), DrivingPrompts(PromptTexts.load(), RULES), cameras)
    assert agent.decide([decision_request(speed=2.0)])[0].texts["action"].startswith("mine 2.0")


def test_no_requests_give_no_decisions(stubs) -> None:
    assert make_agent("lmms:cl_stub").decide([]) == []


@pytest.fixture
def unloaded() -> Iterator[None]:
    """Models that the test loads are destroyed after it: an asynchronous client that is collected later, while another
    test runs an event loop, logs an error there."""
    yield
    lmms_model._load.cache_clear()
    gc.collect()


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("model", ["openai", "async_openai"])
@pytest.mark.parametrize("status", ["401", "404"])
def test_a_refused_key_stops_a_drive_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, status: str
) -> None:
    """lmms-eval's wrappers catch the refusal, repeat the request and return the failure as the answer."""
    with serve(reply="Keep going straight.", failures=lambda n, body: "ok" if n < 3 else status) as server:
        agent = f"lmms:{model},model_version=fake,base_url={server.url},api_key=sk-local-test-key"
        words = ("--suite", "demo", "--routes-ids", "101,102", "--size", "64x36", "--agent", agent)
        world = ("--world", "closedloop_plugin.worlds.testing.fake_world:FakeWorld")
        assert main(["drive", "run", *words, *world, "--out", str(tmp_path / "o")]) == 2
        assert 3 < server.requests <= 3 + 2, "two worlds wait for a decision"
    error = capsys.readouterr().err
    assert f"{server.url} refuses every request: Error code: {status}" in error.strip().splitlines()[-1]
    assert "Traceback" not in error and "sk-local" not in error
    assert not (tmp_path / "o/episodes.jsonl").read_text(), "no episode is scored"
