"""What `ad2 mcq build` says at its end: what was made, what was not and why, what it cost, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.finish import Result


def summary(result: Result, out: Path) -> str:
    """A few lines, read off the card."""
    return "\n".join([*_made(result.card), *_missing(result), *_spent(result.card), *_next(result, out)])


def _made(card: Mapping[str, Any]) -> Iterator[str]:
    counts = card["counts"]
    yield f"{counts['n']} questions made by {card['maker']} (distractors: {card['kind']}, seed {card['seed']})"
    for task, number in counts["task"].items():
        yield f"  {task:<12}{number:>7}"
        for name, n in counts["subtask"].items():
            if name.startswith(f"{task}/"):
                yield f"    {name.removeprefix(task + '/'):<30}{n:>7}"
    if counts["category"]:
        yield f"distractors: {_pairs(counts['category'])}"
    if counts["correctness_mean"] is not None:
        yield f"correctness: mean {counts['correctness_mean']:.2f} of 5 ({_pairs(counts['correctness'])})"
    else:
        yield "correctness: nobody rated"


def _missing(result: Result) -> Iterator[str]:
    card = result.card
    for source in card["sources"]:
        for what, said in (("unclassified", "cannot be used"), ("left_out", "left out by its reader")):
            if source.get(what):
                yield f"{source['name']}, {said}: {_pairs(source[what])}"
        if source.get("bad"):
            yield f"{source['name']}, bad rows skipped: {source['bad']}"
    if card["rejected"]:
        yield f"rejected: {_pairs(card['rejected'])} (rejected.jsonl)"
    for lot in result.short:
        where = f"{lot['source']}, {lot['task']}/{lot['subtask']}"
        yield f"short: {where}: {lot['made']} of {lot['asked']}, and no more questions in the source"


def _spent(card: Mapping[str, Any]) -> Iterator[str]:
    if spent := _flat(card["account"]):
        yield f"spent, all starts together: {spent}"


def _next(result: Result, out: Path) -> Iterator[str]:
    card = result.card
    if result.unfinished:
        failed = f"{result.unfinished} questions failed with the endpoint ({_pairs(card['unfinished'])})"
        yield f"NOT FINISHED: {failed}: run the same command again"
    if result.left:
        yield f"{result.left} questions were not asked yet (--limit): the same command without it goes on"
    yield f"written: {result.questions}, card.md, card.json, rejected.jsonl"
    if card["counts"]["n"]:
        name = "" if card["name"] == "autodrive_qa" else f" --as {card['name']}"
        questions, images = shlex.quote(str(result.questions)), shlex.quote(str(out / "images"))
        yield "next:"
        yield f"  ad2 mcq check {shlex.quote(str(out))}"
        yield f"  ad2 data import autodrive_qa {questions} --images {images} --split {card['split']}{name}"


def _pairs(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items())


def _flat(account: Mapping[str, Any], above: str = "") -> str:
    parts = []
    for name, value in account.items():
        if isinstance(value, Mapping):
            parts.append(_flat(value, f"{above}{name} "))
        elif value:
            parts.append(f"{above}{name} {value:g}" if isinstance(value, float) else f"{above}{name} {value}")
    return ", ".join(filter(None, parts))
