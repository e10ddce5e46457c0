"""film_strip: selected frames of an episode with captions on one page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from closedloop_plugin.report.caption import INK, PAPER, captioned, font, lines_of

GAP = 12  # px between cells
LINES = 12  # of text under a frame, at most
TITLE = 17  # px

Shot = tuple[float, np.ndarray, str]  # time_s, (H, W, 3) uint8 RGB, caption


def film_strip(shots: Sequence[Shot], out: Path, title: str = "", columns: int = 4, width: int = 400) -> Path:
    """Write a PNG with the frames in order of time, row by row, each `width` px wide. Returns `out`."""
    if not shots:
        raise ValueError("a film strip needs a frame")
    lines = max(lines_of(text, width, LINES) for _, _, text in shots)
    cells = [captioned(_scaled(image, width), text, lines) for _, image, text in sorted(shots, key=lambda s: s[0])]
    columns = min(columns, len(cells))
    rows = math.ceil(len(cells) / columns)
    height = max(cell.shape[0] for cell in cells)
    top = GAP + len(title.splitlines()) * (TITLE + GAP)
    page = Image.new("RGB", (GAP + columns * (width + GAP), top + rows * (height + GAP)), PAPER)
    for i, line in enumerate(title.splitlines()):
        ImageDraw.Draw(page).text((GAP, GAP + i * (TITLE + GAP)), line, INK, font(TITLE))
    for i, cell in enumerate(cells):
        page.paste(Image.fromarray(cell), (GAP + i % columns * (width + GAP), top + i // columns * (height + GAP)))
    out.parent.mkdir(parents=True, exist_ok=True)
    page.save(out)
    return out


def choose(along: Sequence[float], most: int, always: Sequence[int] = ()) -> list[int]:
    """Indices of at most `most` frames, sorted: those of `always` (up to half), first and last, and others that cover
    `along` evenly (a non-decreasing value per frame): repeatedly the frame farthest from all chosen ones."""
    if len(along) <= most:
        return list(range(len(along)))
    chosen = set(list(dict.fromkeys(always))[: most // 2])
    for end in (len(along) - 1, 0):
        if len(chosen) < most:
            chosen.add(end)
    while len(chosen) < most:
        known = [along[i] for i in chosen]
        rest = [i for i in range(len(along)) if i not in chosen]
        chosen.add(max(rest, key=lambda i: min(abs(along[i] - v) for v in known)))
    return sorted(chosen)


def _scaled(image: np.ndarray, width: int) -> np.ndarray:
    picture = Image.fromarray(np.ascontiguousarray(image, dtype=np.uint8))
    return np.asarray(picture.resize((width, max(1, round(picture.height * width / picture.width)))))
