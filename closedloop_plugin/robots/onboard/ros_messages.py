"""What the backends for ROS 1 and ROS 2 have in common: newest messages, and their fields. Imports neither."""

import math
import time
from typing import Any, Dict, Iterable, Optional, Tuple

from closedloop_plugin.robots.onboard import jpeg
from closedloop_plugin.robots.onboard.io import LATEST_S, VehicleIO, VehicleNotReady

FRAME_AGE_MAX_S = 1.0  # an older header stamp is ignored: it comes from another clock


class LatestMessage:
    """The newest message of a topic; None if it is older than LATEST_S."""

    def __init__(self) -> None:
        self._held: Optional[Tuple[float, Any]] = None
        self.count = 0

    def put(self, message: Any) -> None:
        self._held = (time.monotonic(), message)
        self.count += 1

    def get(self) -> Any:
        held = self._held
        return held[1] if held is not None and time.monotonic() - held[0] < LATEST_S else None


class LatestCameraFrame:
    """The newest camera message as a JPEG, encoded on request and cached. `fault`: why there is none."""

    def __init__(self, settings: Dict[str, Any]) -> None:
        self.raw = settings["vehicle"]["topics"]["camera_type"] == "raw"
        self.fault: Optional[str] = None
        self._quality, self._most = settings["jpeg_quality"], settings["frame_max_bytes"]
        self._pack = jpeg.packer() if self.raw else None
        self._held: Optional[Tuple[float, Any]] = None
        self.heard_at: Optional[float] = None
        self.count = 0
        self._made: Optional[Tuple[float, bytes, int, int]] = None
        if self.raw and self._pack is None:
            raise VehicleNotReady(
                "the camera is raw, and neither Pillow nor OpenCV is here: apt-get install python3-pil"
            )

    def put(self, taken: float, message: Any) -> None:
        self._held, self.heard_at = (taken, message), time.monotonic()
        self.count += 1

    def get(self) -> Optional[Tuple[float, bytes, int, int]]:
        held = self._held
        if held is None or (self._made is not None and self._made[0] == held[0]):
            return self._made
        try:
            self._made, self.fault = (held[0], *self._as_jpeg(held[1])), None
        except jpeg.InvalidCameraImage as exc:
            self._made, self.fault = None, f"camera: {exc}"
        return self._made

    def _as_jpeg(self, image: Any) -> Tuple[bytes, int, int]:
        data = bytes(image.data)
        if self._pack is not None:
            width, height = image.width, image.height
            data = self._pack(width, height, image.step, image.encoding, data, self._quality)
        else:
            width, height = jpeg.size(data)
        if len(data) > self._most:
            raise jpeg.InvalidCameraImage(f"a frame of {len(data)} bytes; frame_max_bytes is {self._most}")
        return data, width, height


class RosBackend(VehicleIO):
    """The inputs of a backend. A subclass fills `_pictures`, `_odometry` and `_status` from its subscriptions."""

    def __init__(self, settings: Dict[str, Any], sees: bool) -> None:
        self._words = settings["vehicle"]["kind"] == "word"
        self._pictures = LatestCameraFrame(settings) if sees else None
        self._odometry, self._status = LatestMessage(), LatestMessage()

    def latest_frame(self) -> Optional[Tuple[float, bytes, int, int]]:
        return self._pictures.get() if self._pictures else None

    def camera_heard(self) -> Optional[float]:
        return self._pictures.heard_at if self._pictures else None

    def odometry(self) -> Optional[Dict[str, float]]:
        return odometry(self._odometry.get())

    def status(self) -> Optional[Dict[str, Any]]:
        found = self._status.get()
        return status(found, self._fields(found) if found else ())

    def received(self) -> Dict[str, int]:
        camera = self._pictures.count if self._pictures else 0
        return {"camera": camera, "odometry": self._odometry.count, "status": self._status.count}

    def _fields(self, message: Any) -> Iterable[str]:
        """The names of the fields of a message."""
        raise NotImplementedError

    def _on_frame(self, age_s: float, message: Any) -> None:
        """A frame of this age by its header stamp, s, has arrived."""
        assert self._pictures is not None
        if not 0 <= age_s < FRAME_AGE_MAX_S:
            age_s = 0.0
        self._pictures.put(time.monotonic() - age_s, message)
        self.wake()


def fill(twist: Any, wanted: Dict[str, float]) -> Any:
    """Fill a geometry_msgs/Twist with vx, vy (m/s) and wz (rad/s)."""
    twist.linear.x, twist.linear.y, twist.angular.z = wanted["vx"], wanted["vy"], wanted["wz"]
    return twist


def odometry(message: Any) -> Optional[Dict[str, float]]:
    """x, y (m), yaw (rad), v (m/s), w (rad/s) of a nav_msgs/Odometry; None without one or if a value is not finite."""
    if message is None:
        return None
    at, turn, moves = message.pose.pose.position, message.pose.pose.orientation, message.twist.twist
    # Yaw of the unit quaternion (x, y, z, w): atan2(2 (wz + xy), 1 - 2 (y^2 + z^2)).
    yaw = math.atan2(2 * (turn.w * turn.z + turn.x * turn.y), 1 - 2 * (turn.y * turn.y + turn.z * turn.z))
    values = {"x": at.x, "y": at.y, "yaw": yaw, "v": moves.linear.x, "w": moves.angular.z}
    return values if all(map(math.isfinite, values.values())) else None


def status(message: Any, names: Iterable[str]) -> Optional[Dict[str, Any]]:
    """The numbers of a status message by name, and "mode", which LIMO calls motion_mode."""
    if message is None:
        return None
    values = {name: getattr(message, name, None) for name in names}
    found: Dict[str, Any] = {k: v for k, v in values.items() if isinstance(v, (int, float)) and math.isfinite(v)}
    if "motion_mode" in found:
        found["mode"] = found["motion_mode"]
    return found
