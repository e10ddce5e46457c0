"""Fine-tuning of an adapter on the CPU: export, training by ms-swift from our YAML, evaluation of the result.

The model is a tiny LLaVA-1.5 with random weights, so learning is checked in its weights, not in its answers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.running import BIN, REPO, run, run_folder, run_lmms_eval
from support.training_sets import MCQ, TESTED, mcq, store

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.training import ExportSettings, export
from lmms_eval_ad2.harness.models.engine_model import GenerationSettings, ModelPrompt
from lmms_eval_ad2.prompts import task_prompt
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.scoring.variant import TaskVariant

pytest_plugins = ("support.tiny_models",)  # the fixture tiny_llava

CONFIG = REPO / "configs" / "finetune" / "llava15_7b_lora.yaml"
STEPS = 40  # 3 % of them are 1.2: two steps of warm-up
CHANGED = {
    "use_cpu": "true", "max_steps": str(STEPS), "per_device_train_batch_size": "2", "gradient_accumulation_steps": "1",
    "logging_steps": "1", "dataloader_num_workers": "0",
}  # fmt: skip
SMALL = {"OMP_NUM_THREADS": "1"}  # threads slow down so small a model


@pytest.fixture(scope="module")
def trained(tiny_llava: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that `swift sft` writes, trained on an export of eight questions."""
    folder = tmp_path_factory.mktemp("finetune")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AD2_HOME", str(folder / "home"))
        store("autodrive_qa", "train", [mcq(n) for n in range(8)], folder / "images")
        export([MCQ], TESTED, ExportSettings(folder / "train.jsonl"))
    words = [w for name, value in CHANGED.items() for w in (f"--{name}", value)]
    done = run(
        BIN / "swift", "sft", CONFIG, "--model", tiny_llava, "--dataset", folder / "train.jsonl",
        "--output_dir", folder / "out", *words, cwd=folder, MODELSCOPE_CACHE=str(folder / "cache"), **SMALL,
    )  # fmt: skip
    assert "listing failed" not in done.stdout + done.stderr, "it looked for a network"
    (checkpoint,) = folder.rglob(f"checkpoint-{STEPS}")
    return checkpoint


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def schedule(step: int, rate: float, share: float) -> float:
    """Linear warm-up over `share` of all steps (rounded up), then half a cosine down to 0."""
    warm = math.ceil(share * STEPS)
    if step < warm:
        return rate * step / warm
    return rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm)))


def test_every_value_of_the_file_reaches_the_trainer(trained: Path) -> None:
    wanted, found = yaml.safe_load(CONFIG.read_text("utf-8")), read(trained / "args.json")
    for name, value in wanted.items():
        if name in CHANGED or name in ("model", "output_dir"):
            continue
        assert found[name] == (["none"] if name == "report_to" else value), name
    paper = {"tuner_type": "lora", "bf16": True, "learning_rate": 2e-4, "lr_scheduler_type": "cosine",
             "warmup_ratio": 0.03, "weight_decay": 0.0}  # fmt: skip
    assert {name: wanted[name] for name in paper} == paper
    (written,) = [d for d in found["dataset"] if d.endswith("train.jsonl")]
    assert len(Path(written).read_text("utf-8").splitlines()) == 8


def test_training_reduces_the_loss_at_the_learning_rates_of_the_paper(trained: Path) -> None:
    log = [row for row in read(trained / "trainer_state.json")["log_history"] if "loss" in row]
    assert [row["step"] for row in log] == list(range(1, STEPS + 1))
    for row in log:  # the rate of the next step
        assert row["learning_rate"] == pytest.approx(schedule(row["step"], 2e-4, 0.03), rel=1e-3, abs=1e-10)
        assert math.isfinite(row["loss"])
        assert row["grad_norm"] > 0
    first, last = (sum(row["loss"] for row in part) / 8 for part in (log[:8], log[-8:]))
    assert last < 0.9 * first


def test_lora_weights_change_only_in_the_language_model(trained: Path) -> None:
    from safetensors.torch import load_file

    weights = load_file(trained / "adapter_model.safetensors")
    b = {name: w for name, w in weights.items() if "lora_B" in name}
    assert len(b) == 2 * 7  # two layers: q, k, v, o, gate, up, down
    assert all("language_model" in name for name in weights)
    assert all(float(w.abs().max()) > 0 for w in b.values()), "B begins as zero"
    config = read(trained / "adapter_config.json")
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (128, 256, 0.05)


@pytest.fixture(scope="module")
def base(tiny_llava: Path) -> Any:
    """The engine of `ad2_swift` without an adapter."""
    from lmms_eval_ad2.harness.models.swift import SwiftModel

    return SwiftModel.create_from_arg_string(f"model={tiny_llava},model_type=llava1_5_hf", {"device": "cpu"})._engine


def test_training_and_evaluation_encode_a_question_identically(trained: Path, base: Any) -> None:
    """A training row has the tokens and pixels that `ad2_swift` sends, then the answer and the end token."""
    import torch

    folder = next(p for p in trained.parents if (p / "train.jsonl").exists())
    row = json.loads((folder / "train.jsonl").read_text("utf-8").splitlines()[3])
    template = base._engine.template
    template.set_mode("train")
    training = template.encode({name: row[name] for name in ("messages", "images")})
    template.set_mode("transformers")
    prompt = prompt_of(mcq(3), folder / "images", MCQ.variant)
    evaluation = template.encode(base._swift.InferRequest(messages=base._messages(prompt)))
    prompt_tokens = evaluation["input_ids"]
    assert training["input_ids"][: len(prompt_tokens)] == prompt_tokens
    assert torch.equal(training["pixel_values"], evaluation["pixel_values"])
    answer = [t for t, label in zip(training["input_ids"], training["labels"], strict=True) if label != -100]
    assert template.tokenizer.decode(answer) == "B</s>"


def prompt_of(record: Record, images: Path, variant: TaskVariant) -> ModelPrompt:
    return ModelPrompt(
        task_prompt.prompt_text(record, variant, PromptSet.load()), task_prompt.prompt_images(record, images, variant)
    )


def test_the_adapter_is_evaluated_and_changes_the_answers(
    trained: Path, tiny_llava: Path, base: Any, tmp_path: Path
) -> None:
    args = f"model={tiny_llava},model_type=llava1_5_hf,adapters={trained},device_map=cpu"
    run_lmms_eval("--model", "ad2_swift", "--model_args", args, "--device", "cpu", "--tasks", "ad2demo_mcq_planning",
         "--limit", "4", "--gen_kwargs", "max_new_tokens=8", "--output_path", tmp_path,
         cwd=tmp_path, **SMALL)  # fmt: skip
    folder = run_folder(tmp_path)
    table = read(folder / "summary.json")["tasks"]["ad2demo_mcq_planning"]
    assert (table["n"], table["n_unscored"]) == (4, 0)
    samples = folder / "samples" / "ad2demo_mcq_planning.jsonl"
    rows = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    variant = TaskVariant("autodrive_qa", "planning")  # as in the YAML of the demo task: all views
    root = Path(table["data"]["image_root"])
    prompts = [prompt_of(Record.from_dict(row["record"]), root, variant) for row in rows]
    assert [p.text for p in prompts] == [row["prompt"] for row in rows]
    assert [row["raw"] for row in rows] != base.generate(prompts, GenerationSettings(max_new_tokens=8))
