"""Size of a new model, as options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.options import option

if TYPE_CHECKING:
    from closedloop_plugin.learn.tiny_model import TinyModelSize

MOST_SEED = 2**31 - 1  # multiplied by steps and processes, it must stay below 2**64


@dataclass(frozen=True, kw_only=True)
class ModelSizeOptions:
    """Size of a new model."""

    picture: str = option("pixels of the pictures as the model sees them (default 160x96)", default="160x96",
                          metavar="WxH", expert=True)  # fmt: skip
    hidden: int = option(
        "width of the language model, a multiple of 32 (default 192)", default=192, least=32, expert=True
    )
    layers: int = option("layers of the language model (default 3)", default=3, least=1, expert=True)
    vision: tuple[int, int, int, int] = option(
        "channels of the stages of the vision encoder (default 24 48 96 192)", default=(24, 48, 96, 192),
        metavar=("C1", "C2", "C3", "C4"), expert=True,
    )  # fmt: skip
    vocabulary: int = option(
        "most tokens, 600 to 200000 (default 3000)", default=3000, least=600, most=200_000, expert=True
    )


def size_words(options: ModelSizeOptions) -> list[str]:
    """The options of the size that differ from their defaults, as words of a command."""
    words = []
    for field in fields(ModelSizeOptions):
        value = getattr(options, field.name)
        if value != field.default:
            shown = f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else value
            words += ["--config", f"{field.name}={shown}"]
    return words


def size_of(options: ModelSizeOptions) -> TinyModelSize:
    """Raises Ad2Error for a size that the architecture does not have."""
    from closedloop_plugin.learn.tiny_model import TinyModelSize, vision_heads
    from lmms_eval_ad2.core.errors import Ad2Error

    width, _, height = options.picture.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise Ad2Error(f"--config picture={options.picture}: expected WxH, for example 160x96")
    size = TinyModelSize(
        int(width), int(height), vision=options.vision, hidden=options.hidden, layers=options.layers,
        vocabulary=options.vocabulary,
    )  # fmt: skip
    if not size.picture_tokens or size.width % size.stride or size.height % size.stride:
        raise Ad2Error(f"--config picture={options.picture}: width and height must be multiples of {size.stride}")
    if any(channels < 1 or channels % vision_heads(channels) for channels in size.vision):
        given = " ".join(map(str, size.vision))
        raise Ad2Error(f"--config vision={given}: expected four numbers from 1 to 63, or multiples of 32")
    if size.hidden % 32:
        raise Ad2Error(f"--config hidden={size.hidden}: expected a multiple of 32")
    return size
