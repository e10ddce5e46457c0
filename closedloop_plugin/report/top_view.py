"""top_view: an episode from above with road, route, the ego's track coloured by speed, other actors and infractions.

robot_view: the same of a robot's run on a course.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from closedloop_plugin.core.boxes import corners, oriented_box
from closedloop_plugin.core.state import PEDESTRIANS, STATIC
from closedloop_plugin.report.track_log import ActorTrack, EpisodeTrack, Pose
from lmms_eval_ad2.core.errors import require

Ground = tuple[str, np.ndarray]  # kind of an OpenDRIVE lane, its outline (N, 2) in the map frame

MARGIN_M = 15.0
CRASH_M = 12.0  # radius around the ego within which actors are drawn at a collision
FLOOR_MARGIN_M = 0.12  # around the floor of a robot's course
GHOST_S = 2.0  # between drawn outlines of a robot
HEIGHTS = (20, -34, 42, -56, 64, -78)  # points, of labels above and below their place
MARK_S = 5.0  # between time labels of the ego's track
MARK_M = 4.0  # at least; a creeping ego would put labels over each other
GROUND = {"driving": "#d4d6d9", "shoulder": "#e6e2d8", "parking": "#cfd9e6", "biking": "#cfe3cf", "sidewalk": "#efebe3"}
LINES = {"signal": "#d62728", "stop": "#8c1d1d", "yield": "#e6a400"}
ROUTE, WRONG, EGO = "#5b8def", "#c2185b", "#111111"
SCENARIO, BACKGROUND, PEOPLE, THINGS = "#e67e22", "#8a8f98", "#8e44ad", "#a0522d"
FLOOR, TAPE = "#e9eaec", "#e6b800"  # of a robot's course
ENDED_WELL = "completed"
NAMES = {
    "collisions_layout": "collision: object",
    "collisions_pedestrian": "collision: pedestrian",
    "collisions_vehicle": "collision: vehicle",
    "red_light": "red light",
    "stop_infraction": "stop sign",
    "outside_route_lanes": "outside lanes",
    "yield_emergency_vehicle_infractions": "did not yield",
    "scenario_timeouts": "scenario timeout",
    "route_dev": "left the route",
    "vehicle_blocked": "blocked",
    "route_timeout": "route timeout",
}


def top_view(track: EpisodeTrack, out: Path, ground: Sequence[Ground] = ()) -> Path:
    """Write a picture; the suffix of `out` selects PNG, SVG or PDF. Returns `out`."""
    low, high = _extent(track)
    wide, tall = high - low
    figure, axes = _figure(11.0, float(np.clip(9.0 * tall / wide, 3.2, 12.0)) + 1.5)
    _ground(axes, ground, low, high)
    _route(axes, track)
    _stop_lines(axes, track)
    for body in track.bodies:
        _body(axes, body, low, high)
    _crashes(axes, track)
    _ego(figure, axes, track)
    _places(axes, track, low[0] + 0.6 * (high[0] - low[0]))
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal")
    axes.set_xlabel("x (east), m")
    axes.set_ylabel("y (north), m")
    axes.set_title(heading(track), fontsize=10, loc="left")
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # each label once
    # Below the axis label at any height of the picture, since the pad is in units of the font size.
    axes.legend(
        shown.values(), shown, loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=5, ncols=5, fontsize=8,
        frameon=False,
    )  # fmt: skip
    return _saved(figure, out)


def _figure(wide: float, tall: float) -> tuple[Any, Any]:
    """A figure of `wide` x `tall` inches, and its axes."""
    require("matplotlib", "pictures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide, tall))
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def _saved(figure: Any, out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110, bbox_inches="tight", pad_inches=0.15)
    return out


def heading(track: EpisodeTrack) -> str:
    """Title of two lines: route and driver, result; one line if the track has no result."""
    r = track.result
    if not r:
        return f"{track.moments[-1].t:.1f} s"
    driven = f"{r.get('scenario', '')}, route {r.get('route_id', '')} repetition {r.get('repetition', 0)}"
    where = " ".join(str(r[k]) for k in ("town", "suite", "backend") if r.get(k))
    score = f"score {_number(r, 'score_composed')} = route {_number(r, 'score_route')} × {_number(r, 'score_penalty')}"
    return f"{driven} ({where}), {r.get('agent', '')}\n{r.get('status', '')}, {track.moments[-1].t:.1f} s, {score}"


def _number(result: dict[str, Any], name: str) -> str:
    value = result.get(name)
    return f"{value:.4g}" if isinstance(value, (int, float)) else "–"


def _extent(track: EpisodeTrack) -> tuple[np.ndarray, np.ndarray]:
    """Lower left and upper right corner around the ego's track and the route, not flatter than 1 : 4."""
    points = np.array([(m.x, m.y) for m in track.moments] + list(track.route))
    low, high = points.min(axis=0) - MARGIN_M, points.max(axis=0) + MARGIN_M
    lack = np.maximum(max(high - low) / 4 - (high - low), 0.0)
    return low - lack / 2, high + lack / 2


