"""One scenario on a straight road, built without Scenic: hand-worked places, triggers, parameters; all behaviours."""

from __future__ import annotations

import inspect
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.running import REPO

from closedloop_plugin.core.path import RoutePath
from closedloop_plugin.core.routes import Weather
from closedloop_plugin.core.state import StopLine
from closedloop_plugin.maps.base import RoadMap
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.worlds.base import ParameterDomain
from closedloop_plugin.worlds.bodies.vehicle import size_of
from closedloop_plugin.worlds.bridge.rail import Rail
from lmms_eval_ad2.errors import Ad2Error

pytest.importorskip("scenariogeneration")
from closedloop_plugin.threats.openscenario import library, scenario
from closedloop_plugin.threats.openscenario.scenario import (
    WRITERS,
    ScenarioFile,
    ScenarioRequest,
    distribution,
    scenario_file,
)
from closedloop_plugin.threats.openscenario.scene import SampledActor, SceneDraw, SceneSamples

PATH = RoutePath([(0.0, 0.0), (150.0, 0.0)])  # east
ACROSS = RoutePath([(50.0, -6.0), (50.0, 6.0)])
LIGHTS = tuple(
    StopLine(name, 60.0, 0.0, 0.0, 3.5, control="signal", on_route=name == "entry") for name in ("entry", "left")
)
# behaviour -> arguments behind (where, due, "time"), other than for RunJunction, OpenDoor and StandHidden
MORE: dict[str, tuple[Any, ...]] = {
    "StepOut": (1.5,), "Block": (4.0, 8.0), "Obstruct": (4.0,), "BrakeHard": (4.0,), "SlowDown": (3.0,),
    "SlowAhead": (3.0, 5.0), "SwerveAway": (7.0,), "CutIn": (4.0, -1), "Oncoming": (8.0, 1.0), "Tailgate": (3.0, 0.4),
    "PassWithSiren": (13.0, 20.0), "OpenDoor": (5.0,),
}  # fmt: skip


def actor(name: str, kind: str, x: float, y: float, yaw: float = 0.0, **more: Any) -> SampledActor:
    length, width, height = size_of(kind)
    return SampledActor(
        name=name, kind=kind, blueprint="", x=x, y=y, yaw=yaw, length=length, width=width, height=height, **more
    )


def spec(**more: Any) -> ThreatSpec:
    fields = {
        "behaviour": "cross", "adversary": "child", "speed_mps": 1.5, "road": "open", "trigger": {"value": [1.5, 2.5]},
        "place": {"side": "right", "lane": "pavement", "ahead_m": 37}, "weakness": "perception", "description": "x",
    }  # fmt: skip
    return ThreatSpec.model_validate(fields | more)


def draw(due: float, *actors: SampledActor, **values: float) -> SceneDraw:
    ego = actor("ego", "car", 0.0, 0.0)
    return SceneDraw(values={"due": due, **values}, ego=ego, actors=actors, weather=Weather())


def samples(*draws: SceneDraw, lines: tuple[StopLine, ...] = ()) -> SceneSamples:
    road = RoadMap(
        file=Path("m.xodr"), source="corridor", town="T", sha256="", path=PATH, pieces=(), stop_lines=lines,
        speed_limit=13.9, facts={"lanes": {"left": 0, "right": 0, "oncoming": 1}},
    )  # fmt: skip
    free = {"due": ParameterDomain(1.5, 2.5)} if len(draws) > 1 else {}
    return SceneSamples(road=road, trigger_s=13.0, free=free, played=draws[0], others=draws[1:])


def written(taken: SceneSamples, **request: Any) -> ScenarioFile:
    given = {"spec": spec(), "base": "ParkedObstacle", **request}
    return scenario_file(
        taken,
        ScenarioRequest(
            description="a test", road_file="m.xodr", date=datetime(2026, 1, 1, tzinfo=UTC), max_seconds=200.0, **given
        ),
    )


