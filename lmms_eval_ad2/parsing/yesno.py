"""Parse yes or no, English or Chinese: the last explicit verdict, else a single statement of presence or absence."""

from __future__ import annotations

import re

from lmms_eval_ad2.parsing.normalise import declines, no_verdict
from lmms_eval_ad2.records import Answer, Unparsed

_WHOLE = {
    **dict.fromkeys(
        ("yes", "y", "yeah", "yep", "true", "correct", "是", "是的", "有", "有的", "对", "对的", "没错"), "yes"
    ),
    **dict.fromkeys(("正确", "存在", "能", "可以", "会", "可见", "visible", "present"), "yes"),
    **dict.fromkeys(("no", "n", "nope", "false", "incorrect", "wrong", "none", "not visible", "not present"), "no"),
    **dict.fromkeys(("否", "不", "不是", "不是的", "没有", "没", "无", "不对", "错", "错误", "不正确"), "no"),
    **dict.fromkeys(("不存在", "不能", "不可以", "不会", "不可见", "看不到", "没看到"), "no"),
}
_OPEN = r"[(\[{<\"']{0,3}\Z"
# Start of a clause, or end of words that introduce a verdict.
_LEAD = re.compile(
    r"(?:\A|[.!?;:,\n>{]|\b(?:so|therefore|thus|hence|but|is|be|say|answer|definitely|clearly|probably|likely|certainly)"
    r"|答案(?:是|为)?|回答(?:是|为)?|因此|所以|故|应该?(?:是|为)|认为|我想)[,: ]{0,2}" + _OPEN
)
_ANSWER = re.compile(
    r"(?:\banswer[\"']?(?: is)?[: ]{0,2}|答案[\"']?(?:是|为)?[: ]{0,2}|\\boxed ?\{|<answer> ?|\A)" + _OPEN
)
_WORD = re.compile(r"(?<![a-z0-9-])(?:yes|no|true|false)(?![a-z0-9-])")
_NO_RIGHT = re.compile(
    r"[)\]}>\"']{0,3}(?:\Z|\s?[.,;!:\n<}-]| (?:it|there|they|he|she|i|we|you|because|since|the|this|that)\b)"
)
_ZH_WORD = re.compile(
    r"(?:没错|不是的|不是|不对|不正确|不存在|没有|是的|有的|对的|正确|存在|错误|是|有|对|否|没|无|不|错)(?=[)\]}>\"']{0,3}(?:\Z|\s?[.,;!\n<}]))"
)
_NOT_LEFT = re.compile(r"(?:\bnot|n't|不是)\s?[\"']?\Z")
_MAYBE_LEFT = re.compile(r"(?:\b(?:maybe|perhaps|possibly|might be|could be|may be)|可能|也许|或许)[, ]{0,2}\Z")
_JOINT = re.compile(r"[\"'\s,.;]{0,3}(?P<word>and|or|but|/|\||和|或)?[\"'\s]{0,2}")
_ABSENT = re.compile(
    r"\bthere (?:is|are|was|were)(?: no\b(?! doubt| question)| not\b|n't\b| none\b)|\bthere's no\b"
    r"|\bno\b(?! doubt| question)[^.,;\n]{1,60}\b(?:is|are|was|were|can be)\b[^.\n]{0,20}"
    r"\b(?:visible|present|seen|detected|shown|found)\b"
    r"|(?:\bnot|n't)(?: be)?(?: \w+)? (?:visible|present|seen|detected|found|shown)\b"
    r"|\bi (?:do not|don't|cannot|can't|can not|did not|didn't) (?:see|find|detect|observe|spot)\b"
    r"|\b(?:does not|doesn't|do not|don't) (?:show|contain|appear|exist|have)\b"
    r"|没有|不存在|看不到|未见|未发现|没看到|并无|不可见"
)
_PRESENT = re.compile(
    r"\bthere (?:is|are|was|were) (?:a|an|one|two|three|some|several|many|multiple|\d+)\b"
    r"|\b(?:is|are) (?:\w+ly )?(?:visible|present)\b|\bcan be seen\b"
    r"|\bi (?:can )?see (?:a|an|one|two|some|several)\b|(?:图中|画面中|图片中"
    r"|图像中|画面里|图里)(?:确实)?有|\A有(?!可能|没有)|存在|可以看到|能看到"
)


def read_yesno(text: str) -> Answer | Unparsed:
    """ "yes" or "no" from plain `text`. A statement without either word is used only if it is the whole reply."""
    low = text.lower()
    whole = _WHOLE.get(low.strip(" .!\"'()[]{}<>\n"))
    if whole:
        return Answer("yesno", whole)
    events = _events(low)
    if events:
        _, verdict = max(events)
        return Unparsed("yesno", "hedged", text[-200:]) if verdict == "hedged" else Answer("yesno", verdict)
    stated = _stated(low)
    return Answer("yesno", stated, "statement") if stated else Unparsed("yesno", no_verdict(text), text[-200:])


def _events(low: str) -> list[tuple[int, str]]:
    """Every explicit verdict ("yes", "no" or "hedged") with its position."""
    found: list[tuple[int, str]] = []
    previous: re.Match[str] | None = None
    for match in _WORD.finditer(low):
        verdict = _english(low, match)
        between = low[previous.end() : match.start()][:12] if previous and previous.group() != match.group() else "-"
        joint = _JOINT.fullmatch(between)
        if joint and (verdict or joint["word"]):
            verdict = "hedged"
        if verdict:
            found.append((match.start(), verdict))
        previous = match
    for match in _ZH_WORD.finditer(low):
        left = low[max(0, match.start() - 16) : match.start()]
        if _LEAD.search(left if match.start() <= 16 else "-" + left):
            found.append((match.start(), _WHOLE[match.group()]))
        elif _MAYBE_LEFT.search(left):
            found.append((match.start(), "hedged"))
    return found


def _english(low: str, match: re.Match[str]) -> str | None:
    left, right = low[max(0, match.start() - 24) : match.start()], low[match.end() : match.end() + 16]
    word = match.group()
    if _NOT_LEFT.search(left) or right.lstrip("\"' ").startswith("?"):
        return None
    if _MAYBE_LEFT.search(left):
        return "hedged"
    if word in ("true", "false"):
        return _WHOLE[word] if _ANSWER.search(left) and match.start() > 0 and _NO_RIGHT.match(right) else None
    # "-" keeps the cut at 24 characters from matching as the start of the text.
    if not _LEAD.search(left if match.start() <= 24 else "-" + left):
        return None
    return word if word == "yes" or _NO_RIGHT.match(right) else None


def _stated(low: str) -> str | None:
    """Presence stated by a single sentence: "yes", "no", or None for neither or both."""
    if len(low) > 400 or "?" in low or re.search(r"[.!?\n](?=\s?\S)", low):
        return None
    if declines(low) and not re.search(r"\bany\b", low):
        return None
    absent = bool(_ABSENT.search(low))
    present = bool(_PRESENT.search(_ABSENT.sub(" ", low)))
    return None if absent == present else ("no" if absent else "yes")
