"""The answer in a reply that is JSON, or that ends with it: the value of the key that is called an answer."""

from __future__ import annotations

import re
from typing import Any

from lmms_eval_ad2.core.records import SIDES, Form
from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values
from lmms_eval_ad2.parsing.question_words import counted_noun

_ANSWER = re.compile(
    r"(?:the[_ ]?)?(?:final|correct|best|selected|chosen|predicted|my|your|model)?[_ ]?"
    r"(?:answer|ans|choice|option|selection|prediction|conclusion|verdict|result|response|decision|label|letter|output)"
    r"(?:[_ ]?(?:letter|option|choice|value|text|label|id))?|selected|chosen|r[ée]ponse(?:_finale)?"
    r"|respuesta(?:_final)?|antwort|最终答案|正确答案|答案|结论|选择|选项|回答|结果",
    re.IGNORECASE,
)
# Keys of the value itself, by the form of the question.
_OWN: dict[str, re.Pattern[str]] = {
    "count": re.compile(
        r"(?:total|count|number|num|sum|quantity|amount)(?:_?\w{0,40})?|\w{0,40}_(?:count|total|number)|总数"
        r"|数量|合计|总计|总共",
        re.IGNORECASE,
    ),
    "ocr": re.compile(
        r"(?:ocr_?)?(?:text|content|plate|license_plate|licence_plate|transcription|number)|文字|文本|车牌号?|内容",
        re.IGNORECASE,
    ),
    "vqa": re.compile(r"text|content|文字|内容", re.IGNORECASE),
}
_COMMENT = re.compile(
    r"(?:reason|explanation|rationale|thought|analysis|confidence|score|prob|why|说明|理由|原因|解释|置信度"
    r"|思考|分析)\w{0,20}",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[A-Za-z]{0,12}")
_VERDICTS = ("yes", "no", "true", "false", "是", "否", "有", "无", "没有")
_SMALL = 4  # values of a reply without a key that is called an answer


def answer_in_json(reply: str, form: Form, question: str = "") -> str | None:
    """The text of the answer in the last JSON object of `reply`; None if there is no such object or no single value.

    A count stands under the noun that `question` counts, or under a key for the total. Booleans are "yes" and "no",
    null is "", and the values of a list are joined by " and ".
    """
    text = _FENCE.sub(" ", reply)
    last: KeyValuePairs | None = None
    answers: list[Any] = []
    for value, start, end in json_values(text, most=200):
        alone = not any(c.isalnum() for c in text[:start] + text[end:][:200]) if len(text) < 20_000 else False
        if isinstance(value, KeyValuePairs) and (alone or _under(value, _ANSWER) is not _NOTHING):
            last = value
            answers.append(_under(value, _ANSWER))
    if last is None or len({str(answer) for answer in answers}) > 1:  # a list of options is no answer
        return None
    noun = counted_noun(question) if form == "count" else ""
    found = (
        _under(last, re.compile(rf"(?:num(?:ber)?_?(?:of_)?|n_)?(?:{noun})(?:_?(?:count|number))?"))
        if noun
        else _NOTHING
    )
    if found is _NOTHING and form == "count" and str(_under(last, _ANSWER)).strip().isdecimal():
        found = _under(last, _ANSWER)
    if found is _NOTHING and form in _OWN:
        found = _under(last, _OWN[form])
    if found is _NOTHING:
        found = _under(last, _ANSWER)
    if found is _NOTHING and form == "yesno":
        found = _asked(last, question)
    if found is _NOTHING:
        found = _only_value(last, form)
    return None if found is _NOTHING else _as_text(found)


_NOTHING = object()


def _under(node: KeyValuePairs, name: re.Pattern[str]) -> Any:
    """The value of the last key that matches `name`, in the object or in the objects within it."""
    waiting: list[KeyValuePairs] = [node]
    found: Any = _NOTHING
    while waiting:
        for key, value in waiting.pop():
            inner = value if isinstance(value, KeyValuePairs) else None
            if inner is not None:
                waiting.append(inner)
            elif name.fullmatch(key.strip()) or name.fullmatch(key.strip().lower()):
                found = value
    return found


def _asked(node: KeyValuePairs, question: str) -> Any:
    """The value that is yes, no or a side, under the only key that is a word of the question: `"wet": true`."""
    words = set(re.findall(r"[a-z]{3,}|[\u4e00-\u9fff]+", question.lower()))
    values = [
        value
        for key, value in node
        if (key.strip().lower() in words and (isinstance(value, bool) or str(value).lower() in (*_VERDICTS, *SIDES)))
        or (key.strip().lower() in ("side", "方位") and str(value).lower() in SIDES)
    ]
    return values[0] if len(values) == 1 else _NOTHING


def _only_value(node: KeyValuePairs, form: Form) -> Any:
    """The only value of the kind that the form asks for, apart from comments on it."""
    values = [value for key, value in node if not _COMMENT.fullmatch(key.strip())][: _SMALL + 1]
    if form == "yesno":
        values = [value for value in values if isinstance(value, bool) or str(value).strip().lower() in _VERDICTS]
    elif form == "count":
        values = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    else:
        values = [value for value in values if isinstance(value, str)] if len(values) == 1 else []
    return values[0] if len(values) == 1 else _NOTHING


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        parts = [_as_text(item) for item in value[:20]]
        return " and ".join(part for part in parts if part is not None) if all(parts) else None
    if value is None:
        return ""
    if isinstance(value, KeyValuePairs):
        return None
    return str(value)
