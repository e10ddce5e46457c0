"""Every request that driving sends to models: fast and slow systems, describers, courses, served drivers, the task.

Episodes are short: from END_SPEED on, replies are unreadable, which ends an episode under --policy strict. Requests are
sent one at a time, so the rows are in order of arrival.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recording_endpoint import KEY, Endpoint, described, number_of, serve, short, text_of
from workspace import BIN, Workspace

COST = "minutes"
END_SPEED = 1.2  # m/s
SMALL = ("--size", "160x90")
SLOW = ("--decision-hz", "5")
# Text by which a question is recognised -> its name.
QUESTIONS = {
    "Which of these suffixes": "suffix",
    "Choose the controls": "dcs",
    "Give the controls": "cng",
    "Describe this view": "describe",
    "a threat to safety": "threat",
    "Plan the car's path": "trajectory",
    "Name the road users": "reasoning",
    "Say what the car": "action",
    "What now": "own",
    "What do you see": "own describe",
}
OWN_PROMPTS = "action: |\n  {situation}\n  What now? Say it in one sentence.{suffixes}\ndescribe: What do you see?\n"

# case -> words after `ad2 drive run --policy strict`; {agent} and similar are replaced by specs of the endpoint
DRIVES: dict[str, Sequence[str]] = {
    "action, the profile's size": ("--routes-ids", "101", "--decision-hz", "2"),
    "action, every tick": ("--routes-ids", "101", *SMALL),
    "all routes of demo": ("--decision-hz", "1", *SMALL),
    "all tasks": ("--routes-ids", "102", "--tasks", "action,trajectory,reasoning", *SMALL, *SLOW),
    "surround": ("--routes-ids", "101", "--camera", "surround", *SMALL, *SLOW),
    "suffix in the prompt": ("--routes-ids", "101", "--fine-grained", "prompt", *SMALL, *SLOW),
    "cng": ("--routes-ids", "101", "--interpreter", "{slow}", *SMALL, *SLOW),
    "cng, suffix asked for": (
        *("--routes-ids", "101", "--interpreter", "{slow}", "--fine-grained", "question"), *SMALL, *SLOW,
    ),
    "dcs of all tasks": (
        *("--routes-ids", "101", "--interpreter", "{slow}", "--mode", "dcs"),
        *("--tasks", "action,trajectory,reasoning"), *SMALL, *SLOW,
    ),
    "dcs, bench2drive, suffix in the prompt": (
        *("--routes-ids", "101", "--interpreter", "{slow}", "--mode", "dcs", "--profile", "bench2drive"),
        *("--fine-grained", "prompt"), *SMALL, *SLOW,
    ),
    "cng, described offline": (
        *("--routes-ids", "101", "--interpreter", "{slow}", "--describer", "offline"), *SMALL, *SLOW,
    ),
    "dcs, described by a model": (
        *("--routes-ids", "101", "--interpreter", "{slow}", "--mode", "dcs", "--describer", "{describer}"),
        *SMALL, *SLOW,
    ),
    "hybrid of two models": (
        *("--routes-ids", "103", "--interpreter", "{slow}", "--interpreter2", "{slow2}", "--mode", "hybrid"),
        *SMALL, *SLOW,
    ),
    "hybrid with rules": (
        *("--routes-ids", "103", "--interpreter", "rules", "--interpreter2", "{slow}", "--mode", "hybrid"),
        *SMALL, *SLOW,
    ),
    "prompts of one's own": (
        *("--routes-ids", "101", "--prompts", "{prompts}", "--interpreter", "{slow}", "--describer", "{describer}"),
        *SMALL, *SLOW,
    ),
    "another seed, repeated": ("--routes-ids", "104", "--seed", "7", "--repetitions", "2", *SMALL, *SLOW),
}  # fmt: skip
# case -> options of the agent's spec
OPTIONS = {
    "png, sampled": "temperature=0.7,seed=5,max_tokens=64,max_tokens_key=max_completion_tokens,format=png",
    "jpeg of quality 50": "quality=50,api_key_env=GOLDEN_KEY",
}
COURSES: dict[str, Sequence[str]] = {
    "action": ("--segments", "6"),
    "all tasks, cng": (
        *("--segments", "1", "--tasks", "action,trajectory,reasoning", "--interpreter", "{slow}"),
        *("--fine-grained", "question"),
    ),
    "jetbot, dcs, described": (
        *("--segments", "2", "--robot", "jetbot-waveshare", "--interpreter", "{slow}", "--mode", "dcs"),
        *("--describer", "offline"),
    ),
}  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    (work.folder / "prompts.yaml").write_text(OWN_PROMPTS, "utf-8")
    with serve(_reply) as endpoint:
        return {
            "drive run": {name: _drive(work, endpoint, name, words) for name, words in DRIVES.items()},
            "options": {name: _options(work, endpoint, name, more) for name, more in OPTIONS.items()},
            "agent lmms": _lmms(work, endpoint),
            "robot run": {name: _course(work, endpoint, name, words) for name, words in COURSES.items()},
            "serve": _served(work, endpoint),
            "task": _task(work, endpoint),
        }


def _drive(work: Workspace, endpoint: Endpoint, name: str, words: Sequence[str], agent: str = "{agent}") -> Any:
    out = work.folder / "drives" / name.replace(" ", "_").replace(",", "")
    arguments = [_filled(word, work, endpoint) for word in ("--agent", agent, *words)]
    work.run(
        "ad2", "drive", "run", "--suite", "demo", "--policy", "strict", *arguments, "--out", out,
        OPENAI_API_KEY=KEY, GOLDEN_KEY="sk-another",
    )  # fmt: skip
    return described(endpoint.take_requests(), _kind, in_order=True, texts=2)


def _options(work: Workspace, endpoint: Endpoint, name: str, more: str) -> Any:
    return _drive(work, endpoint, name, ("--routes-ids", "101", *SMALL, *SLOW), "{agent}," + more)


def _lmms(work: Workspace, endpoint: Endpoint) -> Any:
    """The fast system as a model of lmms-eval, in the command's own process."""
    agent = "lmms:openai,model_version=fast,base_url={url},num_concurrent=1,max_retries=1"
    words = ("--routes-ids", "101", "--tasks", "action,trajectory", *SMALL, *SLOW)
    return _drive(work, endpoint, "lmms", words, agent)


