"""EmbeddedWorld: episodes on a small corridor, with programs defined here."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.routes import Route, Weather
from closedloop_plugin.core.state import COAST, FULL_BRAKE, ActorKind, Control, DrivingSurface, GroundTruth
from closedloop_plugin.maps.base import RoadLayout
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene, WorldError
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld, grip
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

HEAD = """
model scenic.domains.driving.model
from closedloop_plugin.worlds.bridge.rail import Rail
stage = globalParameters.stage
"""
EGO = "ego = new Car at stage.spot(0), facing stage.heading(0)\n"
LEAD = """
behavior Brakes():
    while stage.ego_s < 15:
        wait
    stage.event("trigger")
    self.rail.speed = 0
    self.lamps.add("hazard")
    while True:
        wait
new Car at stage.spot(25), facing stage.heading(25), \\
    with rail Rail(stage.road.path, 25.0, speed=7, gap=3), with behavior Brakes(), with kind Uniform("van", "truck")
"""
POINTS = tuple((2.0 * i, 0.0) for i in range(30)) + tuple(
    (58.0 + 60 * math.sin(a), 60 - 60 * math.cos(a)) for a in (0.04 * k for k in range(1, 20))
)
ROUTE = Route("1", "Town99", POINTS, "Nothing", "Nothing_1", (20.0, 0.0, 0.0))
CAMERA = Camera("front", 160, 90, 90, 1.5, 0.0, 1.6)
GAS = Control(throttle=0.6)


@pytest.fixture
def world(tmp_path: Path):
    w = EmbeddedWorld(tmp_path / "maps")
    yield w
    w.close()


def setup(tmp_path: Path, text: str, seed: int = 1, **more) -> EpisodeSetup:
    program = tmp_path / "p.scenic"
    program.write_text(HEAD + text)
    return EpisodeSetup(ROUTE, seed, program=program, **{"traffic": False, **more})


def drive(world: EmbeddedWorld, control: Control, ticks: int) -> list[GroundTruth]:
    truths = []
    for _ in range(ticks):
        world.step(control)
        truths.append(world.truth())
    return truths


def test_a_car_on_a_rail_drives_brakes_and_is_not_driven_through(world: EmbeddedWorld, tmp_path: Path) -> None:
    assert world.reset(setup(tmp_path, EGO + LEAD)).target == pytest.approx((8.0, 0.0), abs=0.2)
    truths = drive(world, GAS, 160)
    kinds = {t.actors[0].kind for t in truths}
    assert kinds <= {ActorKind.VAN, ActorKind.TRUCK} and len(kinds) == 1
    assert truths[20].actors[0].speed == pytest.approx(7.0)
    assert truths[-1].events[0][1] == "trigger"
    hit = next(t for t in truths if t.contacts)
    contact = hit.contacts[0]
    assert contact.actor == "s1" and contact.impulse > 1000
    for t in truths:
        ego, lead = t.ego, t.actors[0]
        assert math.dist((ego.x, ego.y), (lead.x, lead.y)) > 0.5 * (ego.length + lead.length) - 0.2
    lead = truths[-1].actors[0]
    assert {"hazard", "brake"} <= lead.lamps


def test_walkers_doors_poses_and_removed_actors(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(
        setup(
            tmp_path,
            EGO
            + """
behavior Cross():
    take SetWalkingDirectionAction(self.heading), SetWalkingSpeedAction(1.5)
    while True:
        wait
behavior Odd():
    wait
    self.doors.add("left")
    self.setPose(30, 20, 0.0, 0.0)
    wait
    wait
    self.gone = True
    while True:
        wait
