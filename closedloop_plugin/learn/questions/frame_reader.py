"""CollectedFrameReader: rows of a frames file, checked field by field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from closedloop_plugin.core.state import ActorKind, RouteCommand, SignalState
from closedloop_plugin.learn.questions.seen_frame import (
    DARK,
    IN_LANE_M,
    NIGHT_PIXELS,
    SHOWN_PIXELS,
    PixelBox,
    Place,
    SeenActor,
    SeenFrame,
    SeenSign,
)
from closedloop_plugin.learn.questions.words import EXACT_PIXELS
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.numbers import is_bounded, is_whole

LIT_PIXELS = 2  # pixels of a traffic light's lamp that show its colour


class CollectedFrameReader:
    """Reads the lines of a frames file. `folder`: its folder, relative to the collection; `size`: of the pictures.

    max_speed: of the profile, m/s. The expert drives no faster, so the lower of the two limits is stated.
    """

    def __init__(self, file: object, folder: str, size: tuple[int, int], max_speed: float | None = None) -> None:
        self.file, self.folder, self.size = file, folder, size
        self.max_speed = math.inf if max_speed is None else max_speed

    def frame(self, row: Any, number: int) -> SeenFrame:
        """The frame of a parsed line; raises DataError with the field that is missing or invalid."""
        fields = _FrameFields(row, self.file, number)
        label, reason = fields.inner("label"), fields.inner("label").inner("reason")
        light = fields.inner("light") if "light" in fields.row else None
        weather = fields.inner("weather").numbers()
        actor = reason.row.get("actor")
        night = light.number("night") if light else float(weather.get("sun_altitude_angle", 45.0) < 0.0)
        ego = fields.places("future") if "future" in fields.row else ()
        actors = [_actor(row, self.size[0], night, ego) for row in fields.several("objects")]
        offset = fields.number("route_offset") if fields.row.get("route_offset") is not None else 0.0
        return SeenFrame(
            id=fields.text("id"), episode=self.folder.rsplit("/", 1)[-1], route=fields.text("route"),
            scenario=fields.text("scenario") if fields.row.get("scenario") else "", size=self.size,
            image=f"{self.folder}/{fields.text('image')}",
            speed=fields.number("speed"), speed_limit=min(fields.number("speed_limit"), self.max_speed),
            command=fields.one_of("command", RouteCommand), action=label.text("action"),
            acceleration=label.number("acceleration"), reason=reason.text("kind"),
            reason_actor=actor if isinstance(actor, str) else None,
            actors=tuple(sorted(actors, key=_nearest_first)),
            signs=tuple(sorted((_sign(row, night) for row in fields.several("signals")), key=lambda sign: sign.id)),
            weather=weather,
            night=night,
            in_lane=abs(offset) <= IN_LANE_M,
            time_s=fields.number("time_s"),
        )  # fmt: skip


def _nearest_first(actor: SeenActor) -> tuple[float, str]:
    return math.hypot(actor.forward, actor.left), actor.id


def _actor(fields: _FrameFields, width: int, night: float, ego: Sequence[Place]) -> SeenActor:
    """`width`: of the picture. `visible` does not count what is beyond its edges, so there more pixels are needed.

    ego: the ego's places in the following seconds.
    """
    box = fields.box()
    at_edge = box is not None and (box[0] <= 0 or box[2] >= width)
    future = fields.places("future") if box else ()  # nothing is asked about what does not appear
    return SeenActor(
        id=fields.text("id"), kind=fields.one_of("kind", ActorKind), forward=fields.number("forward"),
        left=fields.number("left"), yaw=fields.number("yaw"), speed=fields.number("speed"),
        length=fields.number("length"), width=fields.number("width"), lane=fields.text("lane"), box=box,
        pixels=fields.whole("pixels"), share=fields.number("visible"), least=EXACT_PIXELS if at_edge else _least(night),
        future=future, distances=_distances(fields, future, ego),
    )  # fmt: skip


def _distances(fields: _FrameFields, future: Sequence[Place], ego: Sequence[Place]) -> tuple[float, ...]:
    now = math.hypot(fields.number("forward"), fields.number("left"))
    return (now, *(math.dist(there, here) for there, here in zip(future, ego, strict=False)))


def _least(night: float) -> int:
    """Pixels from which on a picture shows something."""
    return NIGHT_PIXELS if night >= DARK else SHOWN_PIXELS


def _sign(fields: _FrameFields, night: float) -> SeenSign:
    state, distance = fields.row.get("state"), fields.row.get("distance")
    lamp = fields.row.get("state_pixels")
    return SeenSign(
        id=fields.text("id"), control=fields.text("control"),
        state=None if state is None else fields.one_of("state", SignalState),
        on_route=bool(fields.row.get("on_route")), distance=None if distance is None else fields.number("distance"),
        box=fields.box(), pixels=fields.whole("pixels"), share=fields.number("visible"), least=_least(night),
        lit=lamp is None or fields.whole("state_pixels") >= LIT_PIXELS,
    )  # fmt: skip


class _FrameFields:
    """A JSON object of a frame, read field by field; each method raises DataError for a wrong value."""

    def __init__(self, row: Any, file: object, line: int, prefix: str = "") -> None:
        self.file, self.line, self.prefix = file, line, prefix
        if not isinstance(row, Mapping):
            raise self.fault("", "an object", row)
        self.row: Mapping[str, Any] = row

    def fault(self, name: str, expected: str, found: Any) -> DataError:
        field = f"{self.prefix}{name}".rstrip(".") or "line"
        return DataError(self.file, self.line, field, expected, found, "Collect these frames again.")

    def text(self, name: str) -> str:
        value = self.row.get(name)
        if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= 400:
            raise self.fault(name, "a text of at most 400 printable characters", value)
        return value

    def number(self, name: str) -> float:
        value = self.row.get(name)
        if not is_bounded(value):
            raise self.fault(name, "a finite number", value)
        return float(value)

    def whole(self, name: str) -> int:
        value = self.row.get(name)
        if not is_whole(value, 0):
            raise self.fault(name, "a whole number, 0 or more", value)
        return value

    def one_of(self, name: str, kinds: Any) -> Any:
        value = self.row.get(name)
        if value not in [kind.value for kind in kinds]:
            raise self.fault(name, f"one of {', '.join(kind.value for kind in kinds)}", value)
        return kinds(value)

    def inner(self, name: str) -> _FrameFields:
        return _FrameFields(self.row.get(name), self.file, self.line, f"{self.prefix}{name}.")

    def several(self, name: str) -> list[_FrameFields]:
        rows = self._listing(name)
        return [_FrameFields(row, self.file, self.line, f"{name}[{i}].") for i, row in enumerate(rows)]

    def numbers(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.row.items() if is_bounded(value)}

    def listed(self, name: str, length: int) -> Sequence[float]:
        values = self._listing(name)
        if len(values) != length or not all(map(is_bounded, values)):
            raise self.fault(name, f"{length} numbers", values)
        return values

    def box(self) -> PixelBox | None:
        if self.row.get("box") is None:
            return None
        x_min, y_min, x_max, y_max = map(float, self.listed("box", 4))
        if not (x_min < x_max and y_min < y_max):
            raise self.fault("box", "x_min < x_max and y_min < y_max", self.row["box"])
        return x_min, y_min, x_max, y_max

    def places(self, name: str) -> tuple[Place, ...]:
        values = self._listing(name)
        if not all(isinstance(v, list) and len(v) == 2 and all(map(is_bounded, v)) for v in values):
            raise self.fault(name, "a list of [forward, left]", values)
        return tuple((float(forward), float(left)) for forward, left in values)

    def _listing(self, name: str) -> list[Any]:
        value = self.row.get(name)
        if not isinstance(value, list):
            raise self.fault(name, "a list", value)
        return value