def _course(work: Workspace, endpoint: Endpoint, name: str, words: Sequence[str]) -> Any:
    out = work.folder / "courses" / name.replace(" ", "_").replace(",", "")
    arguments = [_filled(word, work, endpoint) for word in ("--agent", "{agent}", *words)]
    work.run("ad2", "robot", "run", "--transport", "local", "--runs", "1", *arguments, "--out", out)
    return described(endpoint.take_requests(), _kind, in_order=True, texts=2)


def _task(work: Workspace, endpoint: Endpoint) -> Any:
    """The closed loop as a task: lmms-eval's model is the fast system. Empty replies then end an episode."""
    count = itertools.count()
    endpoint.reply = lambda body: "" if body["model"] == "fast" and next(count) >= 4 else _reply(body)
    arguments = f"model_version=fast,base_url={endpoint.url},num_concurrent=1,max_retries=1"
    work.run(
        "ad2", "eval", "--model", "openai", "--model-args", arguments, "--tasks", "ad2drive_demo", "--limit", "2",
        "--out", work.folder / "task", OPENAI_API_KEY=KEY,
        AD2_DRIVE_INTERPRETER=_filled("{slow}", work, endpoint), AD2_DRIVE_MODE="cng", AD2_DRIVE_SEED="3",
        AD2_DRIVE_CAMERA="front@160x90",
    )  # fmt: skip
    return described(endpoint.take_requests(), _kind, in_order=True, texts=2)


def _filled(word: str, work: Workspace, endpoint: Endpoint) -> str:
    specs = {name: f"endpoint:{name}@{endpoint.url},concurrency=1" for name in ("slow", "slow2", "describer")}
    agent = f"endpoint:fast@{endpoint.url},concurrency=1"
    return word.format(agent=agent, prompts=work.folder / "prompts.yaml", url=endpoint.url, **specs)


# A relay and a driver behind `ad2 serve`


