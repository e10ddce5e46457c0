"""Base class of what sensors deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_carla.bodies import Body, FrameState

if TYPE_CHECKING:
    from fake_carla.stage import Stage


class SensorData:
    """`transform`: pose of the sensor in the frame."""

    def __init__(self, stage: Stage, sensor: Body) -> None:
        self._frame, self._time, self._sensor_state = stage.frame, stage.elapsed, sensor.last

    frame = property(lambda self: self._frame)
    frame_number = frame
    timestamp = property(lambda self: self._time)
    transform = property(lambda self: FrameState.transform(self._sensor_state))
