"""Output files of a build: questions.jsonl, rejected.jsonl and the card, derived from the journal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases.autodrive_qa import record_of
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.mcq.card import CardCounts, card, markdown
from lmms_eval_ad2.mcq.scheduling import chosen, key_of
from lmms_eval_ad2.mcq.store import Key, QuestionStore, write_lines
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_json

if TYPE_CHECKING:
    from lmms_eval_ad2.mcq.build import McqBuildJob

SPLIT = "test"


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


def finish(job: McqBuildJob, store: QuestionStore) -> McqBuildResult:
    """Write the output files from the journal, in the order given in store.py."""
    taken = [key_of(entry) for stratum in job.plan.strata for entry in chosen(stratum, store)]
    made = [key for key in taken if store.status(*key) == "made"]
    counts, notes = CardCounts(), Counter[str]()
    digest = write_lines(job.out / "questions.jsonl", _rows(store, made, counts, notes))
    reasons = {"rejected": Counter[str](), "passing": Counter[str]()}
    write_lines(job.out / "rejected.jsonl", _rejections(store, job, set(taken), reasons, notes))
    all_questions = job.plan.asked is None and not job.plan.mix and not job.plan.tasks  # then there is no reserve
    short = [] if all_questions else _short(job, store)
    settings = job.maker.describe()
    card_data = card({
        "name": dataset_name(job.kind), "split": SPLIT, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "file": {"name": "questions.jsonl", "sha256": digest}, "seed": job.seed, "kind": job.kind,
        "maker": job.maker.label, "evaluator": (settings.get("evaluator") or {}).get("model"), "settings": settings,
        "counts": counts.facts(), "sources": job.survey.facts()["sources"], "plan": job.plan.facts(),
        "rejected": dict(sorted(reasons["rejected"].items())), "unfinished": dict(sorted(reasons["passing"].items())),
        "notes": dict(sorted(notes.items())), "short": short, "account": summed(store.accounts),
    })  # fmt: skip
    atomic_write_json(job.out / "card.json", card_data, errors="backslashreplace")
    with atomic_write(job.out / "card.md", errors="backslashreplace") as handle:
        handle.write(markdown(card_data))
    left = sum(store.status(*key) is None for key in taken)
    return McqBuildResult(job.out / "questions.jsonl", card_data, left, short)


def dataset_name(kind: str) -> str:
    """The dataset name under which the tasks expect a set ("autodrive_qa", "autodrive_qa_naive", ...)."""
    return "autodrive_qa" if kind == "all" else f"autodrive_qa_{kind}"


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
    store: QuestionStore, job: McqBuildJob, taken: Set[Key], reasons: Mapping[str, Counter[str]], notes: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Journal lines of rejected and failed questions, in the order of the plan: equal builds write equal files.

    A question of the reserve that failed with the endpoint and is no longer needed is left out; it is not retried.
    """
    for stratum in job.plan.strata:
        keys = [key_of(entry) for entry in stratum.entries]
        kept = [k for k in keys if store.status(*k) == "rejected" or (store.status(*k) == "passing" and k in taken)]
        for line in store.lines(kept):
            reasons[line["status"]][line["reason"]] += 1
            notes.update(line["notes"])
            yield line


def _short(job: McqBuildJob, store: QuestionStore) -> list[dict[str, Any]]:
    found = []
    for stratum in job.plan.strata:
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
