"""Environment variables in the product, and effects of the AD2_ ones on commands.

`other_names` are read in Python code (environ, getenv). Effects that are not recorded here: AD2_DRIVE_* (an
evaluation of ad2drive_demo), AD2_ALLOW_CUDA (an installation), AD2_BASE_URL (CARLA's leaderboard), AD2_CARLA_TOKEN (set
by `ad2 carla up` for the server's processes).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from command_lines import in_workspace, programs, run_in_process
from product_files import product_files
from workspace import Workspace, digest, read_jsonl

COST = "seconds"
# Python constants and a marker in answers, which look like variables; AD2_TEST_* belong to the tests.
NOT_VARIABLES = ("AD2_MEDIA_FAILED", "AD2_NO_ANSWER", "AD2_PARTS", "AD2_SUBTASKS", "AD2_DRIVE_")
ITEM = {"id": "i", "rubric": "coda_general", "question": "q", "reference": "a red car", "answer": "a car"}


def record(work: Workspace) -> dict[str, Any]:
    texts = [(work.repo / name).read_bytes().decode("utf-8", "replace") for name in product_files()]
    names = {name for text in texts for name in re.findall(r"\bAD2_[A-Z0-9_]+", text)}
    read = re.compile(r"(?:environ(?:\.\w+)?[\[(]|getenv\()\s*[\"']([A-Z][A-Z0-9_]+)")
    names = {name for name in names if name not in NOT_VARIABLES and not name.startswith("AD2_TEST_")}
    others = {name for text in texts for name in read.findall(text) if not name.startswith("AD2_")}
    return {
        "names": dict.fromkeys(names, True),
        "other_names": dict.fromkeys(others, True),
        "effects": {
            "AD2_HOME": _home(work),
            "AD2_JUDGE": _judge(work),
            "AD2_PROMPTS": _prompts(work),
            "AD2_BENCH2DRIVE_ROUTES": _routes(work),
            "AD2_THREATS": _threats(work),
            "AD2_ROS_PATH": _ros(work),
        },
    }


def _ad2(work: Workspace, *words: str, **changes: str) -> dict[str, Any]:
    with in_workspace(work, **changes):
        result = run_in_process(programs()["ad2"], words)
    return {"code": result.code, "out": result.out, "err": result.err}


def _home(work: Workspace) -> list[str]:
    """The folders that are created in the given home; without the variable it is below ~."""
    words = ("annotate", "sample_coda_lm", "--no-page", "--limit", "1")
    _ad2(work, *words, "--out", "notes", AD2_HOME="elsewhere")
    _ad2(work, *words, "--out", "notes2", HOME=str(work.folder / "me"), XDG_CACHE_HOME="", AD2_HOME="")
    homes = (work.folder / "elsewhere", work.folder / "me")
    return sorted({str(p.relative_to(work.folder)) for home in homes for p in home.rglob("*") if _is_set(p)})


def _is_set(path: Path) -> bool:
    return path.is_dir() and path.name.startswith("sample_")


def _judge(work: Workspace) -> dict[str, Any]:
    (work.folder / "items.jsonl").write_text(json.dumps(ITEM) + "\n", "utf-8")
    words, found = ("judge", "rate", "items.jsonl", "--out", "rated.jsonl"), {}
    for value in ("", "lexical", "fake:score=3", "nonsense"):
        code = _ad2(work, *words, AD2_JUDGE=value)["code"]
        found[value] = [code, read_jsonl(work.folder / "rated.jsonl")[0]["judge"] if code == 0 else None]
    found["fake:score=3, --judge lexical"] = [
        _ad2(work, *words, "--judge", "lexical", AD2_JUDGE="fake:score=3")["code"],
        read_jsonl(work.folder / "rated.jsonl")[0]["judge"],
    ]
    return found


def _prompts(work: Workspace) -> dict[str, Any]:
    """Training rows have the same prompts as models under test."""
    data, split = work.data / "drivelm", ("--split", "train")
    images = ("--images", str(data / "images"))
    _ad2(work, "data", "import", "drivelm", str(data / "train_sample.json"), *images, *split)
    _ad2(work, "mcq", "build", "--source", "drivelm:train", "--llm", "rules", "--total", "8", "--out", "mcq")
    _ad2(work, "data", "import", "autodrive_qa", "mcq/questions.jsonl", "--images", "mcq/images", *split)
    (work.folder / "own.yaml").write_text(
        'en:\n  mcq: "{question} / {options}"\n  mc: "{question} / {options}"\n', "utf-8"
    )
    (work.folder / "wrong.yaml").write_text("en:\n  nonsense: x\n", "utf-8")
    words = ("export", "swift", "--tasks", "ad2_mcq_perception", *split, "--out", "rows.jsonl")
    found = {}
    for value in ("", "own.yaml", "wrong.yaml", "missing.yaml"):
        code = _ad2(work, *words, AD2_PROMPTS=value)["code"]
        prompts = [message["content"] for message in read_jsonl(work.folder / "rows.jsonl")[0]["messages"]]
        found[value] = [code, digest("\n".join(prompts)) if code == 0 else None]
    return found


def _routes(work: Workspace) -> dict[str, Any]:
    folder = work.data / "bench2drive"
    words = ("drive", "score", str(folder / "pdm_lite_results.json"), "--routes", "embedded220", "--json")
    values = {"set": str(folder / "bench2drive220.xml"), "not set": "", "missing": "missing.xml"}
    return {name: _ad2(work, *words, AD2_BENCH2DRIVE_ROUTES=value)["code"] for name, value in values.items()}


def _threats(work: Workspace) -> dict[str, Any]:
    values = {"set": str(work.repo / "configs" / "scenarios"), "not set": "", "missing": "missing"}
    found = {}
    for name, value in values.items():
        tasks = json.loads(_ad2(work, "tasks", "ad2drive_threat", "--json", AD2_THREATS=value)["out"])
        found[name] = [task["ready"] for task in tasks]
    return found


def _ros(work: Workspace) -> dict[str, Any]:
    result = _ad2(work, "robot", "sandbox", AD2_ROS_PATH="no_ros_here")
    return {"code": result["code"], "named": "no_ros_here" in result["err"]}
