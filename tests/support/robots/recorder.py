"""A vehicle for the on-board client that records its commands. Python 3.6, for the process of the client.

In the folder of the settings it writes `published.jsonl`. Tests control it with the files stall (the camera stops),
mode (a number for the status), fault (a text), gone (the node is lost) and broken (publishing raises).
"""

import json
import os
import threading
import time

from closedloop_plugin.robots.onboard.io import VehicleIO, VehicleNotReady

JPEG = b"\xff\xd8 not looked at \xff\xd9"


class Recorder(VehicleIO):
    def __init__(self, settings, node, sees):
        self._folder, self._node = settings["folder"], node
        if (self._folder / ("no_" + node)).exists():
            raise VehicleNotReady("the test does not want " + node)
        self._out = (self._folder / "published.jsonl").open("a")
        self._frame = None
        self._closed = threading.Event()
        if sees:
            threading.Thread(target=self._take_frames, daemon=True).start()

    def publish(self, actuation):
        if (self._folder / "broken").exists():
            raise OSError("broken by the test")
        entry = {"at": time.monotonic(), "node": self._node, "pid": os.getpid(), "actuation": actuation}
        self._out.write(json.dumps(entry) + "\n")
        self._out.flush()

    def latest_frame(self):
        return self._frame

    def odometry(self):
        return {"x": 1.0, "y": 2.0, "yaw": 0.5, "v": 0.3, "w": 0.0}

    def status(self):
        file = self._folder / "mode"
        return {"mode": int(file.read_text())} if file.exists() else None

    def fault(self):
        if (self._folder / "gone").exists():
            raise VehicleNotReady("gone for good")
        file = self._folder / "fault"
        return file.read_text() if file.exists() else None

    def close(self):
        self._closed.set()

    def _take_frames(self):
        while not self._closed.wait(0.05):
            if not (self._folder / "stall").exists():
                self._frame = (time.monotonic(), JPEG, 640, 480)
                self.wake()
