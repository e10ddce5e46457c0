"""`ad2 scenic check`: compile a program, list what it has, and draw its first scene; nothing is driven."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from closedloop_plugin.core.state import GroundTruth
    from closedloop_plugin.worlds.base import EpisodeSetup, ParameterDomain
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

EXAMPLES = """examples:
  ad2 scenic check mine.scenic                          a program that names its route or its map
  ad2 scenic check mine.scenic --route demo:103         on another route
  ad2 scenic check mine.scenic --set due=1.8 --seed 3   another draw
  ad2 scenic check mine.scenic --config carla_model=true            does it compile for --world carla, too?

To drive it: ad2 drive run --scenario FILE --agent expert --out RUN. To check that its actors act, and that a good
driver survives: ad2 threats check FILE.

exit code: 0 the program compiles and its scene leaves the ego a way, 1 it leaves none, 2 a mistake (file and line)"""

CAMERA = "front"
AROUND_M = 70.0  # of the route in the top view


@dataclass(frozen=True, kw_only=True)
class ScenicCheckOptions:
    """`ad2 scenic check`."""

    file: Path = option("the program", metavar="FILE.scenic", positional=True)
    route: str | None = option("route to play on (default: the one it names)", default=None, metavar="SUITE:ID")
    map: Path | None = option("map of a program without a route", default=None, metavar="FILE.xodr")
    alone: bool = option("the program replaces the standard scenario of its route", default=False, expert=True)
    set: tuple[str, ...] = option(
        "value of a free parameter; may be repeated", default=(), metavar="NAME=VALUE", repeated=True
    )
    seed: int = option("seed of the draw (default 0)", default=0, metavar="S")
    carla_model: bool = option("also compile with Scenic's CARLA model (no server)", default=False, expert=True)
    out: Path | None = option("file of the picture (default: FILE.png)", default=None, metavar="PICTURE.png")


def register(parts: Any) -> None:
    add_command(
        parts, "check", run, ScenicCheckOptions, help="compile a program, and draw its first scene",
        description="Compile a program, list its parameters and actors, and draw its first scene.", epilog=EXAMPLES,
    )  # fmt: skip


def run(options: ScenicCheckOptions) -> int:
    from closedloop_plugin.scenarios.suites.lookup import data_home
    from closedloop_plugin.worlds.base import InvalidScene, WorldError
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld
    from lmms_eval_ad2.core.errors import Ad2Error, require

    if options.carla_model:
        require("carla", "its Scenic model")
    setup = _setup(options)
    out = options.out or options.file.with_suffix(".png")
    if out.suffix != ".png":
        raise Ad2Error(f"--out {out}: the name must end in .png")
    world = EmbeddedWorld(data_home() / "maps")
    try:
        domains = world.space(setup)
        first = world.reset(setup)
        truth = world.truth()
        shown = _place(world, setup) + _parameters(world.drawn, domains) + _actors(world, truth)
        show("\n".join(shown + _notes(setup, domains)))
        show(f"picture     {_picture(world, truth, first.images(CAMERA), out)}")
        stuck = next((name for _, name in truth.events if name.startswith("no way: ")), None)
        if options.carla_model:
            _compile_for_carla(setup)
    except (InvalidScene, WorldError) as exc:
        raise Ad2Error(str(exc)) from exc
    finally:
        world.close()
    if stuck:
        show(f"the scene leaves the ego {stuck}")
    return 1 if stuck else 0


def _compile_for_carla(setup: EpisodeSetup) -> None:
    """Report that the program compiles with CARLA's model. Raises Ad2Error that names this model."""
    from closedloop_plugin.scenarios.suites.lookup import data_home
    from closedloop_plugin.worlds.base import InvalidScene
    from closedloop_plugin.worlds.bridge.program_setup import compile_for_carla
    from lmms_eval_ad2.core.errors import Ad2Error

    try:
        compile_for_carla(setup, data_home() / "maps")
    except (InvalidScene, Ad2Error) as exc:
        raise Ad2Error(f"with Scenic's CARLA model: {exc}") from exc
    show("CARLA       compiles with Scenic's CARLA model, too")


def _setup(options: ScenicCheckOptions) -> EpisodeSetup:
    from closedloop_plugin.core.profiles import profile
    from closedloop_plugin.driver.agents.make import cameras_of
    from closedloop_plugin.runner.routes import values_of
    from closedloop_plugin.runner.task import episode_seed
    from closedloop_plugin.scenarios.suites.lookup import route_of
    from closedloop_plugin.worlds.base import EpisodeSetup
    from lmms_eval_ad2.core.errors import Ad2Error

    file = options.file
    if file.suffix != ".scenic" or not file.is_file():
        raise Ad2Error(f"{file}: no such program; expected a file *.scenic (ad2 scenic new NAME writes one)")
    if options.route and options.map:
        raise Ad2Error("--route has its own map; omit --map")
    route = route_of(file, options.route)
    if route is not None and options.map:
        raise Ad2Error(f"--map {options.map}: {file} names its route, which has its own map; omit --map")
    cameras = cameras_of(f"{CAMERA}@800x450", profile("bench2drive"))
    return EpisodeSetup(
        route, episode_seed(options.seed, file.stem, 0), cameras=cameras, program=file.absolute(),
        alone=options.alone, town=options.map, values=values_of(options.set),
    )  # fmt: skip


