"""Pictures of the gallery: a JPEG thumbnail, and inline SVGs of the snapshot from above and of parameter ranges.

SVGs contain only numbers and fixed texts. Colours are CSS classes of gallery.html, which also define the dark mode.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from closedloop_plugin.core.state import PEDESTRIANS, STATIC, ActorKind
from closedloop_plugin.threats.transcript import ScenarioVerdict
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.storage.image_files import ImageOutsideError, locate, open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb
from lmms_eval_ad2.storage.untrusted_json import load

SIZE = (400, 225)  # px
MOST_BYTES = 13_000
FRAME_SIZE, FRAME_BYTES = (240, 135), 4_500
_LARGEST = 40_000_000  # px; larger pictures are not opened
WIDE, TALL = 124.0, 200.0  # size of the top view, SVG units
LEAST_M, MOST_M = 42.0, 110.0  # height of the top view
LANE_M = 3.5
NEAR_M = 70.0  # radius around the ego in which bodies extend the view
_SMALL = PEDESTRIANS | {ActorKind.ANIMAL}
_BAD = (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, OverflowError)


@dataclass(frozen=True)
class GalleryPicture:
    """`image`: a data: URL, "" if there is none; `caption`: its content, or why there is none."""

    image: str
    caption: str


def thumbnail(folder: Path, name: str, moment: Path | None, frames: Sequence[str] = ()) -> GalleryPicture:
    """The check's snapshot `moment`, None if it has none of this version of the program; else the interview's frame."""
    candidates = []
    if moment:
        candidates.append((moment.with_suffix(".jpg"), _when(moment)))
    found = [_inside(folder)(n) for n in frames[:1]] or sorted((folder / "frames").glob(f"{escape(name)}_*.jpg"))[:1]
    candidates += [(file, "what the interview showed") for file in found if file is not None]
    problem = "no picture yet: ad2 threats check draws one"
    for file, caption in candidates:
        if file.is_file():
            try:
                return GalleryPicture(_jpeg(file), caption)
            except OSError:
                problem = f"{file.name} cannot be read as a picture"
    return GalleryPicture("", problem)


def frame_picture(folder: Path, name: str) -> str:
    """A small data: URL of a frame of the interview; "" if it is missing, outside of the folder, or no picture."""
    file = _inside(folder)(name)
    try:
        return _jpeg(file, FRAME_SIZE, FRAME_BYTES) if file is not None and file.is_file() else ""
    except OSError:
        return ""


def _inside(folder: Path) -> Callable[[str], Path | None]:
    def find(name: str) -> Path | None:
        try:
            return locate(folder, name)
        except (FileNotFoundError, ImageOutsideError):
            return None

    return find


def moment_file(folder: Path, name: str, verdict: ScenarioVerdict | None) -> Path:
    """File of the check's snapshot (snapshot.py) of a scenario's played draw; of its first draw if it has none."""
    moments = folder / "check" / "moments"
    played = moments / f"{name}_rep{verdict.tries - 1}.json" if verdict and verdict.survived else None
    return played if played and played.is_file() else moments / f"{name}_rep0.json"


def _when(file: Path) -> str:
    try:
        data = _loaded(file)
        return f"{'as it acts' if data['of'] == 'act' else 'at the end, nothing acted'}, {float(data['time_s']):.1f} s"
    except _BAD:
        return "as it acts"


def _loaded(file: Path) -> Any:
    """The JSON of a snapshot. Raises one of _BAD if it is missing, too large or malformed."""
    return load(file, most=2_000_000)


def _jpeg(file: Path, size: tuple[int, int] = SIZE, most: int = MOST_BYTES) -> str:
    with open_image(file, formats=("JPEG", "PNG"), most_pixels=_LARGEST) as opened:
        opened.draft("RGB", size)
        small = shown_rgb(opened)
    small.thumbnail(size)
    for quality in (82, 70, 55, 40, 25):
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=quality, optimize=True)
        if buffer.tell() <= most:
            break
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


# -- top view ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Body:
    """A body in the ego's frame: metres ahead and to the right, degrees clockwise from the ego's heading."""

    ahead: float
    right: float
    turned: float
    length: float
    width: float
    kind: str
    role: str


def top_view(file: Path) -> str:
    """SVG of the snapshot check/moments/<key>.json with the ego driving upward; "" if there is no such file."""
    try:
        ego, actors, line = _in_ego_frame(_loaded(file))
    except _BAD:
        return ""
    reach = [b for b in actors if b.role == "scenario" and math.hypot(b.ahead, b.right) < NEAR_M]
    top = max([26.0, *(b.ahead + b.length for b in reach)])
    bottom = min([-12.0, *(b.ahead - b.length for b in reach)])
    side = max([8.0, *(abs(b.right) + b.length / 2 + 1 for b in reach)])
    span = min(max(top - bottom, LEAST_M, 2 * side * TALL / WIDE), MOST_M)
    scale = TALL / span
    middle = bottom + span if top - bottom <= span else span - 12.0  # metres ahead at the upper edge
    seen = [b for b in actors if abs(b.right) < span and -span < b.ahead < 2 * span]
    parts = [_road(line, scale, middle)]
    parts += [_shape(b, scale, middle, "other" if b.role != "scenario" else _css_class(b)) for b in seen]
    parts += [_shape(ego, scale, middle, "ego"), _bar(scale)]
    label = f"The moment from above: the ego drives upward, {len(reach)} bodies of the scenario near it"
    return (
        f'<svg class="top" viewBox="0 0 {WIDE:g} {TALL:g}" role="img" aria-label="{label}">'
        f'<rect class="ground" width="{WIDE:g}" height="{TALL:g}"/>{"".join(parts)}</svg>'
    )


def _in_ego_frame(data: Any) -> tuple[_Body, list[_Body], list[tuple[float, float]]]:
    """Ego, actors and route of a snapshot, transformed from the map frame to the ego's."""
    ego = data["ego"]
    x0, y0, yaw0 = (_finite(ego[k]) for k in ("x", "y", "yaw"))
    cos, sin = math.cos(yaw0), math.sin(yaw0)

    def to_ego(x: Any, y: Any) -> tuple[float, float]:
        # Rotation by -yaw0: (ahead, left); the sign of left is inverted, because the picture needs "right".
        dx, dy = _finite(x) - x0, _finite(y) - y0
        return cos * dx + sin * dy, sin * dx - cos * dy

    def body(a: Mapping[str, Any], role: str) -> _Body:
        ahead, right = to_ego(a["x"], a["y"])
        turned = math.degrees(yaw0 - _finite(a["yaw"]))
        length, width = (min(max(_finite(a.get(k, 1.0)), 0.2), 30.0) for k in ("length", "width"))
        return _Body(
            ahead=ahead, right=right, turned=turned, length=length, width=width, kind=str(a.get("kind", "")), role=role
        )

    actors = [body(a, "scenario" if a.get("role", "scenario") == "scenario" else "other") for a in data["actors"]]
    line = [to_ego(p[0], p[1]) for p in data.get("route") or ()]
    return body({"length": 4.5, "width": 1.9, **ego}, "ego"), actors, line


