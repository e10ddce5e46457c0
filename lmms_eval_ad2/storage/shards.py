"""RunShard: one of N parts of a run, each for a machine of its own; `--shard i/N` of `ad2 eval` and `ad2 drive run`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from lmms_eval_ad2.core.errors import Ad2Error

ENV = "AD2_SHARD"
# Key of the block "run" of summary.json, only of incomplete runs: {"of": N, "included": [i, ...], "identity": {...}}.
SHARDS = "shards"
MOST_SHARDS = 100_000  # of one run: lists of them, such as of the missing ones, stay small


@dataclass(frozen=True, slots=True)
class RunShard:
    """Shard `index` (from 1) of `of`."""

    index: int
    of: int

    @classmethod
    def parse(cls, text: str, where: str = "--shard") -> RunShard:
        """Parse "i/N"; raises Ad2Error for another form. `where`: the option or variable, for the message."""
        try:
            index, of = (int(part) for part in text.split("/"))
        except ValueError:
            raise Ad2Error(f"{where} {text}: expected i/N, as in 1/4") from None
        if not 1 <= index <= of:
            raise Ad2Error(f"{where} {text}: i must be from 1 to N")
        if of > MOST_SHARDS:
            raise Ad2Error(f"{where} {text}: N may be at most {MOST_SHARDS:,}")
        return cls(index, of)

    def has(self, question: int) -> bool:
        """Whether question number `question` (from 0) of a task belongs to this shard.

        Each block of N successive questions has one question per shard, so all shards of the first k questions have
        equal sizes up to 1. The place in the block varies pseudo-randomly: with a fixed one, a shard of
        data with a period would have questions of one kind only, and of the ranks of a run (rank r of R asks every R-th
        question) some would have no question of the shard.
        """
        block, place = divmod(question, self.of)
        start = int.from_bytes(hashlib.sha256(b"%d" % block).digest()[:8], "big")
        return (start + place) % self.of == self.index - 1

    @property
    def folder(self) -> str:
        """The end of the name of its run folder."""
        return f"shard{self.index}of{self.of}"

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"


def shard_of_environment() -> RunShard | None:
    """The shard that AD2_SHARD names, or None; raises Ad2Error for an invalid value."""
    text = os.environ.get(ENV)
    return RunShard.parse(text, ENV) if text else None


def shards_text(included: Sequence[int], of: int) -> str:
    """ "shard 2/3" or "shards 1, 3 of 4", for names of incomplete results."""
    if len(included) == 1:
        return f"shard {included[0]}/{of}"
    return f"shards {', '.join(map(str, included))} of {of}"
