"""Removal of API keys, tokens and passwords from texts that are stored or shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

HIDDEN = "[REDACTED]"
SHORTEST_KEY = 8  # characters; shorter ones ("EMPTY", for a local server) are also ordinary words of a reply

# Keys of a recognisable shape: OpenAI, Anthropic, DeepSeek, OpenRouter and others (sk-), Hugging Face, Google, GitHub,
# GitLab, Slack, AWS, Groq, NVIDIA, Replicate, xAI, Perplexity, Cerebras, Tavily, RunPod, Voyage, Fireworks, Together,
# npm, Jina, DigitalOcean, Databricks, Zhipu, Vercel, LangSmith, Langfuse, Modal, Friendli, Anyscale, Stripe, Shopify,
# Notion, Linear, Doppler, Vault, PlanetScale, Square, Sentry, Atlassian, Dropbox, Supabase, Figma, Postman, New Relic,
# SendGrid, PyPI, Mailgun, Telegram, Discord, JSON web tokens. The digit distinguishes some from words.
_SHAPES = re.compile(
    r"\b(?:sk-[\w-]{8,}|hf_(?:(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{16,})|AIza[\w-]{8,}|gh[opusr]_\w{8,}|github_pat_\w{8,}|glpat-[\w-]{8,}"
    r"|xox[abeprs]-[\w-]{8,}|xapp-[\w-]{8,}|A[KS]IA[0-9A-Z]{12,}|gsk_[A-Za-z0-9]{8,}|nvapi-[\w-]{8,}|r8_[A-Za-z0-9]{8,}"
    r"|ya29\.[\w-]{8,}|1//0[\w-]{16,}|GOCSPX-[\w-]{8,}|dapi[0-9a-f]{16,}|[0-9a-f]{32}\.[A-Za-z0-9]{16}"
    r"|(?:fw|rpa|npm|jina|tgp_v1|dop_v1|vck|flp|ntn|lin_api|pscale_tkn|api_org|sk|figd)_(?=[A-Za-z]*\d)[A-Za-z0-9]{14,}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{8,}|shp(?:at|ca|pa|ss)_[0-9a-f]{16,}|sbp_[0-9a-f]{16,}|lsv2_(?:pt|sk)_\w{16,}"
    r"|esecret_\w{8,}|secret_(?=\w*\d)\w{14,}|sntry[su]_[\w=+/-]{8,}|sq0\w{3}-[\w-]{8,}|ATATT3[\w=-]{8,}|pypi-AgE[\w-]{8,}"
    r"|hv[bs]\.[\w-]{16,}|dp\.\w{2,5}\.[\w-]{16,}|sl\.(?=[a-z]*[A-Z0-9])[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|PMAK-[\w-]{16,}|NRA[AK]-[A-Z0-9]{16,}|\d{8,10}:AA[\w-]{30,}|key-[0-9a-f]{32}|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,})"
    r"|(?<![\w-])(?:(?:xai|pplx|csk|tvly|rpa|pa|[aw]k|as|[ps]k-lf)-(?=[\w-]*\d)[\w-]{14,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_PRIVATE = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)
# Quotes may be escaped, as in JSON within a text, or written as in HTML and addresses.
_QUOTE = r"(?:\\*['\"]|&quot;|&#39;|%22)"
_SECRET = (
    r"(?:[\w-]*(?:key|auth|authorization|passw(?:or)?d|passphrase|passcode|pwd|pw|secret|token|credentials?|bearer|cookie"
    r"|jwt|session[_-]?id)|(?:[\w-]*[_-])?pat)"
)
_IS = r"\s*(?:=>|=(?!>)|:|%3[AaDd])\s*"
_VALUE = (
    rf"(?:b?(?P<quote>\\*['\"])(?:(?!(?P=quote)).)+|{_QUOTE}?[^,\s]+)"  # without the closing quote, or up to a blank
)
_NAMED = re.compile(
    rf"(?i)((?<![\w-]){_SECRET}{_QUOTE}?(?:\s+(?:provided|given|supplied|received))?{_IS})(?!\[RED){_VALUE}"
)
_PAIR = re.compile(
    rf"(?i)((?<![\w-]){_SECRET}['\"]\s*,\s*b?)(?P<quote>['\"])(?:(?!(?P=quote)).)+"
)  # of a list of headers
_OPTION = re.compile(r"(?i)((?<![\w-])--[\w-]*(?:key|token|secret|passw(?:or)?d|credentials?)\s+)[^\s-]\S*")
# The rest of a header: schemes such as Digest and AWS4-HMAC-SHA256 have several parts, separated by commas.
_HEADER = re.compile(
    rf"(?i)(authorization{_QUOTE}?\s*[:,]\s*b?)(?:(?P<quote>\\*['\"])(?:(?!(?P=quote)).)+|[^'\"\n][^\n]*)"
)
_COOKIES = re.compile(r"(?i)(\bcookies?['\"]?\s*[=:]\s*)[^,\n]+")  # several, separated by "; "
# Signatures and one-time codes of addresses (Azure, Amazon, Google, Alibaba; OAuth).
_SIGNED = re.compile(r"(?i)([?&](?:sig|signature|code|x-\w+-(?:signature|credential|security-token))=)[^&,\s]+")
# A password may hold a slash or an @; what follows a port is a path.
_USER = re.compile(r"://(?:[^\s/?#,:]{1,200}:(?!\d{1,5}[/?#])[^\s?#,]{0,200}|[^@/\s,]+)@")
_BEARER = re.compile(r"(?i)\b(bearer\s+|basic\s+(?=[a-z]*(?-i:[A-Z0-9+/=])))[^\s,;]+")
_DIGIT, _LETTER = re.compile(r"[0-9]"), re.compile(r"[A-Za-z]")
_VARIABLE = re.compile(r"(?i)(?:key|token|secret|password)$")


def redacted(text: str) -> str:
    """Model arguments without keys: values of arguments such as api_key= or pw=, and all values shaped like a key."""
    text = _PRIVATE.sub(rf"\1{HIDDEN}", text)
    text = _USER.sub(f"://{HIDDEN}@", text)
    text = _HEADER.sub(rf"\1\g<quote>{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _COOKIES.sub(rf"\1{HIDDEN}", text)
    text = _SIGNED.sub(rf"\1{HIDDEN}", text)
    text = _SHAPES.sub(HIDDEN, text)
    text = _PAIR.sub(rf"\1\g<quote>{HIDDEN}", text)
    text = _OPTION.sub(rf"\1{HIDDEN}", text)
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
