"""Validated reading of the fields of a summary.json; an invalid field raises a DataError with its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_number, is_whole

RERUN_HINT = "run the evaluation again with this version, or report it with the version that wrote it"
_ABSOLUTE = re.compile(r"(?<![\w:/.])/(?:[^\s/'\",;:]+/)*([^\s/'\",;:]+)")


def without_folders(text: str) -> str:
    """A message without folders of the machine that wrote it, since a page may be shared."""
    return _ABSOLUTE.sub(lambda m: m[0].partition("/site-packages/")[2] or m[1], text)


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """A score under both rules, in percent, with its interval and counts.

    `partial`: a mean over fewer columns than the paper's.
    `clusters`: number of scenes or images in the interval; None if the summary does not state it.
    `n_partly`: samples of which the judge rated a part of what the score is over.
    """

    official: float | None
    strict: float | None
    ci: tuple[float, float] | None
    n: int
    n_ok: int
    n_unparsed: int
    n_unscored: int
    judge: str | None = None
    reason: str | None = None
    partial: bool = False
    clusters: int | None = None
    n_partly: int = 0

    @classmethod
    def exact(
        cls, value: float | None, ci: tuple[float, float] | None = None, *, n: int, n_ok: int | None = None,
        reason: str | None = None,
    ) -> ScoreCell:  # fmt: skip
        """A figure without unparsed and unscored samples, and so without a strict value."""
        ok = n if n_ok is None else n_ok
        return cls(value, None, ci, n=n, n_ok=ok, n_unparsed=0, n_unscored=0, reason=reason)

    @property
    def failures(self) -> str:
        """The samples without a full score, "2 unparsed, 1 unscored"; "" if there are none."""
        counts = ((self.n_unparsed, "unparsed"), (self.n_unscored, "unscored"), (self.n_partly, "partly scored"))
        return ", ".join(f"{n} {word}" for n, word in counts if n)


@dataclass(frozen=True, slots=True)
class DistractorRates:
    """A kind of distractor, in percent. share: of the wrong answers (n chose it); rate: of the n offered options."""

    share: ScoreCell
    rate: ScoreCell


@dataclass(frozen=True, slots=True)
class JudgementSpread:
    """The main score of a task that was judged several times, in percent: of each judgement, mean, and deviation.

    partly_read: samples of which some judgements have no mark; unread: these judgements.
    """

    by_repetition: tuple[float | None, ...]
    mean: float | None
    sd: float | None
    partly_read: int
    unread: int


@dataclass(frozen=True, slots=True)
class AnswerStability:
    """Shares of the questions of a task that was asked `per_question` times, in percent.

    alike: all replies are the same answer; always_right: all have full marks, None if a judge grades them.
    """

    per_question: int
    alike: ScoreCell
    always_right: ScoreCell | None


@dataclass(frozen=True, slots=True)
class SummaryBlock:
    """A mapping in a summary.json, whose fields are checked when they are read. `at`: its path in the file;
    `judge_suffix`: suffix for judge labels."""

    file: Path
    data: Mapping[str, Any]
    judge_suffix: str = ""
    at: str = ""

    def wrong(self, name: str, expected: str, found: Any = None) -> DataError:
        field = f"{self.at}.{name}" if self.at else name
        return DataError(self.file, None, field, expected, self.data.get(name) if found is None else found, RERUN_HINT)

    def block(self, name: str, *, optional: bool = False) -> SummaryBlock:
        """The mapping of this name; `optional`: empty if it is absent."""
        value = self.data.get(name, {} if optional else None)
        if not isinstance(value, dict):
            raise self.wrong(name, "a mapping", value)
        return SummaryBlock(self.file, value, self.judge_suffix, f"{self.at}.{name}" if self.at else name)

    def judge(self) -> str | None:
        label = self.data.get("judge")
        return f"{label}{self.judge_suffix}" if label else None

    def text(self, name: str) -> str:
        value = self.data.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "text")
        return value

    def names(self, name: str) -> tuple[str, ...]:
        value = self.data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of names")
        return tuple(value)

    def number(self, name: str) -> float | None:
        value = self.data.get(name)
        if value is not None and not is_number(value):
            raise self.wrong(name, "a percentage or null")
        return value

    def count(self, name: str) -> int:
        value = self.data.get(name)
        if not is_whole(value, low=0):
            raise self.wrong(name, "a count")
        return value

    def counts(self, name: str) -> dict[str, int]:
        inner = self.block(name, optional=True)
        return {str(key): inner.count(key) for key in inner.data}

    def interval(self, name: str = "ci") -> tuple[float, float] | None:
        ci = self.data.get(name)
        if ci is None:
            return None
        if not isinstance(ci, list) or len(ci) != 2 or not all(map(is_number, ci)):
            raise self.wrong(name, "[low, high] or null")
        return ci[0], ci[1]

    def cell(self, name: str) -> ScoreCell:
        raw = self.block(name)
        return ScoreCell(
            official=raw.number("official"),
            strict=raw.number("strict"),
            ci=raw.interval(),
            n=raw.count("n"),
            n_ok=raw.count("n_ok"),
            n_unparsed=raw.count("n_unparsed"),
            n_unscored=raw.count("n_unscored"),
            judge=raw.judge(),
            reason=without_folders(str(raw.data["reason"])) if raw.data.get("reason") else None,
            partial=bool(raw.data.get("missing_columns")),
            clusters=None if raw.data.get("clusters") is None else raw.count("clusters"),
            n_partly=raw.count("n_partly") if "n_partly" in raw.data else 0,
        )

    def cells(self, name: str) -> dict[str, ScoreCell]:
        inner = self.block(name, optional=True)
        return {str(key): inner.cell(key) for key in inner.data}

    def kinds(self, name: str) -> dict[str, DistractorRates]:
        inner = self.block(name, optional=True)
        found = {}
        for key in inner.data:
            raw = inner.block(key)
            chosen = raw.count("chosen")
            found[str(key)] = DistractorRates(
                share=ScoreCell.exact(raw.number("share"), raw.interval("share_ci"), n=chosen),
                rate=ScoreCell.exact(raw.number("rate"), raw.interval("rate_ci"), n=raw.count("offered"), n_ok=chosen),
            )
        return found

    def position(self, name: str) -> ScoreCell | None:
        """The bias towards option letters; None without circular evaluation."""
        if self.data.get(name) is None:
            return None
        raw = self.block(name)
        left_out = raw.count("incomplete")
        reason = f"{left_out} answers left out: not every rotation of their questions was asked" if left_out else None
        return ScoreCell.exact(raw.number("distance"), raw.interval(), n=raw.count("n"), reason=reason)

    def correctness(self, name: str) -> ScoreCell | None:
        """The mean rating (1 to 5) of the questions by an evaluator; None if there is none."""
        raw = self.block(name, optional=True)
        if raw.data.get("mean") is None:
            return None
        n, unrated = raw.count("n"), raw.count("unrated")
        reason = f"{unrated} of {n + unrated} questions were not rated" if unrated else None
        return ScoreCell.exact(raw.number("mean"), n=n, reason=reason)

    def spread(self, name: str) -> JudgementSpread | None:
        """Repeated judgements of the main score; None if each text was rated once."""
        raw = self.block(name, optional=True)
        if raw.data.get("score") is None:
            return None
        score = raw.block("score")
        values = score.data.get("by_repetition")
        if not isinstance(values, list) or not all(v is None or is_number(v) for v in values):
            raise score.wrong("by_repetition", "a list of percentages")
        return JudgementSpread(
            tuple(values), score.number("mean"), score.number("sd"), raw.count("partly_read"), raw.count("unread")
        )

    def stability(self, name: str) -> AnswerStability | None:
        if self.data.get(name) is None:
            return None
        raw = self.block(name)
        right = raw.cell("always_right") if "always_right" in raw.data else None
        return AnswerStability(raw.count("per_question"), raw.cell("alike"), right)
