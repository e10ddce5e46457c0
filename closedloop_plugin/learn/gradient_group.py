"""GradientGroup: processes that share the batches of a training.

Each has the whole model and all rows, takes its part of every batch, and after the backward pass the gradients of all
are added, so that all take the same step. One process with several threads is slower: the tensors of a small model are
too small to be divided.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.parent_process import exit_with_parent

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import torch

END_S = 30.0  # that the others have to end after the last step
POLL_S = 0.1
READY = "ready-"  # beginning of the name of a file with which a process says that it joins now


class GradientGroup:
    """One of `size` processes, the one with the number `rank`."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def part(self) -> slice:
        """This process's part of a batch, which is empty if the batch is smaller than the group."""
        return slice(self.rank, None, self.size)

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace each tensor by its sum over all processes. Raises Ad2Error if one of them has ended."""
        if self.size == 1:
            return
        import torch

        flat = torch.cat([tensor.flatten() for tensor in tensors])
        try:
            torch.distributed.all_reduce(flat)
        except RuntimeError as exc:
            why = str(exc).splitlines()[0][:200]
            raise Ad2Error(f"a process of the training ended ({why}); the same command resumes") from None
        for tensor, total in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))


@contextmanager
def gradient_group(size: int, work: Callable[..., None], arguments: Sequence[Any]) -> Iterator[GradientGroup]:
    """This process as the first of `size`. The others call `work(group, *arguments)` and end with the block.

    Raises Ad2Error if one of them ends before all have joined.
    """
    if size == 1:
        yield GradientGroup()
        return
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        others = [
            context.Process(target=_work, args=(rank, size, folder, os.getpid(), work, arguments), daemon=True)
            for rank in range(1, size)
        ]
        wait_s = 0.0  # after an error the others would go on waiting for this one, and they have nothing to save
        try:
            _start(others)
            _wait_for(others, Path(folder))
            yield _joined(0, size, folder)
            wait_s = END_S
        finally:
            _leave()
            for process in others:
                if process.pid is not None:  # it was started
                    process.join(wait_s)
                    process.kill()
                    process.join()


def _start(others: Sequence[SpawnProcess]) -> None:
    # Ctrl-C reaches all processes of a terminal. The others inherit that they ignore it, and end with the first.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for process in others:
            process.start()
    finally:
        signal.signal(signal.SIGINT, before)


def _wait_for(others: Sequence[SpawnProcess], folder: Path) -> None:
    """Until all others join. Raises Ad2Error if one ends before, for which gloo itself would wait for 30 minutes."""
    while len(list(folder.glob(f"{READY}*"))) < len(others):
        for process in others:
            if not process.is_alive():
                code = process.exitcode
                raise Ad2Error(f"a process of the training ended at its start (exit code {code}); try again")
        time.sleep(POLL_S)


def _work(
    rank: int, size: int, folder: str, parent: int, work: Callable[..., None], arguments: Sequence[Any]
) -> None:  # fmt: skip
    exit_with_parent(parent)
    try:
        work(_joined(rank, size, folder), *arguments)
    except Ad2Error:  # the first process has ended, and says why
        return
    _leave()


def _joined(rank: int, size: int, folder: str) -> GradientGroup:
    import torch

    (Path(folder) / f"{READY}{rank}").touch()
    meeting = (Path(folder) / "group").as_uri()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    return GradientGroup(rank, size)


def _leave() -> None:
    import torch

    if torch.distributed.is_initialized():  # not after an error before it was joined
        torch.distributed.destroy_process_group()
