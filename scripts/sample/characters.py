"""Chinese characters of road signs as strokes, since the default font has none.

A stroke is a list of corners (x, y) in the character's square: x from 0 (left) to 1, y from 0 (top) to 1.
"""

from __future__ import annotations

Stroke = tuple[tuple[float, float], ...]

STROKES: dict[str, tuple[Stroke, ...]] = {
    "出": (
        ((0.5, 0.04), (0.5, 0.94)),
        ((0.2, 0.14), (0.2, 0.46), (0.8, 0.46), (0.8, 0.14)),
        ((0.1, 0.58), (0.1, 0.94), (0.9, 0.94), (0.9, 0.58)),
    ),
    "口": (((0.16, 0.16), (0.84, 0.16), (0.84, 0.88), (0.16, 0.88), (0.16, 0.16)),),
    "大": (
        ((0.08, 0.36), (0.92, 0.36)),
        ((0.5, 0.04), (0.5, 0.4), (0.36, 0.7), (0.08, 0.95)),
        ((0.5, 0.4), (0.66, 0.7), (0.93, 0.95)),
    ),
    "田": (
        ((0.13, 0.12), (0.87, 0.12), (0.87, 0.92), (0.13, 0.92), (0.13, 0.12)),
        ((0.13, 0.52), (0.87, 0.52)),
        ((0.5, 0.12), (0.5, 0.92)),
    ),
    "中": (
        ((0.14, 0.24), (0.86, 0.24), (0.86, 0.64), (0.14, 0.64), (0.14, 0.24)),
        ((0.5, 0.03), (0.5, 0.97)),
    ),
    "山": (((0.5, 0.06), (0.5, 0.9)), ((0.12, 0.36), (0.12, 0.9), (0.88, 0.9), (0.88, 0.36))),
    "北": (
        ((0.36, 0.06), (0.36, 0.95)),
        ((0.08, 0.34), (0.36, 0.34)),
        ((0.06, 0.84), (0.36, 0.7)),
        ((0.88, 0.26), (0.6, 0.46)),
        ((0.6, 0.06), (0.6, 0.88), (0.92, 0.88), (0.92, 0.7)),
    ),
}  # fmt: skip


def is_drawn(character: str) -> bool:
    """Whether a character takes a square of its own; raises KeyError for one without strokes."""
    return not character.isascii() and bool(STROKES[character])


def columns(words: str) -> int:
    """The width of a text in Latin letters; a character counts as two."""
    return sum(2 if is_drawn(character) else 1 for character in words)