def _ground(axes: Any, ground: Sequence[Ground], low: np.ndarray, high: np.ndarray) -> None:
    for kind, outline in ground:
        if (outline.max(axis=0) < low).any() or (outline.min(axis=0) > high).any():
            continue
        colour = GROUND.get(kind, GROUND["driving"])
        axes.fill(*outline.T, facecolor=colour, edgecolor="white", linewidth=0.7, zorder=1)


def _route(axes: Any, track: EpisodeTrack) -> None:
    if not track.route:
        return
    xy = np.array(track.route)
    axes.plot(*xy.T, color=ROUTE, lw=7, alpha=0.35, solid_capstyle="round", zorder=2, label="route")
    for (x, y), word, marker in ((xy[0], "start", "o"), (xy[-1], "end", "s")):
        axes.plot(x, y, marker, color=ROUTE, ms=8, zorder=3)
        axes.annotate(
            word, (x, y), (6, -14), textcoords="offset points", color="#2c5bb8", fontsize=9, zorder=9,
            annotation_clip=True,
        )  # fmt: skip


def _stop_lines(axes: Any, track: EpisodeTrack) -> None:
    for line in track.stop_lines:
        half = line["width"] / 2
        dx, dy = -math.sin(line["yaw"]) * half, math.cos(line["yaw"]) * half
        control = line["control"]
        label = "traffic light" if control == "signal" else f"{control} line"
        axes.plot(
            [line["x"] - dx, line["x"] + dx], [line["y"] - dy, line["y"] + dy], color=LINES.get(control, EGO),
            lw=4.5 if line["on_route"] else 2.0, solid_capstyle="butt", zorder=4, label=label,
        )  # fmt: skip


def _body(axes: Any, body: ActorTrack, low: np.ndarray, high: np.ndarray) -> None:
    """Draw an actor's track, its outline at the start and its box at the end."""
    colour, label = _style(body)
    for piece in body.pieces:
        xy = np.array([(x, y) for _, x, y, _ in piece])
        if ((xy < low) | (xy > high)).any(axis=1).all():
            continue
        axes.plot(*xy.T, color=colour, lw=1.2, alpha=0.8, zorder=5, label=label)
        axes.fill(*box(piece[0], body.length, body.width).T, fill=False, edgecolor=colour, lw=0.8, zorder=5)
        axes.fill(*box(piece[-1], body.length, body.width).T, color=colour, alpha=0.75, lw=0, zorder=5)


def _crashes(axes: Any, track: EpisodeTrack) -> None:
    """Draw outlines of the ego and of actors around it at the sample nearest to each collision."""
    for place in track.places:
        if not place["kind"].startswith("collisions"):
            continue
        m = min(track.moments, key=lambda m: abs(m.t - place["time_s"]))
        there = [((m.t, m.x, m.y, m.yaw), *track.ego_size)]
        for body in track.bodies:
            poses = [p for piece in body.pieces for p in piece if p[0] <= m.t]
            if poses and math.dist(poses[-1][1:3], (m.x, m.y)) < CRASH_M:
                there.append((poses[-1], body.length, body.width))
        for pose, length, width in there:
            axes.fill(
                *box(pose, length, width).T, fill=False, edgecolor=WRONG, lw=1.0, zorder=7, label="at a collision"
            )


def _style(body: ActorTrack) -> tuple[str, str]:
    """(colour, legend label) of an actor."""
    if body.kind in PEDESTRIANS or body.kind == "animal":
        return PEOPLE, "on foot"
    if body.kind in STATIC:
        return THINGS, "objects"
    return (BACKGROUND, "background traffic") if body.role == "background" else (SCENARIO, "scenario vehicles")


