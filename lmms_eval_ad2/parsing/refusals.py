"""Refusals: that a question cannot be answered, for lack of a picture, of information or of permission; and doubt.

A sentence that says so is no statement about the scene: it is left out before any verdict is looked for.
"""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.normalise import plain

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
    r"|(?:图|照片|画面|影像)[^,.;]{0,6}(?:没有?|未|并未)(?:能够?)?(?:提供|上传|收到|加载|显示|附上|成功)"
    r"|未(?:提供|上传|收到|附)[^,.;]{0,6}(?:图|照片|画面)"
    r"|没有?(?:任何)?(?:图片|图像|照片|附件|画面)(?!中|里|上)|没有?(?:任何)?(?:办法|法|从)(?:判断|确定|回答"
    r"|看|知道|得知|辨|作答|确认)|没有足够"
    r"|信息不(?:足|够)|缺(?:乏|少)(?:足够)?(?:的)?信息|不足以"
    r"|(?:看不到|没看到|看不见|找不到)[^,.;]{0,8}(?:图|照片|画面)(?!中|里|上)"
    r"|没有?(?:任何|相关|更多)?(?:的)?(?:信息|依据|线索)(?:可|来|能|判断|表明我)?|请(?:您)?(?:先|再)?(?:提供"
    r"|上传|发送|补充|重新)"
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
_CANNOT = (
    r"(?:cannot|can't|can not|could not|couldn't|unable to|not able to|(?:im|not |n't |never )possible to"
    r"|(?:impossible|not possible|hard|difficult|tricky) for (?:me|us|anyone|one) to"
    r"|(?:hard|difficult|tricky|challenging|not easy|n't easy) to|not in a position to|not (?:qualified"
    r"|equipped|allowed"
    r"|permitted|comfortable|willing|going|supposed) to|fail(?:s|ed)? to|no one can|nobody can)"
)
_JUDGE = (
    r"(?:determine[ds]?|tell|answer(?:ed|ing)?|judged?|verif(?:y|ied)|make out|made out|discern(?:ed)?|decided?|assist"
    r"|help|provided?|analy[sz]ed?|process|access|open|view|identify|confirm(?:ed)?|say(?! (?:no|it|there"
    r"|that)\b)|said|know|known|conclude[d]?"
    r"|establish(?:ed)?|inferr?(?:ed)?|ascertain(?:ed)?|assess(?:ed)?|evaluated?|figure[d]? out|comment|estimated?"
    r"|count(?:ed)?|quantif(?:y|ied)|distinguish(?:ed)?|differentiate[d]?|be (?:sure|certain|given)|speculate|deduced?"
    r"|respond|given? an? (?:\w+ ){0,3}answer)"
)
_INFORMATION = (
    r"(?:information|info|details?|context|data|evidence|clues?|cues|knowledge|resolution|clarity|image quality"
    r"|basis)\b(?! signs?\b| boards?\b)"
)
_IMAGE = rf"(?:{_PICTURE}|view|scene|resolution|(?:image |picture )?quality)"
_OPEN_VERB = (
    r"(?:show|say|tell|specify|state|indicate|reveal|contain|mention|make (?:it |this |that )?clear|allow|permit)"
)
_UNDECIDED = re.compile(
    rf"\b{_CANNOT} (?:\w+ )?(?:be )?{_JUDGE}\b|\bneither confirm\b|\bas (?:unanswered|undecided)\b"
    rf"|\b(?:no|any|a|without) (?:\w+ )?(?:way|means|possibility|chance|method)(?: \w+){{0,3}}? (?:to|of|that \w+ can) "
    rf"(?:\w+ )?(?:{_JUDGE}|know|tell|see|verif|determin|judg|decid|estimat|count)\w*"
    r"|(?:\b(?:no|not any|not an?)|n't (?:any|an?)) (?:\w+ )?(?:answers?|opinion|idea|clue|comment|access"
    r"|conclusion)\b(?! (?:why"
    r"|how|road|lane|ramp|gate|point))"
    rf"|\b(?:refuse|decline|rather not|prefer not|won't|will not)\b (?:to )?(?:\w+ )?{_JUDGE}\b|\bmust decline\b"
    r"|(?:\bnot|n't) have (?:\w+ ){0,2}?(?:access|answers?|opinions?|idea|clue)\b|(?:\b(?:not|never)|n't)"
    r"(?: really)? know\b|\bdunno\b"
    r"|(?:\bno|n't any|n't an?) (?:clear|definite|definitive|obvious|conclusive) indication\b"
    r"|\banswer (?:cannot|can't) be\b"
    r"|(?:\b(?:cannot|can not)|n't) see (?:that far|from here|what|how|the relevant)\b"
    r"|\b(?:zero|no|little) (?:confidence|certainty|knowledge|idea|information|clue)\b"
    r"|\bsee no [a-z ]{1,30} (?:clearly|well|properly)\b"
    # too little of what is needed
    rf"|(?:\b(?:not|no|nor|without|lacks?|lacking)\b|n't)[^.,;]{{0,40}}?\b(?:enough|sufficient(?:ly)?"
    rf"|adequate(?:ly)?)\b"
    rf"(?:[^.,;]{{0,30}}? (?:{_INFORMATION}|to (?:\w+ )?(?:{_JUDGE}|see|read))|(?=\s?(?:[.,;!]"
    rf"|\Z)))(?<!(?:wide|long|tall|fast|slow"
    r"|near|deep) enough)"
    rf"|\b(?:insufficient|inadequate|incomplete|limited|lacks?|lacking|lack of|too little|missing"
    rf"|unavailable) (?:\w+ )?"
    rf"{_INFORMATION}"
    rf"|(?:\b(?:no|not any|not have any)|n't (?:have )?any) (?:\w+ ){{0,2}}?(?:information|info|details?"
    rf"|data|context|evidence|clues?)\b"
    r"(?! signs?\b| boards?\b)"
    rf"|\b{_IMAGE} (?:\w+ )?(?:is|are|was|looks?|seems?|appears?) (?:\w+ ){{0,3}}?(?:blurr(?:y|ed)|unclear"
    rf"|grainy|pixelated|fuzzy"
    r"|insufficient|inadequate|out of focus|inconclusive|overexposed|too \w+|not (?:\w+ )?clear)\b"
    rf"|\b{_IMAGE} isn't (?:\w+ )?clear\b"
    r"|\bmy (?:view|vision|line of sight) (?:is|was) (?:\w+ )?(?:blocked|obstructed|limited)\b"
    # nothing is seen or shown
    r"|(?:\b(?:cannot|can not|not|never|hardly|barely)|n't) (?:\w+ ){0,2}?(?:see|seen|view|visible"
    r"|recogni[sz]able)\b[^.,;]{0,40}?"
    r"\b(?:clearly|well|properly|enough|in detail|sharply)\b|\bunclear|\bvaguely\b"
    rf"|(?:\b(?:cannot|can not|not)|n't) (?:\w+ )?(?:see|make out|recogni[sz]e) (?:anything|much|it all)"
    rf"(?: at all| here| clearly| (?:in|on) (?:the|this) {_IMAGE})*(?=\s?(?:[.,;!]|\Z))"
    rf"|\bnothing (?:is visible|can be seen)(?: at all| here| in (?:the|this) {_IMAGE})?(?=\s?(?:[.,;!]|\Z))"
    rf"|\bi see nothing\b"
    rf"|\b(?:it|this|{_IMAGE}) (?:does not|doesn't|do not|don't) (?:\w+ )?{_OPEN_VERB}"
    r"(?: (?:this|that|it|so|if|what|which|how|who|where|me|us|one|you)\b|(?=\s?(?:[.,;!]|\Z)))"
    rf"|\b(?:does not|doesn't|do not|don't) (?:\w+ )?{_OPEN_VERB} (?:\w+ )?whether\b"
    r"|(?:\A|(?<=[.,;!] )|\b(?:it|this|that|answer|which|information)(?: is| was|'s) |\bit |\bthis )(?:n't "
    r"|isn't |wasn't |not )"
    r"(?:\w+ )?(?:shown|stated|specified|given|provided|mentioned|indicated|known|available|determinable|discernible"
    r"|apparent|evident|possible|certain|clear|sure|answerable|applicable|recogni[sz]able)\b"
    r"|\b(?:isn't|is not|not) (?:\w+ )?(?:certain|known|sure|determinable|answerable)\b"
    r"|\bnothing (?:\w+ ){0,4}?(?:to base|that (?:would|could) (?:allow|tell|indicate)|to (?:indicate|tell|suggest))\b"
    r"|\b(?:answer|it|that|this) (?:is|remains|was) (?:\w+ )?(?:unknown|unclear|undetermined|uncertain"
    r"|indeterminate|unspecified"
    r"|inconclusive|ambiguous)\b|\b(?:unanswerable|undeterminable|indeterminable|undecidable|unknowable|indeterminate"
    r"|undetermined|inconclusive)\b|\A\W*(?:unknown|unsure|uncertain|unclear|n/a|not applicable"
    r"|no information|no answer)\W*\Z"
    r"|\b(?:may|might|could) or (?:may|might|could) not\b|\b(?:could|may|might) (?:be|go) either\b|\beither way\b"
    r"|\bbeyond recognition\b|\b(?:can't|cannot|can not|unable to|not able to) (?:\w+ )?read\b"
    r"|\btoo (?:blurr(?:y|ed)|small|far(?: away)?|dark|distant|dirty"
    r"|low)(?: \w+){0,3} to (?:be )?(?:read|see|make out|recogni[sz]e|tell|identify)"
    r"|\b(?:illegible|unreadable|unrecogni[sz]able|(?:not|isn't) (?:legible|readable"
    r"|recogni[sz]able))\b"
    r"|\bnone of [a-z ]{1,24} (?:can be (?:read|made out|determined|known|identified|counted)"
    r"|is (?:legible|readable|known|certain|clear))\b"
    r"|\b(?:it|that|this|what|which|answer)(?:'s)?\b[^.,;\n]{0,24} (?:isn't|is not|not) clear\b"
    r"|\b(?:isn't|not) clear (?:if|whether|from|enough|to me|wh|how)|\bunclear (?:if|whether|from|to me|wh|how)"
    r"|(?:无法|难以|没法|没办法|没有(?:任何)?(?:办法|能力|把握)|不能够?|不便|无从|无力|未能|[很较太]难"
    r"|不足以|不予|拒绝|不敢|不愿"
    r"|恕不|不具备|不好)(?:[^,.;!?\s]{0,4}?)(?:判断|判定|断定|确定|确认|辨认|辨别|辨明|识别|看清|看出|得知"
    r"|获知|知道|知晓|回答|作答|答复|看到|读取|分辨"
    r"|区分|查看|提供|说明|说清|说出|推断|推测|评估|评价|分析|计数|数清|统计|估计|给出|得出|加载|打开|下结论"
    r"|定论|评论|说(?=[,.;!]|\Z))(?!出?没有)"
    r"|什么[都也]看不|看不[到见]任何(?:东西|内容|物体)|(?:遮挡|挡住|[太过]远|[太过]暗"
    r"|模糊)[^.;]{0,6}看不[到见]|没有?(?:明确的?)?[定结]论"
    r"|看不(?:太|大)?(?:清|出)|看不见图|(?:认|分|辨|数|说|判断|分辨|辨认|识别|确定|回答|答)不(?:清|出|了|准"
    r"|好|上来|过来)|说不定|拿不准|吃不准|没(?:有)?把握"
    r"|不知道?|不晓得|不确定|无可奉告|(?:\A|[,.;!\s])(?:我|目前|这个?|尚|并|具体|答案|还|也|很|太"
    r"|是){0,3}(?:不(?:清楚|清晰|明确|详|明)|未知|不详)"
    r"|(?:没有?|无|缺乏|缺少|不具备|不含|未(?:提供|给出|包含|显示))[^,.;]{0,10}(?:信息(?!牌|板|屏)|细节|依据"
    r"|证据|线索|资料|数据|条件|答案|参考)"
    r"|(?:信息|细节|依据|证据|线索|资料|数据|条件|清晰度|分辨率)[^,.;]{0,6}(?:不(?:足|够|充分|完整|全|高)"
    r"|有限|缺失|缺乏|[太过]少|[太过较]低)"
    r"|(?:图片|图像|画面|照片|影像|视野|视线|画质|图)[^,.;]{0,4}(?:不(?:够|太|是很|甚)?(?:清|高|明)|模糊"
    r"|[太过]暗|昏暗|被?遮|被挡|受阻|[太过]小)"
    r"|没有?(?:能够?)?(?:显示|展示|体现|说明|标明|提及|提到|给出|表明)(?:这|该|此|出|相关|任何|具体|是否|[,.;!]|\Z)"
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
_CONTRAST = re.compile(r"\bbut\b|\bhowever\b|\bthough\b|\bmy answer is\b|但是?|不过|答案是")
# "Although the image is blurry, there is a bus.", "It is on the left, although the image is dark."
_CONCESSION = re.compile(r"\b(?:although|(?:even )?though|while|whereas|despite)\b|虽然|尽管|虽说")
_REPLY_LIMIT = 240  # characters; a longer reply has content besides a refusal


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
        while missing:
            clause = max(part.rfind(sign, 0, missing.start()) for sign in ",.;") + 1
            conceded = _CONCESSION.search(part, clause, missing.start())
            if not conceded:
                break
            end = part.find(",", missing.end())
            part = part[: conceded.start()] + (part[end + 1 :] if end >= 0 else "")
            missing = _MISSING.search(part) or _UNDECIDED.search(part)
        refuses = refuses or bool(missing)
        if missing:
            # "I cannot see the plate, but there is a car": what follows the contrast stands.
            contrast = _CONTRAST.search(part, missing.end())
            part = part[contrast.end() :] if contrast else ""
        kept.append(part)
    return "".join(kept), refuses


_OF_THE_QUESTION = frozenset((
    "i", "we", "you", "it", "this", "that", "there", "the", "a", "an", "any", "no", "not", "t", "is", "isn", "are",
    "aren", "do", "don", "does", "doesn", "have", "has", "can", "cannot", "could", "couldn", "be", "been", "to",
    "of", "for", "in", "from", "with", "on", "at", "here", "enough", "sufficient", "insufficient", "information",
    "info", "detail", "details", "context", "data", "evidence", "image", "picture", "photo", "scene", "question",
    "answer", "answered", "tell", "say", "know", "determine", "determined", "judge", "decide", "see", "clearly",
    "clear", "sure", "certain", "possible", "impossible", "way", "idea", "unable", "able", "m", "really",
    "provided", "available", "given", "alone", "unclear", "hard", "difficult", "but", "and", "though", "contain",
    "provide", "show", "visible",
))  # fmt: skip
_ZH_OF_THE_QUESTION = re.compile(
    r"[我这个问题图片像画面中信息细节依据不没有足够无法能难以确定判断看清楚出知道回答提供的了也很太但,.!; ]+"
)


def takes_back(low: str) -> bool:
    """Whether a sentence after the first one of lower-case text says that the question cannot be answered.

    "No. There is not enough information." One that is about something else ("I can't read its plate") does not count.
    """
    for part in _SENTENCE.split(low)[1:]:
        if (_MISSING.search(part) or _UNDECIDED.search(part)) and (
            set(re.findall(r"[a-z]+", part)) <= _OF_THE_QUESTION
            if part.isascii()
            else _ZH_OF_THE_QUESTION.fullmatch(part)
        ):
            return True
    return False


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
