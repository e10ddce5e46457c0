"""Agent for Bench2Drive's leaderboard, which gets its controls from `ad2 serve` (docs/bench2drive.md).

The leaderboard imports this file under CARLA 0.9.15's Python 3.7; the models run behind `ad2 serve`, which ad2_link.py
calls. On track SENSORS it uses cameras, GNSS, IMU, speedometer and the route plan. The hero actor, which the
leaderboard's base class has, is read for metric_info.json only, as in the published agents.

Files in SAVE_PATH/<save name>/, which the official scripts read:
    run.json           driver, configuration and sensors; at the end also the counts
    metric_info.json   motion by step, for Comfortness; replaced atomically every 200 steps and at the end
    decisions.jsonl    one line per decision: the question without pictures, the answer or the failure, the control
    frames/            only with save_frames_every: the pictures as sent

Axes here are CARLA's: x, y in metres (y to the RIGHT of x), yaw in radians clockwise from +x.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Mapping

import carla
from ad2_link import (
    CAMERA,
    CarlaImageEncoder,
    DriverFailure,
    DriverHttpClient,
    LeaderboardAgentConfig,
    SetupError,
    choose_encoder,
    finite,
    read_config,
    settings,
    split_config,
)
from ad2_position import REAR_M, DriverGaveUp, EgoLocalizer, GnssProjection, LeaderboardRoute, check_start
from leaderboard.autoagents.autonomous_agent import AutonomousAgent, Track

HZ = 20.0  # of the leaderboard's simulation; decisions go by its time, so other rates work as well
TIME_TOLERANCE_S = 1e-3  # of a decision's time: time steps are single precision
AHEAD_M = 8.0  # distance of the target along the route, as in this project's worlds
WRITE_STEPS = 200  # between two writings of metric_info.json
COAST = {"steer": 0.0, "throttle": 0.0, "brake": 0.0}


def get_entry_point() -> str:
    return "Ad2Agent"


class LeaderboardJournal:
    """Writes the files of one route; nothing if `folder` is None (no SAVE_PATH)."""

    def __init__(self, folder: Path | None, about: Mapping[str, Any]) -> None:
        self._folder, self._about = folder, dict(about)
        self._motion: dict[str, Any] = {}
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
        self.run({}, finished=False)

    def run(self, counts: Mapping[str, int], finished: bool) -> None:
        self._write_json("run.json", dict(self._about, counts=dict(counts), finished=finished), indent=1)

    def motion(self, step: int, row: Mapping[str, Any]) -> None:
        self._motion[str(step)] = dict(row)
        if len(self._motion) % WRITE_STEPS == 0:
            self.keep()

    def keep(self) -> None:
        if self._motion:
            self._write_json("metric_info.json", self._motion)

    def decision(self, row: Mapping[str, Any]) -> None:
        """Append a line in a single write, so that a killed run leaves complete lines."""
        if self._folder:
            with (self._folder / "decisions.jsonl").open("ab", buffering=0) as out:
                out.write((json.dumps(row) + "\n").encode())

    def frames(self, step: int, pictures: Mapping[str, tuple[str, bytes]]) -> None:
        if self._folder:
            (self._folder / "frames").mkdir(exist_ok=True)
            for name, (kind, data) in pictures.items():
                (self._folder / "frames" / f"{step:05d}_{name}.{kind}").write_bytes(data)

    def _write_json(self, name: str, data: Any, indent: int | None = None) -> None:
        if self._folder:
            part = self._folder / f".{name}.part"
            part.write_text(json.dumps(data, indent=indent), "utf-8")
            part.replace(self._folder / name)


class Ad2Agent(AutonomousAgent):
    """The leaderboard's interface: setup, sensors, run_step at 20 Hz, destroy. The simulation waits for run_step."""

    _journal: LeaderboardJournal | None = None  # destroy is called even if setup failed

    def setup(self, path_to_conf_file: str) -> None:
        """`path_to_conf_file`: FILE+SAVE_NAME, as passed by Bench2Drive's leaderboard."""
        self.track = Track.SENSORS
        file, name = split_config(path_to_conf_file)
        self._name = Path(name or time.strftime("ad2_%m_%d_%H_%M_%S")).name
        self._config = read_config(file, os.environ)
        self._encoder: CarlaImageEncoder = choose_encoder(self._config.image_format, self._config.jpeg_quality)
        projection = GnssProjection(
            [p for p, _ in self._global_plan or ()],
            [(t.location.x, t.location.y) for t, _ in self._global_plan_world_coord or ()],
        )
        # The plan with a point per metre; the base class has it beside its own, with a point per 50 m.
        dense = [(projection.to_map(p["lat"], p["lon"]), int(option.value)) for p, option in self._plan_gps_HACK]
        self._route = LeaderboardRoute([point for point, _ in dense], [option for _, option in dense])
        self._localizer = EgoLocalizer(projection, self._route.heading())
        self._driver_client = DriverHttpClient(self._config, os.environ)
        driver = self._driver_client.driver()
        self._cameras = cameras_of(driver, self._config)
        self._period_s = period_of(driver)
        self._step, self._failures = -1, 0
        self._first_s, self._next_s = math.nan, 0.0  # time of the first step; of the next decision, after that
        self._located = False  # whether there was a fix
        self._held_control = COAST
        self._counts: Counter[str] = Counter()
        root = os.environ.get("SAVE_PATH")
        about = {
            "ad2_agent": 1,
            "save_name": self._name,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "python": sys.version.split()[0],
            "base_url": self._driver_client.base_url,
            "config": settings(self._config),
            "pictures": self._encoder.label,
            "driver": driver,
            "sensors": self.sensors(),
        }
        self._journal = LeaderboardJournal(Path(root) / self._name if root else None, about)
        print(f"[ad2] {self._name}: driven by {self._driver_client.base_url}, every {self._period_s:g} s", flush=True)

    def sensors(self) -> list[dict[str, Any]]:
        """The driver's cameras, and IMU, GNSS and speedometer as in the published agents."""
        straight = {"roll": 0.0, "pitch": 0.0}
        rear = {"x": REAR_M, "y": 0.0, "z": 0.0, "yaw": 0.0}
        cameras = [
            {
                "type": "sensor.camera.rgb", "id": c["name"], "x": c["forward"], "y": c["right"], "z": c["up"],
                "yaw": c["yaw"], "width": c["width"], "height": c["height"], "fov": c["fov"], **straight,
            }
            for c in self._cameras
        ]  # fmt: skip
        return [
            *cameras,
            {"type": "sensor.other.imu", "id": "IMU", **rear, **straight},
            {"type": "sensor.other.gnss", "id": "GPS", **rear, **straight},
            {"type": "sensor.speedometer", "id": "SPEED", "reading_frequency": int(HZ)},
        ]

    def run_step(self, input_data: Mapping[str, tuple[int, Any]], timestamp: float) -> Any:
        """Readings are (frame, data): BGRA images (H, W, 4), GPS [lat, lon, altitude], IMU [..., compass radians]."""
        self._step += 1
        assert self._journal is not None
        self._journal.motion(self._step, self.get_metric_info())
        self._localizer.update(
            input_data["GPS"][1], float(input_data["IMU"][1][-1]), float(input_data["SPEED"][1]["speed"]), timestamp
        )
        if self._localizer.centre is not None:
            if not self._located:
                check_start(self._route, *self._localizer.centre)
                self._located = True
            self._route.advance(*self._localizer.centre)
        if self._step == 0:
            self._first_s = timestamp
        since = timestamp - self._first_s + TIME_TOLERANCE_S
        if since >= self._next_s:
            # A decision every period, which need not be a whole number of ticks.
            self._next_s = (math.floor(since / self._period_s) + 1) * self._period_s
            self._held_control = self._decide(input_data, timestamp)
        control = carla.VehicleControl()
        control.steer, control.throttle, control.brake = (self._held_control[k] for k in ("steer", "throttle", "brake"))
        control.hand_brake = False
        return control

    def destroy(self) -> None:
        if self._journal is not None:
            self._journal.keep()
            self._journal.run(self._counts, finished=True)
            print(f"[ad2] {self._name}: {dict(self._counts)}", flush=True)
            self._journal = None

    def _route_offset(self) -> float | None:
        centre = self._localizer.centre
        return None if centre is None else round(self._route.offset(*centre), 3)

    def _decide(self, input_data: Mapping[str, tuple[int, Any]], timestamp: float) -> dict[str, float]:
        """The control until the next decision: the driver's, or COAST after a failure or an unparsed reply."""
        assert self._journal is not None
        names = [c["name"] for c in self._cameras]
        question = {
            "episode": self._name,
            "tick": self._step,
            "time_s": round(float(timestamp), 6),
            "speed": abs(self._localizer.speed),
            "command": self._route.command(),
            "target": self._localizer.seen(*self._route.ahead(AHEAD_M)),
            "route_offset": self._route_offset(),
            "speed_limit": None,  # no sensor of this track measures it
            "cameras": names,
        }
        pictures = {n: (self._encoder.kind, self._encoder.encode(input_data[n][1])) for n in names}
        every = self._config.save_frames_every
        if every and self._counts["decisions"] % every == 0:
            self._journal.frames(self._step, pictures)
        self._counts["decisions"] += 1
        answer: dict[str, Any] = {}
        failure, started = None, time.monotonic()
        try:
            answer = self._driver_client.decide(question, list(pictures.values()))
        except DriverFailure as exc:
            failure = str(exc)
        control = answer.get("control") or COAST
        spent = round(time.monotonic() - started, 4)
        self._journal.decision(dict(question, control=control, answer=answer or None, failure=failure, request_s=spent))
        self._count_outcome(answer, failure)
        return control

    def _count_outcome(self, answer: Mapping[str, Any], failure: str | None) -> None:
        """Count the outcome as this project's runner does. Raises DriverGaveUp to end the route."""
        if failure is not None:
            self._counts["failures"] += 1
            self._failures += 1
            print(f"[ad2] step {self._step}: no control, the car coasts: {failure}", flush=True)
            if self._failures >= self._config.patience:
                raise DriverGaveUp(f"{self._failures} failures in a row, the last: {failure}")
            return
        self._failures = 0
        if answer["unparsed"] is not None:
            self._counts["unparsed"] += 1
            if answer["policy"] == "strict":
                raise DriverGaveUp(f"policy strict: a reply could not be read ({answer['unparsed']})")


