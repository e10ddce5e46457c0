"""Which entries of a plan belong to the set, and which to request next.

The set consists of the first `quota` entries of each stratum, in drawing order, that were not rejected. It depends only
on the outcomes, not on their order, so that an interrupted and an uninterrupted build give the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, zip_longest

from lmms_eval_ad2.mcq.question_plan import QuestionPlan, Stratum
from lmms_eval_ad2.mcq.store import Key, QuestionStore
from lmms_eval_ad2.mcq.survey import SurveyEntry

_MOST_DOUBLINGS = 10


def key_of(entry: SurveyEntry) -> Key:
    return entry.source, entry.id


def chosen(stratum: Stratum, store: QuestionStore, more: int = 0) -> list[SurveyEntry]:
    """The first `quota` + `more` entries of a stratum that were not rejected."""
    valid = (entry for entry in stratum.entries if store.status(*key_of(entry)) != "rejected")
    return list(islice(valid, stratum.quota + more))


class QuestionScheduler:
    """Selects the entries of each round in one run of a build. `asked`: entries returned so far; none is repeated."""

    def __init__(self, plan: QuestionPlan, store: QuestionStore, limit: int | None) -> None:
        self.plan, self.store, self.limit = plan, store, limit
        self.asked: set[Key] = set()
        self._empty_rounds = [0] * len(plan.strata)

    def next(self) -> list[SurveyEntry]:
        """The entries of the next round, in the order of the source files, each read once a round. Empty: finished."""
        batches = [self._batch(number, stratum) for number, stratum in enumerate(self.plan.strata)]
        # Alternate between strata, so that a trial of a few questions covers all of them.
        entries = [entry for row in zip_longest(*batches) for entry in row if entry is not None]
        if self.limit is not None:
            entries = entries[: max(0, self.limit - len(self.asked))]
        self.asked.update(map(key_of, entries))
        return sorted(entries, key=lambda entry: (entry.source, entry.number))

    def _batch(self, number: int, stratum: Stratum) -> list[SurveyEntry]:
        """The entries that a stratum still lacks, doubled after each round in which none was made.

        A round costs one pass over the source file, hence the doubling. Questions made beyond the quota replace later
        rejections.
        """
        missing = self._unmade(chosen(stratum, self.store))
        if not missing:
            return []
        tried = [entry for entry in stratum.entries if key_of(entry) in self.asked]
        none_made = bool(tried) and len(self._unmade(tried)) == len(tried)
        self._empty_rounds[number] = min(self._empty_rounds[number] + 1, _MOST_DOUBLINGS) if none_made else 0
        more = len(missing) * (2 ** self._empty_rounds[number] - 1)
        return [e for e in self._unmade(chosen(stratum, self.store, more)) if key_of(e) not in self.asked]

    def _unmade(self, entries: Iterable[SurveyEntry]) -> list[SurveyEntry]:
        return [entry for entry in entries if self.store.status(*key_of(entry)) != "made"]
