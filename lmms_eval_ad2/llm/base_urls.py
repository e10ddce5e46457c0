"""Addresses of the servers of one model: one URL, or several joined by "+", or a list in a YAML file.

    http://gpu1:8000/v1+http://gpu2:8000/v1

A "+" needs no quotes in a shell, and it joins two URLs only in front of http:// or https://.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from lmms_eval_ad2.core.errors import Ad2Error

_JOINT = re.compile(r"\+(?=https?://)")


def split_urls(text: str) -> tuple[str, ...]:
    """The URLs in `text`."""
    return tuple(_JOINT.split(text))


def checked_urls(given: str | Sequence[str]) -> str:
    """The URLs without trailing slashes, joined.

    Raises Ad2Error for none or an equal one, other schemes, and a user, password or query in one.
    """
    urls = [_checked(url) for url in (split_urls(given) if isinstance(given, str) else map(str, given))]
    if not urls:
        raise Ad2Error("base_url: the list is empty")
    if twice := next((url for url in urls if urls.count(url) > 1), None):
        raise Ad2Error(f"base_url: {twice} is named twice; `concurrency` is the limit of each server")
    return "+".join(urls)


def _checked(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise Ad2Error(f"base_url: '{text}' is not a URL: {exc}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Ad2Error(f"base_url: expected http(s)://host[:port]/v1, found '{host or text}'")
    if parts.username or parts.password or parts.query:
        where = host if port is None else f"{host}:{port}"
        raise Ad2Error(
            f"base_url of {where}: it must not contain user names, passwords or queries; keys come from the environment"
        )
    return text.rstrip("/")