new Pedestrian at (20, -6), facing 0, with regionContainedIn everywhere, with behavior Cross()
new Car at stage.spot(40, 0), facing stage.heading(40), with behavior Odd()
new Prop at stage.spot(45, 0), with kind "cone"
""",
        )
    )
    truths = drive(world, COAST, 20)
    walker = truths[-1].actors[0]
    assert (walker.x, walker.y) == pytest.approx((20.0, -4.5), abs=0.16) and walker.yaw == pytest.approx(math.pi / 2)
    moved = next(t.actors[1] for t in truths if t.actors[1].doors)
    assert (moved.x, moved.y) == (30.0, 20.0) and moved.yaw == pytest.approx(math.pi / 2)
    assert [a.kind for a in truths[-1].actors] == [ActorKind.PEDESTRIAN, ActorKind.CONE]


def test_the_noise_of_a_program_is_added_to_the_steering(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, EGO + "stage.noise = (0.3, 0.0)\n"))
    assert max(abs(t.ego.steer) for t in drive(world, GAS, 20)) > 0.1


def test_wet_roads_lengthen_braking(world: EmbeddedWorld, tmp_path: Path) -> None:
    def stop(weather: Weather) -> float:
        world.reset(setup(tmp_path, EGO, weather=weather))
        start = drive(world, Control(throttle=1.0), 60)[-1].ego.x
        return drive(world, FULL_BRAKE, 60)[-1].ego.x - start

    assert stop(Weather(wetness=100, precipitation_deposits=100)) > 1.3 * stop(Weather())


def test_surfaces_under_the_ego(world: EmbeddedWorld, tmp_path: Path) -> None:
    surfaces = []
    for d in (0.0, 3.5, 30.0):
        world.reset(
            setup(
                tmp_path,
                f"ego = new Car at stage.spot(30, {d}), facing stage.heading(30), with regionContainedIn everywhere\n",
            )
        )
        surfaces.append(world.truth().surface)
    assert surfaces == [DrivingSurface.LANE, DrivingSurface.ONCOMING, DrivingSurface.OFF]


def test_images_are_rendered_on_request_and_only_once(world: EmbeddedWorld, tmp_path: Path) -> None:
    first = world.reset(setup(tmp_path, EGO, cameras=(CAMERA,)))
    image = first.images("front")
    assert image.shape == (90, 160, 3) and image.dtype == "uint8" and image is first.images("front")
    with pytest.raises(Ad2Error, match="no camera 'rear'"):
        first.images("rear")
    world.step(COAST)
    with pytest.raises(WorldError):
        first.images("front")


def test_background_traffic_does_not_hit_a_standing_ego(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, EGO, traffic=True, seed=4))
    start = world.truth()
    cars = [a for a in start.actors if a.role == "background" and a.kind not in (ActorKind.PEDESTRIAN,)]
    assert 2 <= len(cars) <= 8
    assert all(math.dist((a.x, a.y), (start.ego.x, start.ego.y)) > 20 for a in cars)
    later = drive(world, FULL_BRAKE, 800)
    assert not any(t.contacts for t in later)
    moving = [a.speed for t in later for a in t.actors if a.role == "background" and a.kind is ActorKind.CAR]
    assert sum(moving) / len(moving) > 4.0


def digest(folder: Path, program: Path, seed: int) -> str:
    """A hash of 60 ticks' truths and two pictures."""
    world = EmbeddedWorld(folder)
    o = world.reset(EpisodeSetup(ROUTE, seed, (CAMERA,), program=program, weather=Weather(precipitation=60)))
    out = hashlib.sha256(o.images("front").tobytes())
    for tick in range(60):
        o = world.step(Control(0.02 * (tick % 5), 0.5))
        out.update(repr(world.truth()).encode())
    out.update(o.images("front").tobytes())
    world.close()
    return out.hexdigest()


def test_the_same_seed_gives_the_same_bits_in_any_process(tmp_path: Path) -> None:
    program = tmp_path / "p.scenic"
    program.write_text(HEAD + EGO + LEAD)
    first = digest(tmp_path / "maps", program, 3)
    other = digest(tmp_path / "maps", program, 4)
    assert first != other and digest(tmp_path / "maps", program, 3) == first
    code = f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}; from test_world import *; "
    code += f"print(digest(Path({str(tmp_path / 'maps2')!r}), Path({str(program)!r}), 3))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip().splitlines()[-1] == first


def test_a_program_may_end_the_episode(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, EGO + "terminate when stage.ego_s > 4\n"))
    for _ in range(100):
        if world.done:
            break
        world.step(GAS)
    assert world.done and 4 < world.truth().ego.x < 7


def test_a_requirement_violated_during_the_run_is_an_invalid_episode(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, EGO + "require always stage.ego_s < 3\n"))
    with pytest.raises(InvalidScene):
        drive(world, GAS, 100)


