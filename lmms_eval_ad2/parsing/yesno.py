"""Parse yes or no, English or Chinese: an explicit verdict, else a statement that something is present or absent.

Of several explicit verdicts, the last that is called the answer counts; else the one at the head of the reply, unless
the reply takes it back later; else the last. A verdict in a condition is none; one that is denied ("it would be wrong
to say yes") is the other one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lmms_eval_ad2.core.records import YES_NO, Answer, Unparsed
from lmms_eval_ad2.parsing.asked_things import asks_presence
from lmms_eval_ad2.parsing.clauses import CONCLUSION, TextClause, clauses, denied, negations
from lmms_eval_ad2.parsing.elliptical import elliptical, said_of_others
from lmms_eval_ad2.parsing.normalise import ANSWER_LINE, plain
from lmms_eval_ad2.parsing.opposites import by_opposite
from lmms_eval_ad2.parsing.presence import stated
from lmms_eval_ad2.parsing.refusals import no_verdict, takes_back, without_refusals
from lmms_eval_ad2.parsing.restated import restated
from lmms_eval_ad2.parsing.revisions import REVISION
from lmms_eval_ad2.parsing.sides import read_side
from lmms_eval_ad2.parsing.verdict_tables import rated_in_json, with_ticks

_YES = (
    "yes|y|yeah|yep|yup|true|correct|right|affirmative|certainly|definitely|absolutely|of course|sure"
    "|indeed|✓|是|是的|有|有的|对|对的|没错|正确|存在|能|可以|会|可见|当然|确实|确实有|肯定|肯定的"
    "|能看到|看得到|visible|present|positive|it is|there is|there are|可以看到|当然有|嗯|是有的|是滴"
    "|是哒|有哒|indeed there is|indeed there are|there is indeed|there are indeed|yes it is"
    "|yes there is|yes there are|that's correct|that is correct|that's right|that is right|that's true|that is true"
    "|需要|必须|应该|允许"
)
_NO = (
    "no|n|nope|nah|false|incorrect|wrong|none|not visible|not present|negative|certainly not"
    "|definitely not|absolutely not|of course not|not at all|by no means|never|not really|absent|✗"
    "|no way|否|不|不是|不是的|没有|没|无|不对|错|错误|不正确|不存在|不能|不可以|不会|不可见|看不到"
    "|没看到|否定|否定的|当然没有|当然不|并没有|没有的|it is not|it isn't|there is not|there isn't"
    "|there aren't|there is none|there are none|没有看到|未见|that's wrong|that is wrong|that's incorrect"
    "|that is incorrect|that's false|that is false|that's not correct|that is not correct|that's not true"
    "|that is not true|that's not right|不需要|不用|无需|不必|不应该|不应|不允许|不可|并不"
)
_WHOLE = {word: verdict for words, verdict in ((_YES, "yes"), (_NO, "no")) for word in words.split("|")}
_OPEN = r"[(\[{<\"']{0,3}\Z"
# No answer to "Is the light red?".
_OF_PRESENCE = frozenset((
    *("visible", "present", "absent", "not visible", "not present", "可见", "看得到", "能看到", "可以看到", "不可见"),
    *("看不到", "没看到", "没有看到", "未见"),
))  # fmt: skip
# Start of a clause, or end of words that introduce a verdict.
_LEAD = re.compile(
    r"(?:\A"
    r"|[.!?;:,\n>{✓✗|]|[\u2600-\u27bf\U0001f300-\U0001faff]|\b(?:so|therefore|thus|hence|but|is|be|a|say"
    r"|saying|answer|answering"
    r"|definitely|clearly|probably|likely|certainly|it's|still|with|conclude|actually|wait|to|say that"
    r"|reply|or|and|hmm|well|ok|okay|oh|sorry|then|think|think that|\w+ly)"
    r"|答案(?:是|为|应该是|应为)?|回答(?:是|为)?|结论(?:是|为)?|因此|所以|故|应该?(?:是|为)|认为|我想|那就"
    r"|说|回答说|其实|哦|啊)"
    r"[,: \"']{0,3}" + _OPEN
)
_ANSWER = re.compile(
    r"(?:\b(?:answer|verdict|conclusion|result|response|final)[\"']?(?: to (?:the|this"
    r"|your) question)?(?: is| remains| should be| must be|'s)?"
    r"(?: (?:a|an|still|clearly|definitely|actually|therefore|thus|simply|most likely|probably|clear))*[: \"']{0,3}"
    r"|(?:答案|结论|判断|回答)[\"']?(?:应该|应|只能|还|仍然?|依然)?(?:是|为)?[: \"']{0,3}|\\boxed ?\{|\A)" + _OPEN
)
_WORD = re.compile(
    r"(?<![a-z0-9-])(?:yes|no|yeah|yep|nope|true|false|affirmative|negative|correct|incorrect)(?![a-z0-9-])"
)
_NO_RIGHT = re.compile(
    r"[)\]}>\"']{0,3}(?:\Z|\s?[.,;!:…\n<}|-]| (?:it|there|they|he|she|i|we|you|because|since|as|the|this|that"
    r"|would|is|was|from|for"
    r"|but|and|in|with|given|due|✓|✗)\b)"
)
_ZH_WORD = re.compile(
    r"(?:不需要|不用|无需|不必|不应该|不允许|需要|必须|应该|允许|没错|不是的|不是|不对|不正确|不存在|并没有"
    r"|没有|是的|有的|对的|正确|存在|错误|肯定的?|否定的?|能|不能|可以|不可以|会|不会|是|有|对|否|没|无|不|错)"
    r"(?=[)\]}>\"']{0,3}(?:\Z|\s?[.,;!…\n<}~(]|就|吧|呢|啊|哦|的\s?[.,;!]|的\Z))"
)
_MAYBE_LEFT = re.compile(
    r"(?:\b(?:maybe|perhaps|possibly|might be|could be|may be|either)|可能|也许|或许|大概)[, ]{0,2}(?:a |an |就|是)?\Z"
)
_QUESTIONED = re.compile(r"[\"')\]]{0,2} ?\?")
_ENTRY = re.compile(r"(?m)^[ -]{0,8}[\w ]{1,40}: ?(true|false|yes|no)\s*$")
_TICKED = re.compile(r"✓ {0,3}(yes|no|是|否|有|没有)(?![\w])")
_ONLY_IF = re.compile(r"[\"')]{0,2},? (?:but )?(?:only )?(?:if|unless|provided|as long as)\b")
_CLAIMED = re.compile(
    r"(?:\b(?:many|some|most|other|any|an?|the) (?:\w+ )?(?:drivers?|people|persons?|viewers?|observers?|passengers?)\b"
    r"|有(?:些)?人)[^.!?\n\"']{0,60}(?:says?|said|claims?|thinks?|说"
    r"|认为)[^\"'\n.]{0,10}(?:\"[^\"\n]{1,200}\"|'[^\n]{1,200}?'(?![a-z]))"
)
_PURPOSE_LEFT = re.compile(r"(?:\A-?|[.!?;,\n] ?)to (?:say|answer)(?: with)? ?[\"']?\Z")  # "To say yes, I'd need …"
_DEPENDS = re.compile(r"\b(?:it|this|that) (?:all )?depends on\b|取决于")
_MUST = re.compile(r"不能不|不得不|不可不")  # two negations: must
_COURTESY = re.compile(r",? (?:i (?:can )?(?:see|understand) why|(?:that's |this is )?(?:a )?good question|let me)\b")
_OFFERED = re.compile(r"[\"'(]{0,2}\byes[\"']?(?: ?/ ?| or )[\"']?no\b[\"')]{0,2}|\"?是\"?(?:还是|或者?|/)\"?否\"?")
_AT_SENTENCE = re.compile(r"[.!?\n]\s+[\"'(]?\Z")
_SENTENCE_END = re.compile(r"[.!?;]\s|\n")
_CONTRAST = re.compile(r"\b(?:but|however|although|though|yet|while)\b|但|不过|然而")
_JOINT = re.compile(r"[\"'\s,.;]{0,3}(?P<word>and|or|nor|but|/|\||和|或|或者|还是)?[\"'\s]{0,2}(?:a |an )?[\"']?")


@dataclass(frozen=True, slots=True)
class _VerdictWord:
    start: int
    verdict: str | None  # None: a condition, or said with doubt
    strong: bool
    head: bool


def read_yesno(text: str, question: str = "", words: tuple[str, str] = YES_NO) -> Answer | Unparsed:
    """ "yes" or "no" from plain `text`; with `words` "left" and "right", a side. `question` says what is asked for."""
    if words != YES_NO:
        return read_side(text, question)
    low = _MUST.sub("必须", ANSWER_LINE.sub(r"\1: ", _without_question(text.lower(), question)))
    bare = re.sub(r"[^\w✓✗' \u4e00-\u9fff]+", " ", low).strip(" '")
    whole = _WHOLE.get(bare) or _WHOLE.get(re.sub(r"([a-z])\1+\Z", r"\1", bare))  # "nooo"
    if whole and not (question and bare in _OF_PRESENCE and not asks_presence(question)):
        return Answer("yesno", whole)
    best = rated_in_json(text, (*YES_NO, "是", "否", "有", "无", "没有"))
    if best is not None:
        return Answer("yesno", _WHOLE[best[0].lower()]) if len(best) == 1 else Unparsed("yesno", "several", text[-200:])
    ticked = {match[1] for match in _TICKED.finditer(with_ticks(low))}
    if len(ticked) == 1:
        return Answer("yesno", _WHOLE[ticked.pop()])
    entries = {match[1] for match in _ENTRY.finditer(low)}  # exists: false
    if len(entries) == 1:
        return Answer("yesno", _WHOLE[entries.pop()])
    kept, refuses = without_refusals(_without_claims(_without_choice(low)))
    verdicts = _verdict_words(kept)
    chosen = _chosen(kept, verdicts)
    revised = list(REVISION.finditer(kept))
    if revised and verdicts and verdicts[-1].start < revised[-1].start():  # "No. Correction: there is one."
        chosen = stated(kept[revised[-1].end() :], question, alone=True) or (
            "hedged" if chosen and verdicts[-1].start < revised[0].start() else chosen
        )
    elif chosen in YES_NO and len(verdicts) == 1 and not verdicts[0].strong:
        chosen = _with_later_sentences(kept, verdicts[0].start, chosen, question)
    if _DEPENDS.search(kept) and len({word.verdict for word in verdicts}) > 1:
        return Unparsed("yesno", "hedged", text[-200:])
    if chosen in YES_NO and refuses and len(verdicts) == 1 and takes_back(low[verdicts[0].start :]):
        return Unparsed("yesno", "hedged", text[-200:])
    if chosen:
        return Answer("yesno", chosen) if chosen in YES_NO else Unparsed("yesno", "hedged", text[-200:])
    said = elliptical(kept, question) or stated(kept, question, alone=not (refuses or verdicts))
    others = stated(of_others, question, alone=False) if (of_others := said_of_others(kept, question)) else None
    if others:
        said = "no" if others == "yes" else "yes"
    said = said or (None if verdicts else restated(kept, question))
    if said:
        return Answer("yesno", said, "statement")
    return Unparsed("yesno", "hedged" if verdicts and not refuses else no_verdict(text), text[-200:])


def _with_later_sentences(low: str, start: int, chosen: str, question: str) -> str:
    """The verdict at `start`, unless later sentences state the opposite: then theirs if it is a conclusion."""
    end = _SENTENCE_END.search(low, start)
    later = stated(low[end.end() :], question, alone=False) if end else None
    if end is None or later in (None, chosen):
        return chosen
    if later and CONCLUSION.search(low[end.end() :]):
        return later
    excluded = by_opposite(clauses(low[end.end() :]), plain(question).lower())
    return "hedged" if asks_presence(question) or excluded == later else chosen


def _without_question(low: str, question: str) -> str:
    """The text without the question at its head, if it says something else."""
    asked = plain(question).lower().strip(" ?.")
    rest = low.lstrip()[len(asked) :] if len(asked) > 5 and low.lstrip().startswith(asked) else low
    return rest.lstrip(" ?.:,-\n") if re.search(r"\w", rest) else low


def _without_claims(low: str) -> str:
    """The text with blanks for what it quotes from others: "some people may say 'yes'"."""
    return _CLAIMED.sub(lambda match: " " * len(match.group()), low)


def _without_choice(low: str) -> str:
    """The text without the pair of words that were offered ("yes or no"), if it says something else."""
    rest = _OFFERED.sub(" ", low)
    return rest if any(character.isalnum() for character in rest) else low


def _chosen(low: str, verdicts: list[_VerdictWord]) -> str | None:
    """ "yes", "no" or "hedged"; None without a verdict that stands."""
    standing = [word for word in verdicts if word.verdict]
    if not standing:
        return None
    revised = [match.start() for match in REVISION.finditer(low)]
    after = {word.verdict for word in standing if revised and word.start >= revised[-1]}
    if after in ({"yes"}, {"no"}):  # "Answer: yes. Correction: no."
        return after.pop()
    strong = [word for word in standing if word.strong]
    if strong:
        between = low[strong[0].start : strong[-1].start]
        one = len({word.verdict for word in strong}) == 1 or not _SENTENCE_END.search(between)
        taken_back = REVISION.search(between) or _CONTRAST.search(between)
        return strong[-1].verdict if one or taken_back else "hedged"
    if standing[0].head and _contradicted(low, standing):
        return "hedged"
    if standing[0].head and standing[0].verdict != "hedged" and not REVISION.search(low[standing[0].start :]):
        return standing[0].verdict
    return standing[-1].verdict


def _contradicted(low: str, standing: list[_VerdictWord]) -> bool:
    """Whether a later sentence begins with the opposite of the first verdict, before anything takes that back."""
    first = standing[0]
    ends = [match.start() for pattern in (REVISION, _CONTRAST) if (match := pattern.search(low, first.start))]
    return any(
        {word.verdict, first.verdict} == set(YES_NO) and _AT_SENTENCE.search(low[max(0, word.start - 8) : word.start])
        for word in standing[1:]
        if word.start <= min(ends, default=len(low))
    )


def _verdict_words(low: str) -> list[_VerdictWord]:
    """Every explicit verdict, in order."""
    found: list[_VerdictWord] = []
    previous_end, previous_word = -100, ""
    for clause in clauses(low):
        for match in _words_of(clause):
            start = clause.start + match.start()
            verdict = _verdict(low, clause, match)
            joint = _JOINT.fullmatch(low[previous_end:start]) if 0 <= start - previous_end <= 12 else None
            joint = None if joint and REVISION.search(low[previous_end : start + 10]) else joint  # "Yes... no, sorry"
            other = previous_word and _WHOLE.get(previous_word) != _WHOLE.get(match.group())
            if joint and other and (joint["word"] or (verdict not in (None, "skip") and found and found[-1].verdict)):
                verdict = "hedged"
                if found and found[-1].verdict:
                    found[-1] = replace(found[-1], verdict="hedged")
            previous_end, previous_word = start + len(match.group()), match.group()
            if verdict == "skip":
                continue
            left = low[max(0, start - 60) : start]
            strong = (
                start > 0 and bool(_ANSWER.search("-" + left if start > 60 else left)) and left.strip(" \"'([{<") != ""
            )
            if clause.conditional or clause.former:
                verdict = None
            found.append(_VerdictWord(start, verdict, strong, not any(c.isalnum() for c in low[:start])))
    return found


def _words_of(clause: TextClause) -> list[re.Match[str]]:
    matches = [*_WORD.finditer(clause.text), *_ZH_WORD.finditer(clause.text)]
    return sorted(matches, key=lambda match: match.start())


def _verdict(low: str, clause: TextClause, match: re.Match[str]) -> str | None:
    """ "yes", "no", "hedged", None for an open condition, or "skip" for a word that is no verdict."""
    start, end = clause.start + match.start(), clause.start + match.end()
    left, right, word = low[max(0, start - 24) : start], low[end : end + 16], match.group()
    if _QUESTIONED.match(right) or (clause.ends_with.startswith("?") and not right.strip("\"' ")):
        return "skip"
    if _PURPOSE_LEFT.search(left):
        return None
    if _MAYBE_LEFT.search(left):
        return "hedged"
    if _ONLY_IF.match(low, end):
        return None
    if _COURTESY.match(low, end):
        return "skip"
    verdict = _WHOLE.get(word)
    # "-" keeps the cut at 24 characters from matching as the start of the text.
    lead = _LEAD.search(left if start <= 24 else "-" + left)
    negated = re.search(r"(?:\bnot|n't|不是|不为)\s?(?:a )?[\"']?\Z", left)
    if word in ("true", "false", "correct", "incorrect", "affirmative", "negative"):
        if not (_ANSWER.search("-" + left) or (start == 0 and re.match(r" ?[,.!:-]", right))) or not _NO_RIGHT.match(
            right
        ):
            return "skip"
    elif (
        (not lead and not negated) or (word == "no" and not _NO_RIGHT.match(right)) or (not word.isascii() and not lead)
    ):
        return "skip"
    if clause.open and not clause.forced:
        return None
    rest = clause.text[match.end() :]
    if re.match(
        r"[\"')\]]{0,2}(?: (?:it|there|they|the|this|that|i|we)\b)", rest
    ):  # a statement that follows the verdict
        flipped = bool(negations(clause.text[: match.start()]) % 2)
    else:
        flipped = denied(clause.text, match.start(), match.end())
    return ("no" if verdict == "yes" else "yes") if flipped else verdict
