"""Which questions of a set are kept: balanced answers, a bound per frame, a bound per task.

The choice depends on the questions' ids and the seed, not on their order. Memory: 40 bytes a question.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from closedloop_plugin.learn.questions.kinds import WorldQuestion

MOST_OF_A_TASK = 3  # questions about one frame; more would be about the same things
FREE = -1  # class of the questions whose answers are not balanced
MORE_THAN_EVEN = 0.1  # of three or more classes, the most frequent may have so much more than an equal share


class BalancedSelection:
    """Collects what the choice depends on (`add`, in the order of the frames), and makes it (`kept`)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._numbers: dict[str, int] = {}
        self._orders, self._classes, self._groups = array("Q"), array("q"), array("q")
        self._tasks, self._frames = array("q"), array("q")

    def add(self, question: WorldQuestion) -> None:
        record = question.record
        self._orders.append(question.order(self.seed))
        self._groups.append(self._number(f"group|{question.group}"))
        free = not question.value
        self._classes.append(FREE if free else self._number(f"class|{question.group}|{question.value}"))
        self._tasks.append(self._number(f"task|{record.task}"))
        self._frames.append(self._number(f"frame|{record.meta['frame']}"))

    def __len__(self) -> int:
        return len(self._orders)

    def kept(self, per_frame: int | None = None, per_task: int | None = None) -> np.ndarray:
        """Whether each added question is kept: boolean, shape (n,).

        per_frame: greatest number of questions about a frame, from as many tasks as possible, at most MOST_OF_A_TASK of
        each; per_task: of a task in the set, from as many kinds of questions and answers as possible.
        """
        orders = np.array(self._orders, dtype=np.uint64)
        groups, classes = np.array(self._groups, dtype=np.int64), np.array(self._classes, dtype=np.int64)
        frames, tasks = np.array(self._frames, dtype=np.int64), np.array(self._tasks, dtype=np.int64)
        keep = _balanced(groups, classes, orders, np.ones(len(orders), dtype=bool))
        if per_frame is not None:
            mixed = _mixed(orders)  # of a frequent answer the lowest orders are kept: they must not come first here
            pairs = frames * (len(self._numbers) + 1) + tasks
            turn = _ranks(pairs, mixed, keep)  # 0: the first question of its task about this frame
            keep &= turn < MOST_OF_A_TASK
            keep &= _ranks(frames, _in_turn(turn, mixed), keep) < per_frame
            # Frames with much to ask about have fewer questions of each task, so the bound alone changes the balance.
            keep = _balanced(groups, classes, orders, keep)
        if per_task is not None:
            mixed = _mixed(_mixed(orders))
            turn = _ranks(np.where(classes == FREE, groups, classes), mixed, keep)
            keep &= _ranks(tasks, _in_turn(turn, mixed), keep) < per_task
            keep = _balanced(groups, classes, orders, keep)  # the bound may end between the answers of a question
        return keep

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))


def _mixed(orders: np.ndarray) -> np.ndarray:
    """Other numbers of 64 bits in their place, independent of them in order (the finaliser of SplitMix64)."""
    z = (orders ^ orders >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def _in_turn(turn: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Numbers that sort by turn, then by order."""
    return turn.astype(np.uint64) << np.uint64(40) | orders >> np.uint64(24)


def _balanced(groups: np.ndarray, classes: np.ndarray, orders: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Keep of each class the first ones of `among`, as many as its group allows (see `quota`)."""
    names, index = np.unique(classes, return_inverse=True)
    counts = np.bincount(index, weights=among, minlength=len(names)).astype(np.int64)
    group_of_class = np.zeros(len(names), dtype=np.int64)
    group_of_class[index] = groups
    quotas = np.zeros(len(names), dtype=np.int64)
    for group in np.unique(group_of_class):
        members = np.flatnonzero(group_of_class == group)
        quotas[members] = quota(counts[members][counts[members] > 0].tolist())
    quotas[names == FREE] = len(classes)
    return among & (_ranks(classes, orders, among) < quotas[index])


def quota(counts: Sequence[int]) -> int:
    """How many questions of a class of a group are kept at most, given the number of each class.

    The largest q for which the most frequent class has at most half of sum(min(n, q)) (two classes), or 0.1 more than
    an equal share (three or more). A group whose answer is always the same has none: it asks nothing.
    """
    ordered = sorted(counts, reverse=True)
    if len(ordered) < 2:
        return 0
    share = 0.5 if len(ordered) == 2 else 1 / len(ordered) + MORE_THAN_EVEN
    low, high = 0, ordered[0]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle <= share * _sum(ordered, middle) + 1e-9 else (low, middle - 1)
    return low


def _sum(counts: Iterable[int], most: int) -> int:
    return sum(min(count, most) for count in counts)


def _ranks(groups: np.ndarray, orders: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Rank of each row within its group by `orders`, counting only rows of `among`; others have the largest rank."""
    ranks = np.full(len(groups), np.iinfo(np.int64).max)
    rows = np.flatnonzero(among)
    rows = rows[np.lexsort((orders[rows], groups[rows]))]
    if len(rows):
        starts = np.flatnonzero(np.r_[True, groups[rows][1:] != groups[rows][:-1]])
        lengths = np.diff(np.r_[starts, len(rows)])
        ranks[rows] = np.arange(len(rows)) - np.repeat(starts, lengths)
    return ranks
