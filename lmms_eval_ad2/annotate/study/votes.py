"""Votes on pairs of answers: an append-only journal, and the side on which each voter sees each answer.

Each line of votes.jsonl is on disk before the page confirms it; the last vote of a voter on a pair counts. Several
servers may use one folder (storage/journal.py).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmms_eval_ad2.annotate.actions import reviewer_name
from lmms_eval_ad2.annotate.study.folder import AnswerPair, PairwiseStudy
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.judge.agreement import TIE, HumanVotes
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

VOTES = "votes.jsonl"
_LONGEST = 1 << 16  # bytes of a line
Choice = Literal["left", "right", "tie"]


@dataclass(frozen=True, slots=True)
class PreferenceVote:
    """One vote: the preferred model, or "tie"."""

    voter: str
    pair: str
    vote: str

    @classmethod
    def read(cls, line: bytes) -> PreferenceVote:
        data = parse_object(line)
        values = [data["voter"], data["pair"], data["vote"]]
        if not all(isinstance(value, str) for value in values):
            raise ValueError("expected the texts voter, pair and vote")
        return cls(*values)


class VotingProject:
    """A study with its votes. Models are known to this class only; a page shows `sides`."""

    def __init__(self, study: PairwiseStudy) -> None:
        self.study = study
        self.pairs = study.pairs
        self._models = {pair.key: pair.models for pair in self.pairs}
        self._votes: dict[tuple[str, str], str] = {}  # (voter, pair) -> vote
        self._path = study.path / VOTES
        self._offset = self._count = 0
        self._lock = threading.RLock()
        self.refresh()

    def sides(self, voter: str, number: int) -> tuple[str, str]:
        """The left and the right answer of a pair, in an order that is random for each voter and pair, but fixed."""
        pair = self.pairs[number]
        return pair.answers if self._order(voter, pair) else (pair.answers[1], pair.answers[0])

    def vote(self, voter: str, number: int, choice: Choice) -> None:
        """Save a vote; on return it is on disk. Raises Ad2Error for an invalid name or choice."""
        voter, pair = reviewer_name(voter), self.pairs[number]
        if choice not in ("left", "right", "tie"):
            raise Ad2Error(f"vote: expected left, right or tie, found {choice!r}")
        first = (choice == "left") == self._order(voter, pair)
        line = {
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"), "voter": voter, "pair": pair.key,
            "vote": TIE if choice == "tie" else pair.models[0 if first else 1], "choice": choice,
        }  # fmt: skip
        with self._lock, JournalFile(self._path, shared=True) as journal, journal.exclusive():
            journal.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace"))
            self.refresh()

    def choice(self, voter: str, number: int) -> Choice | None:
        """The voter's present choice for a pair."""
        pair = self.pairs[number]
        vote = self._votes.get((voter, pair.key))
        if vote is None or vote == TIE:
            return "tie" if vote else None
        return "left" if (vote == pair.models[0]) == self._order(voter, pair) else "right"

    def open_pairs(self, voter: str) -> list[int]:
        """Numbers of the pairs without a vote of this voter."""
        self.refresh()
        return [k for k, pair in enumerate(self.pairs) if (voter, pair.key) not in self._votes]

    def human_votes(self) -> list[HumanVotes]:
        """The votes of all voters by pair; pairs without a vote are left out."""
        self.refresh()
        votes: dict[str, list[str]] = {}
        for (_, key), vote in sorted(self._votes.items()):
            votes.setdefault(key, []).append(vote)
        return [HumanVotes(p.task, p.id, p.models, tuple(votes[p.key])) for p in self.pairs if p.key in votes]

    def voters(self) -> list[str]:
        return sorted({voter for voter, _ in self._votes})

    def refresh(self) -> None:
        """Read the lines appended since the last call. Raises DataError for a broken line."""
        with self._lock:
            for line in read(
                self._path, self._checked, start=self._offset, before=self._count, longest=_LONGEST,
                expected="a vote on a pair of this study", hint="Remove this line; all others stay valid.",
            ):  # fmt: skip
                self._votes[line.value.voter, line.value.pair] = line.value.vote
                self._offset, self._count = line.end, line.number

    def _checked(self, line: bytes) -> PreferenceVote:
        vote = PreferenceVote.read(line)
        if vote.vote not in (*self._models[vote.pair], TIE):
            raise ValueError("the vote names neither of the two models")
        return vote

    def _order(self, voter: str, pair: AnswerPair) -> bool:
        """Whether the first model's answer is on the left."""
        text = f"{self.study.seed}\n{voter}\n{pair.key}"
        return bool(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def open_project(path: Path) -> VotingProject:
    """Open a study for voting. Raises Ad2Error or DataError."""
    return VotingProject(PairwiseStudy.open(path))
