"""Which mean a printed figure is: over all routes, over the records, or over the records that did not crash.

A figure counts as equal if it differs by less than 0.01, its last printed decimal: rounded or cut off. The figures of
one source are explained together: all of them must be means of one result over the same routes. A list has dozens of
means, so that one figure alone can equal that of another result by chance; another result is named only if both
measures are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from closedloop_plugin.scoring.audit.result_list import PrintedFigures
from closedloop_plugin.scoring.driving import driving_score, success_rate
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.numbers import is_bounded
from lmms_eval_ad2.storage.untrusted_json import load

LAST_DECIMAL = 0.01  # percent
MEASURES = {"driving_score": "Driving Score", "success_rate": "Success Rate"}
OWN_KEYS = "keys of the file"
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class MeanBasis:
    """The two means over `n` routes. `what`: which routes; `whole`: these are all routes of the benchmark."""

    what: str
    n: int
    driving_score: float
    success_rate: float
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.n} {self.what}"

    def equals(self, printed: Mapping[str, float]) -> bool:
        """Whether all figures (by measure) are these means."""
        return all(abs(float(getattr(self, name)) - value) < LAST_DECIMAL for name, value in printed.items())


@dataclass(frozen=True)
class ExplainedFigure:
    """A printed figure beside the one over all routes. `equal_over`: what it is the mean of; None if not found."""

    source: str
    measure: str
    printed: float
    recomputed: float
    equal_over: MeanBasis | None
    of_result: str = ""  # name of another result that it belongs to

    @property
    def reproduced(self) -> bool:
        """Whether the printed figure is the one over all routes of this file."""
        return self.equal_over is not None and self.equal_over.whole and not self.of_result

    @property
    def not_rounded(self) -> float | None:
        """The mean of a figure that is equal to it, but is not its rounding (decimals cut off); else None."""
        mean = getattr(self.equal_over, self.measure, None)
        return mean if mean is not None and f"{mean:.2f}" != f"{self.printed:.2f}" else None

    @property
    def text(self) -> str:
        return UNEXPLAINED if self.equal_over is None else f"the mean over the {self.over}"

    @property
    def over(self) -> str:
        """The routes or records of the mean, as in "208 records"; "unexplained" if it was not found."""
        if self.equal_over is None:
            return UNEXPLAINED
        return f"{self.equal_over}{f' of {self.of_result}' if self.of_result else ''}"


def bases(records: Sequence[OfficialRecord], n_routes: int) -> tuple[MeanBasis, ...]:
    """The means that a printed figure may be, those over all routes first. `records`: at most one per route."""
    finished = [record for record in records if not record.crashed]
    found = [_basis("routes", records, n_routes, True)]
    found += [_basis("records", records, len(records))] if records and len(records) != n_routes else []
    found += [_basis("records without a crash", finished, len(finished))] if 0 < len(finished) < len(records) else []
    return tuple(found)


def _basis(what: str, records: Sequence[OfficialRecord], n: int, whole: bool = False) -> MeanBasis:
    return MeanBasis(what, n, driving_score(records, n), success_rate(records, n), whole)


def own_figures(path: Path) -> PrintedFigures | None:
    """The means that a merged result file states itself ("success rate" is a fraction); None if it has none."""
    if path.is_dir():
        return None
    try:
        data = load(path)
    except (OSError, ValueError):
        return None  # official.read reports what is wrong with the file
    if not isinstance(data, dict):
        return None
    score, rate = data.get("driving score"), data.get("success rate")
    known = {
        "driving_score": float(score) if is_bounded(score) and 0 <= score <= 100 else None,
        "success_rate": 100.0 * rate if is_bounded(rate) and 0 <= rate <= 1 else None,
    }
    return PrintedFigures(source=OWN_KEYS, **known) if any(value is not None for value in known.values()) else None


def explain(
    printed: Iterable[PrintedFigures], own: Sequence[MeanBasis], others: Mapping[str, Sequence[MeanBasis]]
) -> list[ExplainedFigure]:
    """Every printed figure of a result. `own`: its bases; `others`: those of the other results by name."""
    rows = []
    for figures in printed:
        values = {name: value for name in MEASURES if (value := getattr(figures, name)) is not None}
        equal_over, of_result = _found(values, own, others)
        rows += [
            ExplainedFigure(figures.source, name, value, float(getattr(own[0], name)), equal_over, of_result)
            for name, value in values.items()
        ]
    return rows


def _found(
    values: Mapping[str, float], own: Sequence[MeanBasis], others: Mapping[str, Sequence[MeanBasis]]
) -> tuple[MeanBasis | None, str]:
    """The basis of all figures of one source, and the name of the result if it is another one."""
    for basis in own:
        if basis.equals(values):
            return basis, ""
    if len(values) == len(MEASURES):
        for name, of_other in others.items():
            for basis in of_other:
                if basis.equals(values):
                    return basis, name
    return None, ""
