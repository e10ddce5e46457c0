"""Vehicle input and output of the on-board client. Implemented by ros1.py (rospy) and ros2.py (rclpy).

A backend is a class that is constructed with (settings, node, sees): the settings of settings.py, a name for its ROS
node, and whether it subscribes to camera, odometry and status (client) or only publishes (relay).
"""

import importlib
import time
from typing import Any, Callable, Dict, Optional, Tuple

LATEST_S = 1.0  # older odometry and status are not returned


class VehicleNotReady(Exception):
    """The vehicle cannot be used; the message contains what is missing, where, and what to do."""


class VehicleIO:
    """Interface of a backend. Times are seconds of `now()`. Called from any thread; no call may block."""

    wake: Callable[[], None] = staticmethod(lambda: None)

    def publish(self, actuation: Dict[str, Any]) -> None:
        """Publish once: {"twist": {"vx", "vy", "wz"}} (m/s forward, m/s left, rad/s left) or {"word": text}."""
        raise NotImplementedError

    def latest_frame(self) -> Optional[Tuple[float, bytes, int, int]]:
        """(time taken, JPEG, width, height) of the newest frame. The backend calls `wake()` for each new frame."""
        raise NotImplementedError

    def camera_heard(self) -> Optional[float]:
        """Arrival time of the newest frame, which may be later than the time it was taken."""
        frame = self.latest_frame()
        return frame and frame[0]

    def odometry(self) -> Optional[Dict[str, float]]:
        """x, y (m), yaw (rad, counter-clockwise), v (m/s forward), w (rad/s left), or None if unknown."""
        raise NotImplementedError

    def status(self) -> Optional[Dict[str, Any]]:
        """The status of the base, with "mode" if the vehicle has modes. None: no recent message."""
        raise NotImplementedError

    def received(self) -> Dict[str, int]:
        """Messages so far: "camera", "odometry", "status"."""
        raise NotImplementedError

    def fault(self) -> Optional[str]:
        """Why the values cannot be trusted at the moment, or None. VehicleNotReady: permanent, the process must end."""
        return None

    def now(self) -> float:
        return time.monotonic()

    def close(self) -> None:
        raise NotImplementedError


def open_io(settings: Dict[str, Any], node: str, sees: bool) -> VehicleIO:
    """Open the backend named in the settings. VehicleNotReady: not installed, or the vehicle is unreachable."""
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
