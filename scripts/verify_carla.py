"""Check this project with a CARLA server in about ten minutes, and print a report to send back (docs/carla.md).

    scripts/verify_carla.sh [host:port] [--out DIR] [--town NAME] [--quick]

Every step is PASS, FAIL or SKIP, with seconds and a finding; a failure does not stop the others. Episodes run on the
server and another town is loaded, so do not use it otherwise meanwhile. All files are written to --out. The report
contains no names of your hosts, users or folders. Exit code: 0 no step failed, 1 a step failed, 2 no server answers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from verify_carla_check import Check, shown
from verify_carla_steps import STEPS

ISSUES = "an issue of the project (title: CARLA report)"


def report(check: Check, seconds: float) -> str:
    counts = {word: sum(line[0] == word for line in check.lines) for word in ("PASS", "FAIL", "SKIP")}
    out = [
        f"CARLA report, {time.strftime('%Y-%m-%d')}, {seconds / 60:.1f} minutes" + (", --quick" if check.quick else "")
    ]
    out += [f"  {name}: {check.scrub(value)}" for name, value in check.figures.items() if value]
    out += [shown(line) for line in check.lines]
    return "\n".join([*out, ", ".join(f"{n} {word}" for word, n in counts.items())])


def server_of(text: str) -> tuple[str, int]:
    """Host and port of a server that answers; raises ValueError with the remedy if none does."""
    try:
        from closedloop_plugin.carla.maps.from_server import address
        from closedloop_plugin.carla.servers.probe import NO_SERVER, advice, probe
        from lmms_eval_ad2.core.errors import Ad2Error
    except ImportError as exc:
        raise ValueError(f"{exc}: install this checkout first: pip install -e '.[drive,carla]'") from exc
    try:
        host, port = address(text, "server")
        found = asyncio.run(probe(host, port))
    except Ad2Error as exc:
        raise ValueError(str(exc)) from None
    if not found.answers:
        image = "; in a container: docker compose -f configs/carla/compose.yaml up"
        raise ValueError(advice(found) + (image if found.kind is NO_SERVER else "") + ". All steps: docs/carla.md")
    return host, port


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("server", nargs="?", default="localhost:2000", metavar="host:port", help="(default localhost:2000)")
    p.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of all files (default: a new folder in the current one)"
    )
    p.add_argument("--town", default="", help="town to use (default: Town01, Town02 or Town10HD)")
    p.add_argument("--quick", action="store_true", help="shorter episodes, smaller images")
    args = p.parse_args()
    try:
        host, port = server_of(args.server)
    except ValueError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    if args.out and args.out.exists() and (not args.out.is_dir() or any(args.out.iterdir())):
        print(f"error: --out {args.out} exists already; name a new folder", file=sys.stderr)
        return 2
    out = (args.out or Path(time.strftime("verify_carla_%Y%m%d_%H%M%S"))).absolute()
    out.mkdir(parents=True, exist_ok=True)
    check, begun = Check(host, port, out, town=args.town, quick=args.quick), time.monotonic()
    for name, what, server in STEPS:
        check.step(name, what, server)
    text = report(check, time.monotonic() - begun)
    (out / "report.txt").write_text(text + "\n", "utf-8")
    print(f"\n{'-' * 78}\n{text}\n{'-' * 78}\nThis report is in {out / 'report.txt'}. Please send it to {ISSUES}.")
    print("If a step failed, logs/ next to it has details; read them before you send them: they name your folders.")
    return 1 if any(line[0] == "FAIL" for line in check.lines) else 0


if __name__ == "__main__":
    raise SystemExit(main())
