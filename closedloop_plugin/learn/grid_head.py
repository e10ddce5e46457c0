"""GridHead: what the tokens of a picture say about the cells of a SeenGrid. Used in training only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from closedloop_plugin.learn.seen_grid import CHANNELS, KINDS
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_path

if TYPE_CHECKING:
    import torch

FINE = 2  # cells of a picture token in either direction
# Weights; 1 for the others.
RARE = {"own lane": 2.0, "stop signal": 4.0, "go signal": 4.0, "stop sign": 4.0, "yield sign": 4.0}
FILE = "grid_head.safetensors"
START = -4.0  # bias at the start: most cells are empty


def make_head(width: int, folder: Path | None = None) -> torch.nn.Linear:
    """(B, tokens, width) -> (B, tokens, FINE * FINE * CHANNELS); as saved in `folder`, or with zero weights.

    Raises Ad2Error if the saved one does not fit.
    """
    import torch

    head = torch.nn.Linear(width, FINE * FINE * CHANNELS)
    torch.nn.init.zeros_(head.weight)
    torch.nn.init.constant_(head.bias, START)
    if folder is not None and (folder / FILE).is_file():
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            head.load_state_dict(load_file(folder / FILE))
        except (OSError, RuntimeError, SafetensorError) as exc:
            raise Ad2Error(
                f"{folder / FILE}: does not fit this model; delete it to start with a head of zero weights"
            ) from exc
    return head


def save_head(head: torch.nn.Linear, folder: Path) -> None:
    from safetensors.torch import save_file

    with atomic_path(folder / FILE) as temporary:
        save_file({name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}, temporary)


def by_token(grids: torch.Tensor) -> torch.Tensor:
    """Cells of each token: (B, FINE * rows, FINE * columns, CHANNELS) -> (B, rows * columns, FINE**2 * CHANNELS)."""
    b, rows, columns, channels = grids.shape
    parts = grids.view(b, rows // FINE, FINE, columns // FINE, FINE, channels).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(b, (rows // FINE) * (columns // FINE), FINE * FINE * channels)


def grid_loss(head: torch.nn.Linear, tokens: torch.Tensor, grids: torch.Tensor) -> torch.Tensor:
    """Weighted binary cross entropy, summed over the cells. tokens: (B, T, width); grids: uint8, as in `by_token`."""
    import torch

    wanted = by_token(grids.float().div_(255))
    each = [RARE.get(kind, 1.0) for kind in KINDS]
    weights = torch.tensor([*each, *each]).repeat(FINE * FINE).to(wanted.device)
    return torch.nn.functional.binary_cross_entropy_with_logits(head(tokens), wanted, weight=weights, reduction="sum")
