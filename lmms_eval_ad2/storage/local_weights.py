"""The local files that model arguments name, as part of a run's identity.

Weights that are trained again at the same path are another model. Every argument is searched, since each model class
has names of its own for checkpoints, adapters and tokenizers.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Arguments of lmms-eval's model classes, as results name them: `pretrained=Qwen/Qwen2.5-VL-7B-Instruct,device=cpu`.


def pairs(model_args: str | Mapping[str, Any] | None) -> dict[str, str]:
    """Parse `a=1,b=2` into a dictionary of texts."""
    if isinstance(model_args, Mapping):
        return {str(key): str(value) for key, value in model_args.items()}
    return dict(p.split("=", 1) for p in (model_args or "").split(",") if "=" in p)


def model_label(model: str, model_args: str) -> str:
    """A short name for tables: the checkpoint's, if there is one."""
    known = pairs(model_args)
    for key in ("pretrained", "model_version", "model"):
        if known.get(key):
            return known[key].rstrip("/").split("/")[-1]
    return model


# Files that affect the answers of a model: weights, configurations, tokenizers, chat templates, code.
SUFFIXES = frozenset({
    ".safetensors", ".bin", ".gguf", ".ggml", ".pt", ".pth", ".ckpt", ".pkl", ".onnx", ".engine", ".npz", ".npy", ".h5",
    ".msgpack", ".model", ".json", ".jinja", ".txt", ".tiktoken", ".py", ".yaml", ".yml",
})  # fmt: skip
# A folder without any of these is no model: lmms-eval names its folder of results after the model.
_WEIGHTS = SUFFIXES - {".json", ".jinja", ".txt", ".py", ".yaml", ".yml"}
_CONFIGURATIONS = frozenset({
    "config.json", "adapter_config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json",
    "params.json", "model_index.json", "args.json",
})  # fmt: skip
_CHECKPOINTS = ("pretrained", "model_path")
TRAINING_CARD = "ad2_training.json"  # names the training data, see training_card.py; has no effect on the answers
MOST_ENTRIES = 20_000  # of a folder; one with more holds other things besides a model

_ARGUMENT = re.compile(r"(?:^|,)\s*([\w.-]+)=")
_LISTED = re.compile(r"[,;|\[\](){}'\"]+")
_PARTS = re.compile(r"[\s,;|\[\](){}'\":=]+")


def local_weights(model_args: str | Mapping[str, Any]) -> dict[str, str]:
    """A hash for each argument whose value names an existing local file or folder, or several of them.

    model_args: "name=value,name=value", where a value may be a list. The hash covers names, sizes and time stamps of
    the files, not their content, so that it takes milliseconds for any size of a model.
    """
    found = {}
    for name, value in _arguments(model_args):
        states = [f"{path}\n{state}" for path in _candidates(value) if (state := _state(path))]
        if states:
            found[name] = hashlib.sha256("\n".join(sorted(states)).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return found


def model_folders(model_args: str | Mapping[str, Any]) -> list[Path]:
    """The existing local folders that the arguments name, each once."""
    texts = dict.fromkeys(text for _, value in _arguments(model_args) for text in _candidates(value))
    return [path for text in texts if (path := _folder(text)) is not None]


def is_path(value: str) -> bool:
    """Whether the value of a model's argument can only be a path here: ids of the Hugging Face Hub are OWNER/NAME."""
    return value.startswith(("/", "./", "../", "~")) or ("://" not in value and value.rstrip("/").count("/") > 1)


def checkpoint_fault(arguments: Mapping[str, str]) -> str | None:
    """One line if the checkpoint is named by a path at which there is no model, else None.

    Other arguments are not judged: they may name files to write, or what a server has.
    """
    for name in _CHECKPOINTS:
        value = arguments.get(name, "")
        if is_path(value) and (value.startswith("~") or not _state(value)):
            return f"{name}={value}: {_absence(value)}"
    return None


def _absence(path: str) -> str:
    if path.startswith("~"):
        return "~ is not expanded within an argument; write $HOME"
    if os.path.lexists(path):
        return "no model: neither a configuration (config.json) nor weights in it"
    return "no such file or folder; a model of the Hugging Face Hub is named OWNER/NAME"


def _folder(text: str) -> Path | None:
    try:
        path = Path(text).expanduser()
        return path if path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # as in _state
        return None


def _arguments(model_args: str | Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if isinstance(model_args, Mapping):
        yield from ((str(name), str(value)) for name, value in model_args.items())
        return
    names = list(_ARGUMENT.finditer(model_args))
    ends = [*(match.start() for match in names[1:]), len(model_args)]
    for match, end in zip(names, ends, strict=False):
        yield match[1], model_args[match.end() : end]


def _candidates(value: str) -> list[str]:
    """The texts in a value that may be paths."""
    texts = {value.strip(), *_LISTED.split(value), *_PARTS.split(value)}
    return sorted(text for text in map(str.strip, texts) if text)


def _state(text: str) -> str:
    """Names, sizes and time stamps of a model's files; "" if the text is no path, or the folder has no such file."""
    path = Path(text)
    try:
        path = path.expanduser()
        if path.is_file():
            # A bare word may have the name of a file by chance.
            return _entry(path, path) if os.sep in text or path.suffix in SUFFIXES else ""
        files = list(_model_files(path)) if path.is_dir() else []
        if not any(file.suffix.lower() in _WEIGHTS or file.name in _CONFIGURATIONS for file in files):
            return ""
        return "\n".join(sorted(_entry(file, path) for file in files))
    except (OSError, RuntimeError, ValueError):  # too long, an unknown user, a zero byte
        return ""


def _model_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, also in linked folders; a link to a folder that contains it is not followed."""
    seen = 0
    waiting: deque[tuple[Path, frozenset[tuple[int, int]]]] = deque([(folder, frozenset())])
    while waiting:
        place, containing = waiting.popleft()
        try:
            status = place.stat()
            entries = sorted(place.iterdir())
        except OSError:  # not readable, or removed meanwhile
            continue
        inode = status.st_dev, status.st_ino
        for entry in entries if inode not in containing else ():
            seen += 1
            if seen > MOST_ENTRIES:
                return
            if entry.is_dir():
                if not entry.name.startswith((".", "__pycache__")):
                    waiting.append((entry, containing | {inode}))
            elif entry.name != TRAINING_CARD and entry.suffix.lower() in SUFFIXES and entry.is_file():
                yield entry


def _entry(file: Path, top: Path) -> str:
    status = file.stat()
    return f"{file.relative_to(top)}:{status.st_size}:{status.st_mtime_ns}"
