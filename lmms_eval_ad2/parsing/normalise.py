"""Normalise a model's text before parsing: HTML, Markdown, LaTeX, full-width characters."""

from __future__ import annotations

import html
import re
import unicodedata

# Per character: NFKC of a whole string takes quadratic time for stacked combining marks.
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_STYLED = {
    code: unicodedata.normalize("NFKC", chr(code))
    for start, stop in ((0x2460, 0x2500), (0x1D400, 0x1D800))
    for code in range(start, stop)
}
_SIGNS = {
    **dict.fromkeys(map(ord, "“”„‟«»「」『』"), '"'),
    **dict.fromkeys(map(ord, "‘’‚‛`´"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–−"), "-"),
    **dict.fromkeys(map(ord, "—―"), " - "),
    **dict.fromkeys(map(ord, "〈《"), "<"),
    **dict.fromkeys(map(ord, "〉》"), ">"),
    **dict.fromkeys(map(ord, "【〔"), "["),
    **dict.fromkeys(map(ord, "】〕"), "]"),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2009\u202f\u3000\t\r"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"), None),
    ord("～"): "~",
    ord("。"): ". ",
}
# Traditional characters of words that matter for verdicts.
_SIMPLIFIED = dict(
    zip(
        map(ord, "應為選項對錯無沒這個輛還並認實際後來則說車當確誤該絕據從開關閉圖擇斷準與會過"),
        "应为选项对错无没这个辆还并认实际后来则说车当确误该绝据从开关闭图择断准与会过",
        strict=True,
    )
)
_PLAIN: dict[int, str | None] = {**_WIDE, **_STYLED, **_SIGNS, **_SIMPLIFIED}

_FENCE = re.compile(r"```[A-Za-z]{0,12}")
_LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathsf|bf|rm)\s?(?=\{)|\\[()\[\]]|\$")
_EMPHASIS = re.compile(r"\*{1,3}|__|^[ ]{0,3}#{1,6} ", re.MULTILINE)

# Pictographs, but not check marks.
_EMOJI = re.compile(
    r"[\U0001f000-\U0001faff\u2600-\u2610\u2613-\u2704\u2706-\u2712\u2719-\u274b\u274d\u274f-\u27bf\ufe0f\u200d]"
)
_STRUCK = re.compile(r"~~[^~\n]{1,400}~~|<(?P<tag>s|del|strike)>[^<]{0,400}</(?P=tag)>", re.IGNORECASE)
_LINE_TAG = re.compile(
    r"</?(?:br|p|div|li|ul|ol|h[1-6]|tr|table|tbody|thead|hr|blockquote|section|summary|details)(?:\s[^<>]{0,200})?/?>",
    re.IGNORECASE,
)
_TEXT_TAG = re.compile(
    r"</?(?:strong|em|code|pre|span|mark|font|td|th|small|big|sub|sup|center|html|body|kbd|samp|var|tt"
    r"|ins)(?:\s[^<>]{0,200})?/?>",
    re.IGNORECASE,
)
# One-letter tags may also be an option in angle brackets: they are tags if they are closed.
_PAIRED_TAG = re.compile(r"<(?P<tag>[biuaq])(?:\s[^<>]{0,200})?>(?P<body>[^<>]{0,2000})</(?P=tag)>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--(?:(?!-->).){0,2000}-->", re.DOTALL)
_QUOTE_MARK = re.compile(r"^[ ]{0,3}(?:> ?){1,4}(?![> ]*=? ?\d)", re.MULTILINE)  # "> 3" is a bound
# A heading "Answer" with the answer in the next line.
ANSWER_LINE = re.compile(r"(\banswer(?: is)?|答案是?|结论是?)[:：]?\s*\n+\s*", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n{3,}")


def plain(text: str) -> str:
    """Half-width text without HTML, Markdown, LaTeX and fences: for finding verdicts, not for text that is scored."""
    text = _EMOJI.sub(" ", text)
    text = without_html(_FENCE.sub(" ", text).translate(_PLAIN))
    text = _QUOTE_MARK.sub("", _EMPHASIS.sub("", _LATEX.sub(" ", text)))
    # Collapse runs of blanks, on which some patterns would take long.
    return _BLANK_LINES.sub("\n\n", "\n".join(" ".join(line.split()) for line in text.split("\n"))).strip()


def without_html(text: str) -> str:
    """The text of HTML; what is struck through is left out, and a paragraph is a line. Other tags stay."""
    if "<" in text or "~~" in text or "&" in text:
        text = _PAIRED_TAG.sub(lambda m: m["body"], _STRUCK.sub(" ", _COMMENT.sub(" ", text)))
        text = _TEXT_TAG.sub("", _LINE_TAG.sub("\n", text))
        text = html.unescape(text) if "&" in text else text
    return text
