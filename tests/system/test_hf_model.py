"""`--model ad2_hf` on tiny checkpoints: mistakes in one line, failing samples, evaluation, driving, two ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.closedloop.models import decision_request
from support.running import BIN, run, run_folder
from support.tiny_families import FAMILIES

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness.model_requirements import faults
from lmms_eval_ad2.harness.models.engine_model import GenerationSettings, ModelPrompt
from lmms_eval_ad2.parsing import failure_reason

pytestmark = pytest.mark.system

GREEDY = GenerationSettings(max_new_tokens=6)
PICTURE = Image.linear_gradient("L").resize((160, 90)).convert("RGB")


@pytest.fixture(scope="module")
def ovis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class that lmms-eval has no wrapper for."""
    return FAMILIES["ovis2"](tmp_path_factory.mktemp("ovis2"))


@pytest.fixture(scope="module")
def paligemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES["paligemma"](tmp_path_factory.mktemp("paligemma"))


def load(**arguments: Any) -> Any:
    from lmms_eval_ad2.harness.models.hf import HfModel

    return HfModel(**{name: value if name == "batch_size" else str(value) for name, value in arguments.items()})


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    (tmp_path / "chat_template.jinja").write_text("x")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nosuch_vl"}))
    return tmp_path


def test_mistakes_are_one_line_in_a_dry_run_and_at_the_start(paligemma: Path, unknown: Path) -> None:
    for arguments, expected in (
        ({"pretrained": ""}, "name a checkpoint"),
        ({"pretrained": "a/b", "max_pixel": 9}, "unknown model argument 'max_pixel'; did you mean 'max_pixels'?"),
        ({"pretrained": paligemma}, "has no chat template"),
        ({"pretrained": unknown}, "nosuch_vl"),
        ({"pretrained": paligemma, "chat_template": "/gone"}, "/gone"),
    ):
        (line,) = [f for f in faults("ad2_hf", {k: str(v) for k, v in arguments.items()}) if expected in f]
        assert line.startswith("--model ad2_hf: ") and "\n" not in line
        with pytest.raises(Ad2Error, match=r"^ad2_hf: ") as found:
            load(**arguments)
        assert expected in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"dtype": "bf16"}, "dtype must be one of auto, bfloat16"),
        ({"device": "cuda:0"}, "no GPU that this torch can use"),
        ({"adapter": "/gone"}, "cannot load the adapter /gone of"),
        ({"max_pixels": "many"}, "max_pixels must be a whole number"),
        ({"attn_implementation": "fast"}, "cannot load the model"),
    ],
)
def test_a_wrong_value_is_one_line(ovis: Path, more: dict[str, str], expected: str) -> None:
    import torch

    if "device" in more and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(Ad2Error) as found:
        load(pretrained=ovis, **more)
    assert expected in str(found.value) and "\n" not in str(found.value)


def test_a_system_prompt_is_a_text_or_a_file_and_not_dropped(ovis: Path, tmp_path: Path) -> None:
    file = tmp_path / "system.txt"
    file.write_text("Drive on the left.\n")
    for given in ("Drive on the left.", str(file)):
        engine = load(pretrained=ovis, system_prompt=given)._engine
        assert engine._rendered(ModelPrompt("Where?", (PICTURE,))) == (
            "SYSTEM: Drive on the left. USER: <image>Where? ASSISTANT:"
        )
    template = tmp_path / "t.jinja"
    template.write_text("{% for part in messages[-1].content %}{{ part.text or '<image>' }}{% endfor %}")
    with pytest.raises(Ad2Error, match="no place for a system prompt"):
        load(pretrained=ovis, system_prompt="Be brief.", chat_template=template)
    template.write_text("{{ messages[-1].content[-1].text }}")
    with pytest.raises(Ad2Error, match="leaves out images"):
        load(pretrained=ovis, chat_template=template)


def test_tags_in_a_question_are_no_pictures(ovis: Path) -> None:
    engine = load(pretrained=ovis)._engine
    texts = engine.generate([ModelPrompt("A sign says <image> and </s>", (PICTURE,))], GREEDY)
    assert not failure_reason(texts[0])


def test_only_the_failing_sample_of_a_batch_fails(ovis: Path) -> None:
    engine = load(pretrained=ovis, batch_size=3)._engine
    good = ModelPrompt("Where?", (PICTURE,))
    texts = engine.generate([good, ModelPrompt("Where?", (None,)), good], GREEDY)
    assert [bool(failure_reason(text)) for text in texts] == [False, True, False]
    assert texts[0] == texts[2] == engine.generate([good], GREEDY)[0]


