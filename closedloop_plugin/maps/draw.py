"""draw: a map as a picture, with lanes by kind, route, stop lines and junction flows, for visual inspection."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.maps.towns.lanes import DRIVABLE, LaneNetwork, read_town

COLOURS = {"shoulder": "#c9c4b8", "parking": "#b7c4d6", "biking": "#b8d6b8", "sidewalk": "#e3ddd2", "border": "#c9c4b8"}
CONTROL = {"signal": "#d62728", "stop": "#8c1d1d", "yield": "#e6a400"}


def draw(road: RoadMap, file: Path, *, margin: float = 30.0, flows: bool = True) -> Path:
    """Write a PNG of the route and `margin` metres around it. Returns `file`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    town = read_town(road.file)
    xy = road.path.xy
    low, high = xy.min(axis=0) - margin, xy.max(axis=0) + margin
    size = high - low
    figure, axes = plt.subplots(figsize=(10, float(np.clip(10 * size[1] / size[0], 3, 14))))
    _lanes(axes, town, low, high)
    if flows:
        for line in road.facts.get("flows", {}).values():
            axes.plot(*np.array(line).T, lw=0.8, color="#3f6fb5", alpha=0.5, zorder=4)
    for name, colour in (("mainline", "#7b3fb5"), ("bicycle", "#2c8a2c")):
        if name in road.facts:
            axes.plot(*np.array(road.facts[name]).T, lw=1.5, ls="--", color=colour, zorder=5, label=name)
    axes.plot(*xy.T, color="#f07818", lw=2, zorder=6, label="route")
    for stop in road.stop_lines:
        across = np.array([-np.sin(stop.yaw), np.cos(stop.yaw)]) * stop.width / 2
        ends = np.array([stop.x, stop.y]) + np.array([across, -across])
        axes.plot(*ends.T, color=CONTROL[stop.control], lw=4 if stop.on_route else 2.5, zorder=7)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.legend(loc="upper right", fontsize=8)
    axes.set_title(
        f"{road.town} {road.facts.get('topology', '')} ({road.source}), {road.path.length:.0f} m", fontsize=10
    )
    figure.savefig(file, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return file


def _lanes(axes, town: LaneNetwork, low: np.ndarray, high: np.ndarray) -> None:
    for lane in sorted(town.lanes.values(), key=lambda lane: lane.kind in DRIVABLE):
        ring = np.vstack([lane.left, lane.right[::-1]])
        if (ring.max(axis=0) < low).any() or (ring.min(axis=0) > high).any() or lane.kind == "none":
            continue
        colour = "#8f9399" if lane.kind in DRIVABLE else COLOURS.get(lane.kind, "#e8e8e8")
        axes.fill(*ring.T, color=colour, alpha=0.8 if lane.junction < 0 else 0.5, lw=0, zorder=1)
        if lane.junction < 0:
            axes.plot(*lane.right.T, color="white", lw=0.6, ls="--" if "broken" in lane.mark else "-", zorder=2)
            if abs(lane.key[2]) == 1:
                axes.plot(*lane.left.T, color="#d9b400", lw=0.6, zorder=2)
            middle = len(lane.centre) // 2
            if lane.kind in DRIVABLE and len(lane.centre) > 4:
                step = lane.centre[middle + 1] - lane.centre[middle]
                axes.annotate("", lane.centre[middle] + step * 4, lane.centre[middle], arrowprops={"arrowstyle": "->"})
