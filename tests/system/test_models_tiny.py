"""lmms-eval's own wrappers of Qwen2.5-VL, Qwen3-VL and LLaVA on tiny random checkpoints, on the CPU and offline."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.running import run_folder, run_lmms_eval
from support.tiny_models import make_tiny_llava, make_tiny_qwen3_vl

from closedloop_plugin.driver.agents.lmms_model import LmmsModel
from closedloop_plugin.driver.agents.model_backend import ModelQuestion
from lmms_eval_ad2.harness.model_input import of_arguments, of_model

pytest_plugins = ("support.tiny_models",)  # the fixture tiny_qwen

GREEDY = {"max_new_tokens": 8, "temperature": 0, "until": []}
DOCS = [{"shade": shade, "n": n} for shade, n in ((0, 1), (120, 2), (240, 1))]


def pictures(doc: dict[str, int]) -> list[Image.Image]:
    return [Image.linear_gradient("L").resize((160, 90)).rotate(doc["shade"]).convert("RGB")] * doc["n"]


def messages(doc: dict[str, int]) -> list[dict[str, Any]]:
    content = [{"type": "image", "url": image} for image in pictures(doc)]
    return [{"role": "user", "content": [*content, {"type": "text", "text": "What is there?"}]}]


@pytest.mark.parametrize("simple", [True, False], ids=["simple", "chat"])
def test_the_wrapper_of_lmms_eval_generates(tiny_qwen: Path, simple: bool) -> None:
    from lmms_eval.api.instance import Instance, unwrap_generation_output
    from lmms_eval.models import get_model

    model_class = get_model("qwen2_5_vl", force_simple=simple)
    assert model_class.is_simple is simple
    model = model_class.create_from_arg_string(
        f"pretrained={tiny_qwen},device_map=cpu,min_pixels=3136,max_pixels=12544", {"batch_size": 2, "device": "cpu"}
    )
    model.task_dict = {"t": {"test": DOCS}}
    args = [
        ("What is there?", GREEDY, pictures, i, "t", "test")
        if simple
        else ("What is there?", messages, GREEDY, i, "t", "test")
        for i in range(len(DOCS))
    ]
    requests = [Instance("generate_until", a, 0, {"task": "t", "doc_id": i, "repeats": 1}) for i, a in enumerate(args)]
    texts = [unwrap_generation_output(answer)[0] for answer in model.generate_until(requests)]
    assert len(texts) == 3
    assert all(text.strip() for text in texts)
    assert len(set(texts)) == 3, "other images, the same answer: the images do not reach the model"


@pytest.mark.parametrize(
    ("name", "make", "more"),
    [("qwen3_vl", make_tiny_qwen3_vl, ",min_pixels=3136,max_pixels=12544"), ("llava_hf", make_tiny_llava, "")],
)
def test_other_wrappers_generate_from_their_tiny_model(
    name: str, make: Callable[[Path], Path], more: str, tmp_path: Path
) -> None:
    """One picture per question; the wrapper of LLaVA takes one question at a time."""
    from lmms_eval.api.instance import Instance, unwrap_generation_output
    from lmms_eval.models import get_model

    args = f"pretrained={make(tmp_path / name)},device_map=cpu{more}"
    model = get_model(name).create_from_arg_string(args, {"batch_size": 1, "device": "cpu"})
    model.task_dict = {"t": {"test": [{**doc, "n": 1} for doc in DOCS]}}
    requests = [
        Instance("generate_until", ("What is there?", messages, dict(GREEDY), i, "t", "test"), 0,
                 {"task": "t", "doc_id": i, "repeats": 1})
        for i in range(len(DOCS))
    ]  # fmt: skip
    texts = [unwrap_generation_output(answer)[0] for answer in model.generate_until(requests)]
    assert len(texts) == 3 and all(text.strip() for text in texts)
    assert len(set(texts)) > 1, "other images, the same answer: the images do not reach the model"


@pytest.mark.parametrize("simple", [True, False], ids=["simple", "chat"])
def test_an_exception_that_the_wrapper_of_llava_catches_is_a_failed_answer(
    simple: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrapper returns an empty text, which would be scored as a wrong answer."""
    from lmms_eval.models import get_model

    lm = get_model("llava_hf", force_simple=simple).create_from_arg_string(
        f"pretrained={make_tiny_llava(tmp_path / 'llava')},device_map=cpu", {"batch_size": 1, "device": "cpu"}
    )
    model = LmmsModel(lm, "llava_hf", generation={"max_new_tokens": 4})
    question = ModelQuestion("k", "What is there?", (np.full((90, 160, 3), 90, np.uint8),))
    assert model.ask([question])[0].error is None

    def full(self: Any, input_ids: Any = None, pixel_values: Any = None, **kwargs: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    monkeypatch.setattr(type(lm.model), "forward", full)
    assert model.ask([question])[0].error == ("generation_failed: [GENERATION_FAILED] RuntimeError: CUDA out of memory")


class StopHereError(Exception):
    pass


@pytest.mark.parametrize("limits", ["", ",min_pixels=200704,max_pixels=401408"], ids=["default", "limits"])
@pytest.mark.parametrize("simple", [True, False], ids=["simple", "chat"])
def test_the_size_of_the_model_s_input_is_the_real_one(tiny_qwen: Path, simple: bool, limits: str) -> None:
    """The wrapper's own code, up to the tensors that the model is given; `image_grid_thw` counts patches of 14."""
    from lmms_eval.api.instance import Instance
    from lmms_eval.models import get_model

    model = get_model("qwen2_5_vl", force_simple=simple).create_from_arg_string(
        f"pretrained={tiny_qwen},device_map=cpu{limits}", {"batch_size": 1, "device": "cpu"}
    )
    seen: list[tuple[int, int]] = []

    def generate(**inputs: Any) -> None:
        grid = inputs["image_grid_thw"][0].tolist()
        seen.append((grid[2] * 14, grid[1] * 14))
        raise StopHereError

    model.model.generate = generate
    sizes = [(1920, 1080), (1600, 900), (640, 360)]
    model.task_dict = {"t": {"test": sizes}}
    for i in range(len(sizes)):
        args: tuple[Any, ...] = (
            ("", GREEDY, lambda size: [Image.new("RGB", size)], i, "t", "test")
            if simple
            else ("", lambda size: [{"role": "user", "content": [{"type": "image", "url": Image.new("RGB", size)}]}],
                  GREEDY, i, "t", "test")
        )  # fmt: skip
        with pytest.raises(StopHereError):
            model.generate_until([Instance("generate_until", args, 0, {"task": "t", "doc_id": i, "repeats": 1})])
    resizing = of_model(model)
    assert resizing is not None
    assert [resizing.size_of(size) for size in sizes] == seen
    if not limits:
        assert seen[0] == ((1680, 924) if simple else (1680, 952))
    if not simple:  # the wrapper that --model loads
        of_old_run = of_arguments("qwen2_5_vl", dict(pair.split("=") for pair in limits.split(",") if pair))
        assert of_old_run == resizing


def test_a_complete_run_on_the_command_line_of_lmms_eval(tiny_qwen: Path, tmp_path: Path) -> None:
    """A model that answers nonsense: everything is counted, nothing crashes, nothing is scored by accident."""
    args = f"pretrained={tiny_qwen},device_map=cpu,min_pixels=3136,max_pixels=12544"
    run_lmms_eval("--model", "qwen2_5_vl", "--model_args", args, "--device", "cpu", "--batch_size", "2", "--limit", "4",
         "--tasks", "ad2demo_perception_base,ad2demo_coda_general", "--gen_kwargs", "max_new_tokens=8",
         "--output_path", tmp_path, cwd=tmp_path, AD2_FRAME="model_input")  # fmt: skip
    folder = run_folder(tmp_path)
    rows = [
        json.loads(line)
        for path in (folder / "samples").glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    assert len(rows) == 8
    assert all(isinstance(r["raw"], str) and r["raw"].strip() for r in rows)
    assert {r["status"] for r in rows} <= {"ok", "unparsed"}
    about = json.loads((folder / "summary.json").read_text("utf-8"))["run"]
    assert about["frame"] == "model_input"
    assert about["model_input"]["steps"][-1] == {"factor": 28, "min_pixels": 3136, "max_pixels": 12544}
