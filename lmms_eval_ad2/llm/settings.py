"""What a user sets about a language model: where it is asked, with what, at which price. Checked, with named mistakes.

Keys never come from settings: only from the environment.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from lmms_eval_ad2.errors import Ad2Error

if TYPE_CHECKING:  # the client brings aiohttp, which a lexical judge has no need of
    from lmms_eval_ad2.llm.client import EndpointConfig

OPENAI_URL = "https://api.openai.com/v1"
# What `endpoint`, `sampling` and `price` read.
ENDPOINT_KEYS = (
    "model", "base_url", "api_key_env", "concurrency", "timeout", "max_retries", "rpm", "backoff", "temperature",
    "seed", "max_tokens", "max_tokens_key", "extra",
)  # fmt: skip
PRICE_KEYS = ("price_prompt", "price_completion")


@dataclass(frozen=True, slots=True)
class EndpointSampling:
    """What the endpoint is asked with. `extra` goes into the request as it stands (e.g. reasoning_effort)."""

    model: str
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int = 1024
    max_tokens_key: str = "max_tokens"  # newer models want max_completion_tokens
    extra: Mapping[str, Any] = field(default_factory=dict)

    def payload(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The JSON body of a request with these messages."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), self.max_tokens_key: self.max_tokens}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.seed is not None:
            body["seed"] = self.seed
        return body | dict(self.extra)


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Money for a million tokens, in the currency of the user's contract."""

    prompt: float
    completion: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        return round((prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6, 6)


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    """Values by key, read with a check. `owner` is whose they are in messages: "judge", "--llm"."""

    values: Mapping[str, Any]
    owner: str

    def number(
        self, key: str, default: float | None, *, low: float = float("-inf"), high: float = float("inf")
    ) -> float | None:
        """A finite or infinite number from `low` to `high`, or None where neither a value nor a default is."""
        value = self.values.get(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self._wrong(key, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def whole(self, key: str, default: int, *, low: int | None = None) -> int:
        """A whole number of at least `low`."""
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or (low is not None and value < low):
            raise self._wrong(key, f"a whole number{'' if low is None else f' from {low}'}", value)
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping, empty where nothing was said."""
        value = self.values.get(key) or {}
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a mapping (in a YAML file)", value)
        return dict(value)

    def path(self, key: str) -> Path | None:
        """A path with the home folder filled in."""
        value = self.values.get(key)
        return Path(str(value)).expanduser() if value else None

    def text(self, key: str, default: str = "") -> str:
        """A text; what YAML read as a number comes back as it was written."""
        value = self.values.get(key)
        return default if value is None else str(value)

    def _wrong(self, key: str, expected: str, found: Any) -> Ad2Error:
        return Ad2Error(f"{self.owner} setting {key}: expected {expected}, found {found!r}")


def endpoint(settings: CheckedSettings) -> EndpointConfig:
    """Where and how to ask. Raises Ad2Error for a wrong value, address or missing key."""
    from lmms_eval_ad2.llm.client import EndpointConfig

    base_url = url(settings.text("base_url") or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
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
    """What to ask with; `max_tokens` and `seed` where the settings do not say. A seed of null sends none."""
    said = settings.whole("seed", seed)
    return EndpointSampling(
        settings.text("model"),
        settings.number("temperature", 0.0, low=0.0),
        None if settings.values.get("seed", 0) is None else said,
        settings.whole("max_tokens", max_tokens, low=1),
        one_of(
            settings.values.get("max_tokens_key", "max_tokens"),
            ("max_tokens", "max_completion_tokens"),
            "max_tokens_key",
        ),
        settings.mapping("extra"),
    )


def price(settings: CheckedSettings) -> TokenPrice | None:
    """The price of tokens, where the user named one."""
    prices = [settings.number(key, None, low=0.0) for key in PRICE_KEYS]
    return TokenPrice(prices[0] or 0.0, prices[1] or 0.0) if any(p is not None for p in prices) else None


def url(text: str) -> str:
    """A base URL without a trailing slash; Ad2Error for another scheme, or where a password or query stands in it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise Ad2Error(f"base_url: '{text}' is no address: {exc}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Ad2Error(f"base_url: expected http(s)://host[:port]/v1, found '{host or text}'")
    if parts.username or parts.password or parts.query:
        where = host if port is None else f"{host}:{port}"
        raise Ad2Error(
            f"base_url of {where}: no names, passwords or queries belong in it; keys come from the environment"
        )
    return text.rstrip("/")


def key_for(base_url: str, variable: str = "") -> str:
    """The key from the environment (OPENAI_API_KEY unless named); OpenAI needs one, a server of one's own may not."""
    key = os.environ.get(variable or "OPENAI_API_KEY", "").strip()
    if not key and variable:
        raise Ad2Error(f"the environment variable {variable} (api_key_env) is not set")
    if not key and urlsplit(base_url).hostname == "api.openai.com":
        raise Ad2Error("OPENAI_API_KEY is not set; for a server of your own name base_url=http://host:port/v1")
    return key


# Names that a user typed, against those that exist: one message, with the near ones.
S = TypeVar("S", bound=str)


def one_of(name: Any, known: Iterable[S], what: str) -> S:
    """The member of `known` that equals `name`; Ad2Error with near names otherwise."""
    names: list[S] = list(known)
    for candidate in names:
        if candidate == name:
            return candidate
    near = difflib.get_close_matches(str(name), [str(n) for n in names], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    raise Ad2Error(f"unknown {what} '{name}'; {hint}")


def check_keys(given: Iterable[Any], known: Iterable[str], where: str) -> None:
    """Ad2Error for the first key of `given` that `known` lacks."""
    names = list(known)
    for key in given:
        one_of(key, names, f"key of {where}:")
