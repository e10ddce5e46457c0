"""LatencyModel: simulated time between a request and its response.

`waits` (the world waits), a number of seconds, a file of them, or `measured`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error, DataError


@dataclass(frozen=True)
class LatencyModel:
    """`values`: seconds, used cyclically; empty and not measured: the world waits for every response."""

    label: str = "waits"  # in the results
    values: tuple[float, ...] = ()
    measured: bool = False  # wall time of the models; not reproducible

    def of(self, number: int, seed: int, spent_s: float) -> float:
        """Seconds until the response to request `number` (from 0) of an episode takes effect. spent_s: wall time."""
        if self.measured:
            return max(spent_s, 0.0)
        return self.values[(seed + number) % len(self.values)] if self.values else 0.0


WAITS = LatencyModel()


def read_latency(text: str | None) -> LatencyModel:
    """From "waits" (or None), "measured", seconds, or a file with one value in seconds per line (# comments)."""
    if text is None or text == "waits":
        return WAITS
    if text == "measured":
        return LatencyModel("latency measured (not reproducible)", measured=True)
    try:
        seconds = float(text)
    except ValueError:
        return _from_file(Path(text))
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Ad2Error(f"--latency {text}: seconds must be 0 or more")
    return LatencyModel(f"latency {seconds:g}", (seconds,))


def _from_file(file: Path) -> LatencyModel:
    if not file.is_file():
        raise Ad2Error(f"--latency {file}: neither 'waits', 'measured', a number of seconds, nor a file")
    values = []
    for row, line in enumerate(file.read_text("utf-8", errors="replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise DataError(file, row, "latency", "seconds, 0 or more", text)
        values.append(value)
    if not values:
        raise DataError(file, None, "latency", "at least one line with seconds")
    return LatencyModel(f"latency file {file.name} ({len(values)} values)", tuple(values))
