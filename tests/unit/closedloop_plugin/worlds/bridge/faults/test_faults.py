"""Mistakes in programs: each ends in one line with file, line, and what is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from closedloop_plugin.core.routes import Route
from closedloop_plugin.core.state import Control, EpisodeFault
from closedloop_plugin.core.xml_files import MapError
from closedloop_plugin.maps.towns.lanes import read_town
from closedloop_plugin.runner.faults import fault_of
from closedloop_plugin.scenarios.suites.lookup import route_of
from closedloop_plugin.worlds.base import EpisodeSetup, InvalidScene
from closedloop_plugin.worlds.bridge.faults import endless
from closedloop_plugin.worlds.embedded.world import EmbeddedWorld
from lmms_eval_ad2.core.errors import Ad2Error

pytestmark = pytest.mark.integration

HEAD = (
    'param route = "demo:101"\nmodel scenic.domains.driving.model\nfrom closedloop_plugin.scenarios.actions import *\n'
)
EGO = "ego = new Car at place(0), facing stage.heading(0)\n"  # line 4
RAIL = "rail = rail_at(30)\n"  # line 5


def actor(behavior: str) -> str:
    """Line 6: an actor with this behaviour."""
    return HEAD + EGO + RAIL + f"new Wheeled at start_of(rail), with rail rail, with behavior {behavior}\n"


def behaves(*lines: str) -> str:
    """A behaviour from line 5 on, and a car that has it."""
    body = "".join(f"    {line}\n" for line in lines)
    return HEAD + EGO + "behavior B():\n" + body + "new Wheeled at place(30), with behavior B()\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    world = EmbeddedWorld(tmp_path_factory.mktemp("faults") / "maps")
    yield world
    world.close()


def fault(world: EmbeddedWorld, file: Path, ticks: int = 20) -> str:
    """The line that a user sees, without the folder."""
    with pytest.raises((Ad2Error, InvalidScene)) as caught:
        world.reset(EpisodeSetup(route_of(file), 1, program=file, traffic=False))
        for _ in range(ticks):
            world.step(Control(throttle=0.6))
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{file.parent}/", "")


SYNTAX = {
    "open text": (HEAD + 'x = "abc\n' + EGO, "line 4: SyntaxError: this text is never closed"),
    "colon": (HEAD + EGO + "behavior B()\n    wait\n", "line 5: SyntaxError: expected ':'"),
    "indent": (behaves("wait", "  wait"), "line 7: .* indented more than the one before"),
    "tabs": (behaves("wait") + "\twait\n", "line 8: "),
    "comma": (HEAD + EGO.replace(",", ""), "line 4: .* a comma is missing before 'facing'"),
    "late comma": (HEAD + "ego = new Car at place(0) with kind 3\n", "line 4: .* a comma is missing before 'with'"),
    "reserved": (HEAD + EGO + "new = 3\n", "line 5: .* 'new' is a word of Scenic"),
    "continued": (HEAD + "ego = new Car at place(0), \\ \n    facing 1\n", "line 4: .*may follow the"),
    "character": (HEAD + EGO + "x = “car”\n", r"line 5: .*\(U\+201C\) has no meaning here; write \""),
    "param": ('param route "demo:101"\n' + EGO, "line 1: .*a parameter is set by: param NAME = VALUE"),
    "no value": (HEAD + "ego = new Car at place(0), with kind\n", "line 4: .*the line ends too early"),
    "last comma": (HEAD + EGO.strip() + ",\n\nx = 1\n", "line 4: .*the line ends with a comma"),
    "always": (HEAD + EGO + "require allways True\n", "line 5: .*did you mean 'always' instead of 'allways'"),
    "unit": (HEAD + "ego = new Car at place(0), facing 30 degs\n", "line 4: .*did you mean 'deg' instead of 'degs'"),
    "specifier": (HEAD + "ego = new Car att place(0)\n", "line 4: .*did you mean 'at' instead of 'att'"),
    "terminate": (HEAD + EGO + "terminate if True\n", "line 5: .*the words are: terminate when"),
    "metres": (HEAD + EGO + "x = 10 km\n", "line 5: .*units are not written"),
    "until": (behaves("do Ride() for 3 secs"), "line 6: .*units are not written"),
    "param name": (HEAD + "param 3x = 4\n" + EGO, "line 4: .*a parameter is set by"),
    "behaviour": (HEAD + EGO + "behaviour B():\n    wait\n", "line 5: .*the word is: behavior"),
}
NAMES = {
    "class": (HEAD + EGO + "new Wheled at place(30)\n", "line 5: .*did you mean 'Wheeled'"),
    "road": (HEAD + "ego = new Car on road\n", "line 4: .*our library's `road` is the ego's, no region"),
    "case": (HEAD + "ego = new car at place(0)\n", "line 4: .*did you mean 'Car'"),
    "package": (HEAD + "import numpyy\n" + EGO, "line 4: .*did you mean 'numpy'"),
    "carla": (behaves("x = self.carlaActor", "wait"), "line 6: .*only --world carla has it"),
    "monitor": (HEAD + EGO + "monitor M():\n    wait\nrequire monitor M\n", "p.scenic, line 7: TypeError"),
    "no such class": (HEAD + EGO + "new Zeppelin at place(30)\n", r"line 5: .*\(classes known here: .*Wheeled"),
    "behavior": (actor('StepOutt(30, 2, "time", 2)'), "line 6: .*did you mean 'StepOut'"),
    "action": (behaves("take SetThrotleAction(1)"), "line 6: .*did you mean 'SetThrottleAction'"),
    "library": (HEAD.replace("from", "# ") + "ego = new Car at place(0)\n", "line 4: .*our library has it: from"),
    "property": (
        HEAD + EGO + 'new Wheeled at place(30), with knid "van"\n',
        "line 5: with knid: .*did you mean 'kind'",
    ),
    "stage": (HEAD + EGO.replace("heading", "headng"), "line 4: .*did you mean 'heading'"),
    "stage set": (HEAD + EGO + "stage.oncoming_alowed = True\n", "line 5: .*did you mean 'oncoming_allowed'"),
    "rail": (behaves("self.rail = rail_at(30)", "self.rail.sped = 3", "wait"), "line 7: .*did you mean 'speed'"),
    "self": (behaves("wait", "self.gon = True"), "line 7: self.gon: not read; did you mean 'self.gone'"),
    "model": (HEAD.replace("driving", "drivng") + EGO, "line 2: .*did you mean scenic.domains.driving.model"),
    "module": (HEAD.replace("actions", "action") + EGO, "line 3: .*did you mean 'closedloop_plugin.scenarios.actions'"),
    "lamp": (HEAD + EGO + 'new Wheeled at place(30), with lamps {"hazrd"}\n', "line 5: lamp .*did you mean 'hazard'"),
    "lamp later": (behaves("wait", 'self.lamps.add("hzard")', "wait"), "line 7: lamp .*did you mean 'hazard'"),
    "door": (
        HEAD + EGO + 'new Wheeled at place(30), with doors {"rear"}\n',
        "line 5: door 'rear': .*known: left, right",
    ),
    "side": (HEAD + EGO + 'rail = rail_across(60, "lft")\n' + "new Walker at start_of(rail)\n", "line 5: side 'lft'"),
    "lanes": (HEAD + EGO + 'x = lanes("lef")\n', "line 5: lanes 'lef': .*did you mean 'left'"),
    "parked": (HEAD + EGO + 'new Wheeled at place(40, parked("right", "trm"))\n', "line 5: kind 'trm': no such kind"),
    "arm": (HEAD + EGO + 'line, meet = line_over("lefft")\n', "line 5: arm 'lefft': .*did you mean 'left'"),
    "light": (HEAD + EGO + 'stage.hold_signals(route="gren")\n', "line 5: signal state 'gren': .*did you mean 'green'"),
    "weather": (
        HEAD + "param fog_densty = Range(1, 2)\n" + EGO,
        "line 4: param fog_densty: .*did you mean 'fog_density'",
    ),
    "due": (
        actor('Approach(60, 2, Uniform("time", "seconds"), 3)'),
        "line 6: Approach: 'seconds' is no way to measure",
    ),
}
ARGUMENTS = {
    "few": (actor("StepOut(30)"), r"line 6: .*missing .* 'due'; expected StepOut\(where, due, kind, pace, accel=6"),
    "many": (actor('StepOut(1, 2, "time", 4, 5, 6, 7)'), r"line 6: .*too many .*; expected StepOut\("),
    "keyword": (actor('StepOut(30, 2, "time", 2, sped=3)'), r"line 6: .*'sped'; expected StepOut\("),
    "text": (actor('StepOut("30", 2, "time", 2)'), "line 6: StepOut: where: expected a number, found '30'"),
    "no rail": (
        HEAD + EGO + 'new Wheeled at place(30), with behavior StepOut(60, 2, "time", 2)\n',
        "line 5: StepOut moves",
    ),
    "no rail at all": (behaves("self.rail = 3", "wait"), "line 6: rail '3': no such rail"),
    "function": (HEAD + "ego = new Car at place()\n", r"line 4: .*expected place\(s, d=0.0\)"),
    "heading": (HEAD + 'ego = new Car at place(0), facing "north"\n', "line 4: TypeError: facing x"),
    "position": (HEAD + "ego = new Car at 3\n", 'line 4: TypeError: specifier "at X"'),
    "nan": (HEAD + EGO + 'new Wheeled at place(float("nan"))\n', "line 5: .*expected a number, found nan"),
    "size": (
        HEAD + EGO + "new Wheeled at place(30), with width -2\n",
        "line 5: width of a Wheeled: expected metres above 0, at most 200, found -2",
    ),
    "percent": (HEAD + "param worn_markings = 400\n" + EGO, "line 4: param worn_markings: expected a percentage"),
    "fog": (
        HEAD + 'param fog_density = "thick"\n' + EGO,
        "line 4: param fog_density: expected a number, found 'thick'",
    ),
    "walker": (
        behaves("take SetThrottleAction(1)").replace("new Wheeled", "new Walker"),
        "line 6: a Walker cannot take",
    ),
    "no action": (behaves("take 3"), "line 6: take 3: expected an action"),
}
MAPS = {
    "none": (
        "model scenic.domains.driving.model\nego = new Car\n",
        "line 1: .*neither a route nor a map: param route =",
    ),
    "absent": (
        'param map = localPath("no.xodr")\n' + "model scenic.domains.driving.model\n",
        "line 1: param map: no.xodr: no",
    ),
    "other": (
        'param map = localPath("p.scenic")\n' + "model scenic.domains.driving.model\n",
        "line 1: .*expected an OpenDRIVE",
    ),
    "route": (HEAD.replace("demo:101", "101") + EGO, 'line 1: param route = .*expected "SUITE:ID"'),
    "unknown route": (HEAD.replace(":101", ":999") + EGO, "line 1: route demo:999: no such route"),
    "late": (
        'model scenic.domains.driving.model\nparam map = "a" + "b"\n',
        "line 1: .*must stand before the line `model",
    ),
    "computed": (
        '# map\nparam map = "no" + ".xodr"\nmodel scenic.domains.driving.model\n',
        r"p.scenic, line 2: no.xodr: Scenic's .*No such file.*; repair it, or give another one: --map",
    ),
    "no path": ("param map = 3\nmodel scenic.domains.driving.model\n", "line 1: 3: .*expected the path of an Open"),
    "pickle": ('param map = "a" + ".snet"\nmodel scenic.domains.driving.model\n', "line 1: a.snet: .*not end in .xodr"),
}
DIALECTS = {
    "scenic 2": (HEAD + "ego = Car at place(0)\n", "line 4: a program of Scenic 2, .*write `new` before"),
    "scenic 2 bare": (HEAD + "ego = Car\n", "line 4: a program of Scenic 2"),
    "scenic 1": (
        "from scenic.simulators.carla.map import setMapPath\n",
        "line 1: a program of Scenic 1; programs here are",
    ),
    "gta": ("model scenic.simulators.gta.model\nego = new Car\n", "line 1: .*a model of another simulator"),
}
RUNNING = {
    "raises": (behaves("wait", "x = 1 / 0"), "line 7: ZeroDivisionError"),
    "rejected": (
        HEAD + EGO + "require 1 > 2\n",
        "2000 of 2000 rejected by: User requirement violation: requirement on line 5",
    ),
    "rejected later": (
        HEAD + EGO + "require always ego.speed < 0.1\n",
        "rejected by a requirement .*: requirement on line 5",
    ),
    "precondition": (behaves("precondition: 1 > 2", "wait"), "violated precondition of B on line 6"),
    "in the ego": (HEAD + EGO + "new Wheeled at place(1)\n", "its car stands inside the ego at the start"),
    "exit": (HEAD + EGO + "import sys\nsys.exit(3)\n", "line 6: .*the program ends the process"),
}
VALUES = {
    "reversed param": (
        HEAD + "param a = Range(5, 1)\n" + EGO,
        "line 4: param a: from 5 to 1; the lower bound comes first",
    ),
    "reversed whole": (HEAD + EGO + "x = DiscreteRange(5, 1)\n", r"line 5: .*first: DiscreteRange\(1, 5\)"),
    "endless range": (HEAD + EGO + "x = Range(0, float('inf'))\n", "line 5: .*expected two numbers, found inf"),
    "spread": (HEAD + EGO + "x = Normal(5, -1)\n", "line 5: .*deviation is -1; expected a number above 0"),
    "pace": (actor('StepOut(60, 2, "time", Range(-1, 2))'), "line 6: .*StepOut: pace: expected a number of 0 or more"),
    "target": (behaves("do FollowLaneBehavior(target_speed=-3)"), "line 6: .*target_speed: expected a number of 0"),
    "negative rail": (behaves("self.rail = Rail(route, 30, speed=-3)", "wait"), "line 6: .*speed of a rail: .* -3"),
    "rail path": (behaves("self.rail = Rail(3, 30)", "wait"), "line 6: .*path of a rail: expected a Path, found 3"),
    "rail later": (
        behaves("self.rail = rail_at(30)", "self.rail.speed = float('nan')", "wait"),
        "line 7: .*speed of a rail: expected a number, found nan",
    ),
    "pose": (behaves("self.setPose(float('nan'), 0, 0)", "wait"), "line 6: .*x of setPose: expected a number"),
    "random size": (
        HEAD + EGO + "new Wheeled at place(30), with width Range(-2, -1)\n",
        "line 5: width of a Wheeled: expected metres above 0, at most 200, found -1",
    ),
    "huge size": (HEAD + EGO + "new Wheeled at place(30), with length 1e9\n", "line 5: length of a Wheeled: .*1e[+]09"),
    "far": (HEAD + EGO + "new Wheeled at (1e300, 3)\n", "line 5: position of a Wheeled: .*numbers up to 1e[+]06"),
    "nowhere": (HEAD + EGO + 'new Wheeled at (float("nan"), 3)\n', "line 5: position of a Wheeled: .*found nan"),
    "velocity": (HEAD + EGO + 'new Car at place(30), with velocity (float("inf"), 0)\n', "line 5: velocity of a Car"),
    "speed action": (behaves("take SetSpeedAction(float('nan'))"), "line 6: take SetSpeedAction: .*found nan"),
    "position action": (behaves("take SetPositionAction('x')"), "line 6: take SetPositionAction: pos: expected a"),
    "walking": (
        behaves("take SetWalkingSpeedAction(-1)").replace("new Wheeled", "new Walker"),
        "line 6: take SetWalkingSpeedAction: .*0 or more, found -1",
    ),
    "bare action": (behaves("take SetThrottleAction"), r"line 6: .* are missing: SetThrottleAction\(throttle\)"),
    "doors": (HEAD + EGO + "new Wheeled at place(30), with doors None\n", "line 5: with doors None: expected a set"),
    "event": (behaves("stage.event(3)", "wait"), "line 6: .*name of an event: expected a text, found 3"),
    "sky": (HEAD + "param cloudiness = 300\n" + EGO, "line 4: param cloudiness: expected 0 to 100, found 300"),
    "blueprint": (
        HEAD + EGO + 'new Car at place(30), with blueprint "vehicle.tesla.model4"\n',
        "line 5: blueprint 'vehicle.tesla.model4': CARLA has no such blueprint; did you mean 'vehicle.tesla.model3'",
    ),
    "no such make": (
        HEAD + EGO + 'new Car at place(30), with blueprint Uniform("qwerty")\n',
        "line 5: blueprint 'qwerty': .*begin with: .*vehicle.audi",
    ),
    "prop": (
        HEAD + EGO + 'new Thing at place(30), with blueprint "static.prop.constructioncon"\n',
        "line 5: .*did you mean 'static.prop.constructioncone'",
    ),
    "ego walks": (HEAD + "ego = new Walker at place(0)\n", "line 4: the ego is a Walker of kind pedestrian; "),
    "ego is a cone": (HEAD + 'ego = new Car at place(0), with kind "cone"\n', "line 4: the ego is a Car of kind cone"),
    "ego on a rail": (HEAD + "ego = new Car at place(0), with rail rail_at(0)\n", "line 4: the ego has a rail"),
    "two egos": (HEAD + EGO + EGO.replace("place(0)", "place(20)"), r"line 5: a second ego \(the first: line 4\)"),
    "too many": (HEAD + EGO + "for k in range(1001):\n    new Wheeled at place(30)\n", "line 6: 10[01][0-9] objects"),
    "set position": (behaves("wait", "self.position = 3"), "line 7: self.position = ...: the world sets it"),
    "set kind": (behaves("wait", 'self.kind = "van"'), "line 7: self.kind = ...: it is read at the start"),
    "random kind": (
        HEAD + EGO + 'new Wheeled at place(30), with kind Uniform("trukc", "trukc")\n',
        "line 5: kind 'trukc': no such kind; did you mean 'truck'",
    ),
}
WORDS = {
    "empty": ("\n \n", "the file is empty; a program to start from: ad2 scenic new"),
    "no route": (
        '# x\nparam rout = "demo:101"\nmodel scenic.domains.driving.model\n',
        "line 2: .*did you mean 'route'",
    ),
    "imported name": (HEAD.replace("import *", "import StepOt") + EGO, "line 3: .*did you mean 'StepOut'"),
    "imported module": (
        HEAD + "from scenic.domains.driving.behaviours import *\n",
        "line 4: .*did you mean 'scenic.domains.driving.behaviors'",
    ),
    "method": (HEAD + EGO + "stage.hold_signals(rout=3)\n", r"line 5: .*'rout'; expected hold_signals\(route"),
    "bounds": (HEAD + EGO + "x = Range(5)\n", r"line 5: .*; expected Range\(low, high\)"),
    "wait": (behaves("wiat"), r"did you mean 'wait' instead of 'wiat'"),
    "called": (behaves("wait()"), r"line 6: did you mean 'wait' instead of 'wait\(\)'"),
    "new": (HEAD + EGO + "nwe Wheeled at place(30)\n", "line 5: .*did you mean 'new' instead of 'nwe'"),
    "and": (HEAD + EGO + "require 1 > 0 && 2 > 1\n", "line 5: .*&& is not a word of Scenic; it is: and"),
    "deep": (HEAD + EGO + "x = " + "(" * 300 + ")" * 300 + "\n", "line 5: nested too deeply to be read"),
    "ends": (behaves("wait", "exit()"), "line 7: SystemExit: .*the program ends the process; use `terminate`"),
    "stops": (behaves("wait", "raise StopIteration"), "line 7: StopIteration"),
    "mark": ("\ufeff" + HEAD + EGO + "new Wheled at place(30)\n", "line 5: .*did you mean 'Wheeled'"),
}
PROGRAMS = {
    "unknown place": (HEAD + "ego = new Car at nowhere\n", "line 4: TypeError"),
    "division": (HEAD + "x = 1 / 0\n", "line 4: ZeroDivisionError"),
    "no ego": (HEAD + "x = 1\n", "no ego"),
    "absent module": (
        HEAD + "import verifai.absent\n",
        "line 4: ModuleNotFoundError: No module named 'verifai.absent'",
    ),
    "open": (HEAD + "ego = new Car at (\n", "line"),
    "bracket": (HEAD + EGO + "x = 1\n\ny = (2 +\n\n\n\nz = 3\n", r"line 7: SyntaxError: '\(' is never closed"),
    "closed": (HEAD + EGO + "x = [1, 2)\n", r"line 5: SyntaxError: '\)' closes no bracket: line 5 has '\['"),
    "no scene": (HEAD + EGO + "require ego.position.x > 1000\n", "no scene found"),
    "ended": (HEAD + EGO + "terminate when True\n", "before it began"),
    "kind": (HEAD + EGO.strip() + ', with kind "hovercraft"\n', "line 4: kind 'hovercraft': no such kind .known: "),
    "near kind": (
        HEAD + EGO.strip() + ', with kind "buss"\n',
        r"line 4: kind 'buss': .*; did you mean 'bus'\? \(known:",
    ),
    "parameter": (
        HEAD + EGO + "param pace = 2\nx = globalParameters.paze\n",
        "line 6: globalParameters.paze: no .* mean",
    ),
    "no parameter": (
        HEAD + EGO + "x = globalParameters.paze\n",
        "line 5: globalParameters.paze: .* line `param paze =",
    ),
    "not due": (actor('StepOut(30, 2, "seconds", 2)'), "line 6: StepOut: 'seconds' is no way .* expected \"time\" "),
}
ALL = PROGRAMS | VALUES | WORDS | SYNTAX | NAMES | ARGUMENTS | MAPS | DIALECTS | RUNNING


@pytest.mark.parametrize("name", ALL)
def test_a_mistake_is_named_with_file_line_and_what_is_known(name: str, world: EmbeddedWorld, tmp_path: Path) -> None:
    text, message = ALL[name]
    file = tmp_path / "p.scenic"
    file.write_text(text)
    error = fault(world, file)
    assert re.search(message, error), error
    assert "p.scenic" in error


def test_a_map_that_scenic_refuses_is_named_with_its_route(
    world: EmbeddedWorld, tmp_path: Path, data_dir: Path
) -> None:
    """Its reader fails at <poly3>, which ours reads."""
    town, text = tmp_path / "Town01.xodr", (data_dir / "opendrive/Town01.xodr").read_text()
    before, line, after = text.rpartition("<line/>")
    town.write_text(f'{before}<poly3 a="0" b="0" c="0" d="0"/>{after}')
    assert line
    lane = max((lane for lane in read_town(town).drivable() if lane.junction < 0), key=lambda lane: lane.length)
    points = tuple((float(x), float(y)) for x, y in lane.centre[10:100:10])
    route = Route(id="7", town="Town01", points=points, scenario="", scenario_name="", trigger=(*points[0], 0.0))
    program = tmp_path / "p.scenic"
    program.write_text("model scenic.domains.driving.model\nego = new Car on Uniform(*network.lanes).centerline\n")
    for setup, place in (
        (EpisodeSetup(route, 1, town=town), "route 7: "),
        (EpisodeSetup(None, 1, program=program, town=town), f"{program}: "),
    ):
        with pytest.raises(MapError) as caught:
            world.reset(setup)
        assert str(caught.value).startswith(f"{place}{town}: Scenic's OpenDRIVE reader cannot use this map: ")
        assert re.search("; repair it, or (give another file of the town|give another one: --map)", str(caught.value))
        assert fault_of(caught.value) is EpisodeFault.MAP


def test_a_byte_order_mark_is_no_mistake(world: EmbeddedWorld, tmp_path: Path) -> None:
    file = tmp_path / "p.scenic"
    file.write_text("\ufeff# from an editor\n" + HEAD + EGO, "utf-8")
    world.reset(EpisodeSetup(route_of(file), 1, program=file, traffic=False))


def test_a_text_that_is_not_utf_8_is_named_with_its_line(world: EmbeddedWorld, tmp_path: Path) -> None:
    file = tmp_path / "p.scenic"
    file.write_bytes((HEAD + EGO).encode() + b"# caf\xe9\n")
    assert fault(world, file) == "p.scenic, line 5: byte 0xe9 is no UTF-8; save the file as UTF-8"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (behaves("wait", "while True:", "    x = 3", "wait"), 8),
        (HEAD + EGO + "while True:\n    x = 1\n", 6),
        (behaves("wait", "while True:", "    do TurnBehavior(network.lanes[0].centerline)"), 8),  # it ends at once
    ],
)
def test_a_loop_without_an_end_is_named(
    text: str, line: int, world: EmbeddedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endless, "STUCK_S", 0.2)
    monkeypatch.setattr(endless, "PERIOD_S", 0.1)
    file = tmp_path / "p.scenic"
    file.write_text(text)
    error = fault(world, file)
    assert "EndlessLoop: this step of the program has computed for 0.2 s" in error
    assert f"line {line}:" in error or f"line {line - 1}:" in error


def test_own_properties_parameters_and_attributes_stay_valid(world: EmbeddedWorld, tmp_path: Path) -> None:
    """Words that are near known ones, but that the program reads."""
    file = tmp_path / "p.scenic"
    file.write_text(
        HEAD + "param fog_densities = 3\nx = globalParameters.fog_densities\n" + EGO
        + "behavior B():\n    self.speeds = [1]\n    x = self.speeds[0] + self.kinds\n    wait\n"
        + "new Wheeled at place(30), with kinds 3, with behavior B(), with own_word 4\n"
    )  # fmt: skip
    world.reset(EpisodeSetup(route_of(file), 1, program=file, traffic=False))
    world.step(Control())
