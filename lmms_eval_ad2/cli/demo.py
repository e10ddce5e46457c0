"""`ad2 demo`: the sample tasks with a floor (chance) and a ceiling (oracle), through lmms-eval's own command line."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BASELINES = ("ad2_chance", "ad2_oracle")


def register(subparsers: Any) -> None:
    p = subparsers.add_parser("demo", help="run the bundled sample end to end and write a report page")
    p.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the runs (default: runs/demo)")
    p.add_argument("--tasks", default="ad2demo_*")
    p.add_argument("--open-loop", action="store_true", help="leave the driving out")
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from lmms_eval_ad2 import plugins, report
    from lmms_eval_ad2.errors import Ad2Error
    from lmms_eval_ad2.report import html, tables

    started = time.monotonic()
    args.out.mkdir(parents=True, exist_ok=True)
    for model in BASELINES:
        log = args.out / f"{model}.log"
        print(f"running {args.tasks} with {model} (log: {log}) ...", flush=True)
        words = ["--model", model, "--tasks", args.tasks, "--output_path", str(args.out), "--batch_size", "8"]
        with log.open("w", encoding="utf-8") as handle:
            done = subprocess.run(
                [sys.executable, "-m", "lmms_eval", *words],
                stdout=handle, stderr=subprocess.STDOUT, env=_environment(), check=False,
            )  # fmt: skip
        if done.returncode:
            tail = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-15:])
            raise Ad2Error(f"{model} ended with code {done.returncode}; the end of {log}:\n{tail}")
    runs = report.load([args.out])
    print(tables.render(runs))
    page = args.out / "report.html"
    html.write(runs, page)
    parts = [] if args.open_loop else plugins.loaded(plugins.DEMO)
    closing = [line for part in parts for line in part(args.out)]
    print(f"\nreport page: {page.resolve()}")
    for line in closing:
        print(line)
    print("The sample is drawn, not photographed: these figures say that everything runs.")
    print(f"demo took {time.monotonic() - started:.0f} s")
    print(f"next: . {Path(sys.executable).parent / 'activate'}   (puts ad2 and lmms_eval on your path), then ad2 tasks")
    return 0


def _environment() -> dict[str, str]:
    """No hub is asked for anything: the sample needs none."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "AD2_JUDGE": os.environ.get("AD2_JUDGE", "lexical")}
