# A vehicle without ROS for the deployed client: the backend far_wheels:Wheels, copied beside it. Python 3.6.
import json
import time
from pathlib import Path

from closedloop_plugin.robots.onboard.io import VehicleIO

HERE = Path(__file__).resolve().parent


class Wheels(VehicleIO):
    """Writes its commands to wheels.jsonl; its camera shows frame.jpg 20 times a second."""

    def __init__(self, settings, node, sees):
        self._jpeg, self._opened = (HERE / "frame.jpg").read_bytes(), time.monotonic()

    def publish(self, actuation):
        with (HERE / "wheels.jsonl").open("a") as commands:
            commands.write(json.dumps(actuation) + "\n")

    def latest_frame(self):
        return time.monotonic() // 0.05 * 0.05, self._jpeg, 64, 48

    def odometry(self):
        return None if (HERE / "silent").exists() else {"x": 0.0, "y": 0.0, "yaw": 0.0, "v": 0.0, "w": 0.0}

    def status(self):
        return {"mode": 1}

    def received(self):
        heard = int((time.monotonic() - self._opened) / 0.05)
        silent = (HERE / "silent").exists()
        return {"camera": heard, "odometry": 0 if silent else heard, "status": heard}

    def close(self):
        pass
