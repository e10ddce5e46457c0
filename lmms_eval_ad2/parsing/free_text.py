"""Parse free text: OCR and open questions. The text is the answer, apart from fences, labels and quotes around it."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.normalise import is_refused_reply, without_html, without_refusals
from lmms_eval_ad2.records import Answer, Unparsed

_FENCED = re.compile(r"\A```[A-Za-z]{0,12}\n?(?P<body>[^`]*)```\Z")
_LABEL = re.compile(
    r"\A(?:(?:the |final |detected |extracted |recogni[sz]ed |ocr |visible |license |licence |number "
    r"|road |street |traffic )*"
    r"(?:answer|text|plate|plate number|sign|sign text|transcription|result|content|output|reading"
    r"|name)(?: (?:on|in|of) the [a-z ]{1,30}?)?"
    r"|(?:识别|最终|图中|图片中|路牌|标志|车牌|招牌|上的|的|检测到|文字|内容){0,4}(?:答案|回答|结果|文字|文本|内容|车牌号码?|车牌|路名)(?:是|为)?)\s*[:：]\s*",
    re.IGNORECASE,
)
_FINAL_LABEL = re.compile(r"\A[*_# ]{0,6}(?:final answer|最终答案)[*_ ]{0,4}[:：][*_ ]{0,4}\s*", re.IGNORECASE)
_STEP_TAG = re.compile(r"<(?:start|end)\d{0,2}>")  # AD2-Bench's marks of a step
_LATEX_TEXT = re.compile(r"\A\$?\\(?:text|textbf|mathrm)\{(?P<body>[^{}]*)\}\$?\Z")
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "`": "`"}
# "The sign says "STOP"." and 牌子上写着“停”。: one sentence, and one quotation that ends it.
_SAYS = re.compile(
    r"\A[^\"“「『`\n.!?。]{1,120}?(?:\b(?:says?|reads?|shows?|displays?|states?|is|as|contains?|written"
    r"|with the (?:text|words?))\b|写着?|显示|标着|印着|是|为|读作)"
    r"\s?(?:the (?:text|words?|following) ?)?[:：,，]?\s?(?:\"(?P<a>[^\"\n]{1,400})\""
    r"|“(?P<b>[^”\n]{1,400})”|「(?P<c>[^」\n]{1,400})」|『(?P<d>[^』\n]{1,400})』|`(?P<e>[^`\n]{1,400})`"
    r"|'(?P<f>[^'\n]{1,400})')"
    r"(?: on it| in (?:white|red|black|blue|yellow|green)(?: letters)?|的字样|字样|几个字|这几个字)?\s?[.!。！]?\Z",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*{2}|__(?=\S)|(?<=\S)__")


def read_vqa(text: str) -> Answer | Unparsed:
    """The reply without HTML, a label "Final answer" and a code fence around it. One that only declines is Unparsed."""
    text = _LATEX_TEXT.sub(lambda match: match["body"], text)
    fenced = _FENCED.match(text)
    bare = _FINAL_LABEL.sub("", _STEP_TAG.sub("", without_html(fenced["body"] if fenced else text)).strip())
    if is_refused_reply(text):
        return Unparsed("vqa", "refusal", text[:200])
    return Answer("vqa", bare) if bare else Unparsed("vqa", "empty", text[:200])


def read_ocr(text: str) -> Answer | Unparsed:
    """The text that was read: without a code fence, a label, an introduction and a pair of quotes around all of it."""
    if is_refused_reply(text):
        return Unparsed("ocr", "refusal", text[:200])
    text = _LATEX_TEXT.sub(lambda match: match["body"], text)
    fenced = _FENCED.match(text)
    bare = _EMPHASIS.sub("", without_html(fenced.group("body") if fenced else text)).strip()
    says = _SAYS.match(bare)
    if says:
        bare = next(group for group in says.groups() if group is not None).strip()
        return Answer("ocr", bare) if bare else Unparsed("ocr", "empty")
    if without_refusals(bare.lower())[1] and not re.search(r"[\"“「『`:：]", bare):
        return Unparsed("ocr", "refusal", text[:200])
    bare = _LABEL.sub("", bare).strip()
    closing = _QUOTES.get(bare[:1])
    if closing and len(bare) >= 2 and bare.endswith(closing) and not {bare[0], closing} & set(bare[1:-1]):
        bare = bare[1:-1].strip()
    return Answer("ocr", bare) if bare else Unparsed("ocr", "empty")
