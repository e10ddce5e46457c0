"""film_strip: selected frames of an episode on one page; captioned: an image with lines of text below it (Pillow)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAPER, INK, PALE = (250, 250, 248), (25, 28, 32), (95, 100, 108)
MARGIN, SIZE = 8, 13  # px, of captions
GAP = 12  # px between cells
LINES = 12  # of text under a frame, at most
TITLE = 17  # px

Face = ImageFont.FreeTypeFont | ImageFont.ImageFont
Shot = tuple[float, np.ndarray, str]  # time_s, (H, W, 3) uint8 RGB, caption


def film_strip(shots: Sequence[Shot], out: Path, title: str = "", columns: int = 4, width: int = 400) -> Path:
    """Write a PNG with the frames in order of time, row by row, each `width` px wide. Returns `out`."""
    if not shots:
        raise ValueError("a film strip needs a frame")
    lines = max(lines_of(text, width, LINES) for _, _, text in shots)
    cells = []
    for _, image, text in sorted(shots, key=lambda shot: shot[0]):
        picture = Image.fromarray(np.ascontiguousarray(image, dtype=np.uint8))
        scaled = picture.resize((width, max(1, round(picture.height * width / picture.width))))
        cells.append(captioned(np.asarray(scaled), text, lines))
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


@cache
def font(size: int) -> Face:
    """DejaVu Sans from matplotlib, for equal pictures on all machines; else Pillow's default font."""
    spec = find_spec("matplotlib")
    file = Path(spec.origin or "").parent / "mpl-data/fonts/ttf/DejaVuSans.ttf" if spec else Path()
    return ImageFont.truetype(str(file), size) if file.is_file() else ImageFont.load_default(size)


def wrapped(text: str, width: int, face: Face, most: int) -> list[str]:
    """`text` in at most `most` lines of at most `width` px; an ellipsis replaces the rest."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            for part in _parts(word, width, face):
                longer = f"{line} {part}" if line else part
                if line and face.getlength(longer) > width:
                    lines.append(line)
                    longer = part
                line = longer
        lines.append(line)
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while last and face.getlength(last + " …") > width:
        last = last[:-1]
    return [*lines[: most - 1], last + " …"]


def lines_of(text: str, width: int, most: int) -> int:
    """Number of lines that `captioned` needs for the text under an image of `width` px."""
    return len(wrapped(text, width - 2 * MARGIN, font(SIZE), most))


def captioned(image: np.ndarray, text: str, lines: int) -> np.ndarray:
    """The RGB image with `lines` lines of text below it, the first darker. The size does not depend on the text."""
    height, width = image.shape[:2]
    face, step = font(SIZE), SIZE + 4
    page = Image.new("RGB", (width, height + lines * step + 2 * MARGIN), PAPER)
    page.paste(Image.fromarray(np.ascontiguousarray(image)), (0, 0))
    draw = ImageDraw.Draw(page)
    for i, line in enumerate(wrapped(text, width - 2 * MARGIN, face, lines)):
        draw.text((MARGIN, height + MARGIN + i * step), line, INK if i == 0 else PALE, face)
    return np.asarray(page)


def _parts(word: str, width: int, face: Face) -> list[str]:
    """A word in parts that each fit into a line."""
    parts = []
    while len(word) > 1 and face.getlength(word) > width:
        n = max(1, int(len(word) * width / face.getlength(word)))
        while n > 1 and face.getlength(word[:n]) > width:
            n -= 1
        parts.append(word[:n])
        word = word[n:]
    return [*parts, word]
