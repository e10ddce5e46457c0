"""Card of a built set as JSON and Markdown: contents, sources, settings, and what was left out.

Keys of `card(facts)` (* is required; other missing keys become empty values):

    name*, split*     of the set
    date*             ISO 8601
    file*             {"name", "sha256"} of the file of questions
    seed*             for drawing and shuffling
    kind*             all | naive | one category
    maker*, evaluator labels ("rules", "openai:gpt-4o-2024-11-20"); evaluator None without ratings
    settings          DistractorMaker.describe()
    counts*           CardCounts.facts(), over the rows of the file
    sources*          SourceSurvey.facts()["sources"]
    plan*             QuestionPlan.facts()
    rejected          {reason: n}
    notes             {code: n}: refused proposals and replies
    unfinished        {reason: n}: failures of the endpoint; the same command asks these questions again
    short             [{"source", "task", "subtask", "asked", "made"}]: strata that ran out of questions
    account           DistractorMaker.account()
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import printable
from lmms_eval_ad2.report.table import Table
from lmms_eval_ad2.storage.code_state import code_label

SCHEMA = "ad2-mcq-card/1"
STATEMENT = (
    "A reconstruction. The questions of AutoDrive-QA were never released; these were made from its public sources by "
    "the published recipe, with our own prompts or rules. Figures on them are not the paper's figures."
)
_LONGEST_CELL = 300  # characters, in Markdown
_REQUIRED = ("name", "split", "date", "file", "seed", "kind", "maker", "counts", "sources", "plan")
_OPTIONAL: dict[str, Any] = {
    "evaluator": None, "settings": {}, "rejected": {}, "notes": {}, "unfinished": {}, "short": [], "account": {},
}  # fmt: skip


class CardCounts:
    """Running counts over rows of `ad2 data schema autodrive_qa`."""

    def __init__(self) -> None:
        self.n = 0
        self._counts: dict[str, Counter[str]] = {
            name: Counter()
            for name in ("source", "task", "cell", "subtask", "category", "position", "correctness", "rounds")
        }

    def add(self, row: Mapping[str, Any]) -> None:
        self.n += 1
        meta = row.get("meta") or {}
        counts = self._counts
        counts["source"][row["source"]] += 1
        counts["task"][row["task"]] += 1
        counts["cell"][f"{row['source']}/{row['task']}"] += 1
        counts["subtask"][f"{row['task']}/{row['subtask']}"] += 1
        counts["position"][row["answer"]] += 1
        counts["category"].update(o["kind"] for o in row["options"] if o["kind"] != "correct")
        if meta.get("correctness") is not None:
            counts["correctness"][str(meta["correctness"])] += 1
        counts["rounds"][str(meta.get("rounds", 0))] += 1

    def facts(self) -> dict[str, Any]:
        """Counts by name, and "n" and "correctness_mean" (1 to 5; None without ratings).

        {"source": {...}, "task", "cell" ("drivelm/planning"), "subtask" ("planning/goal action"), "category" (of the
        distractors), "position" (letter of the right option), "correctness", "rounds"}
        """
        ratings = self._counts["correctness"]
        mean = sum(int(rating) * n for rating, n in ratings.items()) / ratings.total() if ratings else None
        counted = {name: dict(sorted(counter.items())) for name, counter in self._counts.items()}
        return {"n": self.n, **counted, "correctness_mean": None if mean is None else round(mean, 4)}


def card(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The card as JSON-able data; raises Ad2Error for a missing or unknown key (keys: this module's docstring)."""
    missing = [name for name in _REQUIRED if name not in facts]
    unknown = sorted(set(facts) - set(_REQUIRED) - set(_OPTIONAL))
    if missing or unknown:
        raise Ad2Error(f"a card needs {', '.join(_REQUIRED)}: missing {missing}, unknown {unknown}")
    required = {name: facts[name] for name in _REQUIRED}
    optional = {name: facts.get(name, empty) for name, empty in _OPTIONAL.items()}
    return {"schema": SCHEMA, "statement": STATEMENT, "version": code_label(), **required, **optional}


def markdown(card: Mapping[str, Any]) -> str:
    """Render a card as a Markdown page; text from data sets and models is escaped."""
    counts = card["counts"]
    sections = [
        [f"# {_cell(card['name'])} ({_cell(card['split'])})", card["statement"]],
        _section("How it was made", _construction(card)),
        _section("Questions by source and task", _cells(counts)),
        _section("Questions by sub-task", _subtasks(counts)),
        _section("Distractors by error category", _with_shares(("Category", "Options", "Share"), counts["category"])),
        _section("Position of the right option", _with_shares(("Letter", "Questions", "Share"), counts["position"])),
        _section("Correctness, as the evaluator rated it (1 to 5)", _correctness(counts)),
        _section("Sources", _sources(card["sources"])),
        _section("Rejected questions", _counted(("Reason", "Questions"), card["rejected"])),
        _section(
            "Unfinished questions (the same command asks them again)",
            _counted(("Reason", "Questions"), card["unfinished"]),
        ),
        _section("Sub-tasks that ran out of questions", _short(card["short"])),
        _section("Refused proposals and replies", _counted(("Code", "Times"), card["notes"])),
        _section("Settings", _pairs(card["settings"])),
        _section("Resources used", _pairs(card["account"])),
    ]
    return printable("\n\n".join(part for section in sections for part in section)) + "\n"


def _construction(card: Mapping[str, Any]) -> str:
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
        ("Requested questions", "all available" if plan.get("asked") is None else f"{plan['asked']:,}"),
        ("Date", card["date"]),
        ("lmms-eval-ad2", card["version"]),
    ]
    return _table(("", ""), rows)


def _shares(shares: Mapping[str, float] | None) -> str:
    return ", ".join(f"{name} {share:g}" for name, share in shares.items()) if shares else "as available"


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


def _with_shares(headers: Sequence[str], counts: Mapping[str, int]) -> str:
    whole = sum(counts.values())
    return _table(headers, [(name, f"{n:,}", f"{n / whole:.1%}") for name, n in counts.items()]) if counts else ""


def _correctness(counts: Mapping[str, Any]) -> str:
    if counts["correctness_mean"] is None:
        return "Not rated."
    table = _with_shares(("Mark", "Questions", "Share"), counts["correctness"])
    return f"Mean {counts['correctness_mean']:.2f}\n\n{table}"


def _sources(sources: Iterable[Mapping[str, Any]]) -> str:
    headers = (
        "Source",
        "Split",
        "Usable",
        "Not usable",
        "Omitted by the reader",
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
    """Names and values; values other than text as JSON."""
    plain = (
        (k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False, default=str)) for k, v in values.items()
    )
    return _table(("", ""), list(plain)) if values else ""


def _section(title: str, body: str) -> list[str]:
    return [f"## {title}", body] if body else []


def _table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return Table(headers, list(rows)).markdown(_cell)


def _cell(value: object) -> str:
    """Escape text for a cell: it cannot open a column, tag, link, picture or emphasis."""
    text = " ".join(str(value).split())
    text = text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
    for char in "\\`|*[]!":
        text = text.replace(char, "\\" + char)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
