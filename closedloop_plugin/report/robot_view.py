"""robot_view: top view of one run on a course with lane, obstacles, planned path, driven path and end.

`drive`: a JSON value from tracks/, as written by robots/course/runner.py; metres, radians, the track's frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.report.top_view import EGO, ROUTE, WRONG, box
from lmms_eval_ad2.core.errors import require

FLOOR, TAPE, THINGS = "#e9eaec", "#e6b800", "#a0522d"
ENDED_WELL = "completed"
GHOST_S = 2.0  # between drawn outlines of the vehicle
MARGIN_M = 0.12


def robot_view(drive: Mapping[str, Any], out: Path) -> Path:
    """Write a PNG. Returns `out`."""
    require("matplotlib", "pictures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide, tall = drive["floor"]
    figure = Figure(figsize=(9.0, 9.0 * tall / wide + 1.0))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.fill([0, wide, wide, 0], [0, 0, tall, tall], color=FLOOR, zorder=0)
    for i, line in enumerate(drive["lines"]):
        axes.plot(*np.array(line).T, color=TAPE, lw=4, zorder=2, label="yellow line" if i == 0 else None)
    for i, corners in enumerate(drive["obstacles"]):
        axes.fill(*np.array(corners).T, color=THINGS, zorder=3, label="obstacle" if i == 0 else None)
    axes.plot(*np.array(drive["planned"]).T, color=ROUTE, lw=6, alpha=0.4, zorder=4, label="planned")
    _driven(axes, drive)
    axes.set_xlim(-MARGIN_M, wide + MARGIN_M)
    axes.set_ylim(-MARGIN_M, tall + MARGIN_M)
    axes.set_aspect("equal")
    axes.set_xlabel("x, m")
    axes.set_ylabel("y, m")
    axes.set_title(heading(drive["result"]), fontsize=9, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=5, fontsize=8, frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, bbox_inches="tight", pad_inches=0.15)
    return out


def heading(result: Mapping[str, Any]) -> str:
    """Title of two lines: segment and driver, result."""
    slow = result["interpreter"] or {}
    driver = " + ".join(str(part) for part in (result["agent"].get("name"), slow.get("name")) if part)
    what = f"{result['segment']} ({result['geometry']}), run {result['run']}"
    end = result["end"] + (f": {result['what']}" if result["what"] and result["what"] != result["end"] else "")
    return (
        f"{what}, {result['robot'].get('name')}, {driver}\n"
        f"{end}, completion {result['completion']:.1f} %, {result['time_s']:.1f} s"
    )


def _driven(axes: Any, drive: Mapping[str, Any]) -> None:
    """Draw the driven path, outlines of the vehicle, a dot per decision, and a mark at the end."""
    poses = np.array(drive["poses"])  # t, x, y, yaw, speed
    if not len(poses):
        return
    length, width, ahead = drive["footprint"]
    axes.plot(poses[:, 1], poses[:, 2], color=EGO, lw=1.8, zorder=6, label="driven")
    due = 0.0
    for pose in poses:
        if pose[0] >= due:
            axes.fill(*_outline(pose, length, width, ahead).T, fill=False, edgecolor=EGO, lw=0.5, alpha=0.5, zorder=5)
            due = pose[0] + GHOST_S
    asked = np.array([c["pose"][:2] for c in drive["cycles"] if c.get("pose")])
    if len(asked):
        axes.plot(*asked.T, ".", color="#2c5bb8", ms=5, zorder=7, label="decision")
    well = drive["result"]["end"] == ENDED_WELL
    axes.fill(*_outline(poses[-1], length, width, ahead).T, color=EGO if well else WRONG, alpha=0.8, lw=0, zorder=8)
    axes.plot(
        *poses[-1, 1:3], "o" if well else "X", color=EGO if well else WRONG, mec="white", ms=10, zorder=9, label="end"
    )


def _outline(pose: np.ndarray, length: float, width: float, ahead: float) -> np.ndarray:
    t, x, y, yaw = (float(v) for v in pose[:4])
    return box((t, x + ahead * np.cos(yaw), y + ahead * np.sin(yaw), yaw), length, width)
