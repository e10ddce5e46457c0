"""Garbage collection of a world process: outside of episodes, and without the objects of imported modules.

Imports and a compiled scene are 300,000 objects. A full collection visits all of them, takes as long as hundreds of
steps, and used to run twice an episode. Now one runs after every fourth episode: the garbage of four is about 20 MB.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 20_000  # allocations between two collections of the youngest objects; Python's default is 700
RARELY = 1_000  # collections of the middle generation before a full one: none within an episode
FULL_EVERY = 4  # episodes of a process, from one full collection to the next

_EPISODES = itertools.count(1)


def keep_imports() -> None:
    """Exclude all objects of this moment, those of imported modules, from collections for the process's lifetime."""
    gc.collect()
    gc.freeze()


@contextmanager
def collected_afterwards() -> Iterator[None]:
    """Collect only young objects in the block, and after every FULL_EVERY-th one all others."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, before[1], RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if next(_EPISODES) % FULL_EVERY == 0:
            gc.collect()
