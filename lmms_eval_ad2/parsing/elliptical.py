"""Short answers without yes or no that repeat the question's verb: "Both of them do.", "Not all of them."."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.clauses import negations
from lmms_eval_ad2.parsing.question_words import telling_words

_VERB = r"(?:do|does|did|is|are|was|were|has|have|had|can|could|will|would|should|must|may)"
_END = r"\s?(?:[.,;!:]|\Z|- )"
_ELLIPTICAL = re.compile(
    r"\W{0,3}(?:indeed,? )?(?:i (?:think|believe|would say) (?:that )?)?"
    r"(?:(?P<none>neither|none)|(?:both|all|each|every one)|it|they|he|she|there|we|you"
    r"|the (?:ego|car|vehicle))"
    rf"(?: of (?:them|these|those|the \w+))?(?: \w+ly| indeed)? {_VERB}(?P<negated>n't| not)?(?: indeed)?{_END}"
)
_NOT_ALL = re.compile(
    r"\W{0,3}not (?:all|every|both|each)\b|\W{0,3}only (?:the|one|some|a)\b|\W{0,3}only (?:some|one|part) of\b"
    r"|(?:并非|并不是|不是)(?:所有|全部|都)|不全是|不都是"
    r"|\W{0,3}(?:all|everyone|everything|every \w+)(?: of (?:them|these|those))? (?:except|but|besides|apart from)\b"
    r"|除了?[^,.;]{1,30}(?:以外|之外|外)?,? ?(?:其他|其余)"
)
_ONLY_ONE = re.compile(
    r"\b(?:only|just) (?:one|some|part|half)(?: of (?:them|these|those|the \w+))?\b"
    r"|只有(?:一|部分|其中)|仅有?(?:一|部分)"
)
# "All of the cars but the red one are moving": the opposite holds for what is excepted.
_ALL_BUT = re.compile(
    r"\b(?:all|every|everything|everyone|each)\b[^.;,]{0,40}?\b(?:but|except(?: for)?|besides|apart from|other than)"
    r" (?P<en>[^.;,]{1,40}?)(?: (?:is|are|was|were|has|have|do|does|can|will)\b|[.;,]|\Z)"
    r"|(?<![排清消])除了?(?P<zh>[^,.;]{1,30}?)(?:以外|之外|外)?,? ?(?:其他|其余)"
)
_COMMON = frozenset(("the", "are", "was", "has", "any", "can", "all"))
_CONTRARY = re.compile(
    r"\W{0,3}(?:hardly(?=[.,;!])|it(?:'s| is) anything but(?=[.,;!])|far from it|(?:quite "
    r"|just )?the (?:opposite|contrary)|on the contrary)\b|恰恰相反"
)
_OPINION = re.compile(
    r"\W{0,3}i (?:(?P<no>do not|don't|would not|wouldn't) (?:think|believe|say) so|(?:think|believe|guess"
    r"|suppose|would say)"
    r" (?P<not>not)\b|doubt (?P<doubt>it|that)|(?:'m|am) afraid (?P<afraid>not)|(?:think|believe|guess|suppose"
    r"|would say) so)\b"
)
_CERTAIN = re.compile(
    r"\W{0,3}(?:(?:there is |there's )?no doubt(?: about (?:it|that)| whatsoever)?[.,;!]"
    rf"|(?:no problem|without (?:a |any )?doubt),? (?:it|they|he|she|you|we) {_VERB}\b(?! not|n't)|大概率(?:会|是|能)"
    r"|(?:absolutely|definitely|indeed)[.!:])"
)
_NOT_SO = re.compile(
    r"\W{0,3}(?:absolutely|definitely|certainly|probably|surely|clearly|likely|presumably|most likely|of course|rather"
    r"|apparently|obviously) not[.,;:!]|\W{0,3}not (?:at all|yet|here|now|any ?more|any longer)[.,;:!]"
    r"|\W{0,3}并非如此|(?:当然|恐怕|应该|大概|显然)(?:不|没有)[,.;!]"
)
_JUDGED = re.compile(
    r"\W{0,3}(?:that|this|it)(?:'s| is) (?:\w+ly )?(?:correct|right|true|(?P<no>incorrect|wrong|false"
    r"|not (?:correct|right|true)))[.,;:!]"
)
# 所以可以超车: a conclusion with the question's modal verb.
_MODAL = re.compile(r"可不可以|能不能|该不该|会不会|要不要|可以|能够?|应该?|需要?|必须|会")
_SO_MODAL = re.compile(
    r"(?:所以|因此|故|因而)(?:自车|本车|主车|我们?|车辆|当前|现在|此时|目前){0,2}(?P<no>不|无法|没法|并不)?"
    r"(?P<modal>可以|能够?|应该?|需要?|必须|会)(?!否)(?P<after>不)?"
)
_INDEED = re.compile(r"\W{0,3}indeed,")
_ASKS_ALL = re.compile(r"\b(?:all|every|both|each)\b|所有|全部|都|均|全")
_NEITHER = re.compile(r"\W{0,3}neither\b[^.!?;\n]{1,80}\bnor\b")
_ASKS_PRESENCE = re.compile(r"\b(?:is|are|was|were) there\b|\b(?:can|do) you see\b|\b(?:any|either)\b")


def said_of_others(low: str, question: str) -> str:
    """What a lower-case reply says of all but the asked thing ("all but the red one are moving"), or ""."""
    found = _ALL_BUT.search(low)
    named = (found["en"] or found["zh"]) if found else ""
    asked = telling_words(question) | set(re.findall(r"\b[a-z]{3}\b", question.lower())) - _COMMON
    return low[found.end() :] if found and any(word in named for word in asked) else ""


def elliptical(low: str, question: str) -> str | None:
    """ "yes" or "no" by the first words of a lower-case reply; None if it does not begin with such an answer."""
    asked = question.lower()
    if _ASKS_ALL.search(asked) and _NOT_ALL.match(low):
        return "no"
    if _ASKS_ALL.search(asked) and _ONLY_ONE.search(low):
        return "no"
    if _ASKS_PRESENCE.search(asked) and _NEITHER.match(low):
        return "no"
    if asked and (opinion := _OPINION.match(low)):
        return "no" if any(opinion.groups()) else "yes"
    if _CONTRARY.match(low):
        return "no"
    if asked and (judged := _JUDGED.match(low)):
        return "no" if judged["no"] else "yes"
    if asked and _NOT_SO.match(low):
        return "no"
    if asked and _CERTAIN.match(low):
        return "yes"
    if modal := _concluded_modal(low, asked):
        return modal
    if asked and _INDEED.match(low) and not negations(re.split(r"[.!?;\n]", low)[0]):
        return "yes"
    found = _ELLIPTICAL.match(low)
    if not found or not asked:
        return None
    return "no" if bool(found["none"]) != bool(found["negated"]) else "yes"


def _concluded_modal(low: str, asked: str) -> str | None:
    """ "yes" or "no" by the modal verb of a conclusion at the end, if a Chinese question asks with that verb."""
    modal = _MODAL.search(asked)
    found = list(_SO_MODAL.finditer(low))
    if not modal or not found or re.search(r"[.!?;\n]\s*\S", low[found[-1].end() :]):
        return None
    if found[-1]["after"] or found[-1]["modal"][0] not in modal.group():
        return None
    return "no" if found[-1]["no"] else "yes"
