"""The state of a running training as one safetensors file: weights, the optimizer's moments, and a few numbers.

Nothing is pickled: tensors are named "model.NAME", "head.NAME" and "optimizer.NUMBER.KEY", and numbers are JSON in the
metadata.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_path

if TYPE_CHECKING:
    import torch
    from transformers import LlavaForConditionalGeneration

MODEL, HEAD, OPTIMIZER, NUMBERS = "model.", "head.", "optimizer.", "numbers"


def weights_of(model: LlavaForConditionalGeneration) -> dict[str, torch.Tensor]:
    """All weights by name, a tied one once, in main memory."""
    tied = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else set()
    return {name: w.detach().cpu().contiguous() for name, w in model.state_dict().items() if name not in tied}


def save_state(
    file: Path, model: LlavaForConditionalGeneration, head: torch.nn.Module, optimizer: torch.optim.Optimizer,
    numbers: Mapping[str, Any],
) -> None:  # fmt: skip
    """Write the state atomically, the same for each device of the tensors. `numbers`: JSON values."""
    from safetensors.torch import save_file

    moments = optimizer.state_dict()["state"]
    tensors = {
        **{f"{MODEL}{name}": weight for name, weight in weights_of(model).items()},
        **{f"{HEAD}{name}": weight.cpu() for name, weight in head.state_dict().items()},
        **{f"{OPTIMIZER}{k}.{key}": value.cpu().contiguous() for k, of in moments.items() for key, value in of.items()},
    }
    with atomic_path(file) as temporary:
        save_file(tensors, temporary, metadata={NUMBERS: json.dumps(dict(numbers))})


def restore_state(
    file: Path, model: LlavaForConditionalGeneration, head: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Set model, head and optimizer, which keep their device, to a saved state, and return its numbers."""
    from safetensors import safe_open

    weights: dict[str, torch.Tensor] = {}
    of_head: dict[str, torch.Tensor] = {}
    moments: defaultdict[int, dict[str, torch.Tensor]] = defaultdict(dict)
    with safe_open(file, framework="pt") as saved:
        numbers: dict[str, Any] = json.loads(saved.metadata()[NUMBERS])
        for name in saved.keys():  # noqa: SIM118  # not a mapping
            if name.startswith(MODEL):
                weights[name.removeprefix(MODEL)] = saved.get_tensor(name)
            elif name.startswith(HEAD):
                of_head[name.removeprefix(HEAD)] = saved.get_tensor(name)
            else:
                number, _, key = name.removeprefix(OPTIMIZER).partition(".")
                moments[int(number)][key] = saved.get_tensor(name)
    if weights.keys() != weights_of(model).keys():  # tied weights are saved once
        raise Ad2Error(f"{file}: other weights than the model's; continue with the versions that saved them")
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    head.load_state_dict(of_head)
    optimizer.load_state_dict({"state": dict(moments), "param_groups": optimizer.state_dict()["param_groups"]})
    return numbers
