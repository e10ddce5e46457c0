"""The host names under which clients may address a local HTTP server.

A web page of any site can send requests to a server on this machine, under a name of that site which it lets point here
(DNS rebinding); the browser then treats the replies as the site's own. Such a request has that name in its Host header.
An IP address or a name of this machine there cannot come from another site.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from functools import cache

LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """Whether the address is reachable from this machine only."""
    return host == LOCAL or ((address := _address(host)) is not None and address.is_loopback)


def allowed_names(text: str) -> tuple[str, ...]:
    """The names of the option --allow-host."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def host_fault(header: str | None, bound: str, further: Sequence[str] = ()) -> str | None:
    """Why a request with this Host header is refused, or None.

    bound: the address that the server listens on; further: more names that are accepted. A request without the header
    comes from no browser.
    """
    if header is None:
        return None
    name = _name(header)
    if is_loopback(name) or name in {_plain(known) for known in (bound, *further)} | _own_names():
        return None
    if _address(name) is not None and _listens_everywhere(bound):
        return None
    return f"Host: '{name[:200]}' is not a name of this server; if clients use it: --allow-host {name[:200]}"


def _name(header: str) -> str:
    """The host without its port; "" if it is none."""
    if header.startswith("["):
        address, _, rest = header[1:].partition("]")
        return _plain(address) if not rest or rest.startswith(":") else ""
    return _plain(header.partition(":")[0])


def _plain(name: str) -> str:
    return name.strip().rstrip(".").lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _listens_everywhere(bound: str) -> bool:
    address = _address(bound)
    return not bound or (address is not None and address.is_unspecified)


@cache
def _own_names() -> frozenset[str]:
    full = _plain(socket.gethostname())
    short = full.partition(".")[0]
    return frozenset({full, short, f"{short}.local"})
