"""refuse_missing: whether PyTorch can compute on a device, before the first of many stages needs it."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from closedloop_plugin.learn.train import check_device


def refuse_missing(device: str) -> None:
    """Raises Ad2Error if PyTorch cannot compute there. Asked in a process of its own, whose memory of host and GPU is
    free again when the stages begin."""
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        other.submit(check_device, device, 1).result()
