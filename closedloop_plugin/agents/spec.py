"""From what a user wrote to a model: `endpoint:MODEL@URL,key=value,...` or `lmms:NAME,arg=value,...`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.llm.settings import OPENAI_URL, url

# option -> how it is read; the names are those of a judge's spec
ENDPOINT_OPTIONS: Mapping[str, type] = {
    "model": str, "base_url": str, "api_key_env": str, "timeout": float, "max_retries": int, "concurrency": int,
    "rpm": float, "backoff": float, "temperature": float, "seed": int, "max_tokens": int, "max_tokens_key": str,
    "format": str, "quality": int,
}  # fmt: skip
_AT_LEAST = {"timeout": 0.001, "max_retries": 0, "concurrency": 1, "rpm": 0.001, "backoff": 0.0, "temperature": 0.0,
             "max_tokens": 1, "quality": 1}  # fmt: skip


def endpoint_options(spec: str) -> dict[str, Any]:
    """What follows `endpoint:` as checked options with `model` and `base_url`; Ad2Error says what is wrong."""
    first, _, rest = spec.partition(",")
    options: dict[str, Any] = {}
    if first.startswith(("http://", "https://")):
        options["base_url"] = first
    elif "=" in first and "@" not in first:
        rest = spec
    else:
        model, at, address = first.partition("@")
        options["model"] = model
        if at:
            options["base_url"] = address
    for part in filter(None, (p.strip() for p in rest.split(","))):
        key, equals, value = (s.strip() for s in part.partition("="))
        if not equals:
            raise Ad2Error(f"endpoint:{spec}: expected KEY=VALUE, found '{part}'")
        options[key] = _value(key, value)
    if not options.get("model"):
        raise Ad2Error(f"endpoint:{spec}: which model? e.g. endpoint:MODEL@http://host:port/v1")
    options["base_url"] = url(options.get("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    return options


def _value(key: str, text: str) -> Any:
    if key == "api_key":
        raise Ad2Error("endpoint: no key belongs here; set OPENAI_API_KEY, or name another variable with api_key_env")
    if key not in ENDPOINT_OPTIONS:
        near = difflib.get_close_matches(key, ENDPOINT_OPTIONS, 1)
        raise Ad2Error(
            f"endpoint: unknown option '{key}'"
            + (f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(ENDPOINT_OPTIONS)}")
        )
    try:
        value = ENDPOINT_OPTIONS[key](text)
    except ValueError:
        raise Ad2Error(f"endpoint: {key}: expected {_words(key)}, found '{text}'") from None
    if key in _AT_LEAST and not _AT_LEAST[key] <= value < float("inf"):
        raise Ad2Error(f"endpoint: {key}: expected {_words(key)} of at least {_AT_LEAST[key]:g}, found '{text}'")
    return value


def _words(key: str) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}[ENDPOINT_OPTIONS[key]]


def endpoint_choice(options: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed` (the first where nothing was said)."""
    value = str(options.get(key, allowed[0]))
    if value not in allowed:
        raise Ad2Error(f"endpoint: {key}: expected one of {', '.join(allowed)}, found '{value}'")
    return value
