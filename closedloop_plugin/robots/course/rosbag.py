"""Writes a run as a rosbag (ROS 1) for rqt, RViz and other ROS tools.

    /odom          nav_msgs/Odometry      true pose of the vehicle (the track's frame)
    /cmd_vel       geometry_msgs/Twist    actuation; std_msgs/String on /cmd_str for a vehicle with word commands
    /ad2/cycle     std_msgs/String        one JSON object per decision, as in logs/

Time starts at 1 s at the begin of the run, because ROS uses 0 for "no time".
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import require
from lmms_eval_ad2.storage.files import atomic_path

FIRST_S = 1.0


def available() -> bool:
    return importlib.util.find_spec("rosbags") is not None


def write_bag(drive: Mapping[str, Any], out: Path) -> Path:
    """`drive`: the content of a file in tracks/. Written atomically. Returns `out`."""
    require("rosbags", "to write a rosbag")
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC)
    messages = sorted(_messages(drive, _RosMessageFactory(store)), key=lambda m: m[0])
    with atomic_path(out) as temporary, Writer(temporary) as writer:
        topics: dict[str, Any] = {}
        for t, topic, kind, message in messages:
            if topic not in topics:
                topics[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(topics[topic], round((FIRST_S + t) * 1e9), store.serialize_ros1(message, kind))
    return out


def _messages(drive: Mapping[str, Any], make: _RosMessageFactory) -> list[tuple[float, str, str, Any]]:
    found = [(p[0], "/odom", "nav_msgs/msg/Odometry", make.odometry(*p)) for p in drive["poses"]]
    for cycle in drive["cycles"]:
        t, sent = cycle["t"], cycle.get("sent") or {}
        text = json.dumps(cycle, ensure_ascii=False, sort_keys=True)
        found.append((t, "/ad2/cycle", "std_msgs/msg/String", make("std_msgs/msg/String", data=text)))
        if "word" in sent:
            found.append((t, "/cmd_str", "std_msgs/msg/String", make("std_msgs/msg/String", data=sent["word"])))
        elif sent:
            found.append((t, "/cmd_vel", "geometry_msgs/msg/Twist", make.twist(sent["vx"], sent["vy"], sent["wz"])))
    return found


class _RosMessageFactory:
    """Creates messages of a type store."""

    def __init__(self, store: Any) -> None:
        self._types = store.types

    def __call__(self, kind: str, **values: Any) -> Any:
        return self._types[kind](**values)

    def twist(self, vx: float, vy: float, wz: float) -> Any:
        return self("geometry_msgs/msg/Twist", linear=self._vector(vx, vy), angular=self._vector(z=wz))

    def odometry(self, t: float, x: float, y: float, yaw: float, speed: float) -> Any:
        import numpy as np

        stamp = self("builtin_interfaces/msg/Time", sec=int(FIRST_S + t), nanosec=int((FIRST_S + t) % 1 * 1e9))
        turned = self("geometry_msgs/msg/Quaternion", x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
        pose = self(
            "geometry_msgs/msg/Pose", position=self("geometry_msgs/msg/Point", x=x, y=y, z=0.0), orientation=turned
        )
        unknown = np.zeros(36)
        return self(
            "nav_msgs/msg/Odometry",
            header=self("std_msgs/msg/Header", seq=0, stamp=stamp, frame_id="track"),
            child_frame_id="base_link",
            pose=self("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=unknown),
            twist=self(
                "geometry_msgs/msg/TwistWithCovariance", twist=self.twist(speed, 0.0, 0.0), covariance=unknown
            ),
        )  # fmt: skip

    def _vector(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Any:
        return self("geometry_msgs/msg/Vector3", x=x, y=y, z=z)
