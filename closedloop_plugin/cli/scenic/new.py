"""`ad2 scenic new`: write a program to start from, on a route or on a map."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

EXAMPLES = """examples:
  ad2 scenic new mine                          mine.scenic, on route demo:106
  ad2 scenic new mine --route embedded220:2050 on another route
  ad2 scenic new mine --map Town01.xodr        on a map, without a route

The route or map must exist, an existing file is never overwritten. docs/scenarios.md lists the words."""

ON_ROUTE = '''"""{title}: somebody steps out between parked cars as the ego comes near.

    ad2 scenic check {file}
    ad2 drive run --scenario {file} --agent expert --out runs/{title}
"""

param route = "{route}"

# Free parameters: each episode draws its own values, --set due=1.8 fixes one.
param ahead = Range(14, 20)         # m: from the route's trigger point to the person
param due = Range(1.8, 2.4)         # s: until the ego arrives, when the person starts
param pace = Range(1.2, 1.8)        # m/s: of the person

model scenic.domains.driving.model
from closedloop_plugin.scenarios.actions import *

ego = new Car at place(0), facing stage.heading(0)      # the driver under test

# A place is (s, d): s metres along the ego's path, d metres to its left.
where = stage.trigger_s + globalParameters.ahead
new Wheeled at place(where - 4, parked("right", "van")), facing turned(where - 4, 0), with kind "van"

across = rail_across(where, "right")
new Walker at start_of(across), facing facing_of(across), with kind "pedestrian", with rail across, \\
    with behavior StepOut(where, globalParameters.due, "time", globalParameters.pace)
'''
ON_MAP = '''"""{title}: a parked van, and somebody who steps out from behind it as the ego comes near.

    ad2 scenic check {file}
    ad2 drive run --scenario {file} --agent expert --out runs/{title}
"""

param map = localPath("{map}")

model scenic.domains.driving.model
from closedloop_plugin.scenarios.library import *

behavior StepOut(pace, near):
    while (distance from self to ego) > near:           # one tick (0.05 s) a `wait`
        wait
    stage.event("act")                                  # the scenario's actor acts now
    take SetWalkingDirectionAction(self.heading), SetWalkingSpeedAction(pace)
    while (distance from self to ego) > 2:
        wait
    while True:
        wait

# Without a route, the ego's path is 200 m straight ahead of it: place the actors relative to the ego.
lane = Uniform(*network.lanes)
ego = new Car on lane.centerline                        # the driver under test
van = new Wheeled at ego offset by (3.1, 34), facing ego.heading, with kind "van", with lamps {{"hazard"}}
new Walker at ego offset by (2.9, 38.5), facing 90 deg relative to ego.heading, \\
    with behavior StepOut(Range(1.2, 1.8), Range(18, 22))
require (distance from ego to lane.centerline[-1]) > 60     # room to drive on
'''


@dataclass(frozen=True, kw_only=True)
class ScenicNewOptions:
    """`ad2 scenic new`."""

    name: str = option("name of the program, or its file", metavar="NAME", positional=True)
    route: str | None = option("route to play on (default: demo:106)", default=None, metavar="SUITE:ID")
    map: Path | None = option("map to play on, without a route", default=None, metavar="FILE.xodr")


def register(parts: Any) -> None:
    add_command(
        parts, "new", run, ScenicNewOptions, help="write a program to start from",
        description="Write NAME.scenic: a short program that plays as it is.", epilog=EXAMPLES,
    )  # fmt: skip


def run(options: ScenicNewOptions) -> int:
    from closedloop_plugin.scenarios.suites.lookup import route_of
    from lmms_eval_ad2.core.errors import Ad2Error
    from lmms_eval_ad2.storage.files import atomic_write

    file = Path(options.name if options.name.endswith(".scenic") else f"{options.name}.scenic")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", file.stem):
        raise Ad2Error(f"{file}: the name becomes that of the episode; letters, digits, '_', '-' and '.' only")
    if file.exists():
        raise Ad2Error(f"{file}: exists already; give another name")
    if not file.parent.is_dir():
        raise Ad2Error(f"{file.parent}: no such folder")
    if options.route and options.map:
        raise Ad2Error("--route has its own map; omit --map")
    if options.map:
        if not options.map.is_file() or options.map.suffix != ".xodr":
            raise Ad2Error(f"--map {options.map}: no such OpenDRIVE file (.xodr)")
        text = ON_MAP.format(title=file.stem, file=file, map=options.map.absolute().as_posix())
    else:
        text = ON_ROUTE.format(title=file.stem, file=file, route=options.route or "demo:106")
        route_of(file, options.route or "demo:106")  # raises an error if there is no such route
    with atomic_write(file) as handle:
        handle.write(text)
    show(f"written: {file}; next: ad2 scenic check {file}")
    return 0