def checked(root: ET.Element, folder: Path) -> ET.Element:
    """The tree, after it was written, checked with the schema and read back."""
    file = folder / "a.xosc"
    ET.ElementTree(root).write(file)
    schema = library.own_schema()
    assert schema is None or library.XsdSchema(schema).problems(file) == []
    library.read_back(file)
    return root


def child(due: float) -> SceneDraw:
    rail = Rail(ACROSS, 0.0)
    walker = actor("child_1", "child", 50.0, -6.0, 1.5708, rail=rail, behaviour="StepOut",
                   arguments=(50.0, due, "time", 1.5))  # fmt: skip
    return draw(due, walker, actor("van_1", "van", 45.0, -3.0))


def test_places_triggers_and_actions_of_a_crossing_child(tmp_path: Path) -> None:
    root = checked(written(samples(child(2.0), child(1.6), child(2.3), child(2.5))).root, tmp_path)
    inits = {p.get("entityRef"): p.find(".//WorldPosition") for p in root.iter("Private")}
    places = {n: (float(p.get("x")), float(p.get("y"))) for n, p in inits.items() if n and p is not None}  # type: ignore[arg-type]
    # Rear axles: half a wheelbase (2.8 and 3.3 m) behind the centre. A pedestrian's reference point is its centre.
    assert places["ego"] == pytest.approx((-1.4, 0.0))
    assert places["van_1"] == pytest.approx((45.0 - 1.65, -3.0))
    assert places["child_1"] == pytest.approx((50.0, -6.0))
    event = next(e for e in root.iter("Event") if e.get("name") == "child_1_act")
    groups = event.findall("StartTrigger/ConditionGroup")
    assert len(groups) == 2  # max(speed, 2.5 m/s): by time, or within 2.5 m/s times the time
    traveled = [g.find(".//TraveledDistanceCondition") for g in groups]
    assert [float(t.get("value", "")) for t in traveled if t is not None] == pytest.approx([8.7, 8.7])  # 13.0 - 4.3
    time, distance = event.find(".//TimeToCollisionCondition"), event.find(".//DistanceCondition")
    assert time is not None and distance is not None
    assert time.get("value") == "$due" and distance.get("value") == "${2.5 * $due}"
    place = time.find(".//WorldPosition")
    assert place is not None
    assert float(place.get("x", "")) == pytest.approx(50.0 - 0.1)  # 2.4 m counts as the ego's front, its box has 2.3 m
    assert [s.get("value") for s in event.iter("AbsoluteTargetSpeed")] == ["1.5"]
    ends = [(float(v.get("x", "")), float(v.get("y", ""))) for v in event.findall(".//Vertex//WorldPosition")]
    assert ends == [pytest.approx((50.0, -6.0)), pytest.approx((50.0, 5.7))]  # a straight line, to 0.3 m before its end


def test_ranges_are_parameters_with_a_uniform_distribution(tmp_path: Path) -> None:
    found = written(samples(child(2.0), child(1.6), child(2.3), child(2.5)))
    assert found.ranges == {"due": (1.5, 2.5)}
    declared = [(p.get("name"), p.get("value")) for p in found.root.iter("ParameterDeclaration")]
    assert declared == [("due", "2.000000")]
    file = tmp_path / "d.xosc"
    ET.ElementTree(distribution("101", "101.xosc", found.ranges, datetime(2026, 1, 1, tzinfo=UTC))).write(file)
    back = library.read_back(file).get_element()
    ((name, limits),) = [(d.get("parameterName"), d.find(".//Range")) for d in back.iter("StochasticDistribution")]
    assert name == "due" and limits.attrib == {"lowerLimit": "1.5", "upperLimit": "2.5"}


