"""Normalise a model's text before parsing (HTML, Markdown, LaTeX, full-width characters), and detect refusals."""

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
_QUOTE_MARK = re.compile(r"^[ ]{0,3}(?:> ?){1,4}", re.MULTILINE)
# A heading "Answer" with the answer in the next line.
ANSWER_LINE = re.compile(r"(\banswer(?: is)?|答案是?|结论是?)[:：]?\s*\n+\s*", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n{3,}")

# Nothing to see, no way to tell, no information: said of the question, it is no statement about the scene.
_PICTURE = r"(?:images?|pictures?|photos?|photographs?|attachments?|screenshots?|videos?|frames?)"
_MISSING = re.compile(
    rf"\b(?:no|not any|n't any|not an|n't an|without(?: an| the| a| any)?) (?:\w+ )?{_PICTURE}\b(?! of\b| sensor)"
    rf"|\b{_PICTURE} (?:is|was|were|are|has|have|did|does|seems?|appears?|could"
    rf"|can)? ?(?:to be )?(?:not|n't)(?: be| been)?"
    r" (?:\w+ly )?(?:visible|provided|attached|available|load(?:ed|ing)?|displayed|included|uploaded"
    r"|accessible|come through|opened|received|shown|sent)"
    rf"|\b{_PICTURE} (?:\w+ )?(?:is |was |seems to be |appears to be )?(?:missing|blank|empty"
    rf"|failed to load|corrupt(?:ed)?|black|unavailable)\b"
    r"|(?:\bnot|n't) (?:have|possess) (?:the |any |an )?(?:ability|capability|capacity|means) to\b"
    r"|\black the ability to\b"
    r"|\bknow nothing about\b|\bfile (?:seems|appears|is|was)(?: to be)? (?:corrupt|damaged|empty|missing)"
    r"|\bno way (?:to|of|for me to|that i can) (?:tell|know|determin|say|judg|answer|see|confirm|verif|be sure|decid)"
    r"|\b(?:not enough|n't enough|insufficient|not sufficient|no|lacks?|lacking|limited"
    r"|without(?: more| further| additional| any)?|more|too little)"
    r" (?:\w+ )?(?:information|detail|details|context|data|evidence|visual information)\b(?! sign| board)"
    rf"|\b(?:could|can|would) you (?:please )?(?:re-?upload|upload|share|provide|attach|send|resend)\b"
    rf"|\bplease (?:provide|upload|attach|share|send|give|supply|re-?upload|resend)\b"
    rf"|\bneed (?:to see )?(?:the|an|a|your|you to) (?:\w+ ){{0,3}}{_PICTURE}"
    rf"|(?:(?:\bnot|n't|cannot|unable to|never|failed to) (?:\w+ )?(?:see|view|access|open|find"
    rf"|receive[d]?|load|get|got|provided?|attached?|contain|include|have|come with)"
    rf"|\bnot (?:been )?given) (?:(?:any|the|an?|your|this|that) )?(?:\w+ )?{_PICTURE}\b(?! of\b)"
    r"|没有?(?:能够?)?(?:提供|上传|收到|看到|附|附带|给出|加载|检测到|接收到|显示)[^,.;]{0,6}(?:图|照片|画面|影像)"
    r"|(?:图|照片|画面|影像)[^,.;]{0,6}(?:没有?|未|并未)(?:能够?)?(?:提供|上传|收到|加载|显示|附上|成功)|未(?:提供|上传|收到|附)[^,.;]{0,6}(?:图|照片|画面)"
    r"|没有?(?:任何)?(?:图片|图像|照片|附件|画面)(?!中|里|上)|没有?(?:任何)?(?:办法|法|从)(?:判断|确定|回答|看|知道|得知|辨|作答|确认)|没有足够"
    r"|信息不(?:足|够)|缺(?:乏|少)(?:足够)?(?:的)?信息|不足以"
    r"|(?:看不到|没看到|看不见|找不到)[^,.;]{0,8}(?:图|照片|画面)(?!中|里|上)"
    r"|没有?(?:任何|相关|更多)?(?:的)?(?:信息|依据|线索)(?:可|来|能|判断|表明我)?|请(?:您)?(?:先|再)?(?:提供|上传|发送|补充|重新)"
)
_ASKS = re.compile(
    rf"\b(?:please|could you|can you|you need to|kindly) (?:\w+ ){{0,2}}(?:provide|upload|attach|share"
    rf"|send|supply|resend|re-upload) (?:\w+ ){{0,4}}(?:{_PICTURE}|it\b|one\b)"
    r"|请(?:您)?(?:先|重新|再)?(?:提供|上传|发送|补充|附上)[^,.;]{0,8}(?:图|照片|画面)"
)
_BLIND = re.compile(
    rf"(?:\b(?:cannot|can not|unable to|not able to)|n't) (?:\w+ )?(?:view|see|access|open|process|analy[sz]e|receive) "
    rf"(?:the |any |an? |this |your )?{_PICTURE}\b(?! of\b)|\b(?:text-based|text-only|language) (?:ai|model"
    rf"|language model)\b"
    rf"|\bno {_PICTURE} (?:is|was|has been|provided|attached|given)\b|(?:看不到|无法(?:查看|看到|打开"
    rf"|访问))(?:任何)?(?:图|照片)"
)
# The writer cannot answer: nothing else in the sentence is an answer.
_UNDECIDED = re.compile(
    r"\b(?:can't|cannot|can not|could not|couldn't|impossible to|not possible to|unable to|not able to"
    r"|hard to|difficult to)"
    r" (?:\w+ )?(?:be )?(?:determine[d]?|tell|answer(?:ed)?|judge[d]?|verify|verified|make out|discern"
    r"|decide[d]?|assist|help|provide"
    r"|analy[sz]e|process|access|open|view|identify|confirm)\b|\bneither confirm\b"
    r"|\bas (?:unanswered|undecided)\b|\bno idea\b(?! why| how)"
    r"|\bbeyond recognition\b|\b(?:can't|cannot|can not|unable to|not able to) (?:\w+ )?read\b"
    r"|\btoo (?:blurr(?:y|ed)|small|far(?: away)?|dark|distant|dirty"
    r"|low)(?: \w+){0,3} to (?:be )?(?:read|see|make out|recogni[sz]e|tell|identify)"
    r"|\b(?:illegible|unreadable|unrecogni[sz]able|(?:not|isn't) (?:legible|readable"
    r"|recogni[sz]able))\b|\b(?:isn't|is not|not) (?:certain|known|sure)\b"
    r"|\bnone of [a-z ]{1,24} (?:can be (?:read|made out)|is (?:legible|readable))\b"
    r"|\b(?:it|that|this|what|which|answer)(?:'s)?\b[^.,;\n]{0,24} (?:isn't|is not|not) clear\b"
    r"|\b(?:isn't|not) clear (?:if|whether|from|enough|to me|wh|how)"
    r"|(?:无法|难以|没法|不能|无从)(?:\w{0,4})?(?:判断|确定|辨认|辨别|识别|看清|得知|确认|回答|看到|读取|分辨|判定|作答|加载|打开|查看|提供)(?!出?没有)"
    r"|看不清|看不见图"
)
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
_SENTENCE = re.compile(r"(?<=[.!?;\n])(?=\s|\Z)")
_CONTRAST = re.compile(r"\bbut\b|\bhowever\b|\bthough\b|但是?|不过")
_REPLY_LIMIT = 240  # characters; a longer reply has content besides a refusal


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


def is_blind(text: str) -> bool:
    """Whether plain text says that the writer sees no picture, so that only an explicit verdict in it is an answer."""
    return bool(_BLIND.search(text[: _REPLY_LIMIT * 4].lower()))


def declines(text: str) -> bool:
    """Whether plain text without a verdict is a refusal."""
    low = text[:400].lower()
    return bool(_REFUSAL.search(low) or _MISSING.search(low))


def asks_for_picture(text: str) -> bool:
    """Whether plain text asks the user for a picture, so that nothing in it can be an answer about one."""
    return bool(_ASKS.search(text[: _REPLY_LIMIT * 4].lower()))


def without_refusals(low: str) -> tuple[str, bool]:
    """Lower-case plain text without sentences that say that the question cannot be answered, and whether any did."""
    kept, refuses = [], False
    for part in _SENTENCE.split(low):
        missing = _MISSING.search(part) or _UNDECIDED.search(part)
        refuses = refuses or bool(missing)
        if missing:
            # "I cannot see the plate, but there is a car": what follows the contrast stands.
            contrast = _CONTRAST.search(part, missing.end())
            part = part[contrast.end() :] if contrast else ""
        kept.append(part)
    return "".join(kept), refuses


def is_refused_reply(text: str) -> bool:
    """Whether the whole reply is a refusal, without any other content."""
    if len(text) > _REPLY_LIMIT:
        return False
    low = plain(text).lower()
    if _REFUSED_REPLY.fullmatch(low):
        return True
    parts = [part for part in _SENTENCE.split(low) if any(c.isalnum() for c in part)]
    return bool(parts) and all(_MISSING.search(part) for part in parts)


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
