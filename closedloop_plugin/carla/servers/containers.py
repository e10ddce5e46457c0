"""Containers of CARLA servers, by name: existence and removal, with docker or podman."""

from __future__ import annotations

import subprocess
import time

from lmms_eval_ad2.errors import Ad2Error

STOP_S = 5  # a simulator has nothing to save; `bash` as process 1 ignores SIGTERM
ANSWER_S = 60.0
REMOVAL_S = 20.0  # for removal by `--rm`, during which the name is still listed
POLL_S = 0.2


def check_image(engine: str, image: str) -> None:
    """Raise Ad2Error unless the image is present: pulling it takes longer than a server may take to start."""
    done = _run_engine(engine, "image", "inspect", image)
    if done.returncode:
        raise Ad2Error(
            f"--image {image}: {engine} does not have it ({_last(done)}); {engine} pull {image}, or see that {engine} "
            "runs and you may use it"
        )


def exists(engine: str, name: str) -> bool:
    done = _run_engine(engine, "ps", "-a", "--format", "{{.Names}}")
    if done.returncode:
        raise Ad2Error(f"{engine} does not list its containers ({_last(done)}); is it running?")
    return name in done.stdout.split()


def end(engine: str, name: str) -> bool:
    """Stop and remove a container. False if there was none."""
    if not exists(engine, name):
        return False
    _run_engine(engine, "stop", "-t", str(STOP_S), name)
    _run_engine(engine, "rm", "-f", name)  # if it was created and never ran
    deadline = time.monotonic() + REMOVAL_S
    while exists(engine, name):
        if time.monotonic() > deadline:
            raise Ad2Error(f"container {name} does not end: {engine} rm -f {name}")
        time.sleep(POLL_S)
    return True


def _run_engine(engine: str, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [engine, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        )
    except FileNotFoundError:
        raise Ad2Error(f"{engine} is not on PATH, but a server was started with it") from None
    except subprocess.TimeoutExpired:
        raise Ad2Error(f"{engine} {words[0]}: no answer in {ANSWER_S:.0f} s; is {engine} running?") from None


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
