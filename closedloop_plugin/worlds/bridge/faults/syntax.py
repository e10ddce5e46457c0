"""Slips of syntax that Scenic's parser reports without their reason, or at another line."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'"}
# Words that begin a specifier: between two specifiers there is a comma.
_SPECIFIERS = {
    "at", "in", "on", "offset", "beyond", "visible", "contained", "left", "right", "ahead", "behind", "following",
    "facing", "apparently", "with", "using",
}  # fmt: skip
# Scenic's own words, to which a misspelt one may be close.
_WORDS = sorted(_SPECIFIERS | {
    "new", "behavior", "monitor", "scenario", "require", "always", "eventually", "terminate", "when", "simulation",
    "record", "initial", "final", "param", "model", "take", "wait", "do", "until", "try", "interrupt", "abort",
    "override", "setup", "compose", "precondition", "invariant", "toward", "directly", "along", "relative", "heading",
    "distance", "angle", "deg", "for", "steps", "seconds", "region", "from", "while",
})  # fmt: skip
_RESERVED = {"new", "require", "param", "model", "take", "wait", "do", "behavior", "monitor", "terminate", "at"}
_OF_C = {"&&": "and", "||": "or", "++": "+= 1", "//": "# before a comment"}  # words of other languages
_UNIT = re.compile(r"[\d)]\s*(?:m|km|cm|ms|h|mph|kmh|secs?|rad|met(?:er|re)s?|minutes?|degrees?)\b")
SCENIC_2 = (
    "Scenic 2 created objects without `new`; programs here are Scenic 3: write `new` before the class of each object, "
    "and `require monitor M()` for a monitor (https://docs.scenic-lang.org/en/latest/new.html)"
)


def syntax_fault(program: Path, exc: BaseException) -> tuple[str, int, str] | None:
    """(file, line, message) of a slip of syntax, if the parser failed for one whose reason is found; else None.

    Scenic raises KeyError with the number of an empty line (of pegen's tokenizer) for some of them.
    """
    from scenic.core.errors import ScenicSyntaxError

    parser = next(
        (f for f in reversed(list(frames_of(exc))) if f.f_code.co_filename.endswith("pegen/tokenizer.py")), None
    )
    if not (isinstance(exc, SyntaxError | ScenicSyntaxError) or (isinstance(exc, KeyError) and parser is not None)):
        return None
    name = getattr(exc, "filename", None)
    if parser is not None and not name:
        name = getattr(parser.f_locals.get("self"), "_path", None)
    file = Path(name or program)
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    found = _open_or_unknown(text)
    line = getattr(exc, "lineno", None)
    if found is None and line is not None and 0 < line <= len(text.splitlines()):
        found = _reason(text.splitlines(), line, getattr(exc, "offset", None) or 0, str(exc))
    return found and (str(file), *found)


def depth_fault(program: Path) -> str:
    """The message of a program that is nested too deeply to be read, with its deepest line."""
    depth, deepest = 0, (0, 1)
    lines = program.read_text("utf-8-sig", "replace").splitlines()
    for number, text in enumerate(lines, 1):
        for sign in text:
            depth += (sign in "([{") - (sign in ")]}")
            deepest = max(deepest, (depth, -number))
    longest = max(range(len(lines)), key=lambda k: len(lines[k])) + 1
    line = -deepest[1] if deepest[0] > 20 else longest
    return f"{program}, line {line}: nested too deeply to be read; write it in several steps"


def decoding_fault(program: Path, exc: UnicodeDecodeError) -> str:
    """The message of a program that is not UTF-8, with the line of the first wrong byte."""
    line = program.read_bytes()[: exc.start].count(b"\n") + 1
    return f"{program}, line {line}: byte 0x{exc.object[exc.start]:02x} is no UTF-8; save the file as UTF-8"


def _open_or_unknown(text: str) -> tuple[int, str] | None:
    """(line, message) of the innermost bracket without its counterpart, of a text without its end, or of a character
    that belongs to no word; None without any."""
    opened: list[tuple[str, int]] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            line = token.start[0]
            if token.type == tokenize.ERRORTOKEN and not token.string.isspace():
                return line, f"SyntaxError: {_unknown_character(token)}"
            if token.type != tokenize.OP:
                continue
            if token.string in _PAIRS.values():
                opened.append((token.string, line))
            elif token.string in _PAIRS:
                if not opened or opened[-1][0] != _PAIRS[token.string]:
                    other = f": line {opened[-1][1]} has '{opened[-1][0]}'" if opened else ""
                    return line, f"SyntaxError: '{token.string}' closes no bracket{other}"
                opened.pop()
    except tokenize.TokenError as exc:
        if "string" in str(exc.args[0]):
            return exc.args[1][0], "SyntaxError: this text is never closed"
    except IndentationError as exc:
        return exc.lineno or 1, "SyntaxError: this line is indented less than the one before, but as no line above it"
    return (opened[-1][1], f"SyntaxError: '{opened[-1][0]}' is never closed") if opened else None


def _unknown_character(token: tokenize.TokenInfo) -> str:
    first = token.string.strip()[0]
    if first in "\"'":
        return "this text is never closed"
    if first == "\\":
        return "nothing, not even a space, may follow the \\ that continues a line"
    instead = f"; write {_QUOTES[first]}" if first in _QUOTES else ""
    shown = first if first.isprintable() else "?"
    return f"the character {shown} (U+{ord(first):04X}) has no meaning here{instead}"


def _reason(lines: list[str], number: int, offset: int, message: str) -> tuple[int, str]:
    """(line, message) of a parser's message, with what probably led to it."""
    line = lines[number - 1]
    hint = _without_new(line) or _indentation(lines, number) or _around(line, max(offset - 1, 0)) or _near_word(line)
    if not hint and line.split("#")[0].rstrip().endswith(","):
        hint = "the line ends with a comma: continue it, or omit the comma"
    if not hint and message == "invalid syntax":
        rest = line[max(offset - 1, 0) :].split("#")[0].strip()
        hint = f"not understood from here: {rest[:40]!r}" if rest else "the line ends too early"
    if hint:
        message = message.removesuffix(" Perhaps you forgot a comma?").removesuffix(" Perhaps you forgot 'new'?")
    return number, f"SyntaxError: {message.rstrip('.')}" + (f": {hint}" if hint else "")


def _without_new(line: str) -> str:
    made = re.search(
        r"(?:^|=)\s*([A-Z]\w*)\s+(at|on|in|ahead|behind|left|right|beyond|following|offset|with|facing)\b", line
    )
    return SCENIC_2.replace("`new` before the class of each object", f"`new {made[1]}` here", 1) if made else ""


def _indentation(lines: list[str], number: int) -> str:
    line = lines[number - 1]
    before = next((text for text in reversed(lines[: number - 1]) if text.strip()), "")
    indent, other = line[: len(line) - len(line.lstrip())], before[: len(before) - len(before.lstrip())]
    if ("\t" in indent and " " in indent + other) or ("\t" in other and " " in indent):
        return "tabs and spaces are mixed; indent with spaces only"
    deeper = len(indent) > len(other) and not before.split("#")[0].rstrip().endswith((":", "\\", ",", "(", "[", "{"))
    return "this line is indented more than the one before" if deeper else ""


def _around(line: str, at: int) -> str:
    """Hint by the words before and at the parser's place."""
    before, rest = line[:at].rstrip(), line[at:]
    word = re.match(r"\w+", rest)
    if re.match(r"\s*param\b", line) and not re.match(r"\s*param\s+([\"']?)[A-Za-z_]\w*\1\s*=", line):
        return "a parameter is set by: param NAME = VALUE"
    if _UNIT.search(re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", line)):
        return "units are not written: metres, m/s, seconds; angles are in deg, durations in seconds or steps"
    if re.match(r"\s*terminate\s+if\b", line):
        return "the words are: terminate when"
    if instead := re.search(r"&&|\|\||\+\+|//", line[max(at - 1, 0) :] or line):
        return f"{instead[0]} is not a word of Scenic; it is: {_OF_C[instead[0]]}"
    if re.match(r"\s*behaviour\b", line):
        return "the word is: behavior"
    if word and word[0] in _SPECIFIERS and before and not before.endswith((",", "=")) and re.search(r"\bnew\b", before):
        return f"a comma is missing before '{word[0]}'"
    late = re.search(r"\bnew\s+\w+\s+\w+\s.*?[^\s,]\s+(?<!apparently )(with|facing)\s", line)
    if late:
        return f"a comma is missing before '{late[1]}'"
    reserved = re.match(r"\s*(\w+)\s*=(?!=)", line)
    if reserved and reserved[1] in _RESERVED:
        return f"'{reserved[1]}' is a word of Scenic, and no name for a value"
    return ""


def _near_word(line: str) -> str:
    """A word of the line that is close to one of Scenic's."""
    code = re.sub(r"\"[^\"]*\"|'[^']*'|#.*", "", line)
    for word in re.findall(r"(?<![.\w])[a-z]{3,}(?!\w|\s*[=(])", code):
        close = difflib.get_close_matches(word, _WORDS, 1, 0.79)
        close = close or [known for known in _WORDS if sorted(known) == sorted(word)]
        if close and word not in _WORDS:
            return f"did you mean '{close[0]}' instead of '{word}'?"
    return ""


def frames_of(exc: BaseException) -> Iterator[FrameType]:
    """The frames of an error's traceback, outermost first."""
    trace = exc.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
