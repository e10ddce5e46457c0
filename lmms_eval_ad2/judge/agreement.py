"""Does a judge prefer what people prefer? The consistency of CODA-LM (section 5.4, Table 7), per task.

For a pair of models on one sample, people vote and the majority names the winner; the judge's winner is
the model with the higher mark. Consistency = share of the pairs in which both name the same winner.

The paper does not say what happens to ties. Here: a pair without a majority of people (half the
votes or fewer for each model) is left out and counted; a pair that the judge marks alike, or in which
it has no mark for a model, is a miss, since it named no winner. `decided` leaves those pairs out too.
Several runs of a judge (`run` in the ratings) are compared one by one and averaged, as in the paper.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

TIE = "tie"


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A judge's mark for one model's answer to one sample; None where it could not be had."""

    task: str
    id: str
    model: str
    score: float | None
    run: str = ""


@dataclass(frozen=True, slots=True)
class HumanVotes:
    """What people preferred between two models on one sample; each vote is a model's name or "tie"."""

    task: str
    id: str
    models: tuple[str, str]
    votes: tuple[str, ...]

    @property
    def winner(self) -> str | None:
        """The model with more than half of the votes, else None."""
        return next((m for m in self.models if 2 * self.votes.count(m) > len(self.votes)), None)


@dataclass(slots=True)
class JudgeAgreement:
    """One task. `hits` has one value a pair with a human winner: the share of the judge's runs that named the same.

    `n_pairs` = len(hits) + `human_ties`. `judge_ties` and `unrated` count judgements (pairs times runs), as do
    `n_judgements` and `n_hits`. Rank correlations are over models (three or more), None otherwise.
    """

    task: str
    n_pairs: int = 0
    human_ties: int = 0
    judge_ties: int = 0
    unrated: int = 0
    n_judgements: int = 0
    n_hits: int = 0
    hits: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    models: tuple[str, ...] = ()
    spearman: float | None = None
    kendall: float | None = None

    @property
    def consistency(self) -> float | None:
        """Share of pairs with a human winner in which the judge named the same winner; None without such pairs."""
        return sum(self.hits) / len(self.hits) if self.hits else None

    @property
    def decided(self) -> float | None:
        """The same over the judgements in which the judge named a winner."""
        n = self.n_judgements - self.judge_ties - self.unrated
        return self.n_hits / n if n else None


def compare(ratings: Iterable[JudgedAnswer], votes: Iterable[HumanVotes]) -> dict[str, JudgeAgreement]:
    """Agreement by task, in the order in which the votes name tasks. Ratings without a vote are not used.

    A rating that a vote needs and that is not there counts as unrated.
    """
    marks: dict[tuple[str, str, str, str], float | None] = {}
    runs: dict[str, dict[str, None]] = defaultdict(dict)
    for r in ratings:
        marks[r.run, r.task, r.id, r.model] = r.score
        runs[r.task][r.run] = None
    by_task: dict[str, list[HumanVotes]] = defaultdict(list)
    for vote in votes:
        by_task[vote.task].append(vote)
    return {task: _task(task, pairs, marks, list(runs[task]) or [""]) for task, pairs in by_task.items()}


def _task(
    task: str, pairs: Sequence[HumanVotes], marks: Mapping[tuple[str, str, str, str], float | None], runs: Sequence[str]
) -> JudgeAgreement:
    found = JudgeAgreement(task, n_pairs=len(pairs))
    for vote in pairs:
        if vote.winner is None:
            found.human_ties += 1
            continue
        hits = 0
        for run in runs:
            a, b = (marks.get((run, task, vote.id, model)) for model in vote.models)
            hits += _judged(found, vote, a, b)
        found.hits.append(hits / len(runs))
        found.clusters.append(vote.id)
    _ranks(found, pairs, marks, runs)
    return found


def _judged(found: JudgeAgreement, vote: HumanVotes, a: float | None, b: float | None) -> bool:
    found.n_judgements += 1
    if a is None or b is None:
        found.unrated += 1
        return False
    if a == b:
        found.judge_ties += 1
        return False
    hit = vote.models[0 if a > b else 1] == vote.winner
    found.n_hits += hit
    return hit


def _ranks(
    found: JudgeAgreement,
    pairs: Sequence[HumanVotes],
    marks: Mapping[tuple[str, str, str, str], float | None],
    runs: Sequence[str],
) -> None:
    """Rank correlation of the models' mean marks with their shares of human votes (a tie is half a vote each)."""
    shares: dict[str, list[float]] = defaultdict(list)
    given: dict[str, list[float]] = defaultdict(list)
    for vote in pairs:
        for model in vote.models:
            shares[model] += [1.0 if v == model else 0.5 if v == TIE else 0.0 for v in vote.votes]
            scores = (marks.get((run, vote.task, vote.id, model)) for run in runs)
            given[model] += [s for s in scores if s is not None]
    found.models = tuple(shares)
    if len(found.models) < 3 or not all(given[m] for m in found.models):
        return
    people = [sum(shares[m]) / len(shares[m]) for m in found.models]
    judge = [sum(given[m]) / len(given[m]) for m in found.models]
    from scipy import stats  # slow to import, and needed here only

    if len(set(people)) > 1 and len(set(judge)) > 1:
        found.spearman = _finite(stats.spearmanr(judge, people).statistic)
        found.kendall = _finite(stats.kendalltau(judge, people).statistic)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