def _finite(value: Any) -> float:
    if not is_number(value):
        raise ValueError(value)
    return float(value)


def _css_class(body: _Body) -> str:
    if body.kind in _SMALL:
        return "threat small"
    return "cover" if body.kind in STATIC else "threat"


def _road(line: Sequence[tuple[float, float]], scale: float, middle: float) -> str:
    near = [p for p in line if abs(p[0]) < 3 * MOST_M and abs(p[1]) < 3 * MOST_M]
    if len(near) < 2:
        return ""
    points = " ".join(f"{WIDE / 2 + right * scale:.1f},{(middle - ahead) * scale:.1f}" for ahead, right in near)
    return (
        f'<polyline class="lane" stroke-width="{LANE_M * scale:.1f}" points="{points}"/>'
        f'<polyline class="route" points="{points}"/>'
    )


def _shape(body: _Body, scale: float, middle: float, css_class: str) -> str:
    x, y = WIDE / 2 + body.right * scale, (middle - body.ahead) * scale
    what = "ego" if css_class == "ego" else body.kind if body.kind in set(ActorKind) else "body"
    title = f"<title>{what}, {body.ahead:.0f} m ahead, {body.right:.0f} m to the right</title>"
    if body.kind in _SMALL:  # a person would be two pixels wide
        return f'<circle class="{css_class}" cx="{x:.1f}" cy="{y:.1f}" r="{max(0.5 * scale, 4.0):.1f}">{title}</circle>'
    long, wide = max(body.length * scale, 5.0), max(body.width * scale, 4.0)
    half, back, front = wide * 0.34, -long * 0.2, -long * 0.4
    nose = f'<path class="nose" d="M{-half:.1f} {back:.1f}L0 {front:.1f}L{half:.1f} {back:.1f}"/>'
    return (
        f'<g class="{css_class}" transform="translate({x:.1f} {y:.1f}) rotate({body.turned:.0f})">{title}'
        f'<rect x="{-wide / 2:.1f}" y="{-long / 2:.1f}" width="{wide:.1f}" height="{long:.1f}" rx="{wide * 0.22:.1f}"/>'
        f"{'' if body.kind in STATIC else nose}</g>"
    )


def _bar(scale: float) -> str:
    """Scale bar of 10 m in the lower left corner."""
    return (
        f'<path class="scale" d="M8 {TALL - 12:g}v4h{10 * scale:.1f}v-4"/>'
        f'<text class="scale" x="{8 + 5 * scale:.1f}" y="{TALL - 13:g}">10 m</text>'
    )


# -- a parameter's range -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RangeMark:
    """A drawn value. `css_class`: expert, survived or failed."""

    value: float
    css_class: str


def range_bar(low: float, high: float, marks: Sequence[RangeMark]) -> str:
    """SVG of a line from low to high with the drawn values; values outside are clipped to its ends."""
    span = high - low
    if not (math.isfinite(low) and math.isfinite(high)) or span <= 0:
        return ""
    dots = []
    for mark in marks:
        x = 6 + 128 * min(max((mark.value - low) / span, 0.0), 1.0)
        if mark.css_class == "expert":
            dots.append(f'<path class="expert" d="M{x:.1f} 2v12"/>')
        elif mark.css_class == "failed":
            dots.append(f'<path class="failed" d="M{x - 3:.1f} 5l6 6m0 -6l-6 6"/>')
        else:
            dots.append(f'<circle class="survived" cx="{x:.1f}" cy="8" r="3.2"/>')
    axis = '<path class="axis" d="M6 8h128"/>'
    return f'<svg class="range" viewBox="0 0 140 16" aria-hidden="true">{axis}{"".join(dots)}</svg>'


def marks_of(name: str, drawn: Mapping[str, Any], css_class: str) -> list[RangeMark]:
    """The mark of parameter `name` in a record's `drawn`; [] if it was not drawn or is no number."""
    value = drawn.get(name)
    if not is_number(value):
        return []
    return [RangeMark(float(value), css_class)]
