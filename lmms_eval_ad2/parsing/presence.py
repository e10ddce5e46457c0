"""Statements of presence and absence that answer a question such as "Is there a bus?" without yes or no."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.asked_things import (
    NOUN_END,
    PRESENCE_QUESTION,
    asked_for,
    asked_property,
    inflected,
    singular,
)
from lmms_eval_ad2.parsing.clauses import TextClause, clauses, denied, last_sentence
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.opposites import beside, by_opposite, in_another_place, place_is_empty
from lmms_eval_ad2.parsing.question_words import (
    located_noun,
    names_another,
    of_another_road_user,
    of_asked_kind,
    of_the_ego,
)
from lmms_eval_ad2.parsing.revisions import REVISION

_THERE_ONLY = re.compile(
    r"(?P<head>\bthere(?:'s| is| are| was| were)) (?:indeed |only |exactly |just )?(?:one|two|three"
    r"|four|none|some|several|many|\d+)\b(?! other)"
)
NOT_ONE = re.compile(
    r"一(?:个|辆|名|位|只|条|盏)[\u4e00-\u9fff]{0,4}(?:都|也)(?:没有?|看不到|不见|找不到|看不见|未见)"
    r"|\bnot (?:a single(?: [a-z]+)?|even one|one)\b(?! of)|\bthere (?:isn't|aren't|wasn't|is not"
    r"|are not) (?:one|any)\b(?! other)|\bnone (?:can|is|are|was"
    r"|were) (?:be )?(?:visible|seen|made out|present|found|detected)\b"
)
# "Bus stop", "pedestrian crossing", 公交车广告牌: the name of something else.
_COMPOUND = re.compile(
    r"[- ](?:stops?|lanes?|stations?|crossings?(?! the\b| in\b| at\b| from\b)|signs?|shelters?|billboards?"
    r"|posters?|stickers?"
    r"|statues?|paintings?|ads?|adverts?|shadows?"
    r"|reflections?|toys?|routes?|racks?|parking|zones?|maps?|timetables?|tickets?|buttons?"
    r"|symbols?|bridges?|distances?|(?:signals?|lights?)(?! (?:left|right|to)\b))\b"
    r"|(?:广告|海报|站|专用|标志|模型|雕像|图案|影子|倒影|通道"
    r"|提示|车道|信号灯|箭头|道(?!路))"
)
_NOBODY = re.compile(r"\b(?:nobody|no one|no-one)\b(?! (?:else|other))|空无一人|没有?人|无人")
_EMPTY = re.compile(r"\b(?:completely|entirely|totally|quite) empty\b|空无一[人车物]|空空如也")
_PERSON = re.compile(r"pedestrian|person|people|人")
_PERMISSION = re.compile(
    r"\b(?:permitted|allowed|legal|legally|permissible)\b|\A(?:can|may|could) (?:the )?(?:ego|we|our|i|one)\b|允许|准许"
)
_FORBIDDEN = re.compile(
    r"\b(?:must not|mustn't|may not|prohibited|forbidden|prohibits?|forbids?|illegal|not (?:allowed|permitted|legal))\b"
    r"|禁止|严禁|不得(?!不)|不允许|不准"
)
_NO_OTHER = re.compile(r"\b(?:no|not any|n't any) (?:other|more|further|additional)\b|没有其他|没有别的")
_SHORT = 1_000  # characters
_HIDDEN = re.compile(
    r"\A (?:is|are|was|were|remains?)(?:n't| not)?(?: \w+ly)? (?:hidden|obscured|concealed|out of (?:sight|view))\b"
)
_SIDE = re.compile(
    r"(?<![a-z])(?:left|right)(?![a-z])(?! (?:turn|now|in front|before|after|behind|next))|[左右](?!转|拐|后)"
)
# What is said of a question, a search or a kind of thing says nothing of the scene: "you asked about a bus".
_TALK = re.compile(
    r"\b(?:ask(?:s|ed|ing)?|question(?:s|ed)?|look(?:s|ed|ing)? for|search\w*|check(?:s|ed|ing)?|information"
    r"|data|evidence|watch(?:es|ing)? (?:out )?for|look(?:s|ing)? out for|beware of|need to (?:see|find)"
    r"|regarding|concerning|word|term|definition)\b[^,.;]{0,24}\Z|\babout (?:a|an|the|any|some) \Z"
    r"|\bi (?:like|love|hate|prefer) \Z|\b(?:picture|photo|drawing|painting|poster|logo|symbol"
    r"|advert(?:isement)?|toy|statue) of (?:an? |the )?\Z|(?:关于"
    r"|问|查找|寻找|检查|找一下|注意|当心|小心|留意|提防)[^,.;]{0,6}\Z"
)
_MEANS = re.compile(r"\W*(?!this|that|which|it)(?:an? )?[a-z]+(?: [a-z]+)? means? ")  # "A red light means stop."
_LABELLED_NO = re.compile(
    r"(\A\W*(?:[a-z][a-z ]{1,40}|[\u4e00-\u9fff]{2,10})) ?: ?(?=none\b|no\b|absent|not |无|没有|不)"
)
_RULE = re.compile(
    r"\b(?:forbid\w*|prohibit\w*|bann(?:ed|ing)|warn\w*|(?:reserved|intended|meant) for)\b[^,.;]{0,24}\Z"
)
_TALK_AFTER = re.compile(r" (?:would|question|query|task|topic)s?\b|的(?:信息|问题|说明|定义|资料)|(?:是指|指的是)")
# Said of the kind, not of the scene: "Buses are large vehicles.", "A bus usually stops here."
_KIND_BEFORE = re.compile(r"\W*(?:an? )?\Z")
_KIND_AFTER = re.compile(
    r"是(?:一种|一类|指)|应|必须|须|不得|禁止"
    r"| (?:must|should)\b"
    r"|(?: is| are)(?: not|n't)? (?:allowed|permitted|forbidden|prohibited|banned|expected|required)\b"
    r"| (?:can |may |do |does )?(?:usually|often|typically|generally|normally|commonly|tend)\b"
    r"|,? (?:is|are) (?:usually |often |typically |generally |an? |the )*"
    r"(?:(?:kind|type|sort|form|means)s? of|(?:[a-z]+ ){0,2}(?:vehicles?|objects?|animals?|things?|road users?)\b"
    r"|common\b|used (?:to|for)|meant (?:to|for)|designed (?:to|for))"
)
# Of another time or picture: "There used to be a bus.", "In the previous image there was a bus.", 即将有公交车驶来.
_ELSEWHEN = re.compile(
    r"\b(?:will (?:soon )?be|used to be|(?:is|are) going to be|yesterday|(?:moment|minute|while)s? ago)\b"
    r"|刚才|刚刚|昨天|即将|将要|将会|曾经|曾有|上一[张帧]|下一[张帧]"
)
_QUOTED_QUESTION = re.compile(r"\"[^\"\n]{1,200}\?\"|'[^'\n]{1,200}\?'(?![a-z])")
_QUOTED = re.compile(r"\"[^\"\n]{1,60}\"|(?<![a-z])'[^'\n]{1,60}'(?![a-z])")
_ABSENT = re.compile(
    r"\bthere (?:is|are|was|were)(?: no\b(?! doubt| question| way| need| reason)| not\b|n't\b| none\b)"
    r"|\bthere's no\b(?! doubt| question| way| need)"
    r"|\bno\b(?! doubt| question| way)[^.,;\n]{1,60}\b(?:is|are|was|were|can be)\b[^.\n]{0,20}"
    r"\b(?:visible|present|seen|detected|shown|found)\b"
    r"|(?:\bnot|n't)(?: be)?(?: \w+)? (?:visible|present|seen|detected|found|shown)\b"
    r"|\bi (?:do not|don't|cannot|can't|can not|did not|didn't) (?:see|find|detect|observe|spot)\b"
    r"|\bi see no\b|\bno sign of\b"
    r"|\b(?:does not|doesn't|do not|don't) (?:show|contain|appear|exist|have|include)\b"
    r"|没有(?!办法|足够|问题)|不存在|看不到|未见|未发现|没看到|并无|不可见|没发现|未看到|没有发现"
)
_PRESENT = re.compile(
    r"\bthere(?:'s| is| are| was| were) (?:indeed |clearly |actually |also |only )?(?:an?|one|two"
    r"|three|some|several|many|multiple|\d+)\b"
    r"|\b(?:is|are) (?:\w+ly )?(?:visible|present)\b|\bcan be seen\b"
    r"|\bi (?:can )?(?:clearly )?see (?:an?|one|two|some|several)\b|(?:图中|画面中|图片中"
    r"|图像中|画面里|图里|前方|路边|左侧|右侧|道上|旁边|旁)(?:确实|的确|还|也)?有|\A有(?!可能|没有)|存在"
    r"|可以看到|能看到|可以看见|清晰可见"
)


_CLAIM = re.compile(r"\b(?:statement|claim|assertion|description|caption)\b|说法|描述|陈述|表述")
_CALLED = re.compile(
    r"\b(?:statement|claim|assertion|description|caption|it|this|that) (?:is|was)(?P<negated> not|n't)? (?:\w+ly )?"
    r"(?:(?P<good>correct|true|right|accurate)|(?P<bad>incorrect|false|wrong|inaccurate|untrue))\b"
    r"|(?:说法|描述|陈述|表述)(?:是)?(?P<zh_not>不)?(?:(?P<zh_good>正确|对|准确|属实)|(?P<zh_bad>错误|错))"
)


def stated(low: str, question: str, *, alone: bool) -> str | None:
    """ "yes" or "no" as stated in lower-case text; None if nothing or both is stated.

    With a question, each clause that names what was asked for counts, by its polarity. Without one, or if the reply
    uses other words, a single sentence that states presence or absence; only if it is all of the reply (`alone`).
    """
    low = _LABELLED_NO.sub(r"\1 ", low)
    called = _of_claim(low) if _CLAIM.search(question.lower()) else None
    if called:
        return called
    asked = plain(question).lower()
    sides = _sides(asked)
    if _PERMISSION.search(asked) and any(
        _FORBIDDEN.search(part.text) and not _sides(part.text) - sides for part in _facts(low)
    ):
        return "no"
    present = PRESENCE_QUESTION.search(asked)
    if present and place_is_empty(_facts(low), asked):
        return "no"
    names = [asked_for(question)]
    if present and present["be"]:  # "Is the visibility good in this scene?" may ask for a property
        names.append(asked_property(asked))
    for name in names:
        verdicts, concludes = _of_name(without_quotes(low), name, sides, asked) if name else ([], False)
        if verdicts and not present and not _named_last(low, name):
            return None
        if len(set(verdicts)) == 1 or (verdicts and (concludes or REVISION.search(low))):
            return verdicts[-1]
        if verdicts:
            return None
    if opposite := by_opposite(_facts(low), asked):
        return opposite
    elsewhere = in_another_place(low, asked)
    of_it = not question or (present and (_names_head(low, present) or _names_only_asked(low, asked)))
    return _single(_QUOTED.sub(" ", low)) if alone and not elsewhere and of_it else None


def _named_last(low: str, name: str) -> bool:
    """Whether the last of several sentences names the asked property, so that no other one decides."""
    last = last_sentence(low)
    return not last or any(re.search(name, part.text) for part in last)


def _of_claim(low: str) -> str | None:
    """ "The statement is incorrect": what a reply calls a statement whose truth is asked for."""
    verdicts = {
        "no" if bool(match["bad"] or match["zh_bad"]) != bool(match["negated"] or match["zh_not"]) else "yes"
        for match in _CALLED.finditer(low)
    }
    return verdicts.pop() if len(verdicts) == 1 else None


def lacks_located(text: str, question: str) -> bool:
    """Whether plain `text` says that the thing that a question for a box or a point locates is not there."""
    noun = located_noun(question)
    if not noun or len(text) > _SHORT:
        return False
    asked = f"is there a {noun}?" if noun.isascii() else f"有没有{noun}?"
    return stated(text.lower(), asked, alone=False) == "no"


def _facts(low: str) -> list[TextClause]:
    """The clauses that state something: without conditions, doubts, former beliefs and the meaning of things."""
    found = [c for c in clauses(low) if not (c.open or c.conditional or c.tentative or c.former)]
    return [clause for clause in found if not _MEANS.match(clause.text)]


def _sides(low: str) -> set[str]:
    """The sides that lower-case text names: "left", "right"."""
    return {"left" if side in ("left", "左") else "right" for side in _SIDE.findall(low)}


def without_quotes(low: str) -> str:
    """Plain text with blanks for quoted questions, whose sign would end the clause."""
    return _QUOTED_QUESTION.sub(lambda match: " " * len(match.group()), low)


def _of_name(low: str, name: str, sides: set[str], question: str) -> tuple[list[str], bool]:
    """The verdicts of all clauses that name the thing, and whether the last of them is drawn as a conclusion."""
    pattern = re.compile(name)
    is_property = not PRESENCE_QUESTION.search(question)
    verdicts: list[str] = []
    concludes = False
    for clause in _facts(low):
        text = _QUOTED.sub(lambda m: " " * len(m.group()), clause.text)
        said = _sides(text)
        if _NO_OTHER.search(text) or of_another_road_user(text, question):
            continue
        if not is_property and _ELSEWHEN.search(text) and not _ELSEWHEN.search(question):
            continue
        if is_property and _of_another_thing(text, pattern, question):
            continue
        if is_property and of_the_ego(text, question):
            continue
        if is_property and (beside(text) - beside(question) or names_another(text, question)):
            continue
        if len(sides) == len(said) == 1 and sides != said:  # of the other side
            continue
        named = next((m for m in pattern.finditer(text) if not _COMPOUND.match(text, m.end())), None)
        if named and (_TALK.search(text[: named.start()]) or _TALK_AFTER.match(text, named.end())):
            continue
        if named and not is_property and _RULE.search(text[: named.start()]):
            continue
        if named and _KIND_BEFORE.match(text[: named.start()]) and _KIND_AFTER.match(text, named.end()):
            continue
        pronoun = _THERE_ONLY.search(text) or NOT_ONE.search(text)
        if named and in_another_place(text, question):
            continue
        if named:
            verdicts.append("no" if _denied(clause, text, named) else "yes")
        elif (
            _EMPTY.search(text)
            or (_NOBODY.search(text) and _PERSON.search(name))
            or (pronoun and pronoun.re is NOT_ONE)
        ):
            verdicts.append("no")
        elif pronoun and not re.match(r" [a-z]+", text[pronoun.end() :]):
            verdicts.append("no" if denied(text, pronoun.start(), pronoun.end("head")) else "yes")
        else:
            continue
        concludes = clause.concludes
    return verdicts, concludes


# "The car is red": the subject of a property.
_SUBJECT = re.compile(
    r"\b(?:the|an?|this|that|our|its) (?:[a-z-]+ ){0,2}?(?P<thing>[a-z]{3,}) (?:is|are|was|were|has|looks|seems)\b"
)
_ATTRIBUTE_OF = re.compile(r"\s(?P<thing>car|truck|bus|van|sign|building|shirt|jacket|van|taxi|bicycle|bike)s?\b")
_GENERAL = frozenset(("vehicle", "object", "answer", "one", "thing", "ego", "situation", "scene", "image"))


def _of_another_thing(text: str, pattern: re.Pattern[str], question: str) -> bool:
    """Whether a clause gives the asked property to a thing that the question does not name."""
    named = pattern.search(text)
    subject = next((m for m in _SUBJECT.finditer(text) if named and m.end() <= named.start() <= m.end() + 12), None)
    after = _ATTRIBUTE_OF.match(text, named.end()) if named else None
    things = [m["thing"] for m in (subject, after) if m]
    return any(
        singular(thing) not in question and thing not in _GENERAL and not of_asked_kind(thing, question)
        for thing in things
    )


def _denied(clause: TextClause, text: str, named: re.Match[str]) -> bool:
    """Whether a named thing is denied: what follows "who", "that" or "with" describes it, and does not deny it."""
    right = re.split(r"\b(?:that|who|with|without|and)\b", text[named.end() :])[0]
    hidden = bool(_HIDDEN.search(right))
    return denied(text[: named.end()] + right, named.start(), named.end()) != hidden


# Words of a statement that name no thing: "There is one in this picture.", 图中可以看到.
_NO_THING = frozenset((
    "there", "the", "an", "any", "one", "ones", "none", "some", "several", "many", "two", "three", "single", "it",
    "its", "them", "they", "that", "this", "these", "those", "such", "thing", "things", "object", "objects", "is",
    "are", "was", "were", "isn", "aren", "be", "been", "do", "don", "does", "doesn", "did", "didn", "can", "cannot",
    "could", "not", "see", "seen", "find", "found", "detect", "detected", "observe", "spot", "visible", "present",
    "shown", "show", "contain", "contains", "appear", "appears", "exist", "have", "has", "include", "and", "in",
    "on", "of", "here", "at", "all", "for", "sure", "indeed", "clearly", "clear", "actually", "also", "only",
    "even", "currently", "now", "image", "picture", "scene", "photo", "frame", "view", "anywhere", "right", "nothing",
    "kind",
))  # fmt: skip
_ZH_NO_THING = re.compile(
    r"图中|画面中?|图片中?|图像中?|图里|画面里|照片中?|场景中?|前方|目前|当前|任何|确实|的确|明显|清晰|可见"
    r"|可以|能够?|看到|看见|发现|存在|有|没|无|未|不|并|也|还|我|在|到|见"
    r"|中|里|的|了|着|是|一个|一名|一辆|个|名|辆|位"
)


def _names_head(low: str, asked: re.Match[str]) -> bool:
    """Whether lower-case text has the last word of the thing whose presence is asked for: 信号灯 of 交通信号灯."""
    if asked["zh"]:
        return asked["zh"][-2:] in low or (asked["zh"].endswith("车辆") and bool(re.search(r"车(?![道位站牌灯])", low)))
    noun = NOUN_END.split(next(group for group in asked.groups() if group).strip() + " ")[0].split()
    noun = noun[:-1] if len(noun) > 1 and noun[-1] in ("work", "works", "area", "zone", "site") else noun
    heads = re.finditer(rf"\b{inflected(noun[-1])}\b", low) if noun else ()
    before = [low[: head.start()] for head in heads if not _COMPOUND.match(low, head.end())]
    return any(not (_TALK.search(left) or _RULE.search(left)) for left in before)


def _names_only_asked(low: str, question: str) -> bool:
    """Whether lower-case text names no other thing than `question`: else its statement may be about that thing."""
    subject = _SUBJECT.search(low)  # "The crosswalk is not visible."
    if subject and subject["thing"] not in _NO_THING and not re.search(asked_for(question) or r"\Z", subject["thing"]):
        return False
    asked = {singular(word) for word in re.findall(r"[a-z]+", question)}
    english = {word for word in re.findall(r"[a-z]{2,}", re.sub(r"\bsigns? of\b", " ", low)) if word not in _NO_THING}
    chinese = _ZH_NO_THING.sub("", "".join(re.findall(r"[\u4e00-\u9fff]+", low)))
    return all(singular(word) in asked for word in english) and all(sign in question for sign in chinese)


def _single(low: str) -> str | None:
    if len(low) > 400 or "?" in low or re.search(r"[.!?\n](?=\s?\S)", low.strip()):
        return None
    absent = bool(_ABSENT.search(low))
    present = bool(_PRESENT.search(_ABSENT.sub(" ", low)))
    found = clauses(low)
    unsaid = any(clause.open or clause.tentative or clause.former for clause in found)
    if absent == present or unsaid or _ELSEWHEN.search(low):
        return None
    match = (_ABSENT if absent else _PRESENT).search(low)
    if absent and match and _double(low, match):
        return "yes"
    return "no" if absent else ("no" if match and _double(low, match) else "yes")


def _double(low: str, match: re.Match[str]) -> bool:
    """Whether the words before a statement turn it round: "it is wrong to say that there is no …"."""
    left = re.split(r"[.,;:!?\n]", low[: match.start()])[-1]
    right = re.split(r"[.,;:!?\n]", low[match.end() :])[0]
    return denied(left + " … " + (right if re.search(r"错误|不对|错的|wrong|incorrect|false", right) else ""), 0, 0)
