"""Parse free text: OCR and open questions. The text is the answer, apart from fences, labels and quotes around it."""

from __future__ import annotations

import re

from lmms_eval_ad2.core.records import Answer, Unparsed
from lmms_eval_ad2.parsing.attributed import without_attributed
from lmms_eval_ad2.parsing.normalise import without_html
from lmms_eval_ad2.parsing.question_words import telling_words
from lmms_eval_ad2.parsing.refusals import is_refused_reply, without_refusals

_FENCED = re.compile(r"\A```[A-Za-z]{0,12}\n?(?P<body>[^`]*)```\Z")
_LABEL = re.compile(
    r"\A(?:(?:the |final |detected |extracted |recogni[sz]ed |ocr |visible |license |licence |number "
    r"|road |street |traffic )*"
    r"(?:answer|text|plate|plate number|sign|sign text|transcription|result|content|output|reading"
    r"|name)(?: (?:on|in|of) the [a-z ]{1,30}?)?"
    r"|(?:识别|最终|图中|图片中|路牌|标志|车牌|招牌|上的|的|检测到|文字|内容){0,4}(?:答案|回答|结果|文字"
    r"|文本|内容|车牌号码?|车牌|路名|[^:：\n，。]{0,6}(?:名称|名字|站名))(?:是|为)?)\s*[:：]\s*",
    re.IGNORECASE,
)
# "The plate of the car ahead is 7KLM392.", "It reads: STOP", 车牌号是:粤B: a sentence that only gives the text.
_INTRODUCTION = re.compile(
    r"\A(?:it|this|(?:the|this|that) [a-z' -]{1,60}?|[a-z ]{0,20}(?:sign|plate))"
    r" (?:says?|reads?|is|shows?|displays?|states?|(?:is )?as follows)\s*[:：]\s*"
    r"|\A(?:the|its) [a-z' -]{0,50}?(?:plate|number)[a-z' -]{0,40}? (?:is|reads?) (?=[A-Z0-9·. -]{3,14}\Z)"
    r"|\A[^:：。.,，\n“\"]{1,24}(?:是|为|写着|写的|显示|如下)[:：]\s*",
    re.IGNORECASE,
)
# "The sign says SPEED LIMIT 45.": capitals need no quotes.
_CAPITALS = re.compile(
    r"\A(?:The|It|This|That|Its)\b[a-z' -]{0,60}? (?:says?|reads?|is|shows?|displays?|appears to be|seems to be|as)"
    r" (?=[A-Z0-9][A-Z0-9 ·.,'&/-]*\Z)"
)
# "The street name on the green sign is Lombard Street."
_NAMED = re.compile(
    r"\A(?:The|Its?|This|That)\b[a-z' -]{0,60}?\b(?:name|sign|text|plate|number|words?|label"
    r"|inscription)\b[a-z' -]{0,40}?"
    r" (?:says?|reads?|is)(?: the word| the words)? (?=[A-Z0-9][^.!?\n]{0,60}\Z)"
)
# A sentence about the sign, of which no text was found.
_ABOUT_IT = re.compile(
    r"\A(?:The|It|This|That|There|On|I)\b[^\n]{0,200}\b(?:says?|reads?|is|are|shows?|displays?|written)\b[^\n]*\.\s*\Z"
)
_ANSWER_LINE = re.compile(
    r"(?:\n|[.!?。] )[*_# ]{0,6}(?:(?:final|correct)? ?answer|(?:最终|正确)?答案)[*_ ]{0,4}[:：][*_ ]{0,4}\s*"
    r"(?P<text>[^\n]{1,400}?)[*_]{0,3}\s*\Z",
    re.IGNORECASE,
)
# A remark on the sign after its text: "**Elm Street**\n\nThe sign is green …", 粤B·5K82F。车牌为蓝底白字.
_REMARK = re.compile(
    r"(?:\n\s*\n|。\s?|\.\s+)(?:the (?:sign|plate|text|letters|vehicle|car|truck)|it (?:is|was)|this (?:is|sign|plate)"
    r"|(?:该|这|此)|车牌|路?牌|标志|文字|字体)[^\n]{1,400}\Z",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|「([^」\n]{1,400})」|『([^』\n]{1,400})』")
# The words of "the sign below the stop sign" tell of another thing too.
_BESIDE = re.compile(
    r"\b(?:below|beneath|under|above|over|behind|beside|next to|near|left of|right of)\b|[旁下上后]方?的"
)
_AND_MORE = re.compile(r"\b(?:and|below|above|under|then|followed)\b|和|下面|上面|以及|还有")  # both are on the sign
_NO_TEXT = re.compile(
    r"\W{0,3}(?:(?:there(?:'s| is| are)|i see|the [a-z ]{1,30} (?:has|shows|contains|bears)) no"
    r"|(?:there (?:isn't|aren't)|i (?:can't|cannot|can not|don't|do not) (?:see|find|make out|read)) any)"
    r" (?:\w+ly )?(?:\w+ )?(?:text|writing|lettering|letters?|words?|characters?|inscription)\b[^\"\n]*\Z"
    r"|\W{0,3}(?:nothing (?:is|was) (?:written|shown|displayed|printed)"
    r"|(?:there (?:is|are)|i see) no (?:sign|billboard|plate|banner|board)s?"
    r"|the (?:\w+ )?(?:sign|billboard|plate|banner|board) is (?:blank|empty)"
    r"|no (?:\w+ )?(?:text|writing|lettering|letters|words) (?:on|in) (?:the|it|this))\b[^\"\n]*\Z"
    r"|\W{0,3}(?:no (?:\w+ )?(?:text|writing|lettering|letters|words|characters) (?:is|are|can be)"
    r"|the (?:\w+ )?(?:text|writing|lettering|letters|words|sign|plate)(?: on [a-z ]{1,24})?"
    r" (?:(?:is|are)(?:n't| not)|(?:cannot|can't|can not) be))"
    r" (?:\w+ly )?(?:visible|readable|legible|present|shown|seen|read|made out"
    r"|recogni[sz](?:ed|able)|discernible)\b[^\"\n]*\Z"
    r"|\W{0,3}[^\n,，。“\"]{0,14}没有(?:任何)?(?:可见|可读|可辨认|清晰|可识别)?的?(?:文字|字样|字符|文本)[^“\"\n]*\Z",
    re.IGNORECASE,
)
_BLURRED = re.compile(r"(?<=[\"”」』]),? (?:although|(?:even )?though|but|while)\b[^\"“\n]*\Z")  # "…", but it is blurry
_SIGNS = {"sign", "plate", "billboard", "street", "board", "text", "banner", "shop", "signpost", "label"}
_CANNOT = re.compile(
    r"\A(?:i'?m |i am )?(?:very |so )?sorry,? (?:but )?i (?:can't|cannot|can not|won't|am (?:not able|unable) to)\b",
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
    r"(?: (?:on|in|at|above|below|across|along|under|over) (?:the|its|our|this)\b[^\"“”.!?\n]{0,60}"
    r"| on it| in (?:white|red|black|blue|yellow|green)(?: letters)?|的字样|字样|几个字|这几个字)?\s?[.!。！]?\Z",
    re.IGNORECASE,
)
_LAST_SENTENCE = re.compile(r"\A[^\"“「『`]{1,400}[.!?。！？]\s*(?=\S)")  # what stands before it, without quotations
_BOLD_END = re.compile(
    r"(?P<before>[a-z\u4e00-\u9fff:：] ?)\*\*(?P<said>[^*\n]{1,200}[^*\n:：])\*\*(?P<end>[.。!]?\s*\Z)"
)
_EMPHASIS = re.compile(r"\*{2}|__(?=\S)|(?<=\S)__")


def read_vqa(text: str) -> Answer | Unparsed:
    """The reply without HTML and a code fence around it, or what it labels as its answer at its head or end.

    One that only declines is Unparsed.
    """
    text = _LATEX_TEXT.sub(lambda match: match["body"], text)
    fenced = _FENCED.match(text)
    bare = _FINAL_LABEL.sub("", _STEP_TAG.sub("", without_html(fenced["body"] if fenced else text)).strip())
    bare = final["text"] if (final := _ANSWER_LINE.search(bare)) else bare
    if is_refused_reply(text):
        return Unparsed("vqa", "refusal", text[:200])
    return Answer("vqa", bare) if bare else Unparsed("vqa", "empty", text[:200])


def read_ocr(text: str, question: str = "") -> Answer | Unparsed:
    """The text that was read: without a code fence, a label, an introduction and a pair of quotes around all of it.

    Of several quotations, the one whose clause has the most words of `question`; Unparsed if none stands out.
    """
    if is_refused_reply(text) or _NO_TEXT.match(text):
        return Unparsed("ocr", "refusal", text[:200])
    if _QUOTED.search(text) and not re.search(r"\w", without_attributed(text)):  # "My friend says it reads "STOP"."
        return Unparsed("ocr", "no_verdict", text[:200])
    text = _LATEX_TEXT.sub(lambda match: match["body"], text)
    fenced = _FENCED.match(text)
    plain_text = without_html(fenced.group("body") if fenced else text)
    if not re.search(r"[\"“「『`]", plain_text):
        plain_text = _BOLD_END.sub(r'\g<before>"\g<said>"\g<end>', plain_text)  # "The street is **Maple Ave**."
    bare = _EMPHASIS.sub("", plain_text).strip()
    bare = _REMARK.sub("", final["text"] if (final := _ANSWER_LINE.search(bare)) else bare)
    bare = _BLURRED.sub(".", bare)
    says = _SAYS.match(bare) or _SAYS.match(_LAST_SENTENCE.sub("", bare))
    if says:
        bare = next(group for group in says.groups() if group is not None).strip()
        return Answer("ocr", bare) if bare else Unparsed("ocr", "empty")
    if len({match.group() for match in _QUOTED.finditer(bare)}) > 1 and not _QUOTED.match(bare):
        chosen = _quoted(bare, question)
        return Answer("ocr", chosen) if chosen else Unparsed("ocr", "several", text[:200])
    quoted = re.search(r"[\"“「『`:：]", bare)
    if not quoted and (without_refusals(bare.lower())[1] or _CANNOT.match(bare)):
        return Unparsed("ocr", "refusal", text[:200])
    bare = _without_introduction(bare)
    closing = _QUOTES.get(bare[:1])
    if closing and len(bare) >= 2 and bare.endswith(closing) and not {bare[0], closing} & set(bare[1:-1]):
        bare = bare[1:-1].strip()
    if _ABOUT_IT.match(bare) and any(
        re.search(rf"\b{word}\b", bare.lower()) for word in _SIGNS & set(question.lower().split())
    ):
        return Unparsed("ocr", "no_verdict", text[:200])
    return Answer("ocr", bare) if bare else Unparsed("ocr", "empty")


def _without_introduction(text: str) -> str:
    """The text after a label or the words that introduce it, also without the sign that ends their sentence."""
    labelled = _LABEL.sub("", text).strip()
    bare = _NAMED.sub("", _CAPITALS.sub("", _INTRODUCTION.sub("", text.rstrip(".。")))).strip()
    return bare if labelled == text and bare != text.rstrip(".。") else labelled


def _quoted(text: str, question: str) -> str | None:
    """The quotation in the clause with the most words of the question; None if two clauses have equally many."""
    words = set() if _BESIDE.search(question) else telling_words(question)
    found = [(match, text[: match.start()]) for match in _QUOTED.finditer(text)]
    scores = [(sum(w in re.split(r"[.,;。，；!?\"”]", left)[-1].lower() for w in words), m) for m, left in found]
    best = max(score for score, _ in scores)
    top = [match for score, match in scores if score == best]
    alone = len(top) == 1 and len(found) > 1 and not _AND_MORE.search(text[found[0][0].end() : found[1][0].start()])
    return next(group for group in top[0].groups() if group).strip() if best and alone else None
