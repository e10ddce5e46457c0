"""What the on-board client needs of a vehicle. ros1.py has it by rospy, ros2.py by rclpy; tests bring their own.

A backend is a class made with (settings, node, sees): the settings of settings.py, a name for its node, and whether it
is to see (camera, odometry, status) or only to publish: the relay's does not.
"""

import importlib
import time
from typing import Any, Callable, Dict, Optional, Tuple

LATEST_S = 1.0  # odometry and status that are older are not handed out


class VehicleNotReady(Exception):
    """The vehicle cannot be used: what is missing, where, and what to do."""


class VehicleIO:
    """Times are seconds on `now()`'s clock. May be asked from any thread; no call may block."""

    wake: Callable[[], None] = staticmethod(lambda: None)

    def publish(self, actuation: Dict[str, Any]) -> None:
        """To the wheels: {"twist": {"vx", "vy", "wz"}} (m/s, rad/s) or {"word": text}, once."""
        raise NotImplementedError

    def latest_frame(self) -> Optional[Tuple[float, bytes, int, int]]:
        """(when it was taken, JPEG, width, height) of the newest frame; the backend calls `wake()` for each new one."""
        raise NotImplementedError

    def camera_heard(self) -> Optional[float]:
        """When the newest frame arrived, which may be later than it was taken."""
        frame = self.latest_frame()
        return frame and frame[0]

    def odometry(self) -> Optional[Dict[str, float]]:
        """x, y (m), yaw (rad, counter-clockwise), v (m/s forward), w (rad/s left), or None where there is none."""
        raise NotImplementedError

    def status(self) -> Optional[Dict[str, Any]]:
        """What the base says of itself; "mode" among it where the vehicle has modes. None: nothing was heard."""
        raise NotImplementedError

    def fault(self) -> Optional[str]:
        """Why no value can be trusted at the moment, or None. VehicleNotReady: permanently, the process must end."""
        return None

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        raise NotImplementedError


def open_io(settings: Dict[str, Any], node: str, sees: bool) -> VehicleIO:
    """The backend that the settings name. VehicleNotReady: it cannot be had, or its vehicle cannot be reached."""
    backend = settings["backend"]
    module, _, name = {"ros1": f"{__package__}.ros1:Ros1IO", "ros2": f"{__package__}.ros2:Ros2IO"}.get(
        backend, backend
    ).partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise VehicleNotReady(f"backend {backend}: {exc}. {_ADVICE.get(backend, '')}".strip()) from None
    return kind(settings, node, sees)


_ADVICE = {
    "ros1": "Source the vehicle's ROS 1 workspace first: . /opt/ros/*/setup.bash",
    "ros2": "Source the vehicle's ROS 2 workspace first: . /opt/ros/*/setup.bash",
}
