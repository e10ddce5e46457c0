"""What the fake endpoint says: a fixed text, a function, or one of a few rules."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

# Replies to the roles of `ad2 mcq build`: in the requested form, with meaningless words.
#
# `mcq_reply` serves every role correctly; `mcq_lying` returns an unusable reply to every third request, of varying kind
# (which kind follows from the request, so a repeated run gets the same). The role is recognised from the prompt: the
# JSON form that it asks for, and the fenced texts.
Body = dict[str, Any]
Json = dict[str, Any]

_FENCED = re.compile(r"<<<(?!END )([^\n]*) [0-9a-f]{12}>>>\n(.*?)\n<<<END [0-9a-f]{12}>>>", re.DOTALL)
_NUMBER = re.compile(r"(DISTRACTOR|CANDIDATE) (\d+)")
_COUNT = re.compile(r"\b(?:exactly|all) (\d+)")
_SYLLABLES = ("ba", "do", "fi", "gu", "ke", "lo", "mi", "nu", "pa", "ro", "su", "te", "vi", "wo", "za", "ju")
_AMBIGUOUS = 8  # one evaluation in so many finds a fault


def mcq_reply(body: Body) -> str:
    """A reply that keeps to the form which the prompt asks for."""
    return json.dumps(_honest(task_of(body)))


def mcq_lying(body: Body) -> str:
    """The same, but every third request gets a reply that cannot be used."""
    task = task_of(body)
    # The whole conversation, so that asking again may bring the truth.
    draw = _draw(json.dumps([m["content"] for m in body["messages"] if isinstance(m["content"], str)]) + task)
    if draw % 3:
        return mcq_reply(body)
    return LIES[draw // 3 % len(LIES)](_honest(task), task)


def task_of(body: Body) -> str:
    """The text of the first user turn: the task, before any complaint about a reply."""
    content = next(m["content"] for m in body["messages"] if m["role"] == "user")
    return content if isinstance(content, str) else "\n".join(p["text"] for p in content if p["type"] == "text")


def _honest(task: str) -> Json:
    texts = dict(_FENCED.findall(task))
    bare = _FENCED.sub("", task)
    shown = {int(m[2]): texts[title] for title in texts if (m := _NUMBER.match(title))}
    if '"score"' in bare:
        low = _draw(task) % _AMBIGUOUS == 0
        return {"score": 3 if low else 5, "problems": [{"number": 1, "comment": "It may hold."}] if low else []}
    if '"reviews"' in bare:
        return {"reviews": [{"number": i, "verdict": ("keep", "revise")[i % 2], "comment": "Seen."} for i in shown]}
    if '"picks"' in bare:
        chosen = sorted(shown, key=lambda i: _draw(shown[i]))[: _count(bare)]
        return {"picks": [{"number": i, "option": shown[i], "reason": "It fits."} for i in chosen]}
    answer = texts.get("CORRECT ANSWER", "")
    if '"number"' not in bare:
        options = [_option(f"{task}{i}", answer) for i in range(_count(bare))]
        return {"distractors": [{"option": o, "reason": "It is made up."} for o in options]}
    named = [i for i in shown if f"EVALUATOR ON {i}" in texts] or list(shown)
    return {
        "distractors": [
            {"number": i, "option": _option(f"{task}{i}", answer), "reason": "It is made up anew."} for i in named
        ]
    }


def _count(task: str) -> int:
    found = _COUNT.search(task)
    return int(found[1]) if found else 1


def _option(seed: str, answer: str) -> str:
    """Made-up words, of the other verdict where the answer is yes or no."""
    draw = _draw(seed)
    words = ["".join(_SYLLABLES[draw >> shift & 15] for shift in range(k, k + 12, 4)) for k in (0, 12, 24)]
    verdict = re.match(r"(yes|no)\b", answer, re.IGNORECASE)
    start = {"yes": "No, ", "no": "Yes, "}.get(verdict[1].lower(), "") if verdict else ""
    text = f"{start}{' '.join(words)}."
    return text if start else text[0].upper() + text[1:]


def _draw(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8])


def _entries(said: Json) -> list[Json]:
    return next(value for value in said.values() if isinstance(value, list))


def _one_less(said: Json, task: str) -> str:
    del _entries(said)[-1:]
    return json.dumps(said if _entries(said) else {"score": 9, "problems": []})


def _equal_answer(said: Json, task: str) -> str:
    answer = next((text for title, text in _FENCED.findall(task) if title == "CORRECT ANSWER"), "")
    for entry in _entries(said):
        entry |= {"option": answer, "number": 99}
    return json.dumps({**said, "score": 0} if "score" in said else said)


def _wrong_types(said: Json, task: str) -> str:
    return json.dumps({key: str(value) for key, value in said.items()})


LIES: tuple[Callable[[Json, str], str], ...] = (
    _one_less,
    _equal_answer,
    _wrong_types,
    lambda said, task: json.dumps(said)[:-9],
    lambda said, task: "I would rather tell you about the weather.",
    lambda said, task: json.dumps({**said, **{key: [] for key in said if key != "problems"}}),
)


_BLOCK = re.compile(r"<<<(?!END)[^\n]*>>>\n(.*?)\n<<<END[^\n]*>>>", re.DOTALL)


def text(reply: str | Callable[[Body], str], body: Body) -> str:
    """The content of the completion for `body`."""
    if callable(reply):
        return reply(body)
    return RULES[reply](body) if reply in RULES else reply


def asked(body: Body) -> str:
    """The text of the last user message; other content parts (images) are skipped."""
    for message in reversed(body.get("messages") or []):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "\n".join(p.get("text", "") for p in content or [] if p.get("type") == "text")
    return ""


def words(body: Body) -> int:
    """Words in all messages: stands in for a token count."""
    return sum(len(m["content"].split()) for m in body.get("messages") or [] if isinstance(m.get("content"), str))


def _quote(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}\nThat is all it says.\nRating: [[3]]"


def _echo_then_nothing(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}"


def _overlap(body: Body) -> str:
    """Share of distinct words that the last two fenced texts have in common, as a mark: a crude honest judge."""
    blocks = _BLOCK.findall(asked(body))
    if len(blocks) < 2:
        return "There are no two texts to compare."
    a, b = (set(re.findall(r"\w+", block.lower())) for block in blocks[-2:])
    share = len(a & b) / len(a | b) if a | b else 0.0
    return f"The texts share {share:.0%} of their words.\nRating: [[{1 + round(9 * share)}]]"


def _hash(body: Body) -> str:
    return f"Rating: [[{1 + hashlib.sha256(asked(body).encode()).digest()[0] % 10}]]"


RULES: dict[str, Callable[[Body], str]] = {
    "echo": _echo_then_nothing,
    "quote": _quote,
    "overlap": _overlap,
    "hash": _hash,
    "mcq": mcq_reply,
    "mcq_lying": mcq_lying,
}
