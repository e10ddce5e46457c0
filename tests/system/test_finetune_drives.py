"""ms-swift trains on rows of collected drives with our files: a few steps of tiny models with random weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.driving_rows import collect
from support.running import BIN, REPO, run

from closedloop_plugin.learn.tiny_model import TinyModelSize, make_tiny_model
from closedloop_plugin.learn.training_file import TrainingFile
from lmms_eval_ad2.data.export.drives import DriveRowSettings, export_drives

pytest_plugins = ("support.tiny_models",)  # the fixtures tiny_qwen, tiny_llava

STEPS = 3
SIZE = TinyModelSize(width=64, height=32, vision=(8, 16, 16, 32), vision_layers=(1, 1, 1, 1), hidden=32, layers=1)
CHANGED = {
    "use_cpu": "true", "max_steps": str(STEPS), "per_device_train_batch_size": "2", "gradient_accumulation_steps": "1",
    "logging_steps": "1", "dataloader_num_workers": "0", "gradient_checkpointing": "false",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drives")
    collect(folder / "collected", ["red", "green"] * 4)
    settings = DriveRowSettings(asked=("action", "trajectory"))
    export_drives([folder / "collected"], folder / "rows.jsonl", settings)
    return folder / "rows.jsonl"


def trained(name: str, model: Path, rows: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """The checkpoint that `swift sft` writes with one of our files, and the arguments that it used."""
    words = [word for key, value in CHANGED.items() for word in (f"--{key}", value)]
    done = run(
        BIN / "swift", "sft", REPO / "configs" / "finetune" / name, "--model", model, "--dataset", rows,
        "--output_dir", out / "out", *words, cwd=out, MODELSCOPE_CACHE=str(out / "cache"), OMP_NUM_THREADS="1",
    )  # fmt: skip
    assert "listing failed" not in done.stdout + done.stderr, "it looked for a network"
    (checkpoint,) = out.rglob(f"checkpoint-{STEPS}")
    log = json.loads((checkpoint / "trainer_state.json").read_text("utf-8"))["log_history"]
    losses = [row["loss"] for row in log if "loss" in row]
    assert len(losses) == STEPS
    assert all(map(math.isfinite, losses))
    return checkpoint, json.loads((checkpoint / "args.json").read_text("utf-8"))


def assert_every_value_is_used(name: str, found: dict[str, Any]) -> None:
    wanted = yaml.safe_load((REPO / "configs" / "finetune" / name).read_text("utf-8"))
    for key, value in wanted.items():
        if key not in (*CHANGED, "model", "output_dir"):
            assert found[key] == value, key


def test_the_small_model_is_trained_with_all_its_weights(rows: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = make_tiny_model(TrainingFile.read([rows]), tmp_path / "random", size=SIZE)
    checkpoint, found = trained("tiny_world.yaml", model, rows, tmp_path)
    assert_every_value_is_used("tiny_world.yaml", found)
    before, after = load_file(model / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    changed = [name for name, weight in after.items() if not weight.equal(before[name])]
    for part in ("vision_tower", "multi_modal_projector", "language_model"):
        assert any(part in name for name in changed), part


@pytest.mark.parametrize("model", ["qwen2_5_vl", "llava15_7b"])
def test_lora_of_large_architectures_on_the_same_rows(
    model: str, rows: Path, tiny_qwen: Path, tiny_llava: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    config, base = f"{model}_lora.yaml", {"qwen2_5_vl": tiny_qwen, "llava15_7b": tiny_llava}[model]
    checkpoint, found = trained(config, base, rows, tmp_path)
    assert_every_value_is_used(config, found)
    weights = load_file(checkpoint / "adapter_model.safetensors")
    assert all("visual" not in name and "vision" not in name for name in weights)
    assert any(float(w.abs().max()) > 0 for name, w in weights.items() if "lora_B" in name)
