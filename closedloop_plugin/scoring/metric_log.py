"""Log of the ego's motion in the layout and axes of Bench2Drive's metric_info.json, the input of Comfortness.

    {"0": {"acceleration": [x, y, z], "angular_velocity": [..], "forward_vector": [..], "right_vector": [..],
           "location": [..], "rotation": [roll, pitch, yaw]}, "1": ...}

CARLA's left-handed axes: y and yaw have the opposite sign of the map frame (core/frames.py). Acceleration in m/s2,
angular velocity in degrees/s, rotation in degrees, location in m. Our worlds are flat: z, roll and pitch are 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from closedloop_plugin.core.frames import to_carla
from closedloop_plugin.core.state import GroundTruth
from closedloop_plugin.scoring.comfort import FIELDS, MODES, EgoMotion, segments

_DECIMALS = 5  # a file of 4,000 ticks stays near 1 MB


class MetricLog:
    """Log of one episode. A tick that is added twice keeps its last state."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, list[float]]] = {}
        self._times: dict[int, float] = {}

    def add(self, truth: GroundTruth) -> None:
        ego = truth.ego
        x, y, yaw = to_carla(ego.x, ego.y, ego.yaw)
        ax, ay, _ = to_carla(ego.ax, ego.ay)
        turn = math.radians(yaw)
        c, s = _short(math.cos(turn)), _short(math.sin(turn))
        self._rows[truth.tick] = {
            "acceleration": [_short(ax), _short(ay), 0.0],
            "angular_velocity": [0.0, 0.0, _short(-math.degrees(ego.yaw_rate))],
            "forward_vector": [c, s, 0.0],
            "right_vector": [0.0 - s, c, 0.0],
            "location": [_short(x), _short(y), 0.0],
            "rotation": [0.0, 0.0, _short(yaw)],
        }
        self._times[truth.tick] = truth.time_s

    def to_json(self) -> dict[str, Any]:
        return {str(tick): self._rows[tick] for tick in sorted(self._rows)}

    def comfort(self) -> dict[str, Any]:
        """{"official": share, "corrected": share, "segments": number, "dt": s}, as computed from `to_json`.

        The shares are None for fewer than three ticks. dt is the median interval of the logged times; `segments` is the
        number of those of `official`, 20 samples each.
        """
        if len(self._rows) < 3:
            return {**dict.fromkeys(MODES), "segments": 0, "dt": None}
        ticks = sorted(self._rows)
        columns = {name: np.array([self._rows[tick][name] for tick in ticks]) for name in FIELDS}
        motion = EgoMotion(**columns, steps=np.array(ticks))
        dt = round(float(np.median(np.diff([self._times[t] for t in ticks]))), 9)
        verdicts = {mode: segments(motion, mode, dt) for mode in MODES}
        shares = {mode: sum(flags) / len(flags) for mode, flags in verdicts.items()}
        return {**shares, "segments": len(verdicts["official"]), "dt": dt}


def _short(value: float) -> float:
    return round(value, _DECIMALS) + 0.0  # + 0.0: no "-0.0"
