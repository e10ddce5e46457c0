"""The steps of verify_carla.py: each returns its finding, or raises Failed or Skipped with it."""

from __future__ import annotations

import asyncio
import json
import math
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify_carla_check import Check, Failed, Skipped

if TYPE_CHECKING:
    from closedloop_plugin.carla.servers.probe import ServerProbeResult

PAVEMENT_M = 0.2  # beyond the far edge of the road: behind the kerb
STANDS_S = 1.0  # without a change of its pose


def versions(check: Check) -> str:
    """Versions of all relevant packages, and the GPU of this machine."""
    names = ("lmms-eval-ad2", "carla", "scenic", "numpy", "opencv-python-headless", "pillow")
    found = {name: _version(name) for name in names}
    found |= {
        "python": platform.python_version(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
    }
    check.figures |= found | {"GPU here": _gpu()}
    if found["carla"] == "none" or found["scenic"] == "none":
        raise Failed("carla or scenic is not installed: pip install -e '.[drive,carla]'")
    return f"client {found['carla']}, scenic {found['scenic']}, Python {found['python']}; GPU here: {_gpu()}"


def answers(check: Check) -> str:
    from closedloop_plugin.carla.servers.probe import advice, probe

    begun = time.monotonic()
    found = asyncio.run(probe(check.host, check.port, 10.0))
    check.figures["server"] = found.server_version
    if not found.fits:
        raise Failed(advice(found))
    return f"CARLA {found.server_version} answers in {time.monotonic() - begun:.1f} s, client start included"


def towns(check: Check) -> str:
    found = check.ask("load", town=check.town)
    check.town, check.loaded, maps = found["town"], True, found["maps"]
    check.figures |= {"towns": ", ".join(maps), "town load": f"{found['load_s']} s"}
    large = [name for name in ("Town11", "Town12", "Town13", "Town15") if name in maps]
    more = f"{', '.join(large)} not driven" if large else "no additional maps: 44 of the 220 routes can be driven"
    return f"{len(maps)} maps; {check.town} loaded in {found['load_s']} s; {more}"


def map_fetch(check: Check) -> str:
    check.ad2(
        "map fetch", "drive", "map", "--server", check.server, "--config", "timeout=60", "--out", str(check.out / "map")
    )
    (file,) = (check.out / "map").glob("*.xodr")
    return f"{file.name}, {file.stat().st_size / 1e6:.1f} MB"


def tracing(check: Check) -> str:
    file = next((check.out / "map").glob("*.xodr"), None)
    if file is None or not check.loaded:
        raise Skipped("no town was loaded" if file else "no map")
    length = 60.0 if check.quick else 100.0
    out = str(check.out / "verify.xml")
    found = check.ask("routes", server=False, xodr=str(file), town=check.town, out=out, length=length)
    check.far_edge_m = found["far_edge_m"]
    return f"{found['routes']} routes, {found['straight_m']} m straight on" + ("" if found["lights"] else ", no lights")


def lights(check: Check) -> str:
    found = check.ask("lights")
    check.figures["lights"] = f"{found['lights']}, unknown by their id: {len(found['unknown'])}"
    if found["unknown"]:
        raise Failed(f"{len(found['unknown'])} of {found['lights']} lights unknown by their OpenDRIVE id")
    return f"all {found['lights']} lights of the map are known by their OpenDRIVE id"


def expert(check: Check) -> str:
    """The expert on a simple route, with images; meanwhile the server is probed as by its supervisor."""
    probes: list[tuple[float, ServerProbeResult]] = []
    ended = threading.Event()
    threading.Thread(target=probe_until, args=(check, ended, probes), daemon=True).start()
    frames = ("--frames", "--size", "400x225" if check.quick else "800x450")
    suite = ("--suite", str(check.routes), "--routes-ids", "901", "--agent", "expert")
    try:
        record = check.drive("expert", *suite, *frames)
    finally:
        ended.set()
        failed = [found.reason for _, found in probes if not found.answers]
        worst_s = max((seconds for seconds, _ in probes), default=0.0)
        text = f"{len(probes) - len(failed)} answers, {len(failed)} failures, {worst_s:.1f} s at most"
        check.hang = (text, next(iter(failed), ""))
    return success(check, record) + f"; {picture(check)}"


def probe_until(check: Check, ended: threading.Event, probes: list[tuple[float, ServerProbeResult]]) -> None:
    """Probe the server's simulation while an episode runs: a failure would restart a working server."""
    from closedloop_plugin.carla.servers.probe import probe

    while not ended.is_set():
        started = time.monotonic()
        found = asyncio.run(probe(check.host, check.port, 20.0, simulation=True))
        probes.append((time.monotonic() - started, found))


def success(check: Check, record: dict[str, Any]) -> str:
    bad = [name for name, items in record["infractions"].items() if items and name != "min_speed_infractions"]
    rate = record["ticks"] / max(record["system_s"], 1e-6)
    text = f"{record['status']}, score {record['score_composed']:.1f}, {record['ticks']} ticks, {rate:.0f} per second"
    if record["status"] not in ("Completed", "Perfect") or bad:
        raise Failed(f"{text}, {', '.join(bad) or record['reason'] or 'no infraction'}")
    return text


def picture(check: Check) -> str:
    """Keep a frame from the middle of the episode with the report; it must not be of one colour."""
    from PIL import Image, ImageStat

    frames = sorted((check.out / "runs" / "expert" / "frames").rglob("*.jpg"))
    if not frames:
        raise Failed("no frame was recorded")
    shutil.copy(middle := frames[len(frames) // 2], check.out / "frame.jpg")
    with Image.open(middle) as image:
        spread = max(ImageStat.Stat(image).stddev)
    if spread < 3.0:
        raise Failed("the camera shows one colour only")
    return f"{len(frames)} frames (frame.jpg)"


def hang_probe(check: Check) -> str:
    """The findings of the hang probe during expert()."""
    found, reason = check.hang
    if not found or "AttributeError" in reason:
        raise Skipped("this client has no get_required_files" if found else "no episode ran")
    check.figures["hang probe"] = found
    if reason:
        raise Failed(f"{found}: {reason}")
    return f"while an episode ran: {found}"


def walker(check: Check) -> str:
    """A walker crosses from the right; CARLA's walkers can get stuck at a kerb (carla issue 4291)."""
    record = check.drive("walker", "--suite", str(check.routes), "--routes-ids", "902", "--agent", "expert")
    return f"{success(check, record)}; {walkers_end(check)}"


def walkers_end(check: Check) -> str:
    """Where the walker was at the end of its way: across the road, or still walking. Raises Failed if it stood."""
    track = json.loads((check.out / "runs" / "walker" / "tracks" / "902_rep0.json").read_text("utf-8"))
    (walking,) = (name for name, body in track["bodies"].items() if body["kind"] == "pedestrian")
    poses = [(s["t"], s["actors"][walking]) for s in track["samples"] if s["actors"].get(walking)]
    (ax, ay), (bx, by) = track["road"]["route"][0], track["road"]["route"][-1]
    length = math.hypot(bx - ax, by - ay)
    left = [((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / length for _, (x, y, _) in poses]
    removed = next((s["t"] for s in track["samples"] if s["actors"].get(walking, "") is None), None)
    beyond = left[-1] - check.far_edge_m
    if beyond > PAVEMENT_M:
        return f"the walker crossed and left the road by {beyond:.1f} m"
    if removed is not None and removed - poses[-1][0] < STANDS_S:  # a pose is written when it changes
        return f"the walker walked until the scenario removed it, {left[-1] - left[0]:.1f} m from its start"
    if track["samples"][-1]["t"] - poses[-1][0] < STANDS_S:
        return f"the walker was still walking, {left[-1] - left[0]:.1f} m from its start"
    raise Failed(
        f"the walker stands {left[-1] - left[0]:.1f} m from its start, {-beyond:.1f} m before the far edge of the "
        "road: stuck at a kerb (carla issue 4291)?"
    )


def junction(check: Check) -> str:
    if 'id="904"' not in check.routes.read_text("utf-8"):
        raise Skipped(f"{check.town} has no straight junction with lights")
    return success(
        check, check.drive("junction", "--suite", str(check.routes), "--routes-ids", "904", "--agent", "expert")
    )


def threat(check: Check) -> str:
    """A threat generated in the embedded world on the fetched map, then driven in CARLA."""
    folder = check.out / "threats"
    check.ad2(
        "threat made", "threats", "generate", "--suite", str(check.routes), "--routes-ids", "901",
        "--config", "alone=true",
        "--seed", "5", "--config", "reflect=0", "--config", "others=0", "--agent", "steer-only", "--fuser", "rules",
        "--towns", str(check.out / "map"), "--out", str(folder),
    )  # fmt: skip
    return success(check, check.drive("threat", "--suite", str(folder), "--agent", "expert"))


def collision(check: Check) -> str:
    record = check.drive("collision", "--suite", str(check.routes), "--routes-ids", "903", "--agent", "straight")
    hits = [kind for kind, items in record["infractions"].items() if items and kind.startswith("collisions")]
    if "collisions_vehicle" not in hits:
        raise Failed(f"the ego drove into a parked car, but no collision was counted ({record['status']})")
    return f"counted: {', '.join(hits)}; {record['status']}"


def seeds(check: Check) -> str:
    """Repeat the first episode and measure the largest distance of the two ego tracks."""
    tracks = check.out / "runs" / "expert" / "tracks" / "901_rep0.json"
    if not tracks.is_file():
        raise Skipped("the first episode has no track")
    check.drive("again", "--suite", str(check.routes), "--routes-ids", "901", "--agent", "expert")
    first, second = (_places(check.out / "runs" / run / "tracks" / "901_rep0.json") for run in ("expert", "again"))
    both = sorted(first.keys() & second.keys())
    apart = max(math.dist(first[tick], second[tick]) for tick in both)
    check.figures["same seed twice"] = f"{apart:.3f} m apart at most, over {both[-1]} ticks"
    return check.figures["same seed twice"]


def speed(check: Check) -> str:
    ticks = 40 if check.quick else 200
    folder = str(check.out / "home" / "maps")
    found = check.ask("speed", routes=str(check.routes), folder=folder, ticks=ticks, width=1600, height=900)
    check.figures["steps per second"] = f"{found['bare']}; with a camera of 1600x900: {found['camera']}"
    return check.figures["steps per second"]


def clean(check: Check) -> str:
    found = check.ask("clean")
    if found["left"] or found["synchronous"]:
        raise Failed(
            f"left behind: {len(found['left'])} actors {found['left'][:3]}, synchronous {found['synchronous']}"
        )
    return "no actor left, and the server runs asynchronously"


STEPS: tuple[tuple[str, Callable[[Check], str], bool], ...] = (
    ("versions", versions, False), ("probe", answers, True),
    ("maps and loading", towns, True), ("map fetch", map_fetch, True),
    ("routes traced", tracing, False), ("lights by id", lights, True), ("expert, with pictures", expert, True),
    ("hang probe", hang_probe, False), ("walker", walker, True), ("junction with lights", junction, True),
    ("threat program", threat, True), ("collision", collision, True), ("same seed twice", seeds, True),
    ("speed", speed, True), ("clean-up", clean, True),
)  # fmt: skip


def _places(file: Path) -> dict[int, tuple[float, float]]:
    samples = json.loads(file.read_text("utf-8"))["samples"]
    return {s["tick"]: (s["ego"][0], s["ego"][1]) for s in samples}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"


def _gpu() -> str:
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi"
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return "; ".join(done.stdout.split("\n")).strip("; ") or "no output of nvidia-smi"
