"""VisibleExtent: what a picture shows of one body or signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# From here on a picture shows a body: enough of it to be recognised, and not merely a part at an edge.
SHOWN_PIXELS = 12
SHOWN_SHARE = 0.3
FAR_HEAD = "/far"  # behind the id of a stop line: its second signal, beyond the junction


@dataclass(frozen=True)
class VisibleExtent:
    """The pixels of one picture that show a body.

    box: x0, y0, x1, y1 around them, pixels, right and bottom exclusive; None without any. pixels: their number. share:
    of the pixels in which the body would differ from what is behind it, were nothing in front of it. state_pixels: of
    a signal, those that show its light.
    """

    box: tuple[int, int, int, int] | None = None
    pixels: int = 0
    share: float = 0.0
    state_pixels: int = 0

    @property
    def shown(self) -> bool:
        """True if the picture shows enough of the body to ask about it."""
        return self.pixels >= SHOWN_PIXELS and self.share >= SHOWN_SHARE


# Name of a camera -> extents, by id of the actor, or of the stop line of a sign or signal (its second one: FAR_HEAD).
VisibleBodies = Callable[[str], Mapping[str, VisibleExtent]]
