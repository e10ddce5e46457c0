"""The closed-loop part of `ad2 demo`: three short routes, driven by the expert, by the model that comes with this
package, and by a baseline that ignores its camera. The model also answers questions about frames that are collected
for it; it was trained on others of the same kind."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from closedloop_plugin.learn.trained_agent import DECISION_HZ, MOST_TOKENS, SIZE, agent_of
from lmms_eval_ad2.core.errors import Ad2Error, install_command

ROUTES = "101,102,104"  # a parked obstacle, a pedestrian, a turn at lights
FAST = ("--size", "800x450", "--config", "decision_hz=10")  # of drivers that need no time to answer
TASKS = "bench_ad2_world"
COLLECTED = ("--routes", "22", "--frames", "400", "--seed", "900", "--workers", "2")  # no training uses this seed
ASKED = ("--limit", "60")  # questions of each task
NEEDED = ("scenic", "greenlet", "shapely", "cv2")
MODEL_NEEDED = ("decord",)  # by lmms-eval's class of the model


def drive(out: Path, evaluate: Callable[..., None]) -> list[str]:
    """Drive, and draw pictures; returns the lines that name them (none without the drive extra).

    evaluate: of `ad2 demo`, which runs a model of lmms-eval on tasks.
    """
    from closedloop_plugin.learn.trained_agent import shipped_model

    if _lacks("closed loop", NEEDED, "drive"):
        return []
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads slow down so small a model, on a busy machine tenfold
    _drive(out, "expert", "expert", *FAST)
    closing = [
        f"pictures of the drives (top views, film strips): {(out / 'drive-expert' / 'pictures').resolve()} and the "
        "neighbouring folders",
    ]
    if not _lacks("model", MODEL_NEEDED, "models"):
        model = shipped_model()
        _drive(out, model.name, agent_of(model, MOST_TOKENS), "--size", SIZE, "--config", f"decision_hz={DECISION_HZ}")
        home = _collect(out)
        arguments = ("--model_args", f"pretrained={model},device_map=cpu", "--device", "cpu")
        evaluate(out, "llava_hf", TASKS, *arguments, name=model.name, batch=1, home=home)
        evaluate(out, "ad2_majority", TASKS, home=home)
        closing.append(f"{model.name} learned in this simulator, and says nothing about real roads: {model}/README.md")
    _drive(out, "straight", "straight", *FAST)
    return closing


def _lacks(part: str, needed: Sequence[str], extra: str) -> bool:
    """Whether a module is missing; then the part is left out, and what to install is printed."""
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"\n{part} skipped ({', '.join(missing)} missing): {install_command(extra)}")
    return bool(missing)


def _collect(out: Path) -> Path:
    """Collect frames with questions; returns the data home that has them, which is not the user's."""
    folder, home, log = out / "frames", out / "home", out / "frames.log"
    print(f"collecting frames of made routes, and questions about them (log: {log}) ...", flush=True)
    with log.open("w", encoding="utf-8") as handle, contextlib.redirect_stdout(handle):
        code = _ad2("collect", *COLLECTED, "--size", SIZE, "--out", str(folder)) or _ad2("label", str(folder), *ASKED)
        if not code:
            handle.flush()  # the next lines are of another process
            command = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "data", "import", "world", str(folder)]
            environment = {**os.environ, "AD2_HOME": str(home.resolve())}
            code = subprocess.run([*command, "--split", "test"], stdout=handle, env=environment, check=False).returncode
    if code:
        raise Ad2Error(f"collecting frames for the demo ended with code {code}; see the messages above and {log}")
    return home


def _drive(out: Path, name: str, agent: str, *words: str) -> None:
    folder, log = out / f"drive-{name}", out / f"drive-{name}.log"
    print(f"driving routes {ROUTES} of the demo suite with {name} (log: {log}) ...", flush=True)
    chosen = ("--suite", "demo", "--routes-ids", ROUTES, "--agent", agent, "--workers", "2", "--frames")
    # The report shows the scores of all drives together.
    with log.open("w", encoding="utf-8") as handle, contextlib.redirect_stdout(handle):
        code = _ad2("run", *chosen, *words, "--out", str(folder))
        if not code:
            for route in ROUTES.split(","):
                _ad2("show", f"{folder}:{route}", "--out", str(folder / "pictures" / f"{route}.png"))
    if code:
        raise Ad2Error(f"the demo drive with {name} ended with code {code}; see the messages above and {log}")


def _ad2(*words: str) -> int:
    from closedloop_plugin.cli.drive import register

    parser = argparse.ArgumentParser(prog="ad2")
    register(parser.add_subparsers())
    args = parser.parse_args(["drive", *words])
    return int(args.func(args) or 0)