def test_what_is_not_expressed_is_named_in_the_file_too(tmp_path: Path) -> None:
    strange = actor("car_1", "car", 20.0, 0.0, rail=Rail(PATH, 20.0), behaviour="Juggle", arguments=(1,),
                    lamps=frozenset({"beacon"}))  # fmt: skip
    found = written(samples(draw(2.0, strange)), monitors=frozenset({"LendOncomingLane", "Moon"}))
    assert found.missing == (
        "car_1: lamp beacon",
        "car_1: behaviour Juggle",
        "the standard scenario's actors (ParkedObstacle)",
        "the ego may use the oncoming lane (a rule of the score)",
        "monitor Moon",
    )
    text = ET.tostring(checked(found.root, tmp_path), encoding="unicode")
    assert all(line in text for line in found.missing)
    assert written(samples(draw(2.0)), base="").missing == ()


@pytest.mark.parametrize("light", ["green", "red", "cycle"])
def test_traffic_lights(light: str, tmp_path: Path) -> None:
    given = spec(road="junction", ego_light=light)
    found = written(samples(draw(2.0, red_for=4.0), lines=LIGHTS), spec=given)
    root = checked(found.root, tmp_path)
    init = root.find("Storyboard/Init")
    assert init is not None
    states = {a.get("name"): a.get("state") for a in init.iter("TrafficSignalStateAction")}
    assert states == {"green": {"1": "green", "2": "red"}, "red": {"1": "red", "2": "green"}, "cycle": {}}[light]
    assert ("traffic lights: their cycle" in found.missing) is (light == "cycle")
    waits = [c.get("duration") for c in root.iter("StandStillCondition")]
    assert waits == (["4.0"] if light == "red" else [])


def test_a_covering_vehicle_swerves_when_it_must_and_returns(tmp_path: Path) -> None:
    truck = actor("truck_1", "truck", 12.5, 0.0, rail=Rail(PATH, 12.5), behaviour="SwerveAway",
                  arguments=(50.0, 2.0, "time", 7.0))  # fmt: skip
    debris = actor("debris_1", "debris", 50.5, 0.0, behaviour="StandHidden", arguments=(50.0, 6.0))
    root = checked(written(samples(draw(2.0, truck, debris))).root, tmp_path)
    events = {event.get("name"): event for event in root.iter("Event")}
    (must,) = [c for c in events["truck_1_act"].iter("Condition") if c.get("name") == "truck_1_must"]
    place = must.find(".//WorldPosition")
    assert place is not None and float(place.get("x", "")) == pytest.approx(38.0)  # 12 m before the object
    offsets = [[o.get("value") for o in events[n].iter("AbsoluteTargetLaneOffset")]
               for n in ("truck_1_act", "truck_1_resume")]  # fmt: skip
    assert offsets == [["-2.9"], ["0.0"]]  # half of 2.5 m plus 1.65 m to the right, and back
    (left,) = events["debris_1_leave"].iter("Condition")
    assert left.get("delay") == "8.0"  # the ego arrives 2 s after the trigger, and 6 s later


@pytest.mark.parametrize(
    ("kind", "due", "expected"),
    # Rear of the 4.6 m car at 50 m when the ego is due. By time: the ego then needs 2 s to 50 m, the car drives 8 m.
    [("time", 2.0, (50.0, 60.3)), ("distance", 15.0, (35.0, 52.3))],
)
def test_a_car_that_cuts_in_arrives_together_with_the_ego(
    kind: str, due: float, expected: tuple[float, float], tmp_path: Path
) -> None:
    car = actor("car_1", "car", 40.0, -5.0, rail=Rail(PATH, 40.0, -5.0), behaviour="CutIn",
                arguments=(50.0, due, kind, 4.0, -1))  # fmt: skip
    root = checked(written(samples(draw(due, car))).root, tmp_path)
    (meet,) = root.iter("SynchronizeAction")
    ego, own = (float(p.get("x", "")) for p in meet.iter("WorldPosition"))
    assert ego == pytest.approx(expected[0] - 2.4 - 1.4)  # from its front over the centre to the rear axle
    assert own == pytest.approx(expected[1] - 1.4)
    (lane,) = root.iter("RelativeTargetLane")
    assert lane.attrib == {"value": "0", "entityRef": "ego"}


