"""Comfortness of records: the rate of their motion, and the share of comfortable segments of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from closedloop_plugin.scoring.comfort import EgoMotion, sample_interval, share
from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error

Key = tuple[str, int]  # route id, repetition


def sample_intervals(
    records: Mapping[Key, OfficialRecord],
    metric_info: Mapping[Key, EgoMotion] | None,
    metric_hz: float | None,
    tick_hz: float,
) -> dict[Key, float]:
    """Seconds between samples of the motion of each record: as our records store it, else as given or by the ticks."""
    found = {}
    for key, record in records.items():
        own, motion = max(record.comfort.get("dt") or 0.0, 0.0), (metric_info or {}).get(key)
        if own and metric_hz and abs(own * metric_hz - 1.0) > 0.01:
            raise Ad2Error(f"{record.source}: was logged at {1.0 / own:g} Hz, not {metric_hz:g}: leave out --metric-hz")
        if own:
            found[key] = own
        elif motion is not None:
            found[key] = 1.0 / metric_hz if metric_hz else sample_interval(motion, tick_hz)
    return found


def one_rate(intervals_s: Sequence[float]) -> float | None:
    rates = {round(1.0 / interval, 3) for interval in intervals_s}
    return rates.pop() if len(rates) == 1 else None


def comforts(
    records: Mapping[Key, OfficialRecord],
    metric_info: Mapping[Key, EgoMotion] | None,
    mode: str,
    intervals_s: Mapping[Key, float],
) -> tuple[dict[Key, float], list[str]]:
    """(share of comfortable segments by record, notes on records without one)."""
    found: dict[Key, float | None] = {}
    for key, record in records.items():
        if metric_info is None:
            found[key] = record.comfort.get(mode)
        elif key in metric_info:
            found[key] = share(metric_info[key], mode, intervals_s[key])
    known = {key: value for key, value in found.items() if value is not None}
    if len(known) == len(records):
        return known, []
    if not known:
        return known, ["comfortness: no metric_info.json of these episodes was given"]
    return known, [f"comfortness: over {len(known)} of {len(records)} records; the others have no usable metric_info"]
