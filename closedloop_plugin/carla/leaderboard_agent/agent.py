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
from typing import Any, Mapping, Sequence

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
from leaderboard.autoagents.autonomous_agent import AutonomousAgent, Track

HZ = 20.0  # of the leaderboard's simulation
EARTH_M = 6378137.0  # radius in the projection of CARLA and the leaderboard
REAR_M = -1.4  # x of GNSS and IMU in the published agents: near the rear axle, which moves along the heading
GNSS_GAIN = 0.1  # weight of a fix against dead reckoning in steady state: reduces 0.56 m of noise to 0.13 m
AHEAD_M = 8.0  # distance of the target along the route, as in this project's worlds
ANNOUNCE_M = 15.0  # distance before its place from which a command is given, likewise
MAX_START_GAP_M = 10.0  # from the first fix to the start of the route, where the leaderboard puts the car
WRITE_STEPS = 200  # between two writings of metric_info.json
# values of CARLA's RoadOption; LANEFOLLOW (4) and VOID (-1) are no command
FOLLOW = "lane follow"
COMMANDS = {1: "turn left", 2: "turn right", 3: "go straight", 5: "change lane left", 6: "change lane right"}
COAST = {"steer": 0.0, "throttle": 0.0, "brake": 0.0}


class DriverGaveUp(RuntimeError):
    """Ends the route: the leaderboard records "Failed - Agent crashed"."""


def get_entry_point() -> str:
    return "Ad2Agent"


class GnssProjection:
    """GNSS to map coordinates: x = A lon + dx, y = -A merc(lat) + dy (Mercator), as in the leaderboard and the sensor.

    A, dx and dy are fitted by least squares to the plan, which has the same points in both coordinates."""

    def __init__(self, gps: Sequence[Mapping[str, float]], world: Sequence[tuple[float, float]]) -> None:
        if len(gps) < 2 or len(gps) != len(world):
            raise SetupError("the leaderboard gave no route plan: fewer than two points")
        flat = [_mercator(p["lat"], p["lon"]) for p in gps]
        n = float(len(flat))
        u0, v0 = sum(u for u, _ in flat) / n, sum(v for _, v in flat) / n
        x0, y0 = sum(x for x, _ in world) / n, sum(y for _, y in world) / n
        pairs = [(u - u0, v - v0, x - x0, y - y0) for (u, v), (x, y) in zip(flat, world)]
        spread = sum(u * u + v * v for u, v, _, _ in pairs)
        if spread * EARTH_M * EARTH_M < 1.0:
            raise SetupError("the route plan is shorter than a metre: no GNSS projection can be derived from it")
        self._scale = (
            sum(u * x + v * y for u, v, x, y in pairs) / spread
        )  # A = sum(p q) / sum(p p) of the centred points
        self._dx, self._dy = x0 - self._scale * u0, y0 - self._scale * v0
        error = max(math.hypot(self._scale * u - x, self._scale * v - y) for u, v, x, y in pairs)
        if not error < 0.5:
            raise SetupError(f"the route plan's GPS and map coordinates disagree by {error:.1f} m")

    def to_map(self, lat: float, lon: float) -> tuple[float, float]:
        u, v = _mercator(lat, lon)
        return self._scale * u + self._dx, self._scale * v + self._dy


def _mercator(lat: float, lon: float) -> tuple[float, float]:
    """Mercator projection of degrees on the unit sphere: (east, south); merc(lat) = asinh(tan(lat))."""
    return math.radians(lon), -math.asinh(math.tan(math.radians(lat)))


class LeaderboardRoute:
    """The dense plan: a line with a RoadOption value at each point. `s`: metres from its start to the car."""

    def __init__(self, points: Sequence[tuple[float, float]], options: Sequence[int]) -> None:
        self._points, self._options = list(points), list(options)
        self._s = [0.0]
        for (ax, ay), (bx, by) in zip(self._points, self._points[1:]):
            self._s.append(self._s[-1] + math.hypot(bx - ax, by - ay))
        self.s = 0.0

    def advance(self, x: float, y: float) -> float:
        """Set `s` to the closest position within -10 to +30 m of the last one, against loops; returns the distance."""
        best = math.inf
        near = self.s
        for i in range(len(self._points) - 1):
            if self._s[i + 1] < near - 10.0 or self._s[i] > near + 30.0:
                continue
            (ax, ay), (bx, by) = self._points[i], self._points[i + 1]
            long = self._s[i + 1] - self._s[i]
            t = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / (long * long) if long > 1e-6 else 0.0
            t = min(max(t, 0.0), 1.0)
            gap = math.hypot(ax + t * (bx - ax) - x, ay + t * (by - ay) - y)
            if gap < best:
                best, self.s = gap, self._s[i] + t * long
        return best

    def ahead(self, metres: float) -> tuple[float, float]:
        """The point `metres` ahead of the car; beyond the end the line is extrapolated."""
        wanted = self.s + metres
        i = next((i for i, s in enumerate(self._s) if s >= wanted), len(self._s) - 1)
        j = i - 1
        while j > 0 and self._s[i] - self._s[j] < 1e-6:  # consecutive traces share their end points
            j -= 1
        (ax, ay), (bx, by) = self._points[j], self._points[i]
        t = (wanted - self._s[j]) / max(self._s[i] - self._s[j], 1e-6)
        return ax + t * (bx - ax), ay + t * (by - ay)

    def command(self) -> str:
        """The first command of the plan within ANNOUNCE_M ahead, or FOLLOW."""
        here = (o for s, o in zip(self._s, self._options) if self.s - 0.5 <= s <= self.s + ANNOUNCE_M)
        return next((COMMANDS[o] for o in here if o in COMMANDS), FOLLOW)

    def start_gap(self, x: float, y: float) -> float:
        """Distance to its first point, m."""
        return math.hypot(x - self._points[0][0], y - self._points[0][1])

    def heading(self) -> float:
        """Heading of its first 3 m, radians clockwise from +x."""
        (ax, ay), (bx, by) = self._points[0], self.ahead(3.0)
        return math.atan2(by - ay, bx - ax)


