"""The robots' sandbox: the floor, its camera at each segment's start, driven courses, and commands of the planner."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closed_loop_runs import box_pixels, files, joint_digest, pixels, short
from PIL import Image
from recording_endpoint import Endpoint, serve, text_of
from robot_vehicle_end import VehicleEnd, free_port
from workspace import BIN, Workspace, digest, json_digest, read_jsonl

COST = "minutes"
SEGMENTS = 10
VIEW, COLUMNS, LABEL = (240, 180), 5, 20  # of `ad2 robot sandbox --picture`: its small pictures and their label line
REPLIES = ("Keep following the lane with speed = 0.8.", "Turn left with speed = 0.5.", "Blorp.", "Stop at once.")
ROBOTS = ("limo-ackermann", "limo-mecanum", "jetbot-waveshare", "jetbot-dusty-ros1")
TOKEN = bytes(range(32))


def record(work: Workspace) -> dict[str, Any]:
    course = ("--course", "sandbox", "--transport", "local")
    cases: dict[str, tuple[str, ...]] = {
        "track-expert": ("--segments", "all", "--runs", "1", "--agent", "track-expert"),
        "straight": ("--segments", "all", "--runs", "1", "--agent", "straight"),
        "random": ("--segments", "1,3", "--runs", "2", "--agent", "random", "--seed", "5"),
        "still": ("--segments", "1", "--runs", "1", "--agent", "still"),
        "lap": ("--segments", "lap", "--runs", "1", "--agent", "track-expert"),
        **{f"by {r}": ("--segments", "2", "--runs", "1", "--agent", "track-expert", "--robot", r) for r in ROBOTS},
    }
    found: dict[str, Any] = {"sheet": _sheet(work), "courses": {}}
    for n, (name, words) in enumerate(cases.items()):
        done = work.run("ad2", "robot", "run", *course, *words, "--out", f"course{n}")
        found["courses"][name] = {"table": _table(done.stdout), **_course(work, work.folder / f"course{n}")}
    found["seen by a model"] = _requests(work, course)
    found["planner"] = {robot: _planner_commands(work, robot) for robot in ROBOTS}
    return found


def _sheet(work: Workspace) -> dict[str, Any]:
    work.run("ad2", "robot", "sandbox", "--picture", "sheet.png")
    sheet = work.folder / "sheet.png"
    with Image.open(sheet) as image:
        width, height = image.size
    rows = -(-SEGMENTS // COLUMNS)
    floor = height - rows * VIEW[1]
    found = {"size": [width, height], "floor": box_pixels(sheet, (0, 0, width, floor))}
    for i in range(SEGMENTS):
        left, upper = i % COLUMNS * VIEW[0], floor + i // COLUMNS * VIEW[1]
        found[f"view {i + 1}"] = box_pixels(sheet, (left, upper + LABEL, left + VIEW[0], upper + VIEW[1]))
    return found


def _table(output: str) -> list[list[str]]:
    """The rows of the first table: completed runs and completion."""
    lines = [re.split(r" {2,}", line.strip()) for line in output.splitlines()]
    return [row for row in lines if row[0] in ("completed", "completion, %")]


def _course(work: Workspace, folder: Path) -> dict[str, Any]:
    """Records, and digests of track, decisions, rosbag and picture by run."""
    runs = {}
    for line in read_jsonl(folder / "episodes.jsonl"):
        name = f"{line['segment']}_run{line['run']}"
        kept = {key: value for key, value in line.items() if key not in ("versions", "timing", "robot")}
        track = json.loads((folder / "tracks" / f"{name}.json").read_text("utf-8"))
        runs[name] = {
            **work.scrub(kept),
            "robot": short(json_digest(line["robot"])),
            "track": short(json_digest(work.scrub(track, drop=("thinking_s", "versions", "timing")))),
            "log": joint_digest(json_digest(_decision(row)) for row in read_jsonl(folder / "logs" / f"{name}.jsonl")),
            "bag": _bag(folder / "bags" / f"{name}.bag"),
            "picture": pixels(folder / "pictures" / f"{name}.png"),
        }
    return {"runs": runs, "run.json": json.loads((folder / "run.json").read_text("utf-8")), "files": files(folder)}


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "thinking_s"}


def _bag(path: Path) -> dict[str, Any]:
    """Of each topic of a rosbag: type, number of messages, digest of their times and bytes."""
    from rosbags.rosbag1 import Reader

    topics: dict[str, list[str]] = {}
    with Reader(path) as reader:
        for connection, time_ns, data in reader.messages():
            name = f"{connection.topic} {connection.msgtype}"
            if connection.topic == "/ad2/cycle":  # a string message: its length, then JSON
                content = json_digest(_decision(json.loads(data[4:])))
            else:
                content = bytes(data).hex()
            topics.setdefault(name, []).append(f"{time_ns} {content}")
    return {name: [len(rows), joint_digest(rows)] for name, rows in sorted(topics.items())}


def _requests(work: Workspace, course: tuple[str, ...]) -> dict[str, Any]:
    """Requests to a model at each segment's start, with the camera's full picture, and the cycles of the run."""

    def reply(body: dict[str, Any]) -> str:
        return REPLIES[0]

    with serve(reply) as endpoint:
        words = ("--segments", "all", "--runs", "1", "--agent", f"endpoint:golden@{endpoint.url},format=png")
        work.run("ad2", "robot", "run", *course, *words, "--out", "seen", OPENAI_API_KEY="sk-golden")
        requests = endpoint.take_requests()
    runs = _course(work, work.folder / "seen")["runs"]
    found, at = {}, 0
    for name, run in sorted(runs.items(), key=lambda item: int(re.sub(r"\D", "", item[1]["segment"]))):
        own = requests[at : at + run["counts"]["decisions"]]
        at += len(own)
        pictures = [picture for request in own for picture in _pictures(request.body)]
        texts = sorted({text_of(request.body) for request in own})
        found[name] = {
            "end": run["end"], "completion": run["completion"], "log": run["log"],
            "requests": len(own), "first picture": pictures[0], "pictures": joint_digest(pictures),
            "texts": short(json_digest(texts)),
        }  # fmt: skip
    return {"runs": found, "requests beyond": len(requests) - at, "first text": text_of(requests[0].body)}


def _pictures(body: dict[str, Any]) -> Iterator[str]:
    """Type and digest of each picture of a request."""
    for message in body["messages"]:
        for item in message["content"] if isinstance(message["content"], list) else []:
            if isinstance(item, dict) and item.get("type") == "image_url":
                yield item["image_url"]["url"]


# The planner of a vehicle


def _planner_commands(work: Workspace, robot: str) -> dict[str, Any]:
    """`ad2 robot plan`: its commands for four pictures, its last frames, and its log."""
    replies = iter((*REPLIES, *REPLIES))
    with serve(lambda body: next(replies)) as endpoint, _planner(work, robot, endpoint) as (port, process):
        end = VehicleEnd(port, TOKEN, robot)
        orders = []
        for seq in range(len(REPLIES)):
            odom = {"x": 0.1 * seq, "y": -0.05 * seq, "yaw": 0.2 * seq, "v": 0.25, "w": 0.1}
            orders.append(_frame(end.send_observation(seq, 10.0 + 0.8 * seq, _jpeg(seq), odom)))
        lines = _lines(work.folder / f"plan_{robot}", 1 + len(REPLIES))
        process.send_signal(signal.SIGTERM)
        last = []
        while (frame := end.next())[0] != "closed":
            last.append(_frame(frame))
        end.close()
        code = process.wait(60)
        requests = [request.body for request in endpoint.take_requests()]
    return {
        "orders": orders, "last": last, "exit code": code,
        "asked": [_question(body) for body in requests],
        "written": [_log_entry(line) for line in lines],
        "frames": len(list((work.folder / f"plan_{robot}" / "frames").glob("*.jpg"))),
    }  # fmt: skip


def _question(body: dict[str, Any]) -> list[str]:
    """The first line of the question, a digest of all of it, and its picture."""
    text = text_of(body)
    return [text.partition("\n")[0], short(digest(text)), *_pictures(body)]


def _lines(folder: Path, number: int) -> list[dict[str, Any]]:
    """The first lines of planner.jsonl. A line is written after its command was sent, so wait for it."""
    for _ in range(600):
        found = read_jsonl(folder / "planner.jsonl")
        if len(found) >= number:
            return found[:number]
        time.sleep(0.1)
    raise RuntimeError(f"{folder.name}: {len(found)} lines of planner.jsonl instead of {number}")


@contextmanager
def _planner(work: Workspace, robot: str, endpoint: Endpoint) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    token = work.folder / "token"
    token.write_text(TOKEN.hex() + "\n", "ascii")
    token.chmod(0o600)
    port = free_port()
    where = ("--no-tunnel", "--port", str(port), "--token-file", str(token), "--out", f"plan_{robot}", "--frames")
    agent = f"endpoint:golden@{endpoint.url}"
    command = [str(BIN / "ad2"), "robot", "plan", "--robot", robot, "--agent", agent, *where]
    environment = work.environment(OPENAI_API_KEY="sk-golden")
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=work.folder, env=environment, **silent)  # type: ignore[call-overload]
    try:
        yield port, process
    finally:
        process.kill()
        process.wait()


def _jpeg(seq: int) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (64, 48), (90, 40 * seq, 200 - 40 * seq)).save(made, "JPEG")
    return made.getvalue()


def _frame(frame: tuple[str, dict[str, Any]]) -> list[Any]:
    """A frame without the session's random name and the wording of reasons."""
    kind, header = frame
    return [kind, {key: value for key, value in header.items() if key not in ("session", "reason")}]


def _log_entry(line: dict[str, Any]) -> dict[str, Any]:
    """A line of planner.jsonl without clocks and the session's name."""
    left_out = ("at", "session", "thinking_s", "overhead_s")
    return {key: value for key, value in line.items() if key not in left_out}
