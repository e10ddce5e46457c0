"""Replies of the fake endpoint: a fixed text, a function of the request, or a rule of `RULES`.

`mcq` replies to every role of `ad2 mcq build` in the requested form, with meaningless words. `mcq_lying` makes every
third reply unusable; the kind follows from the request, so a repeated run gets the same replies. The role is recognised
from the prompt, by its JSON form and its fenced texts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Json = dict[str, Any]

_FENCED = re.compile(r"<<<(?!END )([^\n]*) [0-9a-f]{12}>>>\n(.*?)\n<<<END [0-9a-f]{12}>>>", re.DOTALL)
_NUMBER = re.compile(r"(DISTRACTOR|CANDIDATE) (\d+)")
_COUNT = re.compile(r"\b(?:exactly|all) (\d+)")
_SYLLABLES = ("ba", "do", "fi", "gu", "ke", "lo", "mi", "nu", "pa", "ro", "su", "te", "vi", "wo", "za", "ju")
_AMBIGUOUS = 8  # one in 8 evaluations reports a problem


def mcq_reply(body: Body) -> str:
    """A reply in the form that the prompt requests."""
    return json.dumps(_usable(task_of(body)))


def mcq_sometimes_unusable(body: Body) -> str:
    """As `mcq_reply`, but every third reply is unusable."""
    task = task_of(body)
    # Hash of the whole conversation, so that a repeated question can get a usable reply.
    number = _hash_number(json.dumps([m["content"] for m in body["messages"] if isinstance(m["content"], str)]) + task)
    if number % 3:
        return mcq_reply(body)
    return UNUSABLE[number // 3 % len(UNUSABLE)](_usable(task), task)


def task_of(body: Body) -> str:
    """The text of the first user turn, which holds the task; later turns reject a reply."""
    content = next(m["content"] for m in body["messages"] if m["role"] == "user")
    return content if isinstance(content, str) else "\n".join(p["text"] for p in content if p["type"] == "text")


def _usable(task: str) -> Json:
    texts = dict(_FENCED.findall(task))
    bare = _FENCED.sub("", task)
    shown = {int(m[2]): texts[title] for title in texts if (m := _NUMBER.match(title))}
    if "REFERENCE ANSWER" in texts:
        return {"score": _hash_number(task) % 6, "comment": "It is made up."}
    if '"score"' in bare:
        low = _hash_number(task) % _AMBIGUOUS == 0
        return {"score": 3 if low else 5, "problems": [{"number": 1, "comment": "It may hold."}] if low else []}
    if '"reviews"' in bare:
        return {"reviews": [{"number": i, "verdict": ("keep", "revise")[i % 2], "comment": "Seen."} for i in shown]}
    if '"picks"' in bare:
        chosen = sorted(shown, key=lambda i: _hash_number(shown[i]))[: _count(bare)]
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
    """Invented words; they begin with the opposite verdict if the answer is yes or no."""
    number = _hash_number(seed)
    words = ["".join(_SYLLABLES[number >> shift & 15] for shift in range(k, k + 12, 4)) for k in (0, 12, 24)]
    verdict = re.match(r"(yes|no)\b", answer, re.IGNORECASE)
    start = {"yes": "No, ", "no": "Yes, "}.get(verdict[1].lower(), "") if verdict else ""
    text = f"{start}{' '.join(words)}."
    return text if start else text[0].upper() + text[1:]


def _hash_number(text: str) -> int:
    """A number of 64 bits that depends on `text` only."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8])


def _entries(reply: Json) -> list[Json]:
    return next(value for value in reply.values() if isinstance(value, list))


def _one_less(reply: Json, task: str) -> str:
    del _entries(reply)[-1:]
    return json.dumps(reply if _entries(reply) else {"score": 9, "problems": []})


def _equal_answer(reply: Json, task: str) -> str:
    answer = next((text for title, text in _FENCED.findall(task) if title == "CORRECT ANSWER"), "")
    for entry in _entries(reply):
        entry |= {"option": answer, "number": 99}
    return json.dumps({**reply, "score": 0} if "score" in reply else reply)


def _wrong_types(reply: Json, task: str) -> str:
    return json.dumps({key: str(value) for key, value in reply.items()})


UNUSABLE: tuple[Callable[[Json, str], str], ...] = (
    _one_less,
    _equal_answer,
    _wrong_types,
    lambda reply, task: json.dumps(reply)[:-9],
    lambda reply, task: "I would rather tell you about the weather.",
    lambda reply, task: json.dumps({**reply, **{key: [] for key in reply if key != "problems"}}),
)


_BLOCK = re.compile(r"<<<(?!END)[^\n]*>>>\n(.*?)\n<<<END[^\n]*>>>", re.DOTALL)


def text(reply: str | Callable[[Body], str], body: Body) -> str:
    """The content of the completion for `body`."""
    if callable(reply):
        return reply(body)
    return RULES[reply](body) if reply in RULES else reply


def asked(body: Body) -> str:
    """The text of the last user message, without other content parts (images)."""
    for message in reversed(body.get("messages") or []):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "\n".join(p.get("text", "") for p in content or [] if p.get("type") == "text")
    return ""


def word_count(body: Body) -> int:
    """Number of words in all messages, used as a token count."""
    return sum(len(m["content"].split()) for m in body.get("messages") or [] if isinstance(m.get("content"), str))


def _quote(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}\nThat is all it says.\nRating: [[3]]"


def _echo(body: Body) -> str:
    return f"The text under review says:\n{asked(body)}"


def _overlap(body: Body) -> str:
    """A rating from the share of distinct words that the last two fenced texts have in common (Jaccard index)."""
    blocks = _BLOCK.findall(asked(body))
    if len(blocks) < 2:
        return "There are no two texts to compare."
    a, b = (set(re.findall(r"\w+", block.lower())) for block in blocks[-2:])
    share = len(a & b) / len(a | b) if a | b else 0.0
    return f"The texts share {share:.0%} of their words.\nRating: [[{1 + round(9 * share)}]]"


def _hash(body: Body) -> str:
    return f"Rating: [[{1 + hashlib.sha256(asked(body).encode()).digest()[0] % 10}]]"


RULES: dict[str, Callable[[Body], str]] = {
    "echo": _echo,
    "quote": _quote,
    "overlap": _overlap,
    "hash": _hash,
    "mcq": mcq_reply,
    "mcq_lying": mcq_sometimes_unusable,
}
