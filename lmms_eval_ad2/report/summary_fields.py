"""Validated reading of the fields of a summary.json; an invalid field raises a DataError with its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
class SummaryReader:
    """Reads the fields of one file. `at`: path of the current block; `judge_suffix`: suffix for judge labels."""

    file: Path
    judge_suffix: str = ""
    at: str = ""

    def inside(self, name: str) -> SummaryReader:
        return replace(self, at=f"{self.at}.{name}" if self.at else name)

    def judge(self, data: Mapping[str, Any]) -> str | None:
        label = data.get("judge")
        return f"{label}{self.judge_suffix}" if label else None

    def wrong(self, name: str, expected: str, found: Any) -> DataError:
        return DataError(self.file, None, self.inside(name).at, expected, found, RERUN_HINT)

    def mapping(self, data: Mapping[str, Any], name: str, default: Any = None) -> Mapping[str, Any]:
        value = data.get(name, default)
        if not isinstance(value, dict):
            raise self.wrong(name, "a mapping", value)
        return value

    def text(self, data: Mapping[str, Any], name: str) -> str:
        value = data.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "text", value)
        return value

    def names(self, data: Mapping[str, Any], name: str) -> tuple[str, ...]:
        value = data.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of names", value)
        return tuple(value)

    def number(self, data: Mapping[str, Any], name: str) -> float | None:
        value = data.get(name)
        if value is not None and not is_number(value):
            raise self.wrong(name, "a percentage or null", value)
        return value

    def count(self, data: Mapping[str, Any], name: str) -> int:
        value = data.get(name)
        if not is_whole(value, low=0):
            raise self.wrong(name, "a count", value)
        return value

    def counts(self, data: Mapping[str, Any], name: str) -> dict[str, int]:
        inner = self.mapping(data, name, {})
        return {str(key): self.inside(name).count(inner, key) for key in inner}

    def interval(self, data: Mapping[str, Any], name: str = "ci") -> tuple[float, float] | None:
        ci = data.get(name)
        if ci is None:
            return None
        if not isinstance(ci, list) or len(ci) != 2 or not all(map(is_number, ci)):
            raise self.wrong(name, "[low, high] or null", ci)
        return ci[0], ci[1]

    def cell(self, data: Mapping[str, Any], name: str) -> ScoreCell:
        raw, here = self.mapping(data, name), self.inside(name)
        return ScoreCell(
            official=here.number(raw, "official"),
            strict=here.number(raw, "strict"),
            ci=here.interval(raw),
            n=here.count(raw, "n"),
            n_ok=here.count(raw, "n_ok"),
            n_unparsed=here.count(raw, "n_unparsed"),
            n_unscored=here.count(raw, "n_unscored"),
            judge=here.judge(raw),
            reason=without_folders(str(raw["reason"])) if raw.get("reason") else None,
            partial=bool(raw.get("missing_columns")),
            clusters=None if raw.get("clusters") is None else here.count(raw, "clusters"),
            n_partly=here.count(raw, "n_partly") if "n_partly" in raw else 0,
        )

    def kinds(self, data: Mapping[str, Any], name: str) -> dict[str, DistractorRates]:
        inner, here = self.mapping(data, name, {}), self.inside(name)
        return {str(key): here.inside(str(key)).kind(here.mapping(inner, key)) for key in inner}

    def kind(self, raw: Mapping[str, Any]) -> DistractorRates:
        chosen, offered = self.count(raw, "chosen"), self.count(raw, "offered")
        return DistractorRates(
            share=ScoreCell(
                official=self.number(raw, "share"),
                strict=None,
                ci=self.interval(raw, "share_ci"),
                n=chosen,
                n_ok=chosen,
                n_unparsed=0,
                n_unscored=0,
            ),
            rate=ScoreCell(
                official=self.number(raw, "rate"),
                strict=None,
                ci=self.interval(raw, "rate_ci"),
                n=offered,
                n_ok=chosen,
                n_unparsed=0,
                n_unscored=0,
            ),
        )

    def position(self, data: Mapping[str, Any], name: str) -> ScoreCell | None:
        """The bias towards option letters; None without circular evaluation."""
        if data.get(name) is None:
            return None
        raw, here = self.mapping(data, name), self.inside(name)
        n = here.count(raw, "n")
        left_out = here.count(raw, "incomplete")
        reason = f"{left_out} answers left out: not every rotation of their questions was asked" if left_out else None
        return ScoreCell(
            official=here.number(raw, "distance"),
            strict=None,
            ci=here.interval(raw),
            n=n,
            n_ok=n,
            n_unparsed=0,
            n_unscored=0,
            reason=reason,
        )

    def correctness(self, data: Mapping[str, Any], name: str) -> ScoreCell | None:
        """The mean rating (1 to 5) of the questions by an evaluator; None if there is none."""
        raw, here = self.mapping(data, name, {}), self.inside(name)
        if raw.get("mean") is None:
            return None
        n, unrated = here.count(raw, "n"), here.count(raw, "unrated")
        reason = f"{unrated} of {n + unrated} questions were not rated" if unrated else None
        return ScoreCell(
            official=here.number(raw, "mean"),
            strict=None,
            ci=None,
            n=n,
            n_ok=n,
            n_unparsed=0,
            n_unscored=0,
            reason=reason,
        )

    def spread(self, data: Mapping[str, Any], name: str) -> JudgementSpread | None:
        """Repeated judgements of the main score; None if each text was rated once."""
        raw, here = self.mapping(data, name, {}), self.inside(name)
        if not raw or raw.get("score") is None:
            return None
        score, inner = here.mapping(raw, "score"), here.inside("score")
        values = score.get("by_repetition")
        if not isinstance(values, list) or not all(v is None or is_number(v) for v in values):
            raise inner.wrong("by_repetition", "a list of percentages", values)
        return JudgementSpread(
            by_repetition=tuple(values),
            mean=inner.number(score, "mean"),
            sd=inner.number(score, "sd"),
            partly_read=here.count(raw, "partly_read"),
            unread=here.count(raw, "unread"),
        )

    def stability(self, data: Mapping[str, Any], name: str) -> AnswerStability | None:
        if data.get(name) is None:
            return None
        raw, here = self.mapping(data, name), self.inside(name)
        right = here.cell(raw, "always_right") if "always_right" in raw else None
        return AnswerStability(here.count(raw, "per_question"), here.cell(raw, "alike"), right)

    def cells(self, data: Mapping[str, Any], name: str) -> dict[str, ScoreCell]:
        inner = self.mapping(data, name, {})
        return {str(key): self.inside(name).cell(inner, key) for key in inner}
