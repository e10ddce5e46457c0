"""Neutralising untrusted text for a prompt, so that it cannot imitate a fence, a verdict or a chat turn.

Predictions are written by the model under test, and answers that address the judge have been seen on leaderboards.
Texts of a data set, and the output of one model in the prompt of another, are no safer. Each text is therefore placed
between fences that carry a nonce, and a visible dot breaks every sequence that could be read as a fence, as a verdict
`[[n]]` or as a token of a chat template. The nonce is derived from the content: an item always gives the same prompt,
as the cache requires, and a text cannot contain the nonce of its own item.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence

from lmms_eval_ad2.llm.request_body import canonical

DOT = "·"  # inserted where a sequence is broken; the system prompt explains it to the model

# Double brackets of any width mark a verdict, runs of angle brackets a fence.
_RUNS = re.compile(r"([\[\]［］【】<>])(?=\1)")
# The place to break in <|im_start|>, <｜User｜>, </s>, [INST], <think>, <image>, <IMG_CONTEXT>, <box> ...:
# special tokens of one tokenizer or another.
SPECIAL_TOKEN = re.compile(
    r"(?i)(?<=<)(?=[|｜])|(?<=[|｜])(?=>)"
    r"|(?<=<)(?=/?(?:s|bos|eos|cls|sep|mask|pad|unk|think|thinking|thought|answer|image|video|audio|img|im_start|im_end"
    r"|im_patch|vid_start|vid_end|img_context|vi_context|video_context|image_soft_token|audio_soft_token"
    r"|fake_token_around_image"
    r"|global-img|row_\d{1,2}_col_\d{1,2}|start_of_(?:turn|image|audio|role)|end_of_(?:turn|image|audio|role"
    r"|utterance|text)"
    r"|tool_call|tool_calls|tool_response|tool_result|tools|function_call|quad|box|ref|det|point|points|obj"
    r"|poly|loc_?\d{1,4}|seg\d{1,3}|bin_\d{1,4}|object_ref|grounding|delimiter_of_multi_objects|phrase|image_id|slice"
    r"|unit|unused_?\d{1,4}|reserved_?\d{1,4}|system|user|assistant|sop|eop|frame|obs|objects?|tiling|extra_id_\d{1,3}"
    r"|(?:image|vision|video|audio)_(?:start|end|pad|newline|placeholder)|patch_index_\d{1,4}|obj_vis_[se]"
    r"|arg_(?:key|value)|(?:seed|minimax):[a-z_]{1,20})/?>)"
    r"|(?<=\])(?=~!?b[\[\]])|(?<=\[)(?=e~\[)"
    r"|(?<=◁)(?=/?[a-z_]{1,20}▷)"
    r"|(?<=\[)(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|THINK|ARGS"
    r"|CALL_ID|IMG"
    r"|IMG_BREAK|IMG_END|IMAGE|AUDIO|BEGIN_AUDIO|PREFIX|SUFFIX|MIDDLE|CLS|SEP|PAD|UNK|MASK|EOS|BOS|gMASK"
    r"|sMASK|UNUSED_TOKEN_\d{1,3})\])"
)
_SUSPECT = re.compile(r"[\[\]［］【】<>|｜◁]")
_KEPT_CONTROLS = frozenset("\n\t")


def neutralise(text: str) -> str:
    """`text` without invisible characters, and with a dot inside every sequence that a judge or parser interprets.

    The result contains no `[[`, `]]`, `<<`, `>>` and no chat-template token. Idempotent.
    """
    if not text.replace("\n", "").replace("\t", "").isprintable():  # rare; the loop over characters is slow
        # An invisible character between two brackets would hide the pair from the patterns below.
        text = "".join(" " if c == "\r" else c for c in text.replace("\r\n", "\n") if is_visible(c) or c == "\r")
    if not _SUSPECT.search(text):
        return text
    return SPECIAL_TOKEN.sub(DOT, _RUNS.sub(rf"\1{DOT}", text))


def is_visible(char: str) -> bool:
    """False for control, format, surrogate, private-use and unassigned characters, except newline and tab."""
    return char in _KEPT_CONTROLS or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def nonce(kind: str, fields: Mapping[str, object]) -> str:
    """Twelve hex digits, a function of `kind` (a rubric, a role) and the whole content of an item."""
    return hashlib.sha256(canonical([kind, fields]).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def fence(parts: Sequence[tuple[str, str]], mark: str) -> str:
    """`(title, untrusted text)` pairs, each between an opening and a closing fence with the nonce `mark`."""
    return "\n\n".join(
        f"<<<{title.upper()} {mark}>>>\n{neutralise(text).strip() or '(empty)'}\n<<<END {mark}>>>"
        for title, text in parts
    )
