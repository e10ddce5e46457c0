"""Driving scores of a vision-language model while transformers' Trainer trains it (docs/training-loop.md).

    trainer = Trainer(model, args, train_dataset=..., processing_class=processor)
    trainer.add_callback(DrivingEvaluation(trainer, processor, tasks="ad2_mcq_*", drive={"suite": "demo"}))
    trainer.train()

At each checkpoint (save_steps) the model answers open-loop tasks and drives routes; the scores are logged beside the
training loss, so that TensorBoard or Weights & Biases draw them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

import closedloop_plugin
import lmms_eval_ad2
from lmms_eval_ad2.core.errors import Ad2Error


class DrivingEvaluation(TrainerCallback):
    """Evaluates at each checkpoint. `tasks`, `options`: of lmms_eval_ad2.evaluate; `drive`: of
    closedloop_plugin.evaluate (None: no drive)."""

    def __init__(
        self, trainer: Trainer, processor: Any, tasks: str = "ad2_*", drive: Mapping[str, Any] | None = None,
        batch_size: int = 8, **options: Any,
    ) -> None:  # fmt: skip
        self.trainer, self.processor, self.tasks, self.batch_size = trainer, processor, tasks, batch_size
        self.drive, self.options = drive, options

    def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """All ranks answer a part of the questions; the first one drives, within `ddp_timeout` of the others."""
        if self.drive is not None and args.world_size > 1 and (args.fsdp or args.deepspeed):
            raise Ad2Error("one rank alone cannot drive with sharded weights (FSDP, DeepSpeed): leave out `drive`")
        out, step = Path(args.output_dir) / "driving", state.global_step
        saved = (Path(args.output_dir) / f"checkpoint-{step}").stat().st_mtime_ns  # other weights if trained again
        name = f"step{step}-{saved}"
        training = model.training
        model.eval()
        try:
            answer = answer_function(model, self.processor)
            found = lmms_eval_ad2.evaluate(
                answer, self.tasks, out=out, name=name, batch_size=self.batch_size, **self.options
            )
            scores = {f"eval_{task}": score for task, score in found.scores.items() if score is not None}
            if self.drive is not None and state.is_world_process_zero:
                driven = closedloop_plugin.evaluate(
                    answer, out=out / f"drive-{name}", name=name, batch_size=self.batch_size, **self.drive
                )
                if driven.scores:
                    scores |= {f"eval_{key}": driven.scores[key] for key in ("driving_score", "success_rate")}
        finally:
            model.train(training)
        self.trainer.log(scores)


def answer_function(model: Any, processor: Any) -> Callable[[Sequence[Any], Any], list[str]]:
    """The function for `evaluate`: a batch of prompts through the chat template, greedy generation, decoding."""

    def answer(prompts: Sequence[Any], settings: Any) -> list[str]:
        texts = [
            processor.apply_chat_template(
                [{"role": "user", "content": [{"type": "image"}] * len(p.images) + [{"type": "text", "text": p.text}]}],
                add_generation_prompt=True,
                tokenize=False,
            )
            for p in prompts
        ]
        images = [list(p.images) for p in prompts]
        inputs = processor(
            text=texts, images=images if any(images) else None, padding=True, padding_side="left", return_tensors="pt"
        ).to(model.device)
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=settings.max_new_tokens, do_sample=False)
        return processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)

    return answer
