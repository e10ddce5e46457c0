"""Delivery of sensor data to callbacks, in a separate thread as in the real client, in the order of frames."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any

PATIENCE_S = 5.0  # for a callback that waits for the caller of tick(); the real client does not wait at all


class Streams:
    """send() queues a call; settle() waits until all have been made, so that a tick leaves nothing pending."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[Callable[[Any], Any], Any] | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    def send(self, callback: Callable[[Any], Any], data: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fake-carla-streams", daemon=True)
            self._thread.start()
        self._calls.put((callback, data))

    def settle(self) -> None:
        if self._calls.unfinished_tasks and threading.current_thread() is not self._thread:
            with self._calls.all_tasks_done:
                self._calls.all_tasks_done.wait_for(lambda: not self._calls.unfinished_tasks, PATIENCE_S)

    def close(self) -> None:
        if self._thread is not None:
            self._calls.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call[0](call[1])
            except Exception:
                traceback.print_exc()  # as the real client, which continues
            finally:
                self._calls.task_done()
