"""Comfortness (Bench2Drive: smoothness): share of segments of the drive in which six quantities stay within bounds.

Both modes compute, per sample and in the ground plane, lon = a . forward, lat = a . right, magnitude = |a| and the yaw
rate. Each is smoothed within its segment by a Savitzky-Golay filter (order 2, window min(7, n)); jerks are derivatives
of the smoothed accelerations by the same filter. A segment is comfortable if every sample of all six is strictly within
BOUNDS. A last incomplete segment is dropped; an episode of one segment or less is one; fewer than 3 samples cannot be
filtered.

`official`   as Bench2Drive's script computes it: segments of 20 samples and dt = 0.1 s at any rate, which is right for
             files logged at 10 Hz only; the yaw rate as CARLA reports it (degrees/s) against bounds in rad/s, and
             unwrapped like an angle (multiples of 2 pi between neighbours removed); "yaw acceleration" is the yaw rate
             again, not its derivative.
`corrected`  segments of 1 s (20 samples at 20 Hz) and dt are those of the real sampling interval; yaw rate in rad/s,
             not unwrapped; yaw acceleration is its derivative. The filter has 7 samples at any rate, so at a lower
             rate it smooths over a longer time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closedloop_plugin.scoring.official_record import OfficialRecord
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_bounded
from lmms_eval_ad2.storage.untrusted_json import load

Key = tuple[str, int]  # route id, repetition
Floats = NDArray[np.float64]

MODES = ("official", "corrected")
OFFICIAL_DT = 0.1  # s
SEGMENT = 20  # samples, of `official`
SEGMENT_S = 1.0  # s, of `corrected`
WINDOW, ORDER = 7, 2
FIELDS = ("acceleration", "angular_velocity", "forward_vector", "right_vector")

# quantity -> (low, high), exclusive; m/s2, m/s3, rad/s2, rad/s: nuPlan's comfort bounds, as in Bench2Drive's script
BOUNDS = {
    "lon_acceleration": (-4.05, 2.40),
    "lat_acceleration": (-4.89, 4.89),
    "magnitude_jerk": (-8.37, 8.37),
    "lon_jerk": (-4.13, 4.13),
    "yaw_acceleration": (-1.93, 1.93),
    "yaw_rate": (-0.95, 0.95),
}


@dataclass(frozen=True)
class EgoMotion:
    """Motion of an episode in CARLA's axes: arrays (n, 3) in m/s2, degrees/s, unit vectors; `steps`: (n,) ticks."""

    acceleration: Floats
    angular_velocity: Floats
    forward_vector: Floats
    right_vector: Floats
    steps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.acceleration)


def share(motion: EgoMotion, mode: str, dt: float | None = None) -> float | None:
    """Share of comfortable segments in [0, 1]; None for fewer than 3 samples. `dt`: see `segments`."""
    verdicts = segments(motion, mode, dt)
    return sum(verdicts) / len(verdicts) if verdicts else None


def segments(motion: EgoMotion, mode: str, dt: float | None = None) -> list[bool]:
    """Whether each segment is comfortable, in order. Raises Ad2Error for an unknown mode.

    `dt`: s between samples; `corrected` needs it, `official` ignores it.
    """
    if mode not in MODES:
        raise Ad2Error(f"unknown comfort mode {mode!r}; known: {', '.join(MODES)}")
    dt = OFFICIAL_DT if mode == "official" else dt
    if dt is None or not dt > 0.0:
        raise Ad2Error(f"comfort mode {mode!r} needs the interval between samples in s, not {dt!r}")
    size = SEGMENT if mode == "official" else max(ORDER + 1, round(SEGMENT_S / dt))
    n = len(motion)
    if n <= ORDER:
        return []
    length = min(n, size)
    # All segments at once, one per row: an episode has hundreds, and each alone is too small for numpy.
    values = quantities(motion, slice(0, n - n % length), (-1, length), mode, dt)
    return [bool(inside) for inside in comfortable(values)]


def sample_interval(motion: EgoMotion, tick_hz: float) -> float:
    """Median interval between samples in s, from the numbers of their ticks: an agent may log every second tick."""
    gaps = motion.steps[1:] - motion.steps[:-1]
    return (float(np.median(gaps)) if len(gaps) else 1.0) / tick_hz


