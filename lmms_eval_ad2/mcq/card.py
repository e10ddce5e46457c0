"""The card of a built set: what it holds, where it comes from, how it was made, what was left out. JSON and Markdown.

`card(facts)` takes what the builder knows ("*" has to be there; an absent other key reads as empty):

    name*, split*     of the set
    date*             ISO 8601
    file*             {"name", "sha256"} of the questions
    seed*             of drawing and shuffling
    kind*             all | naive | one category
    maker*, evaluator labels ("rules", "openai:gpt-4o-2024-11-20"); evaluator None where nobody rated
    settings          Maker.describe()
    counts*           Tally.facts(), over the rows of the file
    sources*          Survey.facts()["sources"]
    plan*             Plan.facts()
    rejected          {reason: n}; notes {code: n}: what happened to proposals
    unfinished        {reason: n}: passing faults, which the same command asks again
    short             [{"source", "task", "subtask", "asked", "made"}]: strata that ran out of questions
    account           Maker.account()
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.mcq.card_text import markdown

SCHEMA = "ad2-mcq-card/1"
STATEMENT = (
    "A reconstruction. The questions of AutoDrive-QA were never released; these were made from its public sources by "
    "the published recipe, with our own prompts or rules. Figures on them are not the paper's figures."
)
_REQUIRED = ("name", "split", "date", "file", "seed", "kind", "maker", "counts", "sources", "plan")
_OPTIONAL: dict[str, Any] = {
    "evaluator": None, "settings": {}, "rejected": {}, "notes": {}, "unfinished": {}, "short": [], "account": {},
}  # fmt: skip


class Tally:
    """Counts over rows in the schema of `ad2 data schema autodrive_qa`, one at a time."""

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
        """Counts by name, and "n" and "correctness_mean" (1 to 5; None where nobody rated).

        {"source": {...}, "task", "cell" ("drivelm/planning"), "subtask" ("planning/goal action"), "category" (of the
        distractors), "position" (letter of the right option), "correctness", "rounds"}
        """
        marks = self._counts["correctness"]
        mean = sum(int(mark) * n for mark, n in marks.items()) / marks.total() if marks else None
        counted = {name: dict(sorted(counter.items())) for name, counter in self._counts.items()}
        return {"n": self.n, **counted, "correctness_mean": None if mean is None else round(mean, 4)}


def card(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The card as JSON-able data; raises Ad2Error for a missing or unknown key (keys: this module's docstring)."""
    missing = [name for name in _REQUIRED if name not in facts]
    unknown = sorted(set(facts) - set(_REQUIRED) - set(_OPTIONAL))
    if missing or unknown:
        raise Ad2Error(f"a card needs {', '.join(_REQUIRED)}: missing {missing}, unknown {unknown}")
    told = {name: facts[name] for name in _REQUIRED}
    more = {name: facts.get(name, empty) for name, empty in _OPTIONAL.items()}
    return {"schema": SCHEMA, "statement": STATEMENT, "version": __version__, **told, **more}


__all__ = ["SCHEMA", "STATEMENT", "Tally", "card", "markdown"]