@pytest.mark.parametrize("behaviour", sorted(WRITERS))
@pytest.mark.parametrize("kind", ["time", "distance"])
def test_every_behaviour_gives_a_valid_file_that_can_be_read(behaviour: str, kind: str, tmp_path: Path) -> None:
    due = 2.0 if kind == "time" else 15.0
    rail = Rail(PATH, 30.0, d=-3.0, direction=-1 if behaviour == "Oncoming" else 1)
    arguments: tuple[Any, ...] = (50.0, due, kind, *MORE.get(behaviour, ()))
    if behaviour == "RunJunction":
        rail, arguments = Rail(ACROSS, 0.0), ((50.0, 6.0), 7.0, due, kind)
    if behaviour == "Obstruct":
        rail = Rail(ACROSS, 0.0)
    acting = actor("truck_1", "truck", 30.0, 0.0, rail=rail, behaviour="SwerveAway", arguments=(50.0, due, kind, 7.0))
    if behaviour == "StandHidden":
        arguments = (50.0, 6.0)
    one = actor("bus_1", "bus", 30.0, -3.0, rail=rail, behaviour=behaviour, arguments=arguments,
                lamps=frozenset({"hazard"}))  # fmt: skip
    root = checked(written(samples(draw(due, one, acting), lines=LIGHTS)).root, tmp_path)
    acts = [act.get("name") for act in root.iter("Act")]
    assert f"bus_1_{behaviour}" in acts
    # Every condition on an event names one that exists, in the whole story.
    events = {event.get("name") for event in root.iter("Event")}
    assert {c.get("storyboardElementRef") for c in root.iter("StoryboardElementStateCondition")} <= events
    assert len(events) == len(list(root.iter("Event")))


def test_new_fields_of_a_spec_are_not_dropped_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "FIELDS", scenario.FIELDS - {"occluder"})
    monkeypatch.setattr(scenario, "WEATHER", ())
    given = spec(occluder="van", conditions={"fog_density": 40})
    assert written(samples(draw(2.0)), spec=given, base="").missing == (
        "occluder of the spec", "conditions.fog_density of the spec",
    )  # fmt: skip
    assert written(samples(draw(2.0)), base="").missing == ()


def test_an_unknown_kind_of_actor_is_an_error() -> None:
    with pytest.raises(Ad2Error, match="bench_1: no OpenSCENARIO category is known for an actor of kind 'bench'"):
        written(samples(draw(2.0, replace(actor("bench_1", "cone", 5.0, 0.0), kind="bench"))))


def test_writers_have_the_arguments_of_their_behaviours() -> None:
    texts = [(REPO / "closedloop_plugin" / "scenarios" / f"actions_{part}.scenic").read_text()
             for part in ("traffic", "crossing")]  # fmt: skip
    behaviours = {name: words for text in texts for name, words in re.findall(r"^behavior (\w+)\((.*)\):", text, re.M)}
    for name, writer in WRITERS.items():
        wanted = [tuple(part.strip().partition("=")[::2]) for part in behaviours[name].split(",")]
        _, *parameters = inspect.signature(writer).parameters.values()
        given = [(p.name, "" if p.default is p.empty else str(p.default)) for p in parameters]
        assert given == wanted, name


def test_every_behaviour_of_the_templates_has_a_writer() -> None:
    texts = [file.read_text() for file in (REPO / "closedloop_plugin" / "threats" / "templates").glob("*.py")]
    used = {name for text in texts for name in re.findall(r"(?:behavior |f\")([A-Z]\w+)\(", text)} - {"Range"}
    assert len(used) >= 14 and used <= set(WRITERS)
