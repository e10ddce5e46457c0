"""Consistency of a judge with human preferences (CODA-LM section 5.4, Table 7), per task.

For a pair of models on one sample, the majority of human votes determines the winner; the judge's winner is the model
with the higher score. Consistency = share of the pairs in which both winners are the same.

The paper does not define ties. Here, a pair without a human majority (at most half of the votes for each model) is left
out and counted. A pair with equal scores, or without a score for one of the models, is a miss, as the judge determined
no winner; `decided` leaves these pairs out as well.

Of several runs of a judge (`run` in the ratings) the paper uses "the average of these evaluation", which can be read in
two ways: each run has a winner, and the shares of equal winners are averaged ("run"), or the winner is that of the mean
marks over the runs ("mean-score").
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

TIE = "tie"
By = Literal["run", "mean-score"]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A judge's score for one model's answer to one sample; None if there is none."""

    task: str
    id: str
    model: str
    score: float | None
    run: str = ""


@dataclass(frozen=True, slots=True)
class HumanVotes:
    """Human preferences between two models on one sample; each vote is a model's name or "tie"."""

    task: str
    id: str
    models: tuple[str, str]
    votes: tuple[str, ...]

    @property
    def winner(self) -> str | None:
        """The model with more than half of the votes, or None."""
        return next((m for m in self.models if 2 * self.votes.count(m) > len(self.votes)), None)


@dataclass(slots=True)
class JudgeAgreement:
    """Result of one task. `hits`: per pair with a human winner, the share of the runs with the same winner.

    `n_pairs` = len(hits) + `human_ties`. `judge_ties`, `unrated`, `n_judgements` and `n_hits` count judgements (pairs
    times runs). Rank correlations are over models, None for fewer than three.
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
        """Share of the pairs with a human winner in which the judge's winner is the same; None without such pairs."""
        return sum(self.hits) / len(self.hits) if self.hits else None

    @property
    def decided(self) -> float | None:
        """The same share over the judgements with a winner."""
        n = self.n_judgements - self.judge_ties - self.unrated
        return self.n_hits / n if n else None


def compare(
    ratings: Iterable[JudgedAnswer], votes: Iterable[HumanVotes], by: By = "run"
) -> dict[str, JudgeAgreement]:  # fmt: skip
    """Agreement by task, in the order of first occurrence in `votes`. Ratings without a vote are not used.

    by: what has a winner, each run of the judge or the mean of their marks. A missing rating of a model in a vote
    counts as unrated.
    """
    ratings = _means(ratings) if by == "mean-score" else ratings
    scores_by_answer: dict[tuple[str, str, str, str], float | None] = {}
    runs: dict[str, dict[str, None]] = defaultdict(dict)
    for r in ratings:
        scores_by_answer[r.run, r.task, r.id, r.model] = r.score
        runs[r.task][r.run] = None
    by_task: dict[str, list[HumanVotes]] = defaultdict(list)
    for vote in votes:
        by_task[vote.task].append(vote)
    return {task: _task(task, pairs, scores_by_answer, list(runs[task]) or [""]) for task, pairs in by_task.items()}


def _means(ratings: Iterable[JudgedAnswer]) -> list[JudgedAnswer]:
    """One rating per answer: the mean over the runs that have a mark, None if none has."""
    marks: dict[tuple[str, str, str], list[float]] = {}
    for r in ratings:
        marks.setdefault((r.task, r.id, r.model), []).extend([] if r.score is None else [r.score])
    return [JudgedAnswer(*answer, math.fsum(of) / len(of) if of else None) for answer, of in marks.items()]


def _task(
    task: str,
    pairs: Sequence[HumanVotes],
    scores_by_answer: Mapping[tuple[str, str, str, str], float | None],
    runs: Sequence[str],
) -> JudgeAgreement:
    result = JudgeAgreement(task, n_pairs=len(pairs))
    for vote in pairs:
        if vote.winner is None:
            result.human_ties += 1
            continue
        hits = 0
        for run in runs:
            a, b = (scores_by_answer.get((run, task, vote.id, model)) for model in vote.models)
            hits += _count_judgement(result, vote, a, b)
        result.hits.append(hits / len(runs))
        result.clusters.append(vote.id)
    _rank_correlations(result, pairs, scores_by_answer, runs)
    return result


def _count_judgement(result: JudgeAgreement, vote: HumanVotes, a: float | None, b: float | None) -> bool:
    """Add one judgement with scores `a` and `b` to the counts. True if its winner is the human one."""
    result.n_judgements += 1
    if a is None or b is None:
        result.unrated += 1
        return False
    if a == b:
        result.judge_ties += 1
        return False
    hit = vote.models[0 if a > b else 1] == vote.winner
    result.n_hits += hit
    return hit


def _rank_correlations(
    result: JudgeAgreement,
    pairs: Sequence[HumanVotes],
    scores_by_answer: Mapping[tuple[str, str, str, str], float | None],
    runs: Sequence[str],
) -> None:
    """Correlate the models' mean scores with their shares of human votes (a tie is half a vote for each)."""
    shares: dict[str, list[float]] = defaultdict(list)
    scores: dict[str, list[float]] = defaultdict(list)
    for vote in pairs:
        for model in vote.models:
            shares[model] += [1.0 if v == model else 0.5 if v == TIE else 0.0 for v in vote.votes]
            of_runs = (scores_by_answer.get((run, vote.task, vote.id, model)) for run in runs)
            scores[model] += [score for score in of_runs if score is not None]
    result.models = tuple(shares)
    if len(result.models) < 3 or not all(scores[m] for m in result.models):
        return
    human = [sum(shares[m]) / len(shares[m]) for m in result.models]
    judge = [sum(scores[m]) / len(scores[m]) for m in result.models]
    from scipy import stats  # slow to import

    if len(set(human)) > 1 and len(set(judge)) > 1:
        result.spearman = _finite(stats.spearmanr(judge, human).statistic)
        result.kendall = _finite(stats.kendalltau(judge, human).statistic)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