def comfortable(values: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Per segment (all axes but the last): whether every sample of all six is strictly within bounds."""
    return np.logical_and.reduce(
        [((values[name] > low) & (values[name] < high)).all(axis=-1) for name, (low, high) in BOUNDS.items()]
    )


def quantities(motion: EgoMotion, cut: slice, shape: tuple[int, ...], mode: str, dt: float) -> dict[str, Floats]:
    """The six quantities of the samples in `cut`, reshaped to `shape`; its last axis holds a segment's samples.

    `dt`: s between samples, which `official` ignores.
    """
    a, forward, right = (
        np.asarray(x)[cut, :2] for x in (motion.acceleration, motion.forward_vector, motion.right_vector)
    )
    rate = np.asarray(motion.angular_velocity)[cut, 2].reshape(shape)
    official = mode == "official"
    delta = OFFICIAL_DT if official else dt
    # lon = a . forward, lat = a . right, magnitude = |a|, in m/s2; the z component is dropped.
    lon = _smooth((a * forward).sum(axis=1).reshape(shape))
    magnitude = _smooth(np.hypot(a[:, 0], a[:, 1]).reshape(shape))
    yaw_rate = _smooth(_unwrapped(rate) if official else np.radians(rate))
    return {
        "lon_acceleration": lon,
        "lat_acceleration": _smooth((a * right).sum(axis=1).reshape(shape)),
        "magnitude_jerk": _smooth(magnitude, delta),
        "lon_jerk": _smooth(lon, delta),
        "yaw_acceleration": yaw_rate if official else _smooth(yaw_rate, delta),
        "yaw_rate": yaw_rate,
    }


def _smooth(values: Floats, delta: float | None = None) -> Floats:
    """Savitzky-Golay filter along the last axis; with `delta` (sampling interval, s) the first derivative."""
    weights = _weights(values.shape[-1], 0 if delta is None else 1)
    filtered = (weights * values[..., None, :]).sum(axis=-1)
    return filtered if delta is None else filtered / delta


@cache
def _weights(n: int, derivative: int) -> Floats:
    """Filter matrix (n, n): row i gives the filtered value (or derivative, per sample interval) at sample i of n.

    Same as scipy.signal.savgol_filter with mode "interp": a least-squares parabola through the window centred on the
    sample; near the ends, through the first or last window. Written out here because importing scipy.signal costs each
    world process 0.7 s, and a segment is so short that the filter is one small matrix.
    """
    window = min(WINDOW, n)
    matrix = np.zeros((n, n))
    for i in range(n):
        first = min(max(i - window // 2, 0), n - window)
        powers = np.arange(ORDER + 1)
        # Least squares: y(j) = c0 + c1 (j - i) + c2 (j - i)^2, so c = pinv(A) y with A[j, k] = (j - i)^k. At j = i the
        # value is c0 and the first derivative is c1: rows 0 and 1 of pinv(A).
        fit = np.linalg.pinv((np.arange(first, first + window)[:, None] - float(i)) ** powers)
        matrix[i, first : first + window] = fit[derivative]
    return matrix


def _unwrapped(values: Floats) -> Floats:
    """Multiples of 2 pi removed from the differences of neighbours, as for angles in radians."""
    turns = np.zeros_like(values)
    turns[..., 1:] = np.cumsum(np.round(np.diff(values) / math.tau), axis=-1)
    return values - math.tau * turns


def read_motion(file: Path) -> EgoMotion:
    """Read a metric_info.json: an object keyed by tick; each value holds the four vectors of FIELDS.

    Other keys are ignored. Raises Ad2Error if the file cannot be read, DataError if a value is malformed.
    """
    file = Path(file)
    try:
        data = load(file, finite=False)
    except OSError as exc:
        raise Ad2Error(f"{file}: cannot be read ({exc.strerror})") from exc
    except ValueError as exc:
        raise Ad2Error(f"{file}: not a whole JSON file ({exc}); remove it to score without it") from exc
    return parse_motion(data, file)


def find_motions(folder: Path, names: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], EgoMotion]:
    """Motion of each (route id, repetition) that has a file. `names`: (route id, repetition) -> save_name.

    Tried in this order: FOLDER/<save_name>/metric_info.json (Bench2Drive), FOLDER/<route>_rep<k>.json (ours).
    Raises Ad2Error if the folder or all files are missing.
    """
    if not folder.is_dir():
        raise Ad2Error(f"{folder}: no such folder of metric_info files")
    found: dict[tuple[str, int], EgoMotion] = {}
    for (route, k), save_name in names.items():
        # The names come from a result file: only the last path component is used, so they cannot leave the folder.
        own = folder / Path(f"{route}_rep{k}.json").name
        official = folder / Path(save_name).name / "metric_info.json" if save_name else own
        file = official if official.is_file() else own
        if file.is_file():
            found[route, k] = read_motion(file)
    if not found:
        raise Ad2Error(f"{folder}: no metric_info of these records; expected <save_name>/metric_info.json or "
                       "<route>_rep<k>.json in it")  # fmt: skip
    return found


def parse_motion(data: Any, file: object = "metric_info") -> EgoMotion:
    """Like read_motion, from the parsed object. Samples are sorted by tick."""
    if not isinstance(data, dict) or not data:
        raise DataError(file, None, "(top)", "an object keyed by tick", data)
    rows = sorted(((_step(file, key), value) for key, value in data.items()), key=lambda row: row[0])
    columns = {name: np.array([_vector(file, step, row, name) for step, row in rows]) for name in FIELDS}
    return EgoMotion(**columns, steps=np.array([step for step, _ in rows]))


def _step(file: object, key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 16):
        raise DataError(file, None, "(key)", "the number of a tick", key)
    return int(key)


def _vector(file: object, step: int, row: Any, name: str) -> list[float]:
    value = row.get(name) if isinstance(row, dict) else row
    if not isinstance(value, list) or len(value) != 3 or not all(map(is_bounded, value)):
        raise DataError(file, f"tick {step}", name, "three finite numbers", value)
    return [float(x) for x in value]


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
            raise Ad2Error(
                f"{record.source}: was logged at {1.0 / own:g} Hz, not {metric_hz:g}: leave out --config metric_hz"
            )
        if own:
            found[key] = own
        elif motion is not None:
            found[key] = 1.0 / metric_hz if metric_hz else sample_interval(motion, tick_hz)
    return found


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
