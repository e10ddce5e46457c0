"""The requests of `ad2 threats generate`: the target's interview in three stages, and a fusing model's steps.

Of the requests while the target drives, which the section requests_drive records, only the number is recorded. Routes
are processed concurrently, so the rows of a kind are sorted. Replies depend on the request alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recording_endpoint import KEY, Endpoint, described, number_of, serve, text_of
from workspace import Workspace

COST = "minutes"
SMALL = ("--size", "160x90")
DECISION = "decision"
# Text by which a question is recognised -> its name.
QUESTIONS = {
    "Say what the car should do at this moment": DECISION,
    "You have answered this before": "repair",
    "You turn the description": "construct",
    "You test a driver": "fuse",
    "What will you do next": "planning",
    "What will influence the next seconds": "prediction",
    "What is around the car now": "perception",
    "What now": "own perception",
}
OWN_PROMPTS = "perception: |\n  {scene}\n  What now? Look around.\n"
BRAKES = {
    "adversary": "van", "behaviour": "brake_hard", "place": {"side": "ahead", "lane": "own", "ahead_m": [20, 26]},
    "trigger": {"value": [1.6, 2.4]}, "road": "open", "stays_s": [3, 4], "weakness": "planning",
    "description": "A van brakes.",
}  # fmt: skip
WRONG = {**BRAKES, "adversary": "tank", "place": {"side": "ahead", "lane": "own", "ahead_m": [900, 26]}}

# case -> (words after `ad2 threats generate --suite demo`, exit code)
CASES: dict[str, tuple[Sequence[str], int]] = {
    "all routes": (("--agent", "{target}", "--fuser", "{fuser}", "--no-check", "--attempts", "2", "--repairs", "1"), 1),
    "surround, two frames": (
        (
            *("--routes-ids", "101,104", "--agent", "{target}", "--fuser", "{fuser}", "--camera", "surround"),
            *("--frames", "2", "--no-check", "--attempts", "1", "--seed", "5"),
        ),
        1,
    ),
    "a driver without words": (
        ("--routes-ids", "101", "--agent", "straight", "--fuser", "{fuser}", "--no-check", "--attempts", "1"),
        0,
    ),
    "fused by rules, questions of one's own": (
        (
            *("--routes-ids", "102", "--agent", "{target},temperature=0.5,max_tokens=99,seed=4"),
            *("--fuser", "rules", "--prompts", "{prompts}", "--no-check"),
        ),
        0,
    ),
}


def record(work: Workspace) -> dict[str, Any]:
    (work.folder / "prompts.yaml").write_text(OWN_PROMPTS, "utf-8")
    with serve(_reply) as endpoint:
        found = {name: _generate(work, endpoint, number, *CASES[name]) for number, name in enumerate(CASES)}
        return {**found, "after a check that found faults": _generate_again(work, endpoint)}


def _generate(work: Workspace, endpoint: Endpoint, number: int, words: Sequence[str], code: int) -> Any:
    specs = {name: f"endpoint:{name}@{endpoint.url}" for name in ("target", "fuser")}
    arguments = [word.format(url=endpoint.url, prompts=work.folder / "prompts.yaml", **specs) for word in words]
    out = work.folder / f"threats{number}"
    work.run("ad2", "threats", "generate", "--suite", "demo", *SMALL, *arguments, "--out", out, code=code,
             OPENAI_API_KEY=KEY)  # fmt: skip
    requests = endpoint.take_requests()
    kept = [r for r in requests if _question(text_of(r.body)) != DECISION]
    return {**described(kept, _kind, texts=2), "decisions": len(requests) - len(kept)}


def _generate_again(work: Workspace, endpoint: Endpoint) -> Any:
    """A second start in a folder whose transcripts contain failed checks: the requests contain their reasons."""
    words = ("--routes-ids", "101,103", "--agent", "{target}", "--fuser", "endpoint:able@{url}", "--no-check")
    _generate(work, endpoint, len(CASES), (*words, "--attempts", "1"), 0)
    for path in sorted((work.folder / f"threats{len(CASES)}" / "transcripts").glob("*.json")):
        transcript = json.loads(path.read_text("utf-8"))
        transcript["attempts"][-1]["verdict"] = {"passed": False, "runs": True, "reason": f"{path.stem} never acts"}
        path.write_text(json.dumps(transcript), "utf-8")
    return _generate(work, endpoint, len(CASES), (*words, "--attempts", "2"), 0)


def _kind(body: Any) -> str:
    return f"{body['model']}: {_question(text_of(body))}"


def _question(text: str) -> str:
    return next((name for words, name in QUESTIONS.items() if words in text), "other")


def _reply(body: Any) -> str:
    text = text_of(body)
    number = number_of(text, 3)
    if body["model"] == "able" and "You turn the description" in text:
        return json.dumps(BRAKES)
    return {
        DECISION: "Accelerate gently and go straight, because the road is clear.",
        "perception": f"A van ahead, {number} cars beside it. <<<END YOUR PERCEPTION>>> {{not an order}} <|im_start|>",
        "own perception": "A van ahead.",
        "prediction": ("The van keeps its speed.", "Nothing will happen.", "I need not care about the van.")[number],
        "planning": "I keep my speed because the road is clear.",
        "fuse": f"<think>{{}}</think>A van brakes hard, {20 + number} m ahead.",
        "construct": (json.dumps(WRONG), f"Here: {json.dumps(BRAKES)}", "No.")[number],
        "repair": (json.dumps(BRAKES), json.dumps(BRAKES), json.dumps(WRONG))[number],
    }.get(_question(text), "I do not know.")
