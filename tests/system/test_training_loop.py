"""The worked example of docs/training-loop.md: transformers' Trainer trains a tiny model, the callback evaluates it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from support.running import REPO

pytest_plugins = ("support.tiny_models",)
DRIVE = {"limit": 1, "size": "160x90", "decision_hz": 0.05, "stop_after_unread": 0, "no_traffic": True}


def test_the_trainer_logs_driving_scores(tiny_qwen: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration, Trainer, TrainingArguments

    example = runpy.run_path(str(REPO / "configs/finetune/driving_callback.py"))
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(tiny_qwen, dtype=torch.float32)
    processor = AutoProcessor.from_pretrained(tiny_qwen)
    tokens = processor.tokenizer("The light is red.", return_tensors="pt").input_ids[0]
    row = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
    arguments: dict[str, Any] = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "logging_steps": 1}
    settings = TrainingArguments(str(tmp_path / "out"), max_steps=2, save_steps=2, save_only_model=True, **arguments)
    trainer = Trainer(model, settings, train_dataset=[row] * 2, processing_class=processor)
    trainer.add_callback(
        example["DrivingEvaluation"](trainer, processor, tasks="ad2demo_perception_base", limit=2, drive=DRIVE)
    )
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "eval_driving_score" in entry]
    assert [entry["step"] for entry in logged] == [2]
    assert all({"eval_ad2demo_perception_base", "eval_success_rate"} <= entry.keys() for entry in logged)
    assert model.training