def test_an_answer_ends_before_a_stop_string_and_sampling_has_a_seed(ovis: Path) -> None:
    engine = load(pretrained=ovis)._engine
    question = [ModelPrompt("Where?", (PICTURE,))]
    (text,) = engine.generate(question, GREEDY)
    cut = GenerationSettings(max_new_tokens=6, stop=(text[2],))
    assert engine.generate(question, cut) == [text.split(text[2])[0]]
    seeded = [GenerationSettings(max_new_tokens=6, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    first, second, third = (engine.generate(question, sampling)[0] for sampling in seeded)
    assert first == second != third


def test_larger_pictures_are_scaled_down(ovis: Path, tmp_path: Path) -> None:
    fitted = load(pretrained=ovis, max_pixels=3600)._engine._fitted(PICTURE)
    assert fitted.size == (80, 45)
    qwen = load(pretrained=FAMILIES["qwen2_vl"](tmp_path / "q"), max_pixels=6272)
    inputs = qwen._engine._inputs([ModelPrompt("Where?", (PICTURE,))])
    width, height = qwen.input_resizing.size_of(PICTURE.size)
    assert inputs["image_grid_thw"].tolist() == [[1, height // 14, width // 14]] and width * height <= 6272


def test_an_adapter_is_merged(ovis: Path, tmp_path: Path) -> None:
    import peft
    import torch

    base = load(pretrained=ovis)
    before = base._engine.generate([ModelPrompt("Where?", (PICTURE,))], GREEDY)
    adapted = peft.get_peft_model(base.model, peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.fill_(0.5)
    adapted.save_pretrained(tmp_path / "adapter")
    after = load(pretrained=ovis, adapter=tmp_path / "adapter")._engine.generate(
        [ModelPrompt("Where?", (PICTURE,))], GREEDY
    )
    assert after != before and not failure_reason(after[0])


def test_evaluate_and_the_closed_loop_use_it(ovis: Path, tmp_path: Path) -> None:
    import numpy as np

    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.core.state import Decision
    from closedloop_plugin.driver.agents.lmms_model import LmmsModel
    from closedloop_plugin.driver.agents.model_backend import ModelQuestion
    from closedloop_plugin.driver.interpreters.make import make_interpreter
    from lmms_eval_ad2 import evaluate

    result = evaluate(
        "ad2_hf", "ad2demo_relation", model_args=f"pretrained={ovis},max_new_tokens=6", out=tmp_path / "out", limit=2,
        batch_size=2,
    )  # fmt: skip
    assert result is not None
    spec = f"ad2_hf,pretrained={ovis},batch_size=2,max_new_tokens=6"
    model = LmmsModel.from_spec(spec)
    asked = [ModelQuestion(f"k{i}", "What now?", (np.full((90, 160, 3), i, np.uint8),)) for i in (0, 200)]
    assert all(reply.text and not reply.error for reply in model.ask(asked))
    slow = make_interpreter(f"lmms:{spec}", "cng", profile("bench2advlm"))
    (control,) = slow.interpret([(decision_request(), Decision({"action": "Brake."}))])
    assert control.raw and control.reason not in ("agent_error", "model_error")  # random words: a control or unreadable
    with pytest.raises(Ad2Error, match=r"^lmms:ad2_hf: unknown model argument 'dtypo'; did you mean 'dtype'"):
        LmmsModel.from_spec(f"ad2_hf,pretrained={ovis},dtypo=auto")


def test_two_ranks_have_a_copy_each_and_give_the_same_answers(ovis: Path, tmp_path: Path) -> None:
    answers = {}
    for ranks in ("1", "2"):
        out = tmp_path / ranks
        run(
            BIN / "torchrun", "--standalone", "--nproc-per-node", ranks, "-m", "lmms_eval", "--model", "ad2_hf",
            "--model_args", f"pretrained={ovis},max_new_tokens=6", "--tasks", "ad2demo_relation", "--limit", "3",
            "--output_path", out, cwd=tmp_path,
        )  # fmt: skip
        answers[ranks] = {file.name: file.read_bytes() for file in (run_folder(out) / "samples").iterdir()}
    assert answers["1"] == answers["2"]
