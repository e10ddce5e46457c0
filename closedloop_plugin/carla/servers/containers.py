"""A container by the name that we gave it: is it there, and its end. docker and podman speak alike here."""

from __future__ import annotations

import subprocess
import time

from lmms_eval_ad2.errors import Ad2Error

STOP_S = 5  # a simulator has nothing to save; `bash` as process 1 ignores SIGTERM
ANSWER_S = 60.0
REMOVAL_S = 20.0  # `--rm` removes by itself: the name stays listed while that is under way
POLL_S = 0.2


def check_image(engine: str, image: str) -> None:
    """It must be here: to pull it takes longer than a server may take to start."""
    done = _ask(engine, "image", "inspect", image)
    if done.returncode:
        raise Ad2Error(
            f"--image {image}: {engine} does not have it ({_last(done)}); {engine} pull {image}, or see that {engine} "
            "runs and you may use it"
        )


def there(engine: str, name: str) -> bool:
    done = _ask(engine, "ps", "-a", "--format", "{{.Names}}")
    if done.returncode:
        raise Ad2Error(f"{engine} does not say which containers there are ({_last(done)}); is it running?")
    return name in done.stdout.split()


def end(engine: str, name: str) -> bool:
    """False: there was none."""
    if not there(engine, name):
        return False
    _ask(engine, "stop", "-t", str(STOP_S), name)
    _ask(engine, "rm", "-f", name)  # one that was created and never ran
    deadline = time.monotonic() + REMOVAL_S
    while there(engine, name):
        if time.monotonic() > deadline:
            raise Ad2Error(f"container {name} does not end: {engine} rm -f {name}")
        time.sleep(POLL_S)
    return True


def _ask(engine: str, *words: str) -> subprocess.CompletedProcess[str]:
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
        raise Ad2Error(f"{engine} is not on PATH, and a container of it is to be asked for") from None
    except subprocess.TimeoutExpired:
        raise Ad2Error(f"{engine} {words[0]}: no answer in {ANSWER_S:.0f} s; is {engine} running?") from None


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
