"""A server from start to end: HTTP in a thread of its own, the model in this one, where libraries expect to be."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from aiohttp import web

from closedloop_plugin.serve.driver_service import DriverService
from closedloop_plugin.serve.http_api import ChatHttpApi
from closedloop_plugin.serve.service import ChatService
from lmms_eval_ad2.errors import Ad2Error

_NEWS_S = 60.0
_FAREWELL_S = 2.0  # for answers that are on their way when the server ends


@dataclass(frozen=True)
class LoadedServices:
    """What is there once everything is loaded. `model`: as it stands in /health."""

    services: Sequence[ChatService]
    driver: DriverService
    model: str


def serve(front: ChatHttpApi, host: str, port: int, load: Callable[[], LoadedServices]) -> None:
    """Load and answer until Ctrl-C. The address is taken first: a port in use is told before minutes of
    loading, and who asks meanwhile hears that it loads."""
    log = sys.stderr  # this one: while a model answers, its wrapper's progress bars are kept off sys.stderr
    with listening(front, host, port, log) as url:
        try:
            print(f"{url}: loading {front.model}", file=log, flush=True)
            offer = load()
            front.open(offer.services, offer.driver, offer.model)
            names = ", ".join(service.name for service in offer.services)
            print(f"{url}: ready, models: {names}", flush=True)
            front.desk.work()
        except KeyboardInterrupt:
            print(f"stopped; {front.news()}", file=log, flush=True)
        finally:
            front.desk.close()


@contextlib.contextmanager
def listening(front: ChatHttpApi, host: str, port: int, log: TextIO | None = None) -> Iterator[str]:
    """HTTP until the block ends; gives the base URL, as clients want it. Port 0: any free one."""
    loop = asyncio.new_event_loop()
    # handler_cancellation: who goes away takes the request along, if it still waits.
    runner = web.AppRunner(
        front.application(), access_log=None, handler_cancellation=True, shutdown_timeout=_FAREWELL_S
    )
    thread = threading.Thread(target=loop.run_forever, name="ad2-serve", daemon=True)
    thread.start()
    try:
        url = asyncio.run_coroutine_threadsafe(_start(runner, host, port), loop).result()
        news = asyncio.run_coroutine_threadsafe(_report(front, log), loop) if log else None
        try:
            yield url
        finally:
            if news:
                news.cancel()
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can ask there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _start(runner: web.AppRunner, host: str, port: int) -> str:
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=1024).start()
    except socket.gaierror as exc:
        raise Ad2Error(f"--host {host}: {exc.strerror}; expected an address of this machine") from None
    except OSError as exc:
        why = exc.strerror or str(exc)
        raise Ad2Error(
            f"cannot listen on {host} port {port} ({why}); choose another --port, or 0 for any free one"
        ) from None
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{runner.addresses[0][1]}/v1"


async def _report(front: ChatHttpApi, log: TextIO) -> None:
    """A line a minute, if there is anything new."""
    told = front.news()
    while True:
        await asyncio.sleep(_NEWS_S)
        if (line := front.news()) != told:
            print(line, file=log, flush=True)
            told = line