def _place(world: EmbeddedWorld, setup: EpisodeSetup) -> list[str]:
    """The program, and its route or map."""
    from closedloop_plugin.scenarios.catalogue import CATALOGUE

    route, road = setup.route, world.road
    first = f"{setup.program}: compiles"
    if route is None:
        return [first, f"map         {road.town}, {road.path.length:.0f} m of road ahead of the ego"]
    kept = setup.keeps_standard and route.scenario in CATALOGUE
    standard = f", {route.scenario} plays too (--config alone=true drops it)" if kept else ""
    return [first, f"route       {route.town}, {road.path.length:.0f} m{standard}"]


def _actors(world: EmbeddedWorld, truth: GroundTruth) -> list[str]:
    """Each actor with its place; background traffic only counted."""
    lines = []
    for actor in truth.actors:
        if re.fullmatch(r"b\d+", actor.id):
            continue
        s, d = world.road.path.locate(actor.x, actor.y)
        end = world.road.path.length
        beyond = f", which ends at {end:.0f} m" if s > end else ""
        side = f"{abs(d):.1f} m {'left' if d > 0 else 'right'} of it"
        gap = math.dist((actor.x, actor.y), (truth.ego.x, truth.ego.y))
        lines.append(
            f"actor       {actor.kind}, {s:.0f} m along the ego's path{beyond}, {side}, {gap:.0f} m from the ego"
            + (f", at {actor.speed:.1f} m/s" if actor.speed else "")
            + (" (standard scenario)" if actor.role == "standard" else "")
        )
    return lines


def _notes(setup: EpisodeSetup, domains: Mapping[str, ParameterDomain]) -> list[str]:
    """What is no mistake, but perhaps not meant."""
    from closedloop_plugin.core.perception import PERCEPTION_CONDITIONS
    from closedloop_plugin.worlds.bridge.params import WEATHER

    assert setup.program is not None
    text = setup.program.read_text("utf-8-sig", errors="replace")
    unread = [
        name for name in domains
        if name not in (*WEATHER, *PERCEPTION_CONDITIONS) and not re.search(rf"globalParameters\.{name}\b", text)
    ]  # fmt: skip
    notes = [f"note        param {name}: the program never reads it" for name in unread]
    if not re.search(r"event\([\"']act[\"']\)|\bacts\(", text) and "closedloop_plugin.scenarios.actions" not in text:
        notes.append('note        no stage.event("act"): `ad2 threats check` cannot see when the scenario acts')
    return notes


def _parameters(drawn: Mapping[str, Any], domains: Mapping[str, ParameterDomain]) -> list[str]:
    """Each free parameter with its value in this scene and its domain."""
    lines = []
    for name, value in drawn.items():
        domain = domains.get(name)
        if domain is None:
            among = ""
        elif domain.options:
            among = f" of {', '.join(map(str, domain.options))}"
        else:
            among = f" of {domain.low:g} to {domain.high:g}" + (", whole numbers" if domain.whole else "")
        lines.append(f"parameter   {name} = {f'{value:.4g}' if isinstance(value, float) else value}{among}")
    return lines


def _picture(world: EmbeddedWorld, truth: GroundTruth, view: Any, out: Path) -> Path:
    """The camera's view, (H, W, 3) uint8, above a view from above, as one PNG."""
    import tempfile

    from PIL import Image

    from closedloop_plugin.report.episode_pictures import lanes
    from closedloop_plugin.report.top_view import top_view
    from lmms_eval_ad2.storage.image_files import open_image
    from lmms_eval_ad2.storage.shown_image import shown_rgb

    front = Image.fromarray(view)
    with tempfile.TemporaryDirectory() as folder:
        file = top_view(_track(world, truth), Path(folder) / "top.png", lanes(world.road.file, None))
        with open_image(file) as image:
            top = shown_rgb(image).resize((front.width, round(image.height * front.width / image.width)))
    both = Image.new("RGB", (front.width, front.height + top.height), "white")
    both.paste(front, (0, 0))
    both.paste(top, (0, front.height))
    out.parent.mkdir(parents=True, exist_ok=True)
    both.save(out)
    return out


def _track(world: EmbeddedWorld, truth: GroundTruth) -> Any:
    """The first scene as a track of one moment."""
    from closedloop_plugin.report.track_log import ActorTrack, EpisodeTrack, TrackSample

    ego, road = truth.ego, world.road
    start = road.path.locate(ego.x, ego.y)[0]
    end = min(start + AROUND_M, road.path.length)
    route = [road.path.pose(start + (end - start) * k / 40)[:2] for k in range(41)]
    bodies = tuple(
        ActorTrack(a.id, str(a.kind), a.role, a.length, a.width, (((0.0, a.x, a.y, a.yaw),),)) for a in truth.actors
    )
    lines = tuple(
        {"x": x.x, "y": x.y, "yaw": x.yaw, "width": x.width, "control": x.control, "on_route": x.on_route}
        for x in road.stop_lines
    )
    moment = TrackSample(t=0.0, tick=0, x=ego.x, y=ego.y, yaw=ego.yaw, speed=ego.speed, control=(0.0, 0.0, 0.0))
    return EpisodeTrack(
        moments=(moment,), bodies=bodies, signals=(), events=(), route=tuple(route), stop_lines=lines,
        ego_size=(ego.length, ego.width),
    )  # fmt: skip