def _ego(figure: Any, axes: Any, track: EpisodeTrack) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    moments = track.moments
    xy = np.array([(m.x, m.y) for m in moments])
    speed = np.array([3.6 * m.speed for m in moments])
    if len(xy) > 1:
        parts = np.stack([xy[:-1], xy[1:]], axis=1)
        norm = Normalize(0.0, max(float(speed.max()), 1.0))
        lines = LineCollection(list(parts), cmap="viridis", norm=norm, lw=3.2, zorder=6, capstyle="round")
        lines.set_array((speed[:-1] + speed[1:]) / 2)
        axes.add_collection(lines)
        figure.colorbar(lines, ax=axes, label="ego's speed, km/h", shrink=0.6, pad=0.01, aspect=25)
    last, name = moments[-1], "ego at the end" if len(moments) > 1 else "ego"
    axes.fill(*box((last.t, last.x, last.y, last.yaw), *track.ego_size).T, color=EGO, zorder=7, label=name)
    due, marked = MARK_S, (moments[0].x, moments[0].y)
    for now in moments[1:]:
        if now.t + 1e-6 < due:
            continue
        due = MARK_S * (math.floor(now.t / MARK_S + 1e-9) + 1)
        if math.dist(marked, (now.x, now.y)) > MARK_M:
            marked = now.x, now.y
            side = (12 * math.sin(now.yaw), -12 * math.cos(now.yaw))
            axes.plot(now.x, now.y, ".", color=EGO, ms=5, zorder=7)
            axes.annotate(
                f"{now.t:.0f} s", (now.x, now.y), side, textcoords="offset points", fontsize=7, color="#333333",
                ha="center", va="center", zorder=7,
            )  # fmt: skip


def _places(axes: Any, track: EpisodeTrack, right: float) -> None:
    """Draw a cross and a label at each infraction; beyond x = `right` labels are on the left side."""
    for i, place in enumerate(track.places):
        x, y = place["x"], place["y"]
        name = NAMES.get(place["kind"], place["kind"])
        side, align = (14, "left") if x < right else (-14, "right")
        axes.plot(x, y, "X", color=WRONG, mec="white", ms=11, zorder=8, label="infraction")
        axes.annotate(
            f"{name}, {place['time_s']:.1f} s", (x, y), (side, HEIGHTS[i % len(HEIGHTS)]), textcoords="offset points",
            ha=align, fontsize=9, color=WRONG, weight="bold", zorder=9, annotation_clip=True,
            arrowprops={"arrowstyle": "-", "color": WRONG, "lw": 0.8},
            bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.8},
        )  # fmt: skip


def box(pose: Pose, length: float, width: float) -> np.ndarray:
    """Corners of a body, (4, 2), in the map frame."""
    _, x, y, yaw = pose
    return np.array(corners(oriented_box(x, y, yaw, length, width)))


def robot_view(drive: Mapping[str, Any], out: Path) -> Path:
    """Write a picture of a run on a course: lane, obstacles, planned and driven path, end. Returns `out`.

    drive: a JSON value from tracks/, as written by robots/course/runner.py; metres, radians, the track's frame.
    """
    wide, tall = drive["floor"]
    figure, axes = _figure(9.0, 9.0 * tall / wide + 1.0)
    axes.fill([0, wide, wide, 0], [0, 0, tall, tall], color=FLOOR, zorder=0)
    for i, line in enumerate(drive["lines"]):
        axes.plot(*np.array(line).T, color=TAPE, lw=4, zorder=2, label="yellow line" if i == 0 else None)
    for i, outline in enumerate(drive["obstacles"]):
        axes.fill(*np.array(outline).T, color=THINGS, zorder=3, label="obstacle" if i == 0 else None)
    axes.plot(*np.array(drive["planned"]).T, color=ROUTE, lw=6, alpha=0.4, zorder=4, label="planned")
    _driven(axes, drive)
    axes.set_xlim(-FLOOR_MARGIN_M, wide + FLOOR_MARGIN_M)
    axes.set_ylim(-FLOOR_MARGIN_M, tall + FLOOR_MARGIN_M)
    axes.set_aspect("equal")
    axes.set_xlabel("x, m")
    axes.set_ylabel("y, m")
    axes.set_title(robot_heading(drive["result"]), fontsize=9, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.08), ncols=5, fontsize=8, frameon=False)
    return _saved(figure, out)


def robot_heading(result: Mapping[str, Any]) -> str:
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
