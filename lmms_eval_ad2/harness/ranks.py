"""Several ranks: what the process group needs of us."""

from __future__ import annotations

import atexit
import os


def leave_group_at_exit() -> None:
    """Leave the process group in order, or gloo's threads abort the interpreter now and then at its end."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        atexit.unregister(_leave_group)
        atexit.register(_leave_group)


def _leave_group() -> None:
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