def test_missing_files_and_settings_are_reported(world: EmbeddedWorld, tmp_path: Path) -> None:
    for wrong, message in (
        (EpisodeSetup(ROUTE, 0, program=tmp_path / "no.scenic"), "no such scenario program"),
        (EpisodeSetup(ROUTE, 0, town=tmp_path / "no.xodr"), "no such map file"),
        (EpisodeSetup(None, 0), "route or a program"),
    ):
        with pytest.raises(Ad2Error, match=message):
            world.reset(wrong)


def test_a_custom_program_runs_on_a_town(world: EmbeddedWorld, tmp_path: Path, data_dir: Path) -> None:
    program = tmp_path / "mine.scenic"
    program.write_text("model scenic.domains.driving.model\nego = new Car\n")
    town = data_dir / "opendrive" / "Town01.xodr"
    if not town.is_file():
        pytest.skip("no town map here")
    world.reset(EpisodeSetup(None, 2, program=program, town=town, traffic=False))
    assert world.road.source == "town" and world.road.town == "Town01" and 100 < world.road.path.length < 260
    truths = drive(world, GAS, 40)
    assert truths[-1].surface is DrivingSurface.LANE and truths[-1].ego.speed > 3
    assert abs(world.road.path.locate(truths[-1].ego.x, truths[-1].ego.y)[1]) < 2.0


FAILING = """
def deeper():
    return [1, 2][7]
behavior Fails():
    for i in range(3):
        wait
    {line}
new Car at stage.spot(40), facing stage.heading(40), with behavior Fails()
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = unknown + 1", r"p\.scenic, line 12: NameError"),
        ("deeper()", r"p\.scenic, line 8: IndexError"),
        ("new Car at stage.spot(80)", r"p\.scenic, line 12: InvalidScenarioError: tried to create an object"),
        ("assert False", r"p\.scenic, line 12: AssertionError$"),
    ],
)
def test_an_error_during_a_run_is_reported_with_its_line_and_the_world_stays_usable(
    world: EmbeddedWorld, tmp_path: Path, line: str, message: str
) -> None:
    world.reset(setup(tmp_path, EGO))
    before = drive(world, GAS, 5)[-1].ego
    world.reset(setup(tmp_path, EGO + FAILING.format(line=line)))
    with pytest.raises(Ad2Error, match=message) as caught:
        drive(world, GAS, 30)
    assert "\n" not in str(caught.value) and world.done
    with pytest.raises(WorldError):
        world.step(GAS)
    world.reset(setup(tmp_path, EGO))
    assert drive(world, GAS, 5)[-1].ego == before


def test_an_error_in_a_built_in_program_is_a_world_error(
    world: EmbeddedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours.scenic"
    ours.write_text(HEAD + EGO + FAILING.format(line="deeper()"))
    monkeypatch.setattr(
        "closedloop_plugin.worlds.bridge.world.program_of", lambda setup, in_town=None: (RoadLayout(), ours)
    )
    world.reset(EpisodeSetup(ROUTE, 1, traffic=False))
    with pytest.raises(WorldError, match=r"ours\.scenic, line 8: IndexError"):
        drive(world, GAS, 30)


def test_a_world_abandoned_during_a_run_does_not_affect_another(world: EmbeddedWorld, tmp_path: Path) -> None:
    abandoned = EmbeddedWorld(tmp_path / "maps")
    abandoned.reset(setup(tmp_path, EGO + LEAD))
    drive(abandoned, GAS, 10)
    world.reset(setup(tmp_path, EGO + LEAD))
    assert drive(world, GAS, 10)[-1].tick == 10
    with pytest.raises(WorldError, match="closed"):
        abandoned.step(GAS)


def test_scenario_cars_are_the_surrounding_traffic_if_they_take_every_lane(
    world: EmbeddedWorld, tmp_path: Path
) -> None:
    flow = """
for k in range(2):
    new Car at stage.spot(60 + 20 * k, 3.5), facing stage.heading(60, 180), \\
        with rail Rail(stage.road.path, 60 + 20 * k, 3.5, speed=8, direction=-1)
