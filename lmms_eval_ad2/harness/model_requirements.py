"""What a model of `--model` needs: wrapper, libraries, API key, its own folder. Found without importing the wrapper.

lmms-eval's registry of models imports little (0.1 s); a wrapper imports torch and transformers (5 to 10 s). The
libraries of a wrapper are therefore read from its source: the unconditional imports of its file and of the files of
lmms-eval that it imports, and those optional ones without which it cannot process images.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, install_all, require
from lmms_eval_ad2.harness.models import hf_requirements
from lmms_eval_ad2.harness.models.arguments import refuse_unknown
from lmms_eval_ad2.harness.wrapper_source import constructor_of, source_of, torch_has_cuda
from lmms_eval_ad2.storage.local_weights import checkpoint_fault, pairs
from lmms_eval_ad2.storage.redaction import redacted

# Optional imports without which wrappers cannot process images; the others (decord in many files) are for video or
# audio only. By the way in which they are imported: optional_import("module", ...), or in a `try`.
_OPTIONAL = ("qwen_vl_utils", "reka", "vllm")
_TRIED = ("qwen_omni_utils", "google.genai", "anthropic", "dashscope")
LAZY = {"litellm": ("litellm",)}  # imported with the first request
# Wrappers that read an .env file above their own folder.
_READ_DOTENV = ("openai", "async_openai")
# Model -> environment variables, one of which has its API key.
_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "async_openai": ("OPENAI_API_KEY",),
    "gpt4v": ("OPENAI_API_KEY",),
    "gpt4o_audio": ("OPENAI_API_KEY",),
    "batch_gpt4": ("OPENAI_API_KEY",),
    "claude": ("ANTHROPIC_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "reka": ("REKA_API_KEY",),
    "qwen_vl_api": ("DASHSCOPE_API_KEY",),
}
_EXPAND_HOME = ("vita",)  # wrappers that expand ~ in their checkpoint
_TRUE = ("true", "1", "yes", "y")


@dataclass(frozen=True, slots=True)
class ModelWrapper:
    """A model class of lmms-eval's registry. `model_id`: its name without aliases."""

    name: str
    model_id: str
    class_path: str

    def libraries(self) -> tuple[str, ...]:
        """The third-party modules that it needs, sorted."""
        found = set(LAZY.get(self.model_id, ()))
        if path := source_of(self.class_path.rpartition(".")[0]):
            found |= _libraries(path)
        return tuple(sorted(found))


def find_wrapper(name: str, force_simple: bool = False) -> ModelWrapper:
    """The wrapper of `--model name`; raises Ad2Error with similar names if lmms-eval has none."""
    registry = require("lmms_eval.models").MODEL_REGISTRY_V2
    names = registry.list_model_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "lmms-eval models lists them"
        raise Ad2Error(f"no model '{name}'; {hint}")
    resolved = registry.resolve(name, force_simple)
    return ModelWrapper(name, resolved.model_id, resolved.class_path)


def faults(
    name: str,
    model_args: str | Mapping[str, Any] | None = None,
    force_simple: bool = False,
    device: str | EllipsisType | None = ...,
) -> list[str]:
    """What keeps a model from being loaded, one line each with the remedy: name, arguments, libraries, API key, its
    folder, a GPU. `device`: of `--device`, None if it is not given; without it the GPU is not judged."""
    try:
        wrapper = find_wrapper(name, force_simple)
    except Ad2Error as exc:
        return [str(exc)]
    arguments = pairs(model_args)
    found = []
    if missing := [module for module in needed_by(wrapper, arguments) if not importable(module)]:
        found.append(f"--model {name} needs {' and '.join(missing)}, not installed: {install_all(missing)}")
    if fault := key_fault(wrapper, arguments):
        found.append(fault)
    more = [format_fault(model_args) or argument_fault(wrapper, arguments), path_fault(wrapper, arguments)]
    if device is not ...:
        more.append(device_fault(wrapper, arguments, device))
    if wrapper.model_id == hf_requirements.NAME:
        more += [] if more[1] else hf_requirements.faults(arguments)
    return found + [f"--model {name}: {fault}" for fault in more if fault]


def check_model(name: str, model_args: str | Mapping[str, Any] | None = None, force_simple: bool = False) -> None:
    """Raise Ad2Error for the first of `faults`."""
    for fault in faults(name, model_args, force_simple):
        raise Ad2Error(fault)


def format_fault(model_args: str | Mapping[str, Any] | None) -> str | None:
    """One line for a part of `--model_args` that is no KEY=VALUE; of texts with quotes or brackets none is judged."""
    if not isinstance(model_args, str) or any(mark in model_args for mark in "{}[]'\""):
        return None
    for part in filter(None, map(str.strip, model_args.split(","))):
        if not re.match(r"[^=\s]+=", part):
            return f"--model_args {redacted(model_args)}: expected KEY=VALUE,..., found '{redacted(part)}'"
    return None


def argument_fault(wrapper: ModelWrapper, arguments: Mapping[str, str]) -> str | None:
    """One line for an argument that the constructor refuses; None also if its source does not tell."""
    made = constructor_of(wrapper.class_path)
    if made is None:
        return None
    for name in made.whole & set(arguments) if wrapper.class_path.startswith("lmms_eval_ad2.") else ():
        if not re.fullmatch(r"-?\d+|None", arguments[name]):  # wrappers of lmms-eval also take "auto" and others
            return f"{name} must be a whole number, not '{arguments[name]}'"
    if made.takes_any and not made.ignores_others:
        return None
    given = [argument for argument in arguments if argument.isidentifier()]  # others are parts of a value
    if made.ignores_others:  # lmms-eval runs with such an argument, but a misspelt one would be without effect
        given = [argument for argument in given if difflib.get_close_matches(argument, made.defaults, 1, 0.8)]
    try:
        refuse_unknown(wrapper.model_id, given, made.defaults)
    except Ad2Error as exc:
        return str(exc).partition(": ")[2]
    return None


