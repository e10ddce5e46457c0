"""Processor time of a decision with camera pictures, here and in another checkout, and whether
their pictures are equal.

    python benchmarks/camera_rate.py                      # ms per decision, of this checkout
    python benchmarks/camera_rate.py --against CHECKOUT   # both in turns, and the ratio

A decision is a step of the embedded world, its pictures, their way through the pipe of a world process and their JPEG
data URLs, wherever a checkout encodes them; without the model. Processor time, to which other processes do not add.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import importlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROUNDS, DECISIONS, WARM = 6, 24, 3
EVERY = 3  # steps between two compared moments
SETTINGS = ("front 800x450", "front 1600x900", "six 1600x900")
# Modules and names of version 0.1.0.
OLD_PLACES = {
    "core.profiles": "profiles",
    "core.routes": "routes",
    "core.state": "state",
    "suites.lookup": "suites",
    "worlds.base": "worlds.base",
}
OLD_NAMES = {"EpisodeSetup": "Setup"}
WEATHERS: tuple[dict[str, float], ...] = (
    {"cloudiness": 0.0, "fog_density": 0.0, "sun_altitude_angle": 60.0},
    {"sun_altitude_angle": -40.0},
    {"cloudiness": 90.0, "precipitation": 80.0, "wetness": 80.0, "sun_altitude_angle": 3.0, "wind_intensity": 80.0},
    {"fog_density": 70.0, "sun_altitude_angle": -3.0, "wetness": 40.0},
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with the package in this folder")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _serve()
        return
    here = Path(__file__).resolve().parent.parent
    checkouts = [here, *([options.against.resolve()] if options.against else [])]
    with tempfile.TemporaryDirectory() as folder:
        children = [_child(checkout, Path(folder)) for checkout in checkouts]
        for setting in SETTINGS:
            times = [[_ask(child, setting, k)["ms"] for child in children] for k in range(options.rounds)]
            line = " ".join(f"{statistics.median(column):8.1f}" for column in zip(*times, strict=True))
            ratio = f"   ratio {statistics.median(a / b for a, b in times):.2f}" if options.against else ""
            print(f"{setting:15s} ms per decision: {line}{ratio}", flush=True)
        if options.against:
            hashes = [_ask(child, "hashes", 0)["pictures"] for child in children]
            differ = [name for name, digest in hashes[0].items() if hashes[1][name] != digest]
            print(f"{len(hashes[0])} pictures, {len(differ)} differ {differ[:5]}")
        for child in children:
            assert child.stdin
            child.stdin.close()
            child.wait()


def _child(checkout: Path, folder: Path) -> subprocess.Popen[str]:
    """This script in a process of its own, with the packages of `checkout`."""
    return subprocess.Popen(
        [sys.executable, __file__, "--child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout)},
    )


def _ask(child: subprocess.Popen[str], task: str, number: int) -> dict[str, Any]:
    assert child.stdin and child.stdout
    print(json.dumps([task, number]), file=child.stdin, flush=True)
    return json.loads(child.stdout.readline())


# -- in a child process ------------------------------------------------------------------------------------------------
def _serve() -> None:
    from closedloop_plugin.worlds.embedded.world import EmbeddedWorld

    routes = _of("core.routes", "read_routes")(_of("suites.lookup", "DEMO"))
    with tempfile.TemporaryDirectory() as folder:
        world = EmbeddedWorld(Path(folder))
        for line in sys.stdin:
            task, number = json.loads(line)
            if task == "hashes":
                print(json.dumps({"pictures": dict(_hashes(world, routes))}), flush=True)
            else:
                print(json.dumps({"ms": _decisions(world, routes[number % len(routes)], task)}), flush=True)


def _of(module: str, name: str) -> Any:
    """`name` of a module of this checkout, or where version 0.1.0 has it."""
    for place in (module, OLD_PLACES[module]):
        with contextlib.suppress(ImportError, AttributeError):
            found = importlib.import_module(f"closedloop_plugin.{place}")
            return getattr(found, name if hasattr(found, name) else OLD_NAMES[name])
    raise ImportError(f"no {name} in {module} of closedloop_plugin")


def _cameras(setting: str) -> tuple[Any, ...]:
    which, size = setting.split()
    six = _of("core.profiles", "surround")(*map(int, size.split("x")))
    return six if which == "six" else six[:1]


def _decisions(world: Any, route: Any, setting: str) -> float:
    """ms of processor time per decision of an episode, without its first ones, which build the scenery."""
    control = _of("core.state", "Control")(throttle=0.5)
    cameras = _cameras(setting)
    names = [camera.name for camera in cameras]
    ours, theirs = Pipe()
    receiver = threading.Thread(target=_receive, args=(theirs,))
    receiver.start()
    observation = world.reset(_of("worlds.base", "EpisodeSetup")(route, 1, cameras))
    for k in range(DECISIONS):
        if k == WARM:
            start = time.process_time()
        ours.send(_sent(observation.images, names))
        ours.recv()
        observation = world.step(control)
        world.truth()
    spent = time.process_time() - start
    ours.send(None)
    receiver.join()
    return 1000 * spent / (DECISIONS - WARM)


def _sent(images: Any, names: list[str]) -> Any:
    """What a world process sends: data URLs, or arrays before they were encoded there (0.1.0)."""
    try:
        from closedloop_plugin.core.image_encoding import ImageEncoding
        from closedloop_plugin.core.sent_images import SentImages
    except ImportError:
        return {name: np.ascontiguousarray(images(name)) for name in names}
    return SentImages.of(images, names, [ImageEncoding()])


def _receive(pipe: Any) -> None:
    """The process of the run: encodes pictures that were sent as arrays, as 0.1.0 did."""
    while (sent := pipe.recv()) is not None:
        for image in sent.values() if isinstance(sent, dict) else ():
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "JPEG", quality=90)
            base64.b64encode(buffer.getvalue()).decode()
        pipe.send(True)


def _hashes(world: Any, routes: Any) -> Iterator[tuple[str, str]]:
    """(name, digest) of the pictures of six cameras on every demo route, in every weather."""
    setup, weather_of = _of("worlds.base", "EpisodeSetup"), _of("core.routes", "Weather")
    control = _of("core.state", "Control")(throttle=0.8)
    cameras = _cameras("six 1600x900")
    for route in routes:
        for number, weather in enumerate((None, *WEATHERS)):
            chosen = weather_of(**weather) if weather else None
            observation = world.reset(setup(route, 1 + number, cameras, weather=chosen))
            for tick in range(4 * EVERY):
                if tick % EVERY == 0:
                    for camera in cameras:
                        digest = hashlib.sha256(observation.images(camera.name).tobytes()).hexdigest()
                        yield f"{route.id} weather {number} tick {tick} {camera.name}", digest
                observation = world.step(control)


if __name__ == "__main__":
    main()
