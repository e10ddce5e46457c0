"""Objects of a driving reply: JSON, a loose notation, calls and XML-like tags; also unfinished ones.

JSON is read by lmms_eval_ad2.parsing. What that does not read, but a person does, is read here: other separators
between the pairs (`;`, a blank, a line break), `Control(throttle=0.4, brake=0)`, `<throttle>0.4</throttle>`,
JSON within a JSON string, and an object that the end of the reply cuts off. Of such an object only finished values
count. A number at the end of the reply is not finished, since it may be the beginning of another one (0.0 of 0.05).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lmms_eval_ad2.parsing.json_reply import KeyValuePairs, json_values

_TAKEN = "\0"  # stands for each character that is read already, so that positions stay
_BRACES = re.compile(r"\{(?P<body>[^{}]*)(?P<end>\}|\Z)")
_CALL = re.compile(r"[A-Za-z_][\w.]{0,60}\((?=\s*\w{1,40}\s*(?:=|\Z))(?P<body>[^(){}]*)(?P<end>\)|\Z)")
_PAIR = re.compile(
    r"[\s,;|]*(?P<q>[\"']?)(?P<key>[A-Za-z_][\w /()%.-]{0,40}?)(?P=q)\s*(?::|=>?|->)\s*"
    r"(?:\"(?P<d>[^\"]*)\"|'(?P<s>[^']*)'"
    r"|(?P<n>[^,;\"'\n]{0,80}?)"
    r"(?=\s*(?:[,;\n|]|\Z|(?<=\s)[A-Za-z_]\w{0,40}\s*[:=]|[\"'][\w ]{1,40}[\"']\s*[:=])))"
)
# The beginning of a pair. `sign`: its key is finished.
_BEGUN = re.compile(r"[\s,;|]*(?:[\"']?(?P<key>[A-Za-z_][\w -]{0,40})?(?P<sign>[\"']?\s*[:=].*)?[\"']?)", re.DOTALL)
_FENCE = re.compile(r"\s*`{3,}\s*\Z")
_BARE = {"true": True, "false": False, "null": None}
_JSON_IN_A_STRING = re.compile(r"\{\s*(?:\\+n\s*)*\\+[\"']|\\n\s*[\"'}]")
_ESCAPE = re.compile(r"\\+([\"'nrt]|\Z)")

_NAME = r"[A-Za-z_][\w.-]{0,40}"
_LEAF = re.compile(
    rf"<(?P<tag>{_NAME}(?: \w{{1,20}}){{0,2}})(?:\s[^<>]{{0,200}})?>(?P<body>[^<>]{{0,1000}})"
    r"<(?:/\s?(?P=tag)\s?>|/[\w.-]{0,40}\Z)"
)
_OPEN_TAG = re.compile(rf"<(?P<key>{_NAME}|\Z)(?:>[^<>]{{0,1000}})?\Z")
_ATTRIBUTE = re.compile(rf"({_NAME})\s?=\s?(?:\"([^\"<>]{{0,200}})\"|'([^'<>]{{0,200}})')")
_WITH_ATTRIBUTES = re.compile(rf"<{_NAME}(?P<body>(?:\s+{_ATTRIBUTE.pattern}){{1,30}})\s?/?>")


@dataclass(frozen=True)
class ReplyFields:
    """`value`: KeyValuePairs, or another value of JSON; without the pair that the end of the reply cuts off.

    begun: the key of that pair, "" if the key itself is not finished; None for a finished object. malformed: some part
    of the object is no pair.
    """

    value: Any
    start: int
    end: int
    begun: str | None = None
    malformed: bool = False


def reply_objects(answer: str, wanted: Callable[[str], bool]) -> tuple[list[ReplyFields], str]:
    """The objects in the order of the text, and the text without them. Tags count if one has a `wanted` name."""
    if _JSON_IN_A_STRING.search(answer) and not any(True for _ in json_values(answer)):
        answer = _ESCAPE.sub(lambda match: match[1] if match[1] in ('"', "'") else " ", answer)
    found = [ReplyFields(value, start, end) for value, start, end in json_values(answer)]
    rest = _without(answer, found)
    for pattern in (_BRACES, _CALL):
        groups = (match for match in pattern.finditer(rest) if not wanted(_called(match)))  # not "brake(value=0)"
        loose = [item for match in groups if (item := _loose(match))]
        rest = _without(rest, loose)
        found += loose
    tags = _tags(rest, wanted)
    rest = _without(rest, tags)
    found = sorted([*found, *tags], key=lambda item: item.start)
    found = [item for item in found if not _repeats(item, found, answer)]
    found = [inner for item in found for inner in (item, *_in_strings(item, wanted))]
    return found, re.sub(f"{_TAKEN}+", " ", rest)


def _without(text: str, found: list[ReplyFields]) -> str:
    kept, position = [], 0
    for item in found:
        kept += [text[position : item.start], _TAKEN * (item.end - item.start)]
        position = item.end
    return "".join([*kept, text[position:]])


def _repeats(item: ReplyFields, found: list[ReplyFields], text: str) -> bool:
    """Whether an unfinished object repeats an earlier one, as of a model that does not end its reply."""
    if item.begun is None:
        return False
    written = "".join(text[item.start : item.end].split())
    earlier = ("".join(text[other.start : other.end].split()) for other in found if other.end <= item.start)
    return any(other.startswith(written) for other in earlier)


def _in_strings(item: ReplyFields, wanted: Callable[[str], bool]) -> Iterator[ReplyFields]:
    """Objects that are written in a string of an object: {"response": "{\\"throttle\\": 0.4}"}."""
    waiting = [item.value]
    while waiting:  # iterative, since the depth is not limited
        node = waiting.pop()
        if isinstance(node, KeyValuePairs):
            waiting.extend(value for _, value in reversed(node))
        elif isinstance(node, list):
            waiting.extend(reversed(node))
        elif isinstance(node, str) and node.lstrip("`json \n").startswith("{"):
            for inner in reply_objects(node, wanted)[0]:
                yield replace(inner, start=item.start, end=item.end)


def _called(match: re.Match[str]) -> str:
    return match.group().partition("(")[0].rpartition(".")[2]


def _loose(match: re.Match[str]) -> ReplyFields | None:
    """The object in braces, or of a call; None for other text in braces."""
    body = _FENCE.sub("", match["body"])
    cut = not match["end"] and body == match["body"]  # a closing fence ends an object that lacks its brace
    pairs, left = _pairs(body, cut)
    begun = _BEGUN.fullmatch(left)
    if not pairs and not (cut and begun):
        return None
    malformed = begun is None if cut else bool(left.strip(" \n\t\r,;|"))
    key = (begun["key"] or "").strip() if begun and begun["sign"] else ""
    return ReplyFields(pairs, match.start(), match.end(), key if cut else None, malformed)


def _pairs(body: str, cut: bool) -> tuple[KeyValuePairs, str]:
    """The finished pairs, and what follows them. `cut`: the reply ends with the body."""
    pairs, position = KeyValuePairs(), 0
    while match := _PAIR.match(body, position):
        bare = match["n"]
        if cut and bare is not None and match.end() == len(body):
            break
        value = next(v for v in (match["d"], match["s"], bare) if v is not None)
        pairs.append((match["key"], value if bare is None else _BARE.get(value.strip().lower(), value.strip())))
        position = match.end()
    return pairs, body[position:]


def _tags(text: str, wanted: Callable[[str], bool]) -> list[ReplyFields]:
    """The object of all XML-like tags that contain no others, and of attributes; empty without a wanted name."""
    found = [(match, [(match["tag"], match["body"].strip())]) for match in _LEAF.finditer(text)]
    for match in _WITH_ATTRIBUTES.finditer(text):
        found.append((match, [(name, a or b) for name, a, b in _ATTRIBUTE.findall(match["body"])]))
    found.sort(key=lambda one: one[0].start())
    pairs = KeyValuePairs(pair for _, some in found for pair in some)
    begun = _OPEN_TAG.search(text)
    names = [name for name, _ in pairs] + ([begun["key"]] if begun else [])
    if not any(map(wanted, names)):
        return []
    start = min([match.start() for match, _ in found] + ([begun.start()] if begun else []))
    end = max([match.end() for match, _ in found] + ([len(text)] if begun else []))
    key = None if begun is None else begun["key"] if ">" in begun.group() else ""
    return [ReplyFields(pairs, start, end, key)]
