"""`ad2 demo`: run the sample tasks through lmms-eval with a lower bound (chance) and an upper bound (oracle)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.options import add_command, option
from lmms_eval_ad2.core.printed import show

BASELINES = ("ad2_chance", "ad2_oracle")
TASKS = "ad2demo_*"
_FULL_BYTES = 1_000_000  # free bytes below which a disk counts as full


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """`ad2 demo`."""

    out: Path = option("folder of the runs (default: runs/demo)", default=Path("runs/demo"), metavar="DIR")
    tasks: str = option("tasks to run (default: ad2demo_*)", default=TASKS, metavar="TASK,...")
    open_loop: bool = option("skip the closed-loop part", default=False)


def register(subparsers: Any) -> None:
    add_command(subparsers, "demo", run, DemoOptions, help="run the bundled sample end to end and write a report page")


def run(options: DemoOptions) -> int:
    from lmms_eval_ad2.cli import report
    from lmms_eval_ad2.core import plugins

    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    for model in BASELINES:
        evaluate(options.out, model, options.tasks)
    parts = [] if options.open_loop else plugins.loaded(plugins.DEMO)
    closing = [line for part in parts for line in part(options.out, evaluate)]
    page = options.out / "report.html"
    report.run(report.ReportOptions(results=(str(options.out),), html=page))
    for line in closing:
        show(line)
    print("The sample images are rendered, not photographs: these figures only show that the installation works.")
    print(f"demo took {time.monotonic() - started:.0f} s")
    print(f"next: . {Path(sys.executable).parent / 'activate'}   (adds ad2 and lmms_eval to PATH), then ad2 tasks")
    return 0


def evaluate(
    out: Path, model: str, tasks: str = TASKS, *words: str, name: str = "", batch: int = 8, home: Path | None = None
) -> None:  # fmt: skip
    """Run lmms-eval with its output in OUT/<name>.log. words: further arguments; home: another data home. Raises
    Ad2Error if it fails."""
    from lmms_eval_ad2.core.errors import Ad2Error

    log = out / f"{name or model}.log"
    print(f"running {tasks} with {name or model} (log: {log}) ...", flush=True)
    command = [sys.executable, "-m", "lmms_eval", "--model", model, "--tasks", tasks, "--output_path", str(out)]
    with log.open("w", encoding="utf-8") as handle:
        done = subprocess.run(
            [*command, "--batch_size", str(batch), *words],
            stdout=handle, stderr=subprocess.STDOUT, env=_environment(home), check=False,
        )  # fmt: skip
    if done.returncode:
        raise Ad2Error(f"{name or model} ended with code {done.returncode}: {_reason(log)}; its output: {log}")


def _reason(log: Path) -> str:
    """Why a run failed: the disk is full, which its log may lack for the same reason, or the last error in the log."""
    if shutil.disk_usage(log.parent).free < _FULL_BYTES:
        return f"the disk of {log.parent} is full; free some space, then the same command resumes"
    lines = log.read_text("utf-8", errors="replace").splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return next(iter([*errors[-1:], *lines[-1:]]), "it printed nothing")


def _environment(home: Path | None) -> dict[str, str]:
    """Hugging Face Hub access is disabled: the sample needs no download."""
    own = {"AD2_HOME": str(home.resolve())} if home else {}
    return {**os.environ, "HF_HUB_OFFLINE": "1", "AD2_JUDGE": os.environ.get("AD2_JUDGE", "lexical"), **own}
