"""Runs the server: HTTP in its own thread, the model in the main thread, where some libraries require to run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TextIO

from aiohttp import web

from closedloop_plugin.interfaces.serve.http_api import CLIENT_FAULTS, ChatHttpApi
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show
from lmms_eval_ad2.core.served_connections import ServedConnections

_REPORT_PERIOD_S = 60.0
_SHUTDOWN_S = 2.0  # for replies being sent when the server ends


def serve(api: ChatHttpApi, host: str, port: int, load: Callable[[], None]) -> None:
    """Call `load`, which opens the API (ChatHttpApi.open), and answer requests until Ctrl-C.

    The port is bound before loading, which can take minutes: a port in use is reported at once, and requests
    meanwhile get HTTP 503 "loading".
    """
    log = sys.stderr  # keep this object: while a model runs, sys.stderr is replaced to hide its progress bars
    with listening(api, host, port, log) as url:
        try:
            show(f"{url}: loading {api.model}", file=log, flush=True)
            load()
            show(f"{url}: ready, models: {', '.join(api.names)}", flush=True)
            api.batcher.work()
        except KeyboardInterrupt:
            show(f"stopped; {api.summary()}", file=log, flush=True)
        finally:
            api.batcher.close()


@contextlib.contextmanager
def listening(api: ChatHttpApi, host: str, port: int, log: TextIO | None = None) -> Iterator[str]:
    """Serve HTTP until the block ends; yields the base URL for clients. Port 0: any free one."""
    loop = asyncio.new_event_loop()
    # handler_cancellation: a client that disconnects cancels its request if it still waits.
    # auto_decompress: a body of 400 kB may unpack to 400 MB before the handler can refuse it.
    runner = web.AppRunner(
        api.application(host), access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S,
        auto_decompress=False, logger=_logger(),
    )  # fmt: skip
    thread = threading.Thread(target=loop.run_forever, name="ad2-serve", daemon=True)
    thread.start()
    try:
        url, server = asyncio.run_coroutine_threadsafe(_start(runner, api.connections, host, port), loop).result()
        report = asyncio.run_coroutine_threadsafe(_report(api, log), loop) if log else None
        try:
            yield url
        finally:
            if report:
                report.cancel()
            loop.call_soon_threadsafe(server.close)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        api.close()


def _logger() -> logging.Logger:
    """A logger without the faults of clients: malformed requests, lost connections."""
    logger = logging.getLogger("ad2.serve")
    if not logger.filters:
        logger.addFilter(lambda entry: not (entry.exc_info and isinstance(entry.exc_info[1], CLIENT_FAULTS)))
    return logger


async def _start(
    runner: web.AppRunner, connections: ServedConnections, host: str, port: int
) -> tuple[str, asyncio.Server]:
    """Listen; returns the URL for clients, and the server."""
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    connections.handle_accept_errors(loop)
    try:
        server = await loop.create_server(connections.factory(runner.server), host, port, backlog=1024)
    except socket.gaierror as exc:
        raise Ad2Error(f"--host {host}: {exc.strerror}; expected an address of this machine") from None
    except OSError as exc:
        why = exc.strerror or str(exc)
        raise Ad2Error(
            f"cannot listen on {host} port {port} ({why}); choose another --port, or 0 for any free one"
        ) from None
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.sockets[0].getsockname()[1]}/v1", server


async def _report(api: ChatHttpApi, log: TextIO) -> None:
    """Print a summary every minute if it has changed."""
    last = api.summary()
    while True:
        await asyncio.sleep(_REPORT_PERIOD_S)
        if (line := api.summary()) != last:
            show(line, file=log, flush=True)
            last = line
