"""A card as Markdown that a person reads. Text of data sets and of models in it is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LONGEST = 300  # characters of one cell


def markdown(card: Mapping[str, Any]) -> str:
    """The card of `card.card` as a Markdown page."""
    counts = card["counts"]
    sections = [
        [f"# {_cell(card['name'])} ({_cell(card['split'])})", card["statement"]],
        _section("How it was made", _making(card)),
        _section("Questions by source and task", _cells(counts)),
        _section("Questions by sub-task", _subtasks(counts)),
        _section("Distractors by error category", _shared(("Category", "Options", "Share"), counts["category"])),
        _section("Position of the right option", _shared(("Letter", "Questions", "Share"), counts["position"])),
        _section("Correctness, as the evaluator rated it (1 to 5)", _correctness(counts)),
        _section("Where the questions come from", _sources(card["sources"])),
        _section("Rejected questions", _counted(("Reason", "Questions"), card["rejected"])),
        _section(
            "Unfinished questions (the same command asks them again)",
            _counted(("Reason", "Questions"), card["unfinished"]),
        ),
        _section("Sub-tasks that ran out of questions", _short(card["short"])),
        _section("What happened to proposals", _counted(("Code", "Times"), card["notes"])),
        _section("Settings", _pairs(card["settings"])),
        _section("Spent", _pairs(card["account"])),
    ]
    return "\n\n".join(part for section in sections for part in section) + "\n"


def _making(card: Mapping[str, Any]) -> str:
    plan = card["plan"]
    rows = [
        ("Questions", f"{card['counts']['n']:,}"),
        ("File", f"{card['file']['name']}, sha256 {card['file']['sha256']}"),
        ("Maker", card["maker"]),
        ("Evaluator", card["evaluator"] or "none"),
        ("Distractors", card["kind"]),
        ("Seed", card["seed"]),
        ("Shares of sources", _shares(plan.get("mix"))),
        ("Shares of tasks", _shares(plan.get("tasks"))),
        ("Asked in all", "all there are" if plan.get("asked") is None else f"{plan['asked']:,}"),
        ("Date", card["date"]),
        ("lmms-eval-ad2", card["version"]),
    ]
    return _table(("", ""), rows)


def _shares(shares: Mapping[str, float] | None) -> str:
    return ", ".join(f"{name} {share:g}" for name, share in shares.items()) if shares else "as there are"


def _cells(counts: Mapping[str, Any]) -> str:
    tasks = list(counts["task"])
    rows = [
        (source, *(f"{counts['cell'].get(f'{source}/{task}', 0):,}" for task in tasks), f"{n:,}")
        for source, n in counts["source"].items()
    ]
    total = ("all", *(f"{counts['task'][task]:,}" for task in tasks), f"{counts['n']:,}")
    return _table(("Source", *tasks, "all"), [*rows, total]) if rows else ""


def _subtasks(counts: Mapping[str, Any]) -> str:
    rows = [(*name.split("/", 1), f"{n:,}") for name, n in counts["subtask"].items()]
    return _table(("Task", "Sub-task", "Questions"), rows) if rows else ""


def _shared(headers: Sequence[str], counts: Mapping[str, int]) -> str:
    whole = sum(counts.values())
    return _table(headers, [(name, f"{n:,}", f"{n / whole:.1%}") for name, n in counts.items()]) if counts else ""


def _correctness(counts: Mapping[str, Any]) -> str:
    if counts["correctness_mean"] is None:
        return "Nobody rated."
    return f"Mean {counts['correctness_mean']:.2f}\n\n{_shared(('Mark', 'Questions', 'Share'), counts['correctness'])}"


def _sources(sources: Iterable[Mapping[str, Any]]) -> str:
    headers = (
        "Source",
        "Split",
        "Usable",
        "Cannot be used",
        "Left out by its reader",
        "Bad rows",
        "sha256 of the data",
    )
    rows = [
        (
            source["spec"], source["split"], f"{source['usable']:,}", _reasons(source["unclassified"]),
            _reasons(source["left_out"]), source["bad"], source["sha256"],
        )
        for source in sources
    ]  # fmt: skip
    return _table(headers, rows)


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in counts.items()) or "0"


def _short(strata: Iterable[Mapping[str, Any]]) -> str:
    rows = [(s["source"], s["task"], s["subtask"], s["asked"], s["made"]) for s in strata]
    return _table(("Source", "Task", "Sub-task", "Asked", "Made"), rows) if rows else ""


def _counted(headers: Sequence[str], counts: Mapping[str, int]) -> str:
    return _table(headers, [(name, f"{n:,}") for name, n in counts.items()]) if counts else ""


def _pairs(values: Mapping[str, Any]) -> str:
    """Names and values; what is no plain value as JSON."""
    plain = (
        (k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, default=str)) for k, v in values.items()
    )
    return _table(("", ""), list(plain)) if values else ""


def _section(title: str, body: str) -> list[str]:
    return [f"## {title}", body] if body else []


def _table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [headers, ["---"] * len(headers), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """Text for a cell: nothing in it may open a column, a tag, a link, a picture or an emphasis."""
    text = " ".join(str(value).split())
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    for char in "\\`|*[]!":
        text = text.replace(char, "\\" + char)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
