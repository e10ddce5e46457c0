"""What a yes/no question asks for: the thing of "Is there a bus?", the property of "Is the road dry?"."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.normalise import plain

PRESENCE_QUESTION = re.compile(
    r"\b(?:is|are|was|were) there (?:still )?(?:(?:an?|any|some|the|at least one"
    r"|one or more)\b)? ?(?P<there>[a-z][a-z' -]{1,60})"
    r"|\b(?:can|could|do|did) you (?:see|find|spot|detect|identify) (?:(?:an?|any|some"
    r"|the)\b)? ?(?P<see>[a-z][a-z' -]{1,60})"
    r"|\bdoes (?:the|this) (?:image|picture|scene|photo) (?:contain|show|include|have) (?:(?:an?|any"
    r"|some|the)\b)? ?(?P<has>[a-z][a-z' -]{1,60})"
    r"|\b(?:is|are|can|could) (?:(?:an?|any|some|the)\b)? ?(?P<be>[a-z][a-z' -]{1,60}?)"
    r" (?:be (?:seen|found|observed|detected)|visible|present|shown|in (?:the|this) (?:image|picture"
    r"|scene|photo)|on the(?! (?:left|right) (?!side|lane|edge|kerb|curb|shoulder|sidewalk|pavement|half"
    r"|hand)[a-z]+\s?\?)"
    r"|appear)"
    r"|(?:有没有|是否有|是否存在|是否能看到|能否看到|能看到|能看见|可以看到|看得到|存在|有)(?:任何|一个|一辆"
    r"|一名)?(?P<zh>[\u4e00-\u9fff]{1,12}?)"
    r"(?:吗|\?|么|的吗|存在|可见|\Z|,)"
)
_GENERIC = re.compile(r"\b(?:traffic|road|safety|warning) (?=(?:cones?|signs?|barriers?)\b)")  # often left out
NOUN_END = re.compile(
    r"\s(?:in|on|at|ahead|of the|near|behind|visible|present|within|to the|that|which|who|approaching"
    r"|crossing|along|by|inside|here|from"
    r"|directly|currently|right|left|between|around|nearby|anywhere|with|moving|parked|standing"
    r"|waiting|close|blocking|next)\b"
)
_FREE_OF = re.compile(r"\b(?:is|are|was|were)\b[^?]{3,60}\b(?P<word>clear|free|empty) of\b")
_COMPARED = re.compile(r"\b(?:only|more|less|fewer|than|same)\b|[a-z]er than|比|唯一|只有|更")


def asks_presence(question: str) -> bool:
    """Whether a question asks if something is there."""
    return bool(PRESENCE_QUESTION.search(plain(question).lower()))


def asked_for(question: str) -> str:
    """A pattern of the thing whose presence is asked for; "" if the question asks for something else."""
    low = plain(question).lower()
    found = PRESENCE_QUESTION.search(low)
    if not found:
        return asked_property(low)
    if found["zh"]:
        return re.escape(re.sub(r"(?:的|任何|明显)", "", found["zh"])[-6:])
    noun = NOUN_END.split(next(group for group in found.groups() if group).strip() + " ")[0].strip(" '-")
    noun = _GENERIC.sub("", noun)
    words = [inflected(word) for word in noun.split()[-3:]]
    return r"(?<![a-z-])" + r"[\s-](?:\w+[\s-])?".join(words) + r"(?![a-z])" if words else ""


# Adverbs at the end of a question, which say nothing of what is asked.
_WHERE_NOW = re.compile(
    r"(?:,? (?:here|now|right now|there|ahead|yet|today|currently|at the moment|at present|at this (?:moment|point)"
    r"|in (?:the|this) (?:image|picture|scene|photo|frame|view|situation|case)|safely|immediately))+(?=\s?\?)"
)
_ZH_PREDICATE = re.compile(
    r"(?:是否被?|是不是|能否|可否|能不能|会不会|可不可以|应不应该|该不该|需不需要|要不要)"
    r"(?:正在|在|已经|已|会|能够|能|可以|应该|应|需要)?(?P<word>[\u4e00-\u9fff]{2,8})\s?\??\s*\Z"
)


# "... to the left lane?": the last word is no predicate.
_IN_PLACE = re.compile(
    r"\b(?:to|into|in|on|onto|at|from|of|with|for|through|within|inside|behind|beside|near|along|across|under|over|by)"
    r" (?:the|an?|this|our|its|their|his|her) (?:\w+ ){0,2}\w+\s?\?|\b(?:of|with|by|from|for) \w+\s?\?"
)


# "... fit under the bridge if it is 4 m tall?": the condition has a predicate of its own.
_UNDER = re.compile(r",? (?:if|when|while|because|given that|assuming) [^?]*\?")


# "Can the car safely change lanes?": "It is not safe." answers, "to be safe" and "a safe distance" do not.
_SAFELY = re.compile(r"\b(?:can|may|could|is|would|should)\b[^?]*\b(?:safely|safe to)\b")
_SAFE = r"(?<!be )(?<!stay )(?<!remain )(?<!keep )(?<![a-z-])safe(?![a-z])(?! distance| side| gap| speed)"


def asked_property(question: str) -> str:
    """A pattern of the adjective or participle that "Is the road dry?" asks for; "" for another question."""
    if _COMPARED.search(question):
        return ""
    question = _UNDER.sub("?", question)
    if free := _FREE_OF.search(question):
        return rf"(?<![a-z]){free['word']}(?![a-z])(?! of)"
    if _SAFELY.search(question):
        return _SAFE
    question = _WHERE_NOW.sub("", question)
    safe = re.search(r"\b(?:is|are|was|would) (?:it|this|that) (?P<word>[a-z]{3,}) (?:to|for|if)\b", question)
    if not safe and _IN_PLACE.search(question):
        return ""
    last = (
        safe
        or re.search(r"\b(?P<word>[a-z]{3,}ing) (?:the|an?) [a-z ]{2,30}\?\s*\Z", question)
        or re.search(
            r"\b(?:is|are|was|were|does|do|has|have|can|should|must"
            r"|may)\b[^?]{3,80}?(?<!\bthe )\b(?P<word>[a-z]{3,})\s?\?\s*\Z",
            question,
        )
    )
    if last:
        stem = re.sub(r"(?<=[a-z]{3})(?:ing|ed)\Z", "", last["word"])
        return rf"(?<![a-z-]){re.escape(stem)}[a-z]{{0,3}}(?![a-z])" if len(stem) > 2 else ""
    chinese = _ZH_PREDICATE.search(question) or re.search(
        r"(?P<word>[\u4e00-\u9fff]{2})(?:了|的)?(?:吗|么)\s?\??\s*\Z", question
    )
    return re.escape(chinese["word"].rstrip("了的着")).replace("了", "了?") if chinese else ""


def inflected(word: str) -> str:
    """A pattern of both numbers of an English noun: "bus", "buses", but not "busy"."""
    ending = r"(?:y|ies)" if word.endswith(("y", "ies")) and len(word) > 3 else r"(?:s|es)?"
    return re.escape(singular(word)) + ending


def singular(word: str) -> str:
    if word in ("people", "persons"):
        return "pe"
    for ending, length in (("ies", 3), ("ches", 2), ("shes", 2), ("buses", 2), ("xes", 2)):
        if word.endswith(ending):
            return word[:-length]
    if word.endswith("y") and len(word) > 3:
        return word[:-1]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
