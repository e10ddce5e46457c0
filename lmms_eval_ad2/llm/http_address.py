"""HttpAddress: the base URL of a model server, its headers, and the proxy that the environment names for it.

Proxies are read here and not by aiohttp, whose `trust_env` also sends the user and password of ~/.netrc to the server.
"""

from __future__ import annotations

import base64
import re
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from lmms_eval_ad2.core.errors import Ad2Error

# Addresses of the servers of one model: one URL, or several joined by "+", or a list in a YAML file.
#
#     http://gpu1:8000/v1+http://gpu2:8000/v1
#
# A "+" needs no quotes in a shell, and it joins two URLs only in front of http:// or https://.

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


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """A base URL. `headers`: of each request; `proxy_headers`: of the request for a tunnel through `proxy`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, headers: Mapping[str, str] = {}) -> HttpAddress:
        """Raises ValueError for a text that is no http(s) URL, Ad2Error for a proxy that cannot be used."""
        parts = _parts(url)
        if urllib.request.proxy_bypass(parts.hostname or "") or (proxy := _proxy(parts.scheme)) is None:
            return cls(url, headers)
        name, authorization = _without_user(proxy)
        if parts.scheme == "https":
            return cls(url, headers, name, authorization)
        return cls(url, {**headers, **authorization}, name)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)


def _parts(url: str) -> SplitResult:
    """The parts of an http(s) URL. Raises ValueError for another text, and for a host or port that none can have."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http(s)://host[:port], found {url[:80]!r}")
    if ":" not in parts.hostname:
        parts.hostname.encode("idna")  # UnicodeError, a ValueError: a label is empty or too long
    _ = parts.port  # ValueError: no number
    return parts


def _proxy(scheme: str) -> str | None:
    """The proxy that the environment names for a scheme; like curl, http if it names none. Raises Ad2Error."""
    named = urllib.request.getproxies().get(scheme)
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    try:
        _parts(proxy)
    except ValueError:
        shown = f"{proxy.partition('://')[0]}://...@..." if "@" in proxy else repr(named[:80])  # without a password
        raise Ad2Error(
            f"the environment variable {scheme}_proxy cannot be used: expected http(s)://[user:password@]host:port, "
            f"found {shown}"
        ) from None
    return proxy


def _without_user(proxy: str) -> tuple[str, dict[str, str]]:
    """A proxy's URL without user and password, and the header with them."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return proxy, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return bare, {"Proxy-Authorization": f"Basic {base64.b64encode(user).decode('ascii')}"}


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Addresses and request limits of a model.

    `base_url`: of its servers, as in http_address.py. `concurrency`, `rpm`: requests in flight, and per minute, at each
    of them. `max_retries`: repeats of one request.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    max_retries: int = 6
    concurrency: int = 64
    rpm: float | None = None
    backoff_s: float = 0.5
    seed: int = 0

    @property
    def in_flight(self) -> int:
        """Requests in flight at all servers together."""
        return self.concurrency * len(split_urls(self.base_url))
