"""Output files of a build, derived from the journal: questions.jsonl, rejected.jsonl and the card (card.json)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases.autodrive_qa import record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.question_plan import QuestionPlan, Stratum
from lmms_eval_ad2.mcq.sources import SurveyEntry
from lmms_eval_ad2.mcq.store import Key, QuestionStore, write_lines
from lmms_eval_ad2.storage.files import atomic_write_json
from lmms_eval_ad2.storage.identity import code_label

SPLIT = "test"
SCHEMA = "ad2-mcq-card/1"
STATEMENT = (
    "A reconstruction. The questions of AutoDrive-QA were never released; these were made from its public sources by "
    "the published recipe, with our own prompts or rules. Figures on them are not the paper's figures."
)
_COUNTED = ("source", "task", "cell", "subtask", "category", "position", "correctness", "rounds")


@dataclass(frozen=True, slots=True)
class McqBuildResult:
    """Result of one run of a build.

    questions: the file. card: its card. left: number of questions of the plan without an outcome (--limit). short:
    strata that ran out of questions, with "asked" and "made"; empty if neither a total nor shares were given.
    """

    questions: Path
    card: Mapping[str, Any]
    left: int = 0
    short: list[dict[str, Any]] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """Number of questions that failed with the endpoint; running the same command again retries them."""
        return sum(self.card["unfinished"].values())


class CardCounts:
    """Running counts over rows of `ad2 data list autodrive_qa --layout`."""

    def __init__(self) -> None:
        self.n = 0
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}

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


def key_of(entry: SurveyEntry) -> Key:
    return entry.source, entry.id


def chosen(stratum: Stratum, store: QuestionStore, more: int = 0) -> list[SurveyEntry]:
    """The first `quota` + `more` entries of a stratum that were not rejected."""
    valid = (entry for entry in stratum.entries if store.status(*key_of(entry)) != "rejected")
    return list(islice(valid, stratum.quota + more))


def finish(
    store: QuestionStore, plan: QuestionPlan, kind: str, settings: Mapping[str, Any], facts: Mapping[str, Any]
) -> McqBuildResult:
    """Write the output files from the journal, in the order given in store.py.

    kind: of the distractors. settings: DistractorMaker.describe(). facts: "seed", "maker" (its label) and "sources"
    (SourceSurvey.sources) of the card.
    """
    out = store.folder
    taken = [key_of(entry) for stratum in plan.strata for entry in chosen(stratum, store)]
    made = [key for key in taken if store.status(*key) == "made"]
    counts, notes = CardCounts(), Counter[str]()
    digest = write_lines(out / "questions.jsonl", _rows(store, made, counts, notes))
    reasons = {"rejected": Counter[str](), "passing": Counter[str]()}
    write_lines(out / "rejected.jsonl", _rejections(store, plan.strata, set(taken), reasons, notes))
    all_questions = plan.asked is None and not plan.mix and not plan.tasks  # then there is no reserve
    short = [] if all_questions else _short(store, plan.strata)
    card = {
        "schema": SCHEMA, "statement": STATEMENT, "version": code_label(),
        # The name under which the tasks expect a set: "autodrive_qa", "autodrive_qa_naive", ...
        "name": "autodrive_qa" if kind == "all" else f"autodrive_qa_{kind}", "split": SPLIT,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "file": {"name": "questions.jsonl", "sha256": digest}, "kind": kind, **facts,
        "evaluator": (settings.get("evaluator") or {}).get("model"), "settings": dict(settings),
        "counts": counts.facts(), "plan": plan.facts(), "rejected": dict(sorted(reasons["rejected"].items())),
        "unfinished": dict(sorted(reasons["passing"].items())), "notes": dict(sorted(notes.items())), "short": short,
        "account": summed(store.accounts),
    }  # fmt: skip
    atomic_write_json(out / "card.json", card, errors="backslashreplace")
    left = sum(store.status(*key) is None for key in taken)
    return McqBuildResult(out / "questions.jsonl", card, left, short)


def _rows(
    store: QuestionStore, made: Iterable[Key], counts: CardCounts, notes: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Rows of the made questions. Raises DataError for a row that cannot be imported because it was edited by hand."""
    for line in store.lines(made):
        try:
            record_of(UntrustedRow(line["row"], store.journal, line["id"]))
        except DataError as exc:
            hint = "Remove the question's line; the same command asks it again."
            raise DataError(exc.file, exc.row, exc.field, exc.expected, exc.found, hint) from exc
        counts.add(line["row"])
        notes.update(line["notes"])
        yield line["row"]


def _rejections(
    store: QuestionStore, strata: Sequence[Stratum], taken: set[Key], reasons: Mapping[str, Counter[str]],
    notes: Counter[str],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Journal lines of rejected and failed questions, in the order of the plan: equal builds write equal files.

    A question of the reserve that failed with the endpoint and is no longer needed is left out; it is not retried.
    """
    keys = [key_of(entry) for stratum in strata for entry in stratum.entries]
    kept = [k for k in keys if store.status(*k) == "rejected" or (store.status(*k) == "passing" and k in taken)]
    for line in store.lines(kept):
        reasons[line["status"]][line["reason"]] += 1
        notes.update(line["notes"])
        yield line


def _short(store: QuestionStore, strata: Sequence[Stratum]) -> list[dict[str, Any]]:
    found = []
    for stratum in strata:
        made = len(chosen(stratum, store))
        if made < stratum.quota:
            where = {"source": stratum.source, "task": stratum.task, "subtask": stratum.subtask}
            found.append({**where, "asked": stratum.quota, "made": made})
    return found


def summed(accounts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum of the accounts of all starts: numbers are added, also in nested mappings; else the last value is kept."""
    total: dict[str, Any] = {}
    for account in accounts:
        for name, value in account.items():
            if isinstance(value, Mapping):
                total[name] = summed([total.get(name) or {}, value])
            elif isinstance(value, int | float) and not isinstance(value, bool):
                total[name] = (total.get(name) or 0) + value
            else:
                total[name] = value if value is not None else total.get(name)
    return total
