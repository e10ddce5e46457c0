"""Text of files, models and network peers on a terminal or page, where control characters would have an effect."""

from __future__ import annotations

import logging
import re
import sys
import unicodedata
from typing import Any, TextIO

_KEPT = "\n\t"
# Control characters, bidirectional controls and invisible characters.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""`text` with control, format and bidirectional characters as escapes such as \x1b; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _KEPT or unicodedata.category(c) == "Zs" else _escape(c) for c in text)


def one_line(text: str) -> str:
    r"""Like `printable`, with line breaks and tabs as escapes too, so that `text` cannot look like a second message."""
    if text.isprintable():
        return text
    return printable(text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r"))


def show(text: object, *, file: TextIO | None = None, end: str = "\n", flush: bool = False) -> None:
    """Print a text that may contain parts of untrusted origin."""
    print(printable(str(text)), file=file or sys.stdout, end=end, flush=flush)


class _PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def print_logs_safely() -> None:
    """Escape control characters in the warnings that Python prints if no logging is configured."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_PrintableFormatter())


def visible(value: Any) -> Any:
    """Text with control, bidirectional and invisible characters replaced by code points such as "[U+202E]".

    For HTML pages; a value that is no text, or markup, stays as it is.
    """
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _HIDDEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", value.replace("\r\n", "\n"))


def encodable(text: str) -> str:
    """`text` with lone surrogates, which Python and JSON allow and UTF-8 does not, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def shortened(text: str, most: int) -> str:
    """`text` with at most `most` characters; the middle is left out, since a reply answers at its start or end."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-(most - most // 2 - 3) :]}"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
