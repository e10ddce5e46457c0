"""`--model ad2_hf`: any image-text-to-text class of transformers, by its checkpoint (docs/models.md).

The checkpoint's own class, processor and chat template answer; nothing is known here of any family.
"""

from __future__ import annotations

import inspect
from typing import Any

from lmms_eval_ad2.core.coordinates import InputResizing
from lmms_eval_ad2.core.numbers import environment_number
from lmms_eval_ad2.harness.models.arguments import refuse_unknown, whole_number
from lmms_eval_ad2.harness.models.engine_model import EngineModel
from lmms_eval_ad2.harness.models.generation import sampling_of
from lmms_eval_ad2.harness.models.hf_checkpoint import HfCheckpoint
from lmms_eval_ad2.harness.models.hf_engine import HfEngine
from lmms_eval_ad2.harness.models.hf_requirements import NAME


class HfModel(EngineModel):
    """`--model ad2_hf --model_args pretrained=OWNER/NAME` (or a folder).

    On several ranks of torchrun each has a copy of the model on its own GPU, or on the CPU.
    """

    name = NAME

    def __init__(
        self,
        pretrained: str = "",
        dtype: str = "auto",
        device: Any = None,
        device_map: Any = None,
        attn_implementation: str | None = None,
        max_pixels: Any = None,
        batch_size: Any = 1,
        max_batch_size: Any = None,
        trust_remote_code: Any = False,
        adapter: str = "",
        chat_template: str = "",
        system_prompt: str = "",
        max_new_tokens: int | None = None,
        temperature: float | None = None,
        seed: int | None = None,
        **unknown: Any,
    ) -> None:
        """Load the model. Raises Ad2Error, in one line, for whatever a user can mend; arguments: docs/models.md."""
        super().__init__()
        refuse_unknown(NAME, unknown, inspect.getfullargspec(HfModel.__init__).args[1:])
        self._fixed = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        sampling_of({}, self._fixed)  # an invalid value must fail before the model is loaded
        size = whole_number(NAME, "batch_size", batch_size, 1)
        pixels = None if max_pixels is None else whole_number(NAME, "max_pixels", max_pixels, 1)
        if environment_number("WORLD_SIZE", 1) > 1:
            from accelerate import Accelerator

            self.accelerator = Accelerator()
            self._rank, self._world_size = self.accelerator.process_index, self.accelerator.num_processes
            device, device_map = self.accelerator.device, None  # a copy per rank, not one spread over all GPUs
        checkpoint = HfCheckpoint(str(pretrained), str(trust_remote_code).lower() in ("true", "1"), str(chat_template))
        processor = checkpoint.processor(pixels)
        self._engine: HfEngine = HfEngine(
            checkpoint.model(
                dtype=str(dtype), device=device, device_map=device_map, attention=attn_implementation,
                adapter=str(adapter or ""),
            ),
            processor, batch_size=size, max_pixels=pixels, system=self._resolve_system_prompt(system_prompt),
        )  # fmt: skip

    @property
    def model(self) -> Any:
        """The torch module: a closed loop seeds sampled answers of models that run in its process."""
        return self._engine.model

    @property
    def input_resizing(self) -> InputResizing | None:
        """How the processor resizes images; None if that is not known."""
        return self._engine.input_resizing

    def clean(self) -> None:
        """Release the model: in a series of runs (a --config list) the next one needs its memory."""
        self.__dict__.pop("_engine", None)
        super().clean()
