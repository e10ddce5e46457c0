"""A lap with the complete loop: planner -> ssh -> on-board client -> rospy -> simulated vehicle -> camera, and back."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from support.robots import ros_master
from support.robots.far_robot import far_robot, yaml_of
from support.robots.real_time import Pulse
from support.robots.sshd import sshd
from support.running import BIN, run

OVERHEAD_S = 0.05  # the limit on an idle machine is 10 ms; benchmarks/robot_faults.py measures it
HOPS = 20  # upper bound of how often a frame or its order waits for a process or thread to be scheduled


def test_a_complete_lap_with_the_track_expert_and_the_rule_interpreter(tmp_path: Path) -> None:
    ros_master.ros_path()
    with sshd(tmp_path / "sshd") as server:
        file = yaml_of(far_robot(server, tmp_path / "vehicle"), tmp_path)
        out = tmp_path / "out"
        words = ["--agent", "track-expert", "--interpreter", "rules", "--transport", "ros", "--tunnel", "--out", out]
        with Pulse() as pulse:
            done = run(
                BIN / "ad2", "robot", "run", "--robot", file, "--segments", "lap", "--runs", "1", *words, cwd=tmp_path
            )
    assert "lap run 1: completed, 100 %" in done.stdout
    assert "tunnel up" in done.stderr
    (drive,) = (json.loads(track.read_text("utf-8")) for track in (out / "tracks").iterdir())
    assert drive["result"]["completion"] == 100 and drive["result"]["transport"] == "ros"
    assert len(drive["cycles"]) > 40 and not any(cycle["error"] or cycle["unparsed"] for cycle in drive["cycles"])
    events = [json.loads(line) for line in (out / "logs" / "client.log").read_text("utf-8").splitlines()]
    ages = [line["age_s"] for line in events if line["event"] == "motion"]
    connections = sum(line["event"] == "connected" for line in events)  # one, unless this machine stalled
    assert len(ages) >= len(drive["cycles"]) - connections
    thinking = statistics.median(cycle["thinking_s"] for cycle in drive["cycles"])
    assert statistics.median(ages) - thinking < OVERHEAD_S + HOPS * statistics.median(pulse.late_s)