class EgoLocalizer:
    """Position of the car: dead reckoning by compass and speed, corrected by each GNSS fix (complementary filter)."""

    def __init__(self, projection: GnssProjection, yaw: float) -> None:
        self.yaw, self.speed = yaw, 0.0
        self._projection = projection
        self._rear: tuple[float, float] | None = None
        self._fixes = 0
        self._time = 0.0

    def update(self, gnss: Sequence[float], compass: float, speed: float, time_s: float) -> None:
        """Update by one tick's readings. Non-finite ones, as of the compass in its first frames, are ignored."""
        if math.isfinite(compass):
            self.yaw = compass - math.pi / 2  # the compass is 0 at north (-y) and increases clockwise
        if math.isfinite(speed):
            self.speed = speed
        dt, self._time = min(max(time_s - self._time, 0.0), 0.5), time_s
        if self._rear is not None:
            step = self.speed * dt
            self._rear = self._rear[0] + step * math.cos(self.yaw), self._rear[1] + step * math.sin(self.yaw)
        if math.isfinite(gnss[0]) and math.isfinite(gnss[1]):
            fix = self._projection.to_map(float(gnss[0]), float(gnss[1]))
            self._fixes += 1
            gain = max(GNSS_GAIN, 1.0 / self._fixes)  # the mean of all fixes at the beginning
            x, y = self._rear or fix
            self._rear = x + gain * (fix[0] - x), y + gain * (fix[1] - y)

    @property
    def centre(self) -> tuple[float, float] | None:
        """Centre of the car, x and y in m; None before the first fix."""
        if self._rear is None:
            return None
        return self._rear[0] - REAR_M * math.cos(self.yaw), self._rear[1] - REAR_M * math.sin(self.yaw)

    def seen(self, x: float, y: float) -> list[float]:
        """A map point in the ego's frame: metres forward, metres to the LEFT."""
        centre = self.centre or (x, y)
        dx, dy, c, s = x - centre[0], y - centre[1], math.cos(self.yaw), math.sin(self.yaw)
        return [round(dx * c + dy * s, 3), round(dx * s - dy * c, 3)]


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
        self._period = period_of(driver)
        self._step, self._next, self._failures = -1, 0, 0
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
        print(f"[ad2] {self._name}: driven by {self._driver_client.base_url}, every {self._period:g} ticks", flush=True)

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
        if self._step >= self._next:
            # A decision every HZ / decision_hz ticks, which need not be a whole number.
            self._next = math.ceil(math.ceil((self._step + 1) / self._period - 1e-9) * self._period - 1e-9)
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


def check_start(route: LeaderboardRoute, x: float, y: float) -> None:
    """Raise DriverGaveUp if the first position is not at the start of the route: the car would follow a wrong path."""
    gap = route.start_gap(x, y)
    if gap <= MAX_START_GAP_M:
        return
    if route.start_gap(x, -y) <= MAX_START_GAP_M:
        cause = "its latitude is mirrored, as CARLA 0.9.16 does (carla issue 9389); the leaderboard needs CARLA 0.9.15"
    else:
        cause = "route plan and GNSS are of different maps, or of a CARLA version other than 0.9.15"
    raise DriverGaveUp(f"GNSS is {gap:.0f} m off the start of the route: {cause}")


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
    """Ticks between two decisions, at least 1."""
    hz: Any = driver.get("hz")
    often: Any = driver.get("decision_hz")
    if not finite(hz) or abs(hz - HZ) > 1e-6:
        raise SetupError(f"the driver's profile runs at {hz!r} Hz, the leaderboard at {HZ:g}")
    if not finite(often) or not 0.01 <= often <= 1000.0:
        raise SetupError(f"the driver's decision_hz: expected a number, found {often!r}")
    return max(1.0, HZ / often)
