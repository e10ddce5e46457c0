"""Texts of the gallery: cut to a size, with invisible characters shown."""

from __future__ import annotations

from html import escape

from lmms_eval_ad2.report.page.html_page import visible


def clip(text: str, most: int) -> str:
    """The text cut to at most `most` bytes of escaped HTML, with a note if it is cut; see `visible`."""
    shown, room = visible(text[: 2 * most]), most
    for i, character in enumerate(shown):
        room -= len(escape(character).encode(errors="replace"))
        if room < 0:
            return f"{shown[:i]} … ({len(text)} characters, cut here)"
    return shown
