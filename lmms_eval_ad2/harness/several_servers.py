"""Several servers for lmms-eval's wrappers of the openai library, whose `base_url` names them joined by "+".

The wrapper holds one client. Its method chat.completions.create is replaced by one that calls a copy of the client for
the chosen server, so the wrapper's retries, time-outs and arguments stay as they are.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import threading
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.llm.http_address import split_urls
from lmms_eval_ad2.llm.server_balancer import ModelServer, ServerChoice

_PROBE_TIMEOUT_S = 5.0


@dataclass(slots=True, eq=False)
class ClientServer(ModelServer):
    """A server with a copy of the wrapper's client for it."""

    client: Any = field(kw_only=True)


def spread_over_servers(client: Any) -> list[Any]:
    """Balance the requests of an openai client over the servers of its base URL; returns a client for each.

    A request that fails because its server is gone goes to another one at once. An object that is no such client, or
    has one server, is left as it is.
    """
    urls = split_urls(str(getattr(client, "base_url", "")).rstrip("/"))
    if len(urls) < 2:
        return [client]
    completions = client.chat.completions
    spread = getattr(completions.create, "__self__", None)
    if not isinstance(spread, _SpreadRequests):
        spread = _SpreadRequests([ClientServer(url, client=client.with_options(base_url=url)) for url in urls])
        is_async = inspect.iscoroutinefunction(inspect.unwrap(completions.create))
        completions.create = spread.create_async if is_async else spread.create
    return [server.client for server in spread.servers]


def server_of(exc: Exception) -> str:
    """The base URL of the request that failed with an error of the openai library, or ""."""
    url, path, _ = str(getattr(getattr(exc, "request", None), "url", "")).rpartition("/chat/completions")
    return url if path else ""


class _SpreadRequests:
    """The two replacements of `create`. The wrapper limits the requests in flight of all servers together."""

    def __init__(self, servers: list[ClientServer]) -> None:
        self.servers = servers
        self._choice = ServerChoice(servers, math.inf)
        self._lock = threading.Lock()  # wrappers call from several threads
        self._probes: set[asyncio.Task[None]] = set()

    def create(self, *args: Any, **kwargs: Any) -> Any:
        server = None
        for moves_left in reversed(range(len(self.servers))):
            for due in self._due():
                threading.Thread(target=self._probe, args=(due,), name="ad2-probe", daemon=True).start()
            server = self._begin(server)
            try:
                reply = server.client.chat.completions.create(*args, **kwargs)
            except Exception as exc:
                if not (self._note_failure(server, exc) and moves_left):
                    raise
            else:
                self._note_reply(server)
                return reply
            finally:
                self._end(server)
        raise AssertionError("unreachable")

    async def create_async(self, *args: Any, **kwargs: Any) -> Any:
        server = None
        for moves_left in reversed(range(len(self.servers))):
            for due in self._due():
                task = asyncio.get_running_loop().create_task(self._probe_async(due))
                self._probes.add(task)  # asyncio keeps no reference
                task.add_done_callback(self._probes.discard)
                task.add_done_callback(functools.partial(self._end_probe, due))
            server = self._begin(server)
            try:
                reply = await server.client.chat.completions.create(*args, **kwargs)
            except Exception as exc:
                if not (self._note_failure(server, exc) and moves_left):
                    raise
            else:
                self._note_reply(server)
                return reply
            finally:
                self._end(server)
        raise AssertionError("unreachable")

    def _due(self) -> list[ClientServer]:
        with self._lock:
            return self._choice.due()

    def _begin(self, avoid: ClientServer | None) -> ClientServer:
        with self._lock:
            server = self._choice.least_loaded(avoid)
            assert server is not None  # no limit
            server.in_flight += 1
            return server

    def _end(self, server: ClientServer) -> None:
        with self._lock:
            server.in_flight -= 1

    def _note_reply(self, server: ClientServer) -> None:
        with self._lock:
            self._choice.note_reply(server)

    def _note_failure(self, server: ClientServer, exc: Exception) -> bool:
        """Whether the failure, or an earlier one, took the server out while another one answers."""
        import openai

        with self._lock:
            if isinstance(exc, openai.APITimeoutError):
                self._choice.note_failure(server, "timeout")
            elif isinstance(exc, openai.APIConnectionError):
                self._choice.note_failure(server, str(exc), gone=True)
            elif isinstance(exc, openai.InternalServerError):
                self._choice.note_failure(server, f"http_{exc.status_code}")
            else:
                return False
            return self._choice.is_replaced(server)

    def _probe(self, server: ClientServer) -> None:
        try:
            _probe_client(server).models.list()
        except Exception as exc:
            self._note_probe(server, exc)
        else:
            self._note_probe(server)

    async def _probe_async(self, server: ClientServer) -> None:
        await _probe_client(server).models.list()

    def _end_probe(self, server: ClientServer, task: asyncio.Task[None]) -> None:
        """Also of a task that the end of its event loop cancels."""
        cancelled = TimeoutError("the event loop ended") if task.cancelled() else None
        self._note_probe(server, cancelled or task.exception())

    def _note_probe(self, server: ClientServer, failure: BaseException | None = None) -> None:
        import openai

        # A server that refuses to list its models listens.
        refused = isinstance(failure, openai.APIStatusError) and failure.status_code < 500
        with self._lock:
            self._choice.note_probe(server, failure is None or refused)


def _probe_client(server: ClientServer) -> Any:
    return server.client.with_options(timeout=_PROBE_TIMEOUT_S, max_retries=0)
