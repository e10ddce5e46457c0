"""ad2_swift: a real ms-swift engine on a tiny model, and a real HTTP endpoint for the server mode."""

from __future__ import annotations

import base64
import io
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lmms_eval_ad2.core.errors import Ad2Error, MissingExtra
from lmms_eval_ad2.harness.models.engine_model import GenerationSettings, ModelPrompt, sampling_of
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.prompts.media_tags import MEDIA_TAGS, without_tags
from lmms_eval_ad2.testing.fake_endpoint import serve

pytest_plugins = ("support.tiny_models",)  # the fixture tiny_qwen

GREEDY = {"max_new_tokens": 8, "temperature": 0, "do_sample": False, "until": []}


def picture(shade: int, size: tuple[int, int] = (160, 90)) -> Image.Image:
    return Image.linear_gradient("L").resize(size).point(lambda v: (v + shade) % 256).convert("RGB")


def ask(model: Any, docs: list[dict[str, Any]], settings: dict[str, Any] | None = None) -> list[str]:
    """Each doc has a text and images."""
    from lmms_eval.api.instance import Instance

    model.task_dict = {"t": {"test": docs}}
    requests = [
        Instance(
            "generate_until",
            (doc["text"], settings or GREEDY, lambda d: d["images"], i, "t", "test"),
            0,
            {"task": "t", "doc_id": i, "repeats": 1},
        )
        for i, doc in enumerate(docs)
    ]
    return list(model.generate_until(requests))


DOCS = [
    {"text": "Is the light red?", "images": [picture(0)]},
    {"text": "How many cars are there on the two pictures?", "images": [picture(90), picture(200, (90, 160))]},
    {"text": "Is the light red?", "images": [picture(150)]},
    {"text": "Say something.", "images": []},
]

# --- in this process ---


@pytest.fixture(scope="module")
def swift_model() -> Any:
    """The class of `ad2_swift`. Imported by the first test: it loads lmms-eval."""
    from lmms_eval_ad2.harness.models.swift import SwiftModel

    return SwiftModel


@pytest.fixture(scope="module")
def loaded(swift_model: Any, tiny_qwen: Path) -> Any:
    args = f"model={tiny_qwen},model_type=qwen2_5_vl,template=qwen2_5_vl,torch_dtype=float32,max_pixels=12544"
    return swift_model.create_from_arg_string(args, {"batch_size": "4", "max_batch_size": None, "device": "cpu"})


def test_batches_do_not_change_the_answers(loaded: Any) -> None:
    together = ask(loaded, DOCS)
    assert all(text and not failure_reason(text) for text in together)
    assert together[0] != together[2], "the same words about different images: the image does not reach the model"
    assert [ask(loaded, [doc])[0] for doc in DOCS] == together


def test_the_size_of_the_model_s_input_is_that_of_the_template(loaded: Any) -> None:
    engine, resizing = loaded._engine, loaded.input_resizing
    for size in ((1920, 1080), (160, 90)):
        prompt = ModelPrompt("What is there?", (Image.new("RGB", size),))
        request = engine._swift.InferRequest(messages=engine._messages(prompt))
        grid = engine._engine.template.encode(request)["image_grid_thw"][0].tolist()  # in patches of 14
        assert resizing.size_of(size) == (grid[2] * 14, grid[1] * 14)


def test_the_tasks_settings_reach_the_engine(loaded: Any) -> None:
    long = ask(loaded, DOCS[:1], {**GREEDY, "max_new_tokens": 12})[0]
    short = ask(loaded, DOCS[:1], {**GREEDY, "max_new_tokens": 1})[0]
    assert long.startswith(short)
    assert 0 < len(short) < len(long)
    mixed = ask(loaded, DOCS[:2])  # two settings in one call: each with its own
    assert ask(loaded, [DOCS[0]], {**GREEDY, "until": [mixed[0][2:4]]})[0] != mixed[0]


