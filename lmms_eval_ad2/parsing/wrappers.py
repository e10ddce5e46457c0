"""The answer within a reply: without thoughts, special tokens, other turns of the chat, and marks around the answer.

Resolved once, before any reader. What a model family writes around its answers differs (docs/models.md); the rules here
go by the words in a tag, not by lists of models. Marks of coordinates (`<box>`, `<|det|>`, `<point …>`) stay: they say
what the numbers are.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from lmms_eval_ad2.parsing.reasons import failure_reason

# <think>, </thought_process>, [THINK], ◁think▷, <|begin_of_thought|>, <seed:think>
_THOUGHT = re.compile(
    r"(?:<\|?|◁|\[(?=/?[A-Z]))(?P<close>/|end_of_)?(?:begin_of_)?"
    r"(?:[a-z]{1,12}[:_])?(?:think|thought|reasoning|rationale|analysis|scratchpad|reflection|deliberation)"
    r"(?:ing|s|_?process|_?steps?)?(?:\|?>|▷|\])",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"<\|channel\|>\s?(?P<name>\w{1,20})[^<]{0,40}<\|message\|>")  # OpenAI's harmony format
_ANSWER_NAME = (
    r"(?:final[ _-]?)?(?:answer|ans|conclusion|solution|response|result|choice|verdict|prediction|count|number|output)"
    r"|final|最终答案|答案|选项|回答|结论"
)
_ANSWER_TAG = re.compile(
    rf"<(?P<close>/?)(?:{_ANSWER_NAME})>|<\|(?:(?P<begin>begin)|end)_of_(?:box|solution|answer)\|>"
    r"|\[(?P<slash>/?)(?:FINAL_)?ANSWER\]",
    re.IGNORECASE,
)
_NESTING = 4  # marks of an answer within each other that are resolved
# Tags that a reply may leave open; `<number>` alone is more likely a placeholder.
_UNCLOSED = re.compile(r"<(?:final[ _-]?)?(?:answer|conclusion|solution|response)>|<\||\[", re.IGNORECASE)
_BOXED = re.compile(r"\\f?boxed\s?\{")
# Special tokens, but not those that mark coordinates.
_COORDINATE_TOKEN = r"/?(?:ref|det|box|quad|point|grounding|object_ref|loc)\w{0,20}"
_TOKEN = re.compile(
    rf"<[|｜](?!{_COORDINATE_TOKEN}[|｜]>)[/\w▁.-]{{1,40}}[|｜]>"
    r"|</?(?:s|eos|bos|pad|unk|image|img|video|end_of_utterance|end_of_turn|start_of_turn|unused\d{1,3})>"
    r"|\[/?(?:INST|EOS|BOS|PAD|UNK|IMG|IMAGE)\]",
    re.IGNORECASE,
)
# A model that goes on after its end token writes the next turn of the user, and answers it.
_NEXT_TURN = re.compile(
    r"<\|(?:im_start|start_header_id)\|>\s?(?:user|human)|<start_of_turn>\s?user|\[INST\]"
    r"|\n\s{0,3}(?:#{1,4} ?)?(?:USER|User|HUMAN|Human|Question|用户|问题)\s?[:：]",
)
_ROLE = re.compile(
    r"\A\s*(?:#{1,4} ?)?(?:assistant|ASSISTANT|Assistant|Response|model|ASSISTANT\(final\)|助手|回复)\s*(?:[:：]|\n)"
)
_ESCAPED_TAG = re.compile(r"&lt;/?[\w|: -]{1,40}&gt;")
_UNUSED_THOUGHT = re.compile(r"<unused94>.*?(?:<unused95>|\Z)", re.DOTALL)  # Gemma's thinking tokens


def unwrap(reply: str) -> tuple[str, bool]:
    """The answer within `reply`, and whether the reply ends inside a thought.

    The content of the last mark of an answer (`<answer>…</answer>`, `\\boxed{…}`, `<|begin_of_box|>…`) if that is not
    empty, else all text outside of thoughts. Marks that follow each other directly are all kept, one a line.
    """
    text, unfinished = _outside_thoughts(reply)
    text = _first_turn(text)
    for _ in range(_NESTING):
        marked = _marked_answer(text)
        if marked is None:
            break
        text = marked
    return _ROLE.sub("", _TOKEN.sub("", text)).strip(), unfinished


def as_given(reply: str) -> tuple[str, bool]:
    """The reply as the model gave it, and whether it ends inside a thought.

    Only thoughts and special tokens, which are no text of the answer, and white space at the ends are removed: labels,
    quotes, sentences, marks of an answer and further turns stay.
    """
    text, unfinished = _outside_thoughts(reply)
    return _TOKEN.sub("", text).strip(), unfinished


def unwrapped(reply: str) -> tuple[str, str | None]:
    """The answer within `reply`, and the code of REASONS why there is none, or None."""
    if failed := failure_reason(reply):
        return "", failed
    answer, unfinished = unwrap(reply)
    if unfinished:
        return answer, "unfinished_thought"
    return answer, None if answer else "empty"


def _outside_thoughts(reply: str) -> tuple[str, bool]:
    text = _ESCAPED_TAG.sub(lambda m: html.unescape(m.group()), reply)
    return _without_thoughts(_final_channel(_UNUSED_THOUGHT.sub(" ", text)))


def _final_channel(text: str) -> str:
    """The last message of channel "final"; a reply that has only other channels is an unfinished thought."""
    channels = list(_CHANNEL.finditer(text))
    if not channels:
        return text
    final = [match for match in channels if match["name"].lower() == "final"]
    return text[final[-1].end() :] if final else "<think>"


def _without_thoughts(text: str) -> tuple[str, bool]:
    """The text outside thinking tags, and whether the text ends inside one.

    A closing tag without an opening one ends a thought that began in the prompt, where chat templates often put the
    opening tag.
    """
    kept: list[str] = []
    start, inside = 0, False
    for tag in _THOUGHT.finditer(text):
        closes = bool(tag["close"])
        if closes and not inside:
            kept.clear()
        elif not closes and not inside:
            kept.append(text[start : tag.start()])
        inside = not closes
        start = tag.end()
    if not inside:
        kept.append(text[start:])
    return "".join(kept), inside


def _first_turn(text: str) -> str:
    """The text before the first turn of a user that the model has written itself, if there is any."""
    turn = next((m for m in _NEXT_TURN.finditer(text) if text[: m.start()].strip()), None)
    return text[: turn.start()] if turn else text


def _marked_answer(text: str) -> str | None:
    """The contents of the last answer marks, one a line; None without any."""
    found = [(start, end, content) for start, end, content in _marks(text) if content.strip()]
    if not found:
        return None
    last = [found[-1]]
    for mark in reversed(found[:-1]):
        if any(character.isalnum() for character in text[mark[1] : last[0][0]]):
            break
        last.insert(0, mark)
    return "\n".join(dict.fromkeys(content.strip() for _, _, content in last))


def _marks(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, content) of each mark of an answer, outermost only, in order. One that is not closed ends the text.

    A closing tag without an opening one closes an answer that begins with the text.
    """
    opened: int | None = None
    start = 0
    tags: list[tuple[int, re.Match[str] | tuple[int, str]]] = [(m.start(), m) for m in _ANSWER_TAG.finditer(text)]
    tags = sorted([*tags, *_boxed(text)], key=lambda pair: pair[0])
    last_end = -1
    for position, tag in tags:
        if isinstance(tag, tuple):
            if opened is None and position >= last_end:
                yield position, tag[0], tag[1]
                last_end = tag[0]
            continue
        opens = bool(tag["begin"]) or (not tag["close"] and not tag["slash"] and not tag.group().startswith("<|"))
        if opens and opened is None:
            start, opened = position, tag.end()
        elif opens and opened is not None and not text[opened:position].strip():  # directly within the outer one
            opened = tag.end()
        elif not opens and (opened is not None or last_end < 0):
            yield start, tag.end(), text[opened or 0 : position]
            opened, last_end = None, tag.end()
    if opened is not None and _UNCLOSED.match(text, start):
        yield start, len(text), text[opened:]


def _boxed(text: str) -> list[tuple[int, tuple[int, str]]]:
    """(start, (end, content)) of each `\\boxed{…}` with balanced braces that is not inside of another."""
    starts = {match.end() - 1: match.start() for match in _BOXED.finditer(text)}
    if not starts:
        return []
    open_braces: list[int] = []
    found: dict[int, tuple[int, str]] = {}
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            open_braces.append(brace.start())
        elif open_braces:
            opening = open_braces.pop()
            if opening in starts:
                found[starts[opening]] = (brace.end(), text[opening + 1 : brace.start()])
    end, outer = -1, []
    for start in sorted(found):
        if start >= end:
            outer.append((start, found[start]))
            end = found[start][0]
    return outer
