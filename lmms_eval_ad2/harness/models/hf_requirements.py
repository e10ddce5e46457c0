"""What a checkpoint needs for ad2_hf, found from its files. Neither torch nor transformers is imported."""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

NAME = "ad2_hf"
PLAIN = "plain"  # chat_template=plain: the images' tokens, then the bare text
NO_TEMPLATE = (
    "has no chat template: name a Jinja file of its publisher (chat_template=FILE), or chat_template=plain if the model"
    " was trained on bare text after its images, as PaliGemma"
)
# In the order in which they are tried. Not all versions of transformers have all.
CLASSES = ("AutoModelForImageTextToText", "AutoModelForMultimodalLM", "AutoModelForVision2Seq")
# The lists of transformers behind CLASSES.
_LISTS = (
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES",
)  # fmt: skip
# Files of a checkpoint with the chat template: as a file of its own, or under "chat_template".
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "processor_config.json", "tokenizer_config.json")


def faults(arguments: Mapping[str, str]) -> Iterator[str]:
    """What keeps ad2_hf from loading `arguments`, one line each. A name on the Hub is not looked up."""
    pretrained = arguments.get("pretrained", "")
    if not pretrained:
        yield "name a checkpoint (pretrained=OWNER/NAME, or a folder)"
        return
    template = arguments.get("chat_template", "")
    if template not in ("", PLAIN) and not Path(template).is_file():
        yield f"chat_template={template}: no such file; name a file, or plain"
    folder = Path(pretrained)
    if not folder.is_dir():
        if folder.exists():
            yield f"pretrained={pretrained} is a file; name the folder of the checkpoint"
        return
    config = _json(folder / "config.json")
    kind = str(config.get("model_type", ""))
    if kind and "auto_map" not in config and _known_types() and kind not in _known_types():
        yield (
            f"{pretrained} is of type '{kind}', which the installed transformers does not know as a model of images "
            f"and text: pip install -U transformers, or another --model"
        )
    if not template and not _has_template(folder):
        yield f"{pretrained} {NO_TEMPLATE}"


def _has_template(folder: Path) -> bool:
    if (folder / _TEMPLATES[0]).is_file() or (folder / "additional_chat_templates").is_dir():
        return True
    return any("chat_template" in _json(folder / name) for name in _TEMPLATES[1:])


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none: loading the checkpoint then names the fault."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@functools.cache
def _known_types() -> frozenset[str]:
    """The model types that transformers loads with CLASSES, from its source; empty if that has another form."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or not spec.origin:
        return frozenset()
    source = Path(spec.origin).parent / "models" / "auto" / "modeling_auto.py"
    if not source.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in _LISTS for t in node.targets):
            pairs = [n for n in ast.walk(node.value) if isinstance(n, ast.Tuple) and len(n.elts) == 2]
            found |= {p.elts[0].value for p in pairs if isinstance(p.elts[0], ast.Constant)}
    return frozenset(map(str, found))
