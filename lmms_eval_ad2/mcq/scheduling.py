"""Which entries of a plan are in the set, and which to ask now.

A question's place depends on outcomes alone, never on the order in which they came: of each stratum the first `quota`
entries, in drawing order, that were not rejected. So an interrupted build ends with an undisturbed one's questions.
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
    """The first `quota` (and `more`) entries of a stratum that were not rejected."""
    standing = (entry for entry in stratum.entries if store.status(*key_of(entry)) != "rejected")
    return list(islice(standing, stratum.quota + more))


class QuestionScheduler:
    """What to ask, round after round, in one start of a build. `asked`: what was given out; none is given out twice."""

    def __init__(self, plan: QuestionPlan, store: QuestionStore, limit: int | None) -> None:
        self.plan, self.store, self.limit = plan, store, limit
        self.asked: set[Key] = set()
        self._fruitless = [0] * len(plan.strata)

    def next(self) -> list[SurveyEntry]:
        """Entries to ask now, in the order of the source files: so each file is read once a round. Empty: no more."""
        lots = [self._lot(number, stratum) for number, stratum in enumerate(self.plan.strata)]
        # From all strata in turn, so that a trial of a few questions shows some of everything.
        entries = [entry for row in zip_longest(*lots) for entry in row if entry is not None]
        if self.limit is not None:
            entries = entries[: max(0, self.limit - len(self.asked))]
        self.asked.update(map(key_of, entries))
        return sorted(entries, key=lambda entry: (entry.source, entry.number))

    def _lot(self, number: int, stratum: Stratum) -> list[SurveyEntry]:
        """What a stratum still lacks; twice as much after each lot of which nothing was made, as a round costs a pass
        over the file. What is then made beyond the quota waits for the next rejection."""
        missing = self._unmade(chosen(stratum, self.store))
        if not missing:
            return []
        tried = [entry for entry in stratum.entries if key_of(entry) in self.asked]
        barren = bool(tried) and len(self._unmade(tried)) == len(tried)
        self._fruitless[number] = min(self._fruitless[number] + 1, _MOST_DOUBLINGS) if barren else 0
        more = len(missing) * (2 ** self._fruitless[number] - 1)
        return [e for e in self._unmade(chosen(stratum, self.store, more)) if key_of(e) not in self.asked]

    def _unmade(self, entries: Iterable[SurveyEntry]) -> list[SurveyEntry]:
        return [entry for entry in entries if self.store.status(*key_of(entry)) != "made"]