def device_fault(wrapper: ModelWrapper, arguments: Mapping[str, str], device: str | None) -> str | None:
    """One line if the wrapper would use a GPU that this torch cannot use. `device`: of `--device`, None without."""
    made = constructor_of(wrapper.class_path)
    if made is None or made.asks_for_cuda or torch_has_cuda():
        return None
    missing = []
    if str(made.defaults.get("device")).startswith("cuda") and not device and "device" not in arguments:
        missing.append("--device cpu")
    mapped = str(made.defaults.get("device_map"))
    if "device_map" not in arguments and (mapped.startswith("cuda") or (mapped == "auto" and made.moves_to_cuda)):
        missing.append("device_map=cpu in --model_args")
    return f"it uses a GPU by default, and this torch has no CUDA: give {' and '.join(missing)}" if missing else None


def needed_by(wrapper: ModelWrapper, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """The modules that a wrapper needs with these model arguments."""
    if wrapper.model_id == "ad2_swift":
        return (*wrapper.libraries(), "openai" if "server" in arguments else "swift")
    return wrapper.libraries()


def key_variables(model_id: str, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """The environment variables of which one has the model's API key; empty if none is needed."""
    if "api_key" in arguments or _is_true(arguments.get("vertexai")):
        return ()
    if _is_true(arguments.get("azure_openai")):
        return ("AZURE_OPENAI_API_KEY",)
    if model_id in ("gpt4v", "gpt4o_audio", "batch_gpt4") and os.environ.get("API_TYPE", "openai") == "azure":
        return ("AZURE_API_KEY",)
    return _KEYS.get(model_id, ())


def key_fault(wrapper: ModelWrapper, arguments: Mapping[str, str]) -> str | None:
    """One line if the address of the server is none, or the API key is not set, else None."""
    address = arguments.get("base_url", "")
    if address and is_endpoint(wrapper.model_id) and not re.match(r"https?://[^/\s]", address):
        return f"--model {wrapper.name}: base_url={address}: expected http(s)://host[:port]/v1"
    variables = key_variables(wrapper.model_id, arguments)
    if not variables or any(os.environ.get(variable) for variable in variables):
        return None
    if wrapper.model_id in _READ_DOTENV and any(map(_in_dotenv, variables)):
        return None
    own_server = arguments.get("base_url") or os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL")
    free = " (any text, if the server needs no key)" if own_server and wrapper.model_id in _READ_DOTENV else ""
    return f"--model {wrapper.name}: {' or '.join(variables)} is not set: export {variables[0]}=...{free}"


def path_fault(wrapper: ModelWrapper, arguments: Mapping[str, str]) -> str | None:
    """One line if the model is a path at which there is none, else None. A server may call its models like paths."""
    if is_endpoint(wrapper.model_id) or "server" in arguments:
        return None
    if wrapper.model_id in _EXPAND_HOME:
        arguments = {k: str(Path(v).expanduser()) if v.startswith("~") else v for k, v in arguments.items()}
    return checkpoint_fault(arguments)


def is_endpoint(model_id: str) -> bool:
    """Whether the model is a service behind an API key."""
    return model_id in _KEYS or model_id in LAZY


def importable(module: str) -> bool:
    """Whether a module is installed; only its parent packages are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _is_true(value: str | None) -> bool:
    return str(value).lower() in _TRUE


def _in_dotenv(variable: str) -> bool:
    from dotenv import dotenv_values

    start = source_of("lmms_eval.models")
    file = next((path for folder in start.parents if (path := folder / ".env").is_file()), None) if start else None
    return file is not None and bool(dotenv_values(file).get(variable))


# --- imports in source files ---


@functools.cache
def _libraries(path: Path) -> frozenset[str]:
    """The libraries that a file needs, with those of the files of lmms-eval and of ours that it imports."""
    found: set[str] = set()
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in _needed_names(ast.parse(file.read_text("utf-8")), file):
            root = name.split(".")[0]
            if root in ("lmms_eval", "lmms_eval_ad2"):
                waiting += [f for module in (name, name.rpartition(".")[0]) if (f := source_of(module))]
            elif root not in sys.stdlib_module_names:
                found.add(name if name in _TRIED else root)
    return frozenset(found)


def _needed_names(tree: ast.Module, file: Path) -> Iterator[str]:
    """Dotted names that the import of a file needs, and needed optional ones (of lmms-eval's models only)."""
    for node in tree.body:
        yield from _names_of(node, lambda name: True)
        if isinstance(node, ast.Try) and "models" in file.parts:
            for inner in node.body:
                yield from _names_of(inner, lambda name: name in _TRIED)
        elif isinstance(node, ast.Assign):
            yield from _optional_import(node.value)


def _names_of(node: ast.stmt, wanted: Callable[[str], bool]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        ours = node.module.split(".")[0] == "lmms_eval"  # the imported name may be a module
        names = [f"{node.module}.{alias.name}" for alias in node.names] if ours else [node.module]
    else:
        return
    yield from filter(wanted, names)


def _optional_import(value: ast.expr) -> Iterator[str]:
    """The module of `optional_import("module", "attribute")`, if it is needed for images."""
    if not (isinstance(value, ast.Call) and getattr(value.func, "id", "") == "optional_import"):
        return
    words = [a.value for a in value.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if words and words[0] in _OPTIONAL and words[1:] != ["fetch_video"]:
        yield words[0]