def cameras_of(driver: Mapping[str, Any], config: LeaderboardAgentConfig) -> list[dict[str, Any]]:
    """The driver's cameras, with the configuration's changes."""
    found = driver.get("cameras")
    if not isinstance(found, list) or not all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in found):
        raise SetupError("the driver's description has no list of cameras")
    names = [c["name"] for c in found]
    invalid = [n for n in names if not n.replace("_", "").isalnum() or n in ("IMU", "GPS", "SPEED")]
    if invalid:
        raise SetupError(f"camera names must be letters, digits and _, and no sensor's: {invalid}")
    unknown = sorted(set(config.cameras) - set(names))
    if unknown:
        raise SetupError(f"cameras: this driver has no {', '.join(unknown)}; it has {', '.join(names) or 'none'}")
    cameras = [{**c, **config.cameras.get(c["name"], {})} for c in found]
    for c in cameras:
        wrong = [k for k, (right, _) in CAMERA.items() if not right(c.get(k))]
        if wrong:
            raise SetupError(f"the driver's camera {c['name']}: {wrong[0]}: expected {CAMERA[wrong[0]][1]}")
    return cameras


def period_of(driver: Mapping[str, Any]) -> float:
    """Seconds between two decisions. The rate of the simulation is the leaderboard's, not that of the profile."""
    often: Any = driver.get("decision_hz")
    if not finite(often) or not 0.01 <= often <= 1000.0:
        raise SetupError(f"the driver's decision_hz: expected a number, found {often!r}")
    return 1.0 / often
