"""Removal of API keys, tokens and passwords from texts that are stored or shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

HIDDEN = "[REDACTED]"
SHORTEST_KEY = 8  # characters; shorter ones ("EMPTY", for a local server) are also ordinary words of a reply

# Keys of a recognisable shape: OpenAI, Anthropic, DeepSeek, OpenRouter and others (sk-), Hugging Face, Google, GitHub,
# GitLab, Slack, AWS, Groq, NVIDIA, Replicate, xAI, Perplexity, Cerebras, Tavily, RunPod, Voyage, Fireworks, Together,
# npm, Jina, DigitalOcean, Databricks, JSON web tokens. The digit distinguishes some from words.
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{8,}|hf_(?:(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{16,})|AIza[\w-]{8,}|gh[opusr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|xox[abeprs]-[\w-]{8,}|A[KS]IA[0-9A-Z]{12,}|gsk_[A-Za-z0-9]{8,}|nvapi-[\w-]{8,}|r8_[A-Za-z0-9]{8,}|ya29\.[\w-]{8,}"
    r"|(?:xai|pplx|csk|tvly|rpa|pa)-(?=[\w-]*\d)[\w-]{14,}|dapi[0-9a-f]{16,}"
    r"|(?:fw|rpa|npm|jina|tgp_v1|dop_v1)_(?=[A-Za-z]*\d)[A-Za-z0-9]{14,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_NAMED = re.compile(
    r"(?i)((?:[\w-]*(?:key|auth|authorization|passw(?:or)?d|passphrase|pwd|pw|secret|token|credentials?|bearer|cookie|jwt)"
    r"|\b(?:[\w-]*[_-])?pat)['\"]?\s*[=:]\s*)[^,\s]+"
)
_COOKIES = re.compile(r"(?i)(\bcookies?['\"]?\s*[=:]\s*)[^,\n]+")  # several, separated by "; "
# Signatures of addresses (Azure, Amazon, Google, Alibaba).
_SIGNED = re.compile(r"(?i)([?&](?:sig|signature|x-\w+-(?:signature|credential|security-token))=)[^&,\s]+")
_USER = re.compile(r"://[^@/\s,]+@")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;]+")
_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
_VARIABLE = re.compile(r"(?i)(?:key|token|secret|password)$")


def redacted(text: str) -> str:
    """Model arguments without keys: values of arguments such as api_key= or pw=, and all values shaped like a key."""
    text = _USER.sub(f"://{HIDDEN}@", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _COOKIES.sub(rf"\1{HIDDEN}", text)
    text = _SIGNED.sub(rf"\1{HIDDEN}", text)
    text = _SHAPES.sub(HIDDEN, text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)


def environment_keys() -> tuple[str, ...]:
    """The values of the environment variables whose names end in KEY, TOKEN, SECRET or PASSWORD.

    Only values with letters and digits, or of 20 characters: a word such as "disabled" must stay in an answer.
    """
    found = (value.strip() for name, value in os.environ.items() if _VARIABLE.search(name))
    return tuple(value for value in found if len(value) >= 20 or (_DIGIT.search(value) and _LETTER.search(value)))


def without_keys(text: str, keys: Iterable[str]) -> str:
    """`text` with every occurrence of a key replaced; keys shorter than SHORTEST_KEY are ignored."""
    for key in keys:
        if len(key) >= SHORTEST_KEY:
            text = text.replace(key, HIDDEN)
    return text
