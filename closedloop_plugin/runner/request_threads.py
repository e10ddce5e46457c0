"""RequestThreads: work that waits for the network, each item in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from multiprocessing import Pipe
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class RequestThreads(Generic[T]):
    """Calls `work(item)` in a daemon thread for each submitted item; threads are used again.

    `reader` becomes readable when an item is finished. Threads are daemons because a request may wait for minutes for a
    reply that is no longer needed.
    """

    def __init__(self, work: Callable[[T], None]) -> None:
        self._work = work
        self._todo: SimpleQueue[T | None] = SimpleQueue()
        self._finished: SimpleQueue[T] = SimpleQueue()
        self._open = self._threads = 0
        self._lock = threading.Lock()
        self.reader, self._writer = Pipe(duplex=False)

    def submit(self, item: T) -> None:
        self._open += 1
        if self._open > self._threads:
            self._threads += 1
            threading.Thread(target=self._run, name=f"ad2-responses-{self._threads}", daemon=True).start()
        self._todo.put(item)

    def finished(self) -> list[T]:
        """The items that are finished since the last call."""
        items: list[T] = []
        while self.reader.poll():
            self.reader.recv_bytes()
        with contextlib.suppress(Empty):
            while True:
                items.append(self._finished.get_nowait())
        self._open -= len(items)
        return items

    def close(self) -> None:
        """End idle threads; the others end after their item, which is dropped."""
        for _ in range(self._threads):
            self._todo.put(None)
        with self._lock:
            self._writer.close()
            self.reader.close()

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            self._work(item)
            self._finished.put(item)
            with self._lock, contextlib.suppress(OSError):  # closed: nobody waits for the item
                self._writer.send_bytes(b"1")