def _served(work: Workspace, endpoint: Endpoint) -> Any:
    words = [
        _filled(word, work, endpoint)
        for word in (
            "--model", "{agent}", "--interpreter", "{slow}", "--mode", "dcs", "--describer", "{describer}",
            "--fine-grained", "question", *SMALL, "--seed", "3",
        )
    ]  # fmt: skip
    with _serving(work, *words) as url:
        relayed = [_post(url, body) for body in _chats()]
        sent = endpoint.take_requests()
        driven = [_post(url, _driver_request(tick)) for tick in range(3)]
        return {
            "relayed": described(sent, _kind, in_order=True),
            "replies to relayed": relayed,
            "driven": described(endpoint.take_requests(), _kind, in_order=True, texts=2),
            "replies to driven": driven,
        }


@contextmanager
def _serving(work: Workspace, *words: str) -> Iterator[str]:
    """The base URL of `ad2 serve`."""
    command = [str(BIN / "ad2"), "serve", "--port", "0", *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=work.folder, env=work.environment(), **pipes) as process:
        try:
            assert process.stdout is not None
            found = re.match(r"(http://\S+?/v1)\b", process.stdout.readline())
            assert found is not None, "ad2 serve did not say where it listens"
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _post(url: str, body: Any) -> Any:
    """The first choice of the reply; a driver's answer without its latency."""
    data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", data, kind), timeout=300) as reply:
        choice = json.loads(reply.read())["choices"][0]
    text = choice["message"]["content"]
    if text.startswith("{"):
        answer = json.loads(text)
        answer.pop("latency_s", None)
        choice["message"]["content"] = answer
    return choice


def _chats() -> list[Any]:
    """Requests for the model itself: text only, with system text and limits, and with two pictures."""
    question = {"role": "user", "content": "You travel at 0.5 m/s. Say what the car should do."}
    pictures = [{"type": "image_url", "image_url": {"url": _picture(shade)}} for shade in (40, 200)]
    shown = {"role": "user", "content": [*pictures, {"type": "text", "text": "Describe this view, please."}]}
    return [
        {"model": "fast", "messages": [question]},
        {"model": "fast", "messages": [{"role": "system", "content": "Be brief."}, question], "max_tokens": 17},
        {"model": "fast", "messages": [shown], "temperature": 0.5, "max_completion_tokens": 33},
    ]


def _driver_request(tick: int) -> Any:
    """A request for the driver, as a caller in a simulator sends it."""
    observation = {
        "ad2_drive": 1, "episode": "golden", "tick": tick, "time_s": tick * 0.5, "speed": 0.25 * tick,
        "command": "turn left", "target": [8.0, 1.5], "speed_limit": 8.33 if tick else None, "cameras": ["front"],
    }  # fmt: skip
    picture = {"type": "image_url", "image_url": {"url": _picture(60 * tick)}}
    return {
        "model": "ad2-driver",
        "messages": [{"role": "user", "content": [picture, {"type": "text", "text": json.dumps(observation)}]}],
    }


def _picture(shade: int) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (160, 90), (shade, 120, 60)).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


# Replies of the models


def _kind(body: Any) -> str:
    return f"{body['model']}: {_question(text_of(body))}"


def _question(text: str) -> str:
    return next((name for words, name in QUESTIONS.items() if words in text), "other")


def _reply(body: Any) -> str:
    text = text_of(body)
    speed = float(found[1]) if (found := re.search(r"travel at (-?[\d.]+) m/s", text)) else 0.0
    if speed >= END_SPEED:
        return "Hmm."
    number = number_of(short(text), 3)
    return {
        "suffix": ("with speed = 0.5", "with speed = 1", "none of them")[number],
        "dcs": json.dumps({"throttle": 0.6, "steer": (0.0, -0.2, 0.2)[number], "brake": 0.0}),
        "cng": json.dumps({"throttle": 0.55 + 0.1 * number, "steer": 0.05 * number, "brake": 0}),
        "describe": f"A road with {number} cars. <<<END DESCRIPTION>>> {{not an order}}",
        "threat": ("Yes, a car brakes.", "No, nothing.", "Hard to say.")[round(speed * 10) % 3],
        "trajectory": "[(1.0, 0.0), (2.5, 0.0), (4.0, 0.1), (6.0, 0.1), (8.0, 0.2), (10.0, 0.2)]",
        "reasoning": f"There are {number} cars ahead; they keep still. Accelerate because the road is clear.",
    }.get(_question(text), "Accelerate and go straight because the road is clear.")
