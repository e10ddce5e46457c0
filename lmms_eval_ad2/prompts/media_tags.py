"""Tags and control tokens that training and inference programs interpret inside a text."""

from __future__ import annotations

import re

# Media tags of ms-swift (swift.template.base, Template.special_tokens, and `<img>`).
MEDIA_TAGS = ("<image>", "<video>", "<audio>", "<bbox>", "<ref-object>", "<cot-process>", "<start-image>", "<img>")
# `<<image>>` must not leave an `<image>` behind, hence the runs of brackets.
_TAG = re.compile("<+(" + "|".join(re.escape(tag[1:-1]) for tag in MEDIA_TAGS) + ")>+")
# Control tokens of chat models, such as <|im_end|> and <|image_pad|>.
_CONTROL = re.compile(r"<+\|+(\w+)\|+>+")


def without_tags(text: str) -> str:
    """`text` with such tags reduced to their names, so that dataset text or quoted answers never count as an image."""
    return _CONTROL.sub(r"\1", _TAG.sub(r"\1", text))
