"""Normalise a model's text before parsing (thoughts, markup, full-width characters), and detect refusals."""

from __future__ import annotations

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
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "〈《"), "<"),
    **dict.fromkeys(map(ord, "〉》"), ">"),
    **dict.fromkeys(map(ord, "【〔"), "["),
    **dict.fromkeys(map(ord, "】〕"), "]"),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2009\u202f\u3000\t\r"), " "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"), None),
    ord("～"): "~",
    ord("。"): ". ",
}
_PLAIN: dict[int, str | None] = {**_WIDE, **_STYLED, **_SIGNS}

_THOUGHT = re.compile(r"[<◁](/?)(?:think|thinking|thought|reasoning)[>▷]", re.IGNORECASE)
_TOKEN = re.compile(r"<\|(?:im_end|im_start|endoftext|eot_id|end|eos)\|>|</s>|<s>|<end_of_utterance>")
_ROLE = re.compile(r"\A\s*(?:assistant|ASSISTANT)\s*[:\n]")
_FENCE = re.compile(r"```[A-Za-z]{0,12}")
_LATEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathsf|bf|rm)\s?(?=\{)|\\[()\[\]]|\$")
_EMPHASIS = re.compile(r"\*{1,3}|__|^[ ]{0,3}#{1,6} ", re.MULTILINE)

_BLANK_LINES = re.compile(r"\n{3,}")

_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|as an ai)\b"
    r"|\b(?:can't|cannot|can not|unable to|not able to|won't) "
    r"(?:\w+ )?(?:see|view|access|open|read|process|analy[sz]e|assist|help|answer"
    r"|provide|identify|recogni[sz]e|count)\b"
    r"|抱歉|对不起|(?:无法|不能|没法)(?:直接)?(?:查看|看到|看见|识别|回答|提供|处理|访问|协助|帮助|分析|读取)"
)
_REFUSED_REPLY = re.compile(
    r"(?:(?:i am|i'm)? ?(?:very |so |really )?sorry,? ?|(?:my )?apolog(?:ies|i[sz]e),? ?|i apologi[sz]e,? ?"
    r"|unfortunately,? ?)?"
    r"(?:but )?(?:as an ai[^.,]{0,60},? ?)?(?:but )?"
    r"(?:i (?:can't|cannot|can not|won't)|i am (?:unable|not able) to|i'm (?:unable|not able) to|unable to) "
    r"(?:\w+ )?(?:see|view|access|open|read|process|analy[sz]e|assist|help|answer|provide|identify|recogni[sz]e)"
    r"[^.,;]{0,60}?\b(?:images?|pictures?|photos?|text|request|question|that|this|you|it)\b[^.,;]{0,40}[.!]?"
    r"|(?:很|非常)?(?:抱歉|对不起|不好意思)?[,. ]*(?:但)?我?(?:无法|不能|没法)[^.,;]{0,12}"
    r"(?:图|照片|文字|问题|请求|回答|识别|协助|帮助|查看)[^.,;]{0,16}[.!]?"
    r"|(?:i am|i'm)? ?sorry[.!]?|(?:很|非常)?(?:抱歉|对不起)[.!]?"
)
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|not sure|unsure|uncertain|unclear|hard to (?:tell|say)"
    r"|difficult to (?:tell|say|determine)"
    r"|(?:cannot|can't|can not|unable to|impossible to|not possible to) (?:determine|tell|say|decide|be determined)"
    r"|it depends|might|could be|may be)\b"
    r"|不确定|无法确定|不能确定|难以|说不准|不清楚|看不清|也许|或许|可能|无法判断|不好说|不能判断"
)
_REPLY_LIMIT = 240  # characters; a longer reply has content besides a refusal


def without_thoughts(text: str) -> tuple[str, bool]:
    """The text outside thinking tags, and whether the text ends inside one.

    A closing tag without an opening one ends a thought that began in the prompt, where chat templates often put the
    opening tag.
    """
    kept: list[str] = []
    start, inside = 0, False
    for tag in _THOUGHT.finditer(text):
        closes = bool(tag.group(1))
        if closes and not inside:
            kept.clear()
        elif not closes and not inside:
            kept.append(text[start : tag.start()])
        inside = not closes
        start = tag.end()
    if not inside:
        kept.append(text[start:])
    return _ROLE.sub("", _TOKEN.sub("", "".join(kept))).strip(), inside


def plain(text: str) -> str:
    """Half-width text without Markdown, LaTeX and code fences: for finding verdicts, not for text that is scored."""
    text = _FENCE.sub(" ", text).translate(_PLAIN)
    text = _EMPHASIS.sub("", _LATEX.sub(" ", text))
    # Collapse runs of blanks, on which some patterns would take long.
    return _BLANK_LINES.sub("\n\n", "\n".join(" ".join(line.split()) for line in text.split("\n"))).strip()


def declines(text: str) -> bool:
    """Whether plain text without a verdict is a refusal."""
    return bool(_REFUSAL.search(text[:400].lower()))


def is_refused_reply(text: str) -> bool:
    """Whether the whole reply is a refusal, without any other content."""
    return len(text) <= _REPLY_LIMIT and bool(_REFUSED_REPLY.fullmatch(plain(text).lower()))


def hedges(text: str) -> bool:
    """Whether plain text expresses uncertainty."""
    return bool(_HEDGE.search(text.lower()))


def no_verdict(text: str) -> str:
    """The reason code for plain text in which no verdict was found."""
    if not any(character.isalnum() for character in text):
        return "empty"
    if declines(text):
        return "refusal"
    return "hedged" if hedges(text) else "no_verdict"
