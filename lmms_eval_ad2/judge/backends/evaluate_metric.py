"""Judge that computes a metric of the library `evaluate` from a local script. No model, no network.

The script defines one `evaluate.Metric` with `predictions` and `references`; each answer is compared with its reference
on its own. Mark = 1 + 9 · (v - worst) / (best - worst), limited to 1..10, with v the metric's value: for an error rate,
best = 0 and worst = 1. The script is Python code of the user and runs in this process.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge.backends.lexical import unfit
from lmms_eval_ad2.judge.base import HIGHEST, LOWEST, JudgeItem, JudgeRating, new_usage
from lmms_eval_ad2.storage.files import file_sha256

NOT_JUDGEABLE = "not_judgeable_by_metric"


class EvaluateJudge:
    """`script`: a .py file, or a folder NAME with NAME.py. `value`: key of the result, if that has several numbers."""

    def __init__(self, script: str, *, value: str = "", name: str = "", best: float = 1.0, worst: float = 0.0) -> None:
        if best == worst:
            raise Ad2Error(f"judge evaluate: best and worst must differ, found {best:g} for both")
        self.usage = new_usage()
        self.script, self.value, self.best, self.worst = locate(script), value, best, worst
        self.label = f"evaluate:{name or self.script.stem}"
        self._metric = _load(self.script)

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """See Judge.rate. An item for which the script fails, or returns no finite number, is Unscored."""
        return [self._rate(item) for item in items]

    def _rate(self, item: JudgeItem) -> JudgeRating | Unscored:
        if reason := unfit(item, NOT_JUDGEABLE):
            return Unscored(item.rubric, reason)
        try:
            result = self._metric.compute(predictions=[item.answer], references=[item.reference])
        except Exception as exc:  # any error of the user's script concerns this item only
            return Unscored(item.rubric, "metric_failed", f"{type(exc).__name__}: {exc}"[:300])
        key, value = self._number(result)
        if value is None:
            return Unscored(item.rubric, "metric_undefined", f"{key or 'the result'} is no finite number")
        share = (value - self.worst) / (self.best - self.worst)
        mark = LOWEST + (HIGHEST - LOWEST) * min(1.0, max(0.0, share))
        return JudgeRating(item.id, mark, f"{key} {value:.4f}")

    def _number(self, result: Mapping[str, Any] | None) -> tuple[str, float | None]:
        numbers = {key: number for key, found in (result or {}).items() if (number := _finite(found)) is not None}
        if self.value:
            if result is not None and self.value not in result:
                raise Ad2Error(f"{self.script}: the result has no '{self.value}', only {', '.join(map(str, result))}")
            return self.value, numbers.get(self.value)
        if len(numbers) > 1:
            raise Ad2Error(f"{self.script}: the result has several numbers; choose one: value={' | '.join(numbers)}")
        return next(iter(numbers.items()), ("", None))

    def describe(self) -> dict[str, Any]:
        """See Judge.describe. `script_sha256` distinguishes two scripts of one name."""
        return {
            "backend": "evaluate", "model": None, "metric": self.script.stem, "value": self.value or None,
            "script_sha256": file_sha256(self.script),
            "mark": f"1 + 9 * (value - {self.worst:g}) / ({self.best:g} - {self.worst:g})",
            "seed": None, "temperature": None,
        }  # fmt: skip


def locate(script: str) -> Path:
    """The script's file. Raises Ad2Error if there is none: names of metrics on a hub are not accepted."""
    path = Path(script).expanduser()
    if script and path.is_dir():
        path = path / f"{path.name}.py"
    if not script or path.suffix != ".py" or not path.is_file():
        raise Ad2Error(
            f"judge evaluate: '{script}' is no local script; give a .py file with an evaluate.Metric, "
            "e.g. configs/judges/metrics/rouge_l.py (metrics of a hub must be saved first)"
        )
    return path.resolve()


@functools.cache
def _library() -> Any:
    """`evaluate`, with a folder of this process for copies of scripts: in the shared one, equal names collide."""
    library = require("evaluate", "the judge evaluate")
    folder = tempfile.mkdtemp(prefix="ad2-evaluate-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    importlib.import_module("evaluate.config").HF_MODULES_CACHE = Path(folder)  # type: ignore[attr-defined]
    return library


def _load(script: Path) -> Any:
    library = _library()
    importlib.invalidate_caches()  # the copy is imported in the second in which it is written
    try:
        return library.load(str(script), keep_in_memory=True)
    except Exception as exc:  # errors of the user's script, of any kind
        raise Ad2Error(f"cannot load the metric {script}: {type(exc).__name__}: {exc}") from exc


def _finite(found: Any) -> float | None:
    """`found` as a float: a number, NumPy's included, or a list of one; None for anything else, NaN and infinities."""
    if isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    found = found.item() if hasattr(found, "item") and not getattr(found, "shape", ()) else found
    return float(found) if is_number(found) else None
