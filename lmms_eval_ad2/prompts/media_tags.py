"""What training and inference programs read inside a text as a place for media, or as the end of a turn."""

from __future__ import annotations

import re

# ms-swift's own (swift.template.base, Template.special_tokens, and `<img>`).
MEDIA_TAGS = ("<image>", "<video>", "<audio>", "<bbox>", "<ref-object>", "<cot-process>", "<start-image>", "<img>")
# `<<image>>` must not leave an `<image>` behind, hence the runs of brackets.
_TAG = re.compile("<+(" + "|".join(re.escape(tag[1:-1]) for tag in MEDIA_TAGS) + ")>+")
# Control tokens of chat models, such as <|im_end|> and <|image_pad|>.
_CONTROL = re.compile(r"<+\|+(\w+)\|+>+")


def without_tags(text: str) -> str:
    """`text` with such tags reduced to their names: data, or an answer that is quoted, must not count as an image."""
    return _CONTROL.sub(r"\1", _TAG.sub(r"\1", text))
