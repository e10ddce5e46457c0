"""Judge and `ad2 mcq build` at a local endpoint of fixed latency: share of the ideal rate, processor time per item.

The endpoint (fixed_latency_endpoint.py) is a process of its own. It answers any number of requests at a time, each
after its latency, so the ideal rate is (requests in flight) / latency. On a shared machine timers and sockets are late
for every program; the processor time depends less on it.

    python benchmarks/request_rate.py [--part judge,mcq] [--load 16@0.2,64@0.1,256@0.4] [--repeats 1] [--json FILE]
    python benchmarks/request_rate.py --against CHECKOUT       # in turns with another version of this package

judge   an item is a request; 25 s of the ideal rate per load, and of the build 60 s
mcq     an item is a request of a build with 17 or 18 requests per question
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOADS = "16@0.2,64@0.1,256@0.4"
# Of the ideal rate. The last requests of a build find too few others to fill all places, so it needs more of them.
SECONDS = {"judge": 25.0, "mcq": 60.0}
REPLIES = {"judge": "Fine. Rating: [[7]]", "mcq": "mcq"}
REQUESTS_A_QUESTION = 17.3
WARM_UP = 8  # items before the measured ones: imports, first connections


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", default="judge,mcq")
    p.add_argument("--load", default=LOADS, metavar="IN_FLIGHT@SECONDS,...")
    p.add_argument("--against", type=Path, metavar="CHECKOUT", help="root of another version, e.g. a git worktree")
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--json", type=Path)
    p.add_argument("--measure", nargs=3, metavar=("PART", "URL", "LOAD"), help=argparse.SUPPRESS)  # in a child process
    args = p.parse_args()
    if args.measure:
        part, url, load = args.measure
        print(json.dumps(MEASURES[part](url, *_load(load))))
        return 0
    versions = {"this": ROOT} | ({"other": args.against.resolve()} if args.against else {})
    print(f"{'part':<6} {'load':<9} {'version':<8} {'items/s':>8} {'of ideal':>8} {'CPU ms/item':>12}")
    found = []
    for part in args.part.split(","):
        for load in args.load.split(","):
            found += _compare(part, load, versions, args.repeats)
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    return 0


def _compare(part: str, load: str, versions: dict[str, Path], repeats: int) -> list[dict[str, Any]]:
    """The best rate and the least processor time of each version; other work on the machine only makes them worse."""
    in_flight, latency = _load(load)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    with ExitStack() as stack:
        urls = {name: stack.enter_context(endpoint(root, part, latency)) for name, root in versions.items()}
        for _ in range(repeats):
            for name, root in versions.items():
                runs[name].append(_run(root, part, urls[name], load))
    found: list[dict[str, Any]] = []
    for name, measured in runs.items():
        rate, cpu = max(m["rate"] for m in measured), min(m["cpu_ms"] for m in measured)
        share = rate * latency / in_flight
        print(f"{part:<6} {load:<9} {name:<8} {rate:8.0f} {share:8.3f} {cpu:12.3f}", flush=True)
        found.append({"part": part, "load": load, "version": name, "rate": rate, "share": share, "cpu_ms": cpu})
    if len(found) == 2:
        print(f"{'':<16} this / other: {found[0]['cpu_ms'] / found[1]['cpu_ms']:.2f} of the processor time")
    return found


def _run(root: Path, part: str, url: str, load: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", part, url, load]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_judge(url: str, in_flight: int, latency: float) -> dict[str, float]:
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.judge.base import JudgeItem

    def items(first: int, count: int) -> list[Any]:
        numbers = range(first, first + count)
        return [JudgeItem(f"i{i}", "ad2_vqa", f"The car {i} turns left.", "It does.", "What happens?") for i in numbers]

    count = int(SECONDS["judge"] * in_flight / latency)
    with tempfile.TemporaryDirectory() as folder:
        spec = {"backend": "openai", "model": "fake", "base_url": url, "concurrency": in_flight}
        judge = make_judge(spec, cache=Path(folder) / "judge.sqlite")
        judge.rate(items(count, WARM_UP), progress=False)
        started, cpu = time.perf_counter(), time.process_time()
        ratings = judge.rate(items(0, count), progress=False)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert all(getattr(r, "score", None) == 7 for r in ratings)  # a rating that failed has no score
    return {"rate": count / seconds, "cpu_ms": 1000 * cpu / count}


def measure_mcq(url: str, in_flight: int, latency: float) -> dict[str, float]:
    sys.path.insert(0, str(Path.cwd() / "benchmarks"))  # of the measured version, whose records it knows
    import mcq

    mcq.IN_FLIGHT = in_flight
    build = vars(mcq).get("build") or vars(mcq)["_ours"]  # its name in 0.1.0
    questions = int(SECONDS["mcq"] * in_flight / latency / REQUESTS_A_QUESTION)
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        build(url, Path(first), 2)
        seconds, cpu, requests = build(url, Path(second), questions)
    return {"rate": requests / seconds, "cpu_ms": 1000 * cpu / requests}


MEASURES = {"judge": measure_judge, "mcq": measure_mcq}


def _load(text: str) -> tuple[int, float]:
    in_flight, _, latency = text.partition("@")
    return int(in_flight), float(latency)


@contextmanager
def endpoint(root: Path, part: str, latency: float) -> Iterator[str]:
    """The base URL of an endpoint with the replies of a version, in a process of its own."""
    script = Path(__file__).with_name("fixed_latency_endpoint.py")
    command = [sys.executable, str(script), "--latency", str(latency), "--reply", REPLIES[part]]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    raise SystemExit(main())
