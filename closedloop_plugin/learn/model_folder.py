"""Folders of models. A new model is never written over another one, and its weights appear last; a LLaVA that is
loaded may be of others: what is in it is checked, with one error for each fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.tokenizer import IMAGE
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.numbers import is_whole
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.untrusted_json import load

if TYPE_CHECKING:
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

CPU = "cpu"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_TEMPORARY = "new"  # folder in the model folder
MODEL_TYPE = "llava"
SETTINGS, LOG = "settings.json", "training.json"  # first and last file of a training, see train.py
RESIZES_ONLY = "the model's processor does more than resize pictures; ms-swift can train it"


def holds_model(folder: Path) -> bool:
    return any((folder / name).exists() for name in (CONFIG, WEIGHTS, f"{WEIGHTS}.index.json"))


def refuse_model(folder: Path) -> None:
    """Raises Ad2Error if the folder holds a model."""
    if holds_model(folder):
        raise Ad2Error(f"{folder} holds a model already; choose another --out")


@contextmanager
def new_model(folder: Path) -> Iterator[Path]:
    """Lock `folder` and yield what `complete_model` yields. Raises Ad2Error if it holds a model, or is in use."""
    refuse_model(folder)  # before the lock file is written into the folder of a model
    with lock_folder(folder):
        refuse_model(folder)
        with complete_model(folder) as temporary:
            yield temporary


@contextmanager
def complete_model(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, whose files are moved to `folder` if the block succeeds.

    The weights are moved last: where they are, all other files are. The caller holds the lock of `folder`. A killed
    process leaves `folder`/new, which the next call removes.
    """
    temporary = folder / _TEMPORARY
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in sorted(temporary.iterdir(), key=lambda file: file.name == WEIGHTS):
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_llava(folder: Path, option: str = "") -> None:
    """Raises Ad2Error if the folder holds no LLaVA, or one that is still being trained.

    Nothing is loaded, and transformers is not asked, which would look for a missing folder at a hub. option: that names
    the folder, for the message.
    """
    name = f"{option} {folder}".lstrip()
    try:
        kind = load(folder / CONFIG)["model_type"]
    except (OSError, ValueError, LookupError, TypeError):
        raise Ad2Error(f"{name}: no model folder: no readable {CONFIG} with model_type") from None
    if kind != MODEL_TYPE:
        raise Ad2Error(f"{name}: model_type {str(kind)[:80]!r}, must be {MODEL_TYPE!r}, as of ad2 learn train")
    if (folder / SETTINGS).exists() and not (folder / LOG).exists():
        raise Ad2Error(f"{name}: its training has not ended; the same ad2 learn train command resumes it")


def load_llava(folder: Path, dtype: str = "float32") -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    """Model, on the CPU, and processor of a folder. dtype: "auto" for that of the checkpoint.

    Only safetensors are read, and no code of the folder is run. Raises Ad2Error for whatever is wrong with its files,
    for missing weights, which transformers would draw at random, and for a processor that resizes pictures to no fixed
    size or has another image token than the model.
    """
    from transformers import LlavaForConditionalGeneration

    try:
        loaded: Any = LlavaForConditionalGeneration.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, local_files_only=True, output_loading_info=True
        )
        model, found = loaded
        processor = load_processor(folder)
        token = processor.tokenizer.convert_tokens_to_ids(IMAGE)
    except Exception as exc:  # of any type: transformers and its parsers do not check the files of a folder
        why = str(exc).strip().partition("\n")[0][:200]
        raise Ad2Error(f"{folder}: not a loadable model ({type(exc).__name__}: {why})") from exc
    if missing := sorted(found["missing_keys"]):
        names = f"{missing[0]} and {len(missing) - 1} others" if len(missing) > 1 else missing[0]
        raise Ad2Error(f"{folder}: no weights {names}; were they saved by another version of transformers?")
    if not _has_fixed_size(processor):
        raise Ad2Error(f"{folder}: {RESIZES_ONLY}")
    if token != model.config.image_token_id:
        raise Ad2Error(
            f"{folder}: {IMAGE} is token {token} of its tokenizer, {model.config.image_token_id} of its model"
        )
    return model, processor


def load_processor(folder: Path) -> LlavaProcessor:
    """The processor of a folder, without code of the folder. Raises what transformers raises."""
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _has_fixed_size(processor: LlavaProcessor) -> bool:
    try:
        size = processor.image_processor.size  # a value for each key of it, or None
        return bool(size["height"] and size["width"]) and is_whole(processor.patch_size, 1)
    except (AttributeError, KeyError, TypeError):
        return False


def check_device(name: str, processes: int) -> None:
    """Raises Ad2Error if PyTorch cannot compute there, or not with several processes; MissingExtra without PyTorch."""
    torch = require("torch")
    try:
        kind = torch.device(name).type
        if kind == CPU or processes == 1:
            float(torch.zeros(1, device=name))  # also refuses "meta", which has no values
            return
    except (RuntimeError, AssertionError, ImportError) as exc:
        why = str(exc).partition("\n")[0][:200]
        raise Ad2Error(f"--device {name}: PyTorch cannot use it here ({why}); --device {CPU} always works") from None
    raise Ad2Error(f"--device {name} --processes {processes}: several processes share a training on the {CPU} only")
