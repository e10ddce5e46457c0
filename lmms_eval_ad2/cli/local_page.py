"""Serving a page of this machine from the command line, until it is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from lmms_eval_ad2.core.served_connections import allowed_names, is_loopback


def serve_until_stopped(
    serve: Callable[..., None], *, host: str, port: int, allow_host: str, visitors: str, saved: str
) -> None:
    """Call `serve(host=, port=, allowed_hosts=)` until Ctrl-C or SIGTERM (command_errors.py).

    visitors: what people who can reach the port can do, for the warning about an address that is not of this machine
    only. saved: what is kept, and where, printed at the end.
    """
    if not is_loopback(host):
        print(f"warning: on {host} everyone who can reach this port can {visitors}")
    with contextlib.suppress(KeyboardInterrupt):
        serve(host=host, port=port, allowed_hosts=allowed_names(allow_host))
    print(f"stopped; {saved}")
