"""Checked user settings of a language model: endpoint, sampling, price. Messages name the wrong setting.

API keys come from the environment only, never from settings.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.numbers import is_number, is_whole
from lmms_eval_ad2.llm.http_address import checked_urls, split_urls

if TYPE_CHECKING:  # the client imports asyncio and ssl, which a lexical judge does not need
    from lmms_eval_ad2.llm.http_address import EndpointConfig

OPENAI_URL = "https://api.openai.com/v1"
# Settings that `endpoint`, `sampling` and `price` read.
ENDPOINT_KEYS = (
    "model", "base_url", "api_key_env", "concurrency", "timeout", "max_retries", "rpm", "backoff", "temperature",
    "seed", "max_tokens", "max_tokens_key", "extra",
)  # fmt: skip
PRICE_KEYS = ("price_prompt", "price_completion")


@dataclass(frozen=True, slots=True)
class EndpointSampling:
    """Sampling parameters of a request; None: not sent. `extra` is added unchanged (e.g. reasoning_effort)."""

    model: str
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int | None = 1024
    max_tokens_key: str = "max_tokens"  # newer models require max_completion_tokens
    extra: Mapping[str, Any] = field(default_factory=dict)

    def payload(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The JSON body of a request with these messages."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if self.max_tokens is not None:
            body[self.max_tokens_key] = self.max_tokens
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.seed is not None:
            body["seed"] = self.seed
        return body | dict(self.extra)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Price of a million tokens, in the currency of the user's contract."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Cost of these tokens, rounded to 1e-6."""
        return round((prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6, 6)


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    """Values by key, checked when read. `owner`: name of the settings in messages ("judge", "--llm")."""

    values: Mapping[str, Any]
    owner: str

    def number(
        self, key: str, default: float | None, *, low: float = -math.inf, high: float = math.inf
    ) -> float | None:
        """A finite number from `low` to `high`, or None without a value and a default."""
        value = self.values.get(key, default)
        if value is None:
            return None
        if not is_number(value) or not low <= value <= high:
            wanted = f"a finite number from {low:g}" if high == math.inf else f"a number from {low:g} to {high:g}"
            raise self._wrong(key, wanted, value)
        return float(value)

    def whole(self, key: str, default: int, *, low: int | None = None, high: int | None = None) -> int:
        """An integer from `low` to `high`, of at most 308 digits."""
        value = self.values.get(key)
        value = default if value is None else value
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if not is_number(value) or not is_whole(value, least, most):
            bounds = f"{'' if low is None else f' from {low}'}{'' if high is None else f' to {high}'}"
            raise self._wrong(key, f"a whole number{bounds}", value)
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping; empty by default."""
        value = self.values.get(key) or {}
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a mapping (in a YAML file)", value)
        return dict(value)

    def path(self, key: str) -> Path | None:
        """A path with `~` expanded."""
        value = self.values.get(key)
        return Path(str(value)).expanduser() if value else None

    def text(self, key: str, default: str = "") -> str:
        """A text; a value that YAML parsed as a number is converted back."""
        value = self.values.get(key)
        return default if value is None else str(value)

    def texts(self, key: str) -> str | list[str]:
        """A text, or a list of texts."""
        value = self.values.get(key)
        return [str(one) for one in value] if isinstance(value, list | tuple) else self.text(key)

    def _wrong(self, key: str, expected: str, found: Any) -> Ad2Error:
        return Ad2Error(f"{self.owner} setting {key}: expected {expected}, found {found!r}")


def endpoint(settings: CheckedSettings) -> EndpointConfig:
    """Address and request limits. Raises Ad2Error for a wrong value or address, or a missing key."""
    from lmms_eval_ad2.llm.http_address import EndpointConfig

    base_url = checked_urls(settings.texts("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    return EndpointConfig(
        base_url=base_url,
        api_key=key_for(base_url, settings.text("api_key_env")),
        timeout_s=settings.number("timeout", 60.0, low=0.001) or 60.0,
        max_retries=settings.whole("max_retries", 6, low=0),
        concurrency=settings.whole("concurrency", 64, low=1),
        rpm=settings.number("rpm", None, low=0.001),
        backoff_s=settings.number("backoff", 0.5, low=0.0) or 0.0,
        seed=settings.whole("seed", 0),
    )


def sampling(settings: CheckedSettings, *, max_tokens: int = 1024, seed: int = 0) -> EndpointSampling:
    """Sampling parameters; `max_tokens` and `seed` are the defaults. A seed of null sends none."""
    chosen_seed = settings.whole("seed", seed)
    return EndpointSampling(
        model=settings.text("model"),
        temperature=settings.number("temperature", 0.0, low=0.0),
        seed=None if settings.values.get("seed", 0) is None else chosen_seed,
        max_tokens=settings.whole("max_tokens", max_tokens, low=1),
        max_tokens_key=one_of(
            settings.values.get("max_tokens_key", "max_tokens"),
            ("max_tokens", "max_completion_tokens"),
            "max_tokens_key",
        ),
        extra=settings.mapping("extra"),
    )


def price(settings: CheckedSettings) -> TokenPrice | None:
    """The price of tokens, if the settings contain one."""
    prices = [settings.number(key, None, low=0.0) for key in PRICE_KEYS]
    return TokenPrice(prices[0] or 0.0, prices[1] or 0.0) if any(p is not None for p in prices) else None


def key_for(base_url: str, variable: str = "") -> str:
    """The API key from environment variable `variable` (OPENAI_API_KEY by default). Only OpenAI's server needs one.

    All servers of `base_url` get the same key.
    """
    key = os.environ.get(variable or "OPENAI_API_KEY", "").strip()
    if not key and variable:
        raise Ad2Error(f"the environment variable {variable} (api_key_env) is not set")
    if not key and any(urlsplit(url).hostname == "api.openai.com" for url in split_urls(base_url)):
        raise Ad2Error("OPENAI_API_KEY is not set; for your own server give base_url=http://host:port/v1")
    return key


S = TypeVar("S", bound=str)


def one_of(name: Any, known: Iterable[S], what: str) -> S:
    """The member of `known` that equals `name`. Otherwise raises Ad2Error, which suggests similar names."""
    names: list[S] = list(known)
    for candidate in names:
        if candidate == name:
            return candidate
    near = difflib.get_close_matches(str(name), [str(n) for n in names], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    raise Ad2Error(f"unknown {what} '{name}'; {hint}")


def check_keys(given: Iterable[Any], known: Iterable[str], where: str) -> None:
    """Raise Ad2Error for the first key of `given` that is not in `known`."""
    names = list(known)
    for key in given:
        one_of(key, names, f"key of {where}:")