def test_a_bad_sample_does_not_affect_the_others(loaded: Any) -> None:
    needle = {"text": "Too long and thin to be read.", "images": [Image.new("RGB", (4000, 2))]}
    answers = ask(loaded, [DOCS[0], needle, DOCS[1]])
    assert failure_reason(answers[1]) == "request_failed"
    assert "aspect ratio" in answers[1]
    assert [answers[0], answers[2]] == ask(loaded, DOCS[:2])


def test_a_failing_batch_is_repeated_sample_by_sample(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ask(loaded, DOCS)
    engine: Any = loaded._engine
    infer = engine._engine.infer

    def out_of_memory(requests: list[Any], *args: Any, **kwargs: Any) -> Any:
        if len(requests) > 1 or "Say something" in str(requests[0].messages):
            raise RuntimeError("out of memory")
        return infer(requests, *args, **kwargs)

    monkeypatch.setattr(engine._engine, "infer", out_of_memory)
    answers = ask(loaded, DOCS)
    assert answers[:3] == expected[:3]
    assert failure_reason(answers[3]) == "request_failed"
    assert "RuntimeError: out of memory" in answers[3]


def test_an_adapter_changes_the_answers(swift_model: Any, loaded: Any, tiny_qwen: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2_5_VLForConditionalGeneration

    config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(Qwen2_5_VLForConditionalGeneration.from_pretrained(tiny_qwen), config).save_pretrained(tmp_path)
    args = f"model={tiny_qwen},model_type=qwen2_5_vl,template=qwen2_5_vl,torch_dtype=float32,max_pixels=12544"
    tuned = swift_model.create_from_arg_string(f"{args},adapters={tmp_path}", {"batch_size": 4, "device": "cpu"})
    answers = ask(tuned, DOCS)
    assert not any(failure_reason(a) for a in answers)
    assert answers != ask(loaded, DOCS)


def test_tags_in_a_text_are_not_images(loaded: Any) -> None:
    quoted = " ".join(MEDIA_TAGS)
    answer = ask(loaded, [{"text": f"You said: {quoted}", "images": [picture(0)]}])[0]
    assert answer
    assert not failure_reason(answer)
    assert not any(tag in without_tags(quoted) for tag in MEDIA_TAGS)
    assert without_tags("<start1>a<end> <OUTPUT START>[1]") == "<start1>a<end> <OUTPUT START>[1]"


def test_unsupported_requests_raise_not_implemented(loaded: Any) -> None:
    assert (loaded.batch_size, loaded.rank, loaded.world_size, str(loaded.device)) == (4, 0, 1, "cpu")
    with pytest.raises(NotImplementedError, match="generates text"):
        loaded.loglikelihood([])
    with pytest.raises(NotImplementedError, match="agentic"):
        loaded.generate_until_multi_round([])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "name a checkpoint"),
        ("model=x,backend=pytorch", "backend must be one of transformers, vllm, lmdeploy"),
        ("model=x,temprature=0", "unknown model argument 'temprature'; did you mean 'temperature'"),
        ("model=x,torch_dtype=float31", "torch_dtype must be"),
        ("model=x,max_new_tokens=many", "max_new_tokens"),
        ("model=/no/such/folder", "cannot load '/no/such/folder'"),
    ],
)
def test_mistakes_are_reported_before_the_run(swift_model: Any, args: str, message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        swift_model.create_from_arg_string(args, {"batch_size": 1, "device": "cpu"})


def test_an_ambiguous_checkpoint_is_reported_with_the_arguments_to_add(swift_model: Any, tiny_qwen: Path) -> None:
    with pytest.raises(Ad2Error, match=r"qwen2_5_vl.*model_type=\.\.\. and template="):
        swift_model(model=str(tiny_qwen), device="cpu")


def test_missing_libraries_are_reported_with_the_install_command(
    swift_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("vllm", "lmdeploy"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtra, match=f"pip install {name}"):
            swift_model(model="x", backend=name)
    for name in [m for m in sys.modules if m == "swift" or m.startswith("swift.infer_engine")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install (-e )?'.*\[swift\]'"):
        swift_model(model="x")


# --- settings ---


def test_model_arguments_override_the_settings_of_the_task() -> None:
    task = {"max_new_tokens": 512, "temperature": 0, "do_sample": False, "until": ["END", ""], "top_p": None}
    assert sampling_of(task, {}) == GenerationSettings(max_new_tokens=512, stop=("END",))
    fixed = {"max_new_tokens": 16, "temperature": 0.7, "seed": 3}
    assert sampling_of(task, fixed) == GenerationSettings(max_new_tokens=16, temperature=0.7, seed=3, stop=("END",))
    assert sampling_of({"until": "\n", "top_k": 5}, {"seed": None}) == GenerationSettings(top_k=5, stop=("\n",))


# --- behind a server ---


def body_text(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"][-1]["text"])


def failing(number: int, body: dict[str, Any]) -> str:
    word = body_text(body).split()[-1]
    return word if word in ("400", "html_200", "no_choices", "empty") else "ok"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SWIFT_API_KEY", "secret")
    with serve(reply=lambda b: f"re: {body_text(b)}", failures=failing, latency_s=0.02, keep_bodies=True) as running:
        yield running


def test_a_server_gets_images_text_and_settings(swift_model: Any, server: Any) -> None:
    model = swift_model(server=server.url.removesuffix("/v1"), system_prompt="Be brief.", max_new_tokens=9, seed=5)
    settings = {**GREEDY, "top_k": 3, "top_p": 0.9, "until": ["END"]}
    assert ask(model, DOCS[1:2], settings) == ["re: How many cars are there on the two pictures?"]
    (body,) = server.bodies
    assert {k: body[k] for k in ("model", "max_tokens", "temperature", "seed", "top_k", "top_p", "stop")} == {
        "model": "fake", "max_tokens": 9, "temperature": 0, "seed": 5, "top_k": 3, "top_p": 0.9, "stop": ["END"],
    }  # fmt: skip
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    *images, text = body["messages"][1]["content"]
    assert text["text"] == DOCS[1]["text"]
    for sent, shown in zip(images, DOCS[1]["images"], strict=True):
        head, data = sent["image_url"]["url"].split(",")
        assert head == "data:image/jpeg;base64"
        got = Image.open(io.BytesIO(base64.b64decode(data)))
        assert got.size == shown.size
        assert abs(got.getpixel((20, 20))[0] - shown.getpixel((20, 20))[0]) < 12
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_requests_are_concurrent_and_answers_keep_their_order(swift_model: Any, server: Any) -> None:
    server.behaviour.latency_s = 0.2  # longer than a slow machine takes to send the next
    model = swift_model(server=server.url, model="fake", num_concurrent=8)
    docs = [{"text": f"question {i}", "images": []} for i in range(24)]
    assert ask(model, docs) == [f"re: question {i}" for i in range(24)]
    assert 1 < server.most_in_flight <= 8
    assert model.batch_size == 32
    engine = weakref.ref(model._engine)
    model.clean()
    assert engine() is None


def test_a_failed_request_is_marked_and_an_empty_answer_is_an_answer(swift_model: Any, server: Any) -> None:
    model = swift_model(server=server.url)
    docs = [{"text": f"is {word}", "images": []} for word in ("400", "html_200", "no_choices", "empty", "well")]
    answers = ask(model, docs)
    assert [failure_reason(a) for a in answers[:3]] == ["request_failed"] * 3
    assert "the fake endpoint says 400" in answers[0]
    assert answers[3:] == ["", "re: is well"]


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_server_that_refuses_every_request_ends_the_run(swift_model: Any, status: str) -> None:
    with serve(failures=[status], cycle=True) as refusing:
        model = swift_model(server=refusing.url)
        with pytest.raises(Ad2Error, match=f"refuses every request.*{status}"):
            ask(model, DOCS[3:])


def test_a_wrong_address_or_model_fails_at_once(swift_model: Any, server: Any) -> None:
    with pytest.raises(Ad2Error, match="Is `swift deploy` running there"):
        swift_model(server="http://127.0.0.1:9")
    with pytest.raises(Ad2Error, match="serves fake, not 'other'"):
        swift_model(server=server.url, model="other")
    with pytest.raises(Ad2Error, match="unknown model argument 'num_concurent'; did you mean 'num_concurrent'"):
        swift_model(server=server.url, num_concurent=4)
