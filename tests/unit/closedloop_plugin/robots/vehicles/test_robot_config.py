"""configs/robots: every file is valid, and errors name the field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from closedloop_plugin.robots.vehicles.robot_config import FOLDER, VEHICLES, find_robot, read_robot
from lmms_eval_ad2.core.errors import Ad2Error

FILES = sorted(FOLDER.glob("*.yaml"))


def write_config(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mine.yaml"
    file.write_text(text, "utf-8")
    return file


def test_one_file_for_each_vehicle_and_the_sandbox() -> None:
    assert {f.stem for f in FILES} == {*VEHICLES, "sandbox"}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_each_file_agrees_with_its_vehicle(file: Path) -> None:
    robot = read_robot(file)
    vehicle = VEHICLES["limo-ackermann" if file.stem == "sandbox" else file.stem]
    assert robot.vehicle == vehicle
    assert robot.name == file.stem
    assert robot.backend == f"ros{vehicle.ros}"
    assert robot.link.host in ("", "localhost", "127.0.0.1"), "an address in a file of ours may be somebody's machine"
    assert robot.onboard.relay
    content: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    assert {"topics", "link", "onboard"} <= set(content)


def test_a_robot_is_found_by_name_or_by_file(tmp_path: Path) -> None:
    assert find_robot("sandbox") == read_robot(FOLDER / "sandbox.yaml")
    assert find_robot(str(write_config(tmp_path, "vehicle: limo-tracked"))).vehicle == VEHICLES["limo-tracked"]
    with pytest.raises(Ad2Error, match="did you mean 'sandbox'"):
        find_robot("sandbx")
    with pytest.raises(Ad2Error, match="cannot read"):
        find_robot(str(tmp_path / "gone.yaml"))


def test_a_file_sets_topics_limits_calibration_and_link(tmp_path: Path) -> None:
    robot = read_robot(
        write_config(
            tmp_path,
            """
vehicle: limo-ackermann
topics: {camera: /camera/color/image_raw, camera_type: raw}
limits: {speed: 1, turning_radius: 0.6}
calibration: {yaw_gain: 1.5, steer_offset: -0.02}
camera: {jpeg_quality: 60}
link: {host: limo, user: agilex, key: keys/limo, ssh_options: [ProxyJump=gate]}
onboard: {backend: "my_io:Recorder", max_age_s: 2}
""",
        )
    )
    limits = robot.vehicle.limits
    assert (limits.speed, limits.turning_radius, limits.yaw_rate) == (1.0, 0.6, 1.0)
    assert type(limits.speed) is float
    assert (robot.vehicle.topics.camera_type, robot.vehicle.topics.cmd) == ("raw", "/cmd_vel")
    assert (robot.vehicle.calibration.yaw_gain, robot.vehicle.calibration.steer_offset) == (1.5, -0.02)
    assert (robot.backend, robot.onboard.max_age_s, robot.camera.jpeg_quality) == ("my_io:Recorder", 2.0, 60)
    assert (robot.link.key, robot.link.ssh_options) == (str(tmp_path / "keys/limo"), ("ProxyJump=gate",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a mapping"),
        ("[1]", "a mapping"),
        ("a: [", "valid YAML"),
        ("topics: {}", "vehicle's name"),
        ("vehicle: [limo]", "vehicle's name"),
        ("vehicle: limo-akermann", "did you mean 'limo-ackermann'"),
        ("vehicle: limo-tracked\nlimit: {}", "did you mean 'limits'"),
        ("vehicle: limo-tracked\nlimits: {sped: 1}", "limits.sped.*did you mean 'speed'"),
        ("vehicle: limo-tracked\nlimits: 3", "'limits': expected a mapping"),
        ("vehicle: limo-tracked\nlimits: {speed: 1.01}", "at most 1 for limo-tracked"),
        ("vehicle: limo-tracked\nlimits: {speed: 0}", "above 0"),
        ("vehicle: limo-tracked\nlimits: {speed: .nan}", "limits.speed"),
        ("vehicle: limo-tracked\nlimits: {speed: fast}", "limits.speed.*a number"),
        ("vehicle: limo-tracked\nlimits: {speed: true}", "limits.speed.*a number"),
        ("vehicle: limo-tracked\nlimits: {lateral: 0.1}", "limits.lateral"),
        ("vehicle: limo-tracked\nlimits: {reverse: true}", "looks behind"),
        ("vehicle: limo-ackermann\nlimits: {turning_radius: 0.4}", "at least 0.4621 m"),
        ("vehicle: limo-ackermann\nlimits: {turning_radius: .inf}", "limits.turning_radius"),
        ("vehicle: limo-tracked\ncalibration: {yaw_gain: 0}", "from 0.2 to 5"),
        ("vehicle: limo-tracked\ntopics: {camera_type: jpeg}", "raw or compressed"),
        ("vehicle: limo-tracked\ntopics: {cmd: ''}", "topics.cmd"),
        ("vehicle: limo-tracked\ntopics: {status: ''}", "only driven in mode 0"),
        ("vehicle: limo-tracked\ntopics: {odom: 3}", "topics.odom.*a text"),
        ("vehicle: limo-tracked\nlink: {port: 22.5}", "a whole number"),
        ("vehicle: limo-tracked\nlink: {ssh_options: ProxyJump=gate}", "a list of Name=value"),
        ("vehicle: limo-tracked\nlink: {host: \"a\\nb\"}", "link.host"),
        ("vehicle: limo-tracked\nlimits: {speed: 0.1}\nlimits: {speed: 1.0}", "duplicate key 'limits'.*line 3"),
        ("vehicle: limo-tracked\nonboard: {relay: false}", "does not stop by itself"),
        ("vehicle: limo-tracked\nonboard: {backend: ros3}", "MODULE:CLASS"),
        ("vehicle: limo-tracked\nonboard: {motion_s: 0.6}", "from 0.05 to 0.5"),
    ],
)  # fmt: skip
def test_errors_name_the_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    file = write_config(tmp_path, text)
    with pytest.raises(Ad2Error, match=re.escape(str(file))) as caught:
        read_robot(file)
    assert re.search(said, str(caught.value)), str(caught.value)


def test_a_base_that_stops_by_itself_needs_no_relay(tmp_path: Path) -> None:
    assert not read_robot(write_config(tmp_path, "vehicle: jetbot-waveshare\nonboard: {relay: false}")).onboard.relay
