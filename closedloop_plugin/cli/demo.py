"""The closed-loop part of `ad2 demo`: three short routes, driven by the expert and by an image-blind baseline."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

ROUTES = "101,102,104"  # a parked obstacle, a pedestrian, a turn at lights
DRIVERS = ("expert", "straight")
NEEDED = ("scenic", "greenlet", "shapely", "cv2")


def drive(out: Path) -> list[str]:
    """Drive, print the tables and draw pictures; returns the lines that name them (none without the drive extra)."""
    from lmms_eval_ad2.errors import Ad2Error, install_command

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"\nclosed loop skipped ({', '.join(missing)} missing): {install_command('drive')}")
        return []
    for agent in DRIVERS:
        print(f"\ndriving routes {ROUTES} of the demo suite with {agent} ...", flush=True)
        folder = out / f"drive-{agent}"
        words = ["--suite", "demo", "--routes-ids", ROUTES, "--agent", agent, "--workers", "2", "--frames"]
        code = _ad2("run", *words, "--size", "800x450", "--decision-hz", "10", "--out", str(folder))
        if code:
            raise Ad2Error(f"the demo drive with {agent} ended with code {code}; see its messages above")
        for route in ROUTES.split(","):
            _ad2("show", f"{folder}:{route}", "--out", str(folder / "pictures" / f"{route}.png"))
    first = out / f"drive-{DRIVERS[0]}" / "pictures"
    return [f"pictures of the drives (top views, film strips): {first.resolve()} and the neighbouring folders"]


def _ad2(*words: str) -> int:
    from closedloop_plugin.cli.drive import register

    parser = argparse.ArgumentParser(prog="ad2")
    register(parser.add_subparsers())
    args = parser.parse_args(["drive", *words])
    return int(args.func(args) or 0)