new Car at stage.spot(30, -1), facing stage.heading(30)
new Bicycle at stage.spot(70), facing stage.heading(70), with rail Rail(stage.road.path, 70, 0, speed=3)
"""
    for traffic, counted in ((True, ["s1", "s2"]), (False, [])):
        world.reset(setup(tmp_path, EGO + flow, traffic=traffic))
        actors = world.truth().actors
        assert [a.id for a in actors if a.role == "background" and a.kind is not ActorKind.PEDESTRIAN] == counted
    world.reset(setup(tmp_path, EGO + "new Car at stage.spot(30), with rail Rail(stage.road.path, 30)\n", traffic=True))
    counted = [a.id for a in world.truth().actors if a.role == "background" and a.kind is not ActorKind.PEDESTRIAN]
    assert counted and "s1" not in counted  # with other traffic, the scenario's cars do not count


def test_houses_stop_a_car_off_the_road_and_are_built_only_when_needed(world: EmbeddedWorld, tmp_path: Path) -> None:
    world.reset(setup(tmp_path, EGO, traffic=False))
    drive(world, GAS, 20)
    assert world._simulation.context.obstacles._rows is None
    for _ in range(300):
        world.step(Control(0.25, 0.6, 0.0))
        hits = world.truth().contacts
        if hits:
            break
    assert hits[0].kind is ActorKind.BLOCKER and hits[0].actor.startswith("house") and hits[0].impulse > 1000
    assert world.truth().surface is DrivingSurface.OFF and all(
        a.kind is not ActorKind.BLOCKER for a in world.truth().actors
    )
    speeds = [t.ego.speed for t in drive(world, Control(0.0, 1.0, 0.0), 40)]
    assert max(map(abs, speeds[20:])) < 3.0


def test_cars_that_nothing_drives_are_parked(world: EmbeddedWorld, tmp_path: Path) -> None:
    """Only these are dark at night: a car that waits on a rail, or before it is driven, is not one of them."""
    text = """
behavior Go():
    while stage.time_s < 0.5:
        wait
    while True:
        take SetThrottleAction(1.0), SetBrakeAction(0.0)
rail = Rail(stage.road.path, 60.0, 0.0)
new Car at stage.spot(30, -5), facing stage.heading(30), with regionContainedIn everywhere
new Car at rail.pose()[:2], facing stage.heading(60), with rail rail, with regionContainedIn everywhere
new Car at stage.spot(45, -5), facing stage.heading(45), with regionContainedIn everywhere, with behavior Go()
"""
    world.reset(setup(tmp_path, EGO + text))
    first, *_, last = drive(world, COAST, 30)
    assert [a.parked for a in first.actors] == [True, False, True]
    assert [a.parked for a in last.actors] == [True, False, False]
    assert not first.ego.parked


def test_conditions_change_pictures_and_nothing_else(world: EmbeddedWorld, tmp_path: Path) -> None:
    found = []
    for param in ("", 'param contradictory_sign = "no_entry"\n', "param worn_markings = 90\n"):
        program = tmp_path / "p.scenic"
        program.write_text(param + HEAD + EGO)
        world.reset(EpisodeSetup(ROUTE, 1, program=program, traffic=False, cameras=(CAMERA,)))
        observation = world.step(GAS)
        found.append((observation.images("front"), world.truth(), dict(world.drawn)))
    (plain, truth, nothing), (sign, with_sign, drawn), (old, with_old, _) = found
    assert truth == with_sign == with_old
    assert not np.array_equal(plain, sign) and not np.array_equal(plain, old)
    assert nothing == {} and drawn == {"contradictory_sign": "no_entry"}


def test_grip_is_1_on_dry_roads_and_0_6_in_standing_water() -> None:
    assert grip(Weather()) == 1.0
    assert math.isclose(grip(Weather(wetness=50)), 0.9)
    assert math.isclose(grip(Weather(wetness=100, precipitation_deposits=100)), 0.6)
    assert grip(Weather(precipitation=100)) < 0.9  # it wets the road as it falls


@given(*[st.floats(allow_nan=True)] * 4)
def test_any_numbers_give_a_grip_in_range(a: float, b: float, c: float, d: float) -> None:
    weather = Weather(wetness=a, precipitation=b, precipitation_deposits=c, fog_density=d)
    assert 0.6 <= grip(weather) <= 1.0
