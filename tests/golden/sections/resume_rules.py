"""Which options may differ when the same folder is given again: a tiny run, then one start for each changed option.

"continues": the command resumes in the folder. "refused": exit code 2. Every changed start is valid by itself: it would
run in an empty folder. Also the keys by which a folder's settings are compared.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import data_layouts
from recording_endpoint import KEY, Endpoint, serve
from workspace import BIN, TIMEOUT_S, Workspace, read_jsonl

COST = "minutes"
Options = Mapping[str, Any]
DRIVE: Options = {"--suite": "demo", "--routes-ids": "101", "--agent": "endpoint:golden@URL", "--policy": "strict"}
DRIVE_CHANGES: dict[str, Options] = {
    "nothing": {}, "--routes-ids": {"--routes-ids": "101,102"}, "--limit": {"--routes-ids": None, "--limit": 1},
    "--shard": {"--routes-ids": None, "--shard": "1/6"}, "--repetitions": {"--repetitions": 2},
    "--suite": {"--suite": "OTHER_ROUTES", "--routes-ids": None, "--limit": 1}, "--seed": {"--seed": 1},
    "--no-traffic": {"--no-traffic": True}, "--agent model": {"--agent": "endpoint:other@URL"},
    "--agent max_tokens": {"--agent": "endpoint:golden@URL,max_tokens=128"},
    "--agent temperature": {"--agent": "endpoint:golden@URL,temperature=0.5"},
    "--agent timeout": {"--agent": "endpoint:golden@URL,timeout=30"},
    "--agent kind": {"--agent": "straight"}, "--interpreter rules": {"--interpreter": "rules"},
    "--interpreter": {"--interpreter": "endpoint:golden@URL"},
    "--mode": {"--interpreter": "endpoint:golden@URL", "--mode": "dcs"}, "--profile": {"--profile": "bench2drive"},
    "--tasks": {"--tasks": "action,reasoning"}, "--fine-grained prompt": {"--fine-grained": "prompt"},
    "--fine-grained question": {"--fine-grained": "question"}, "--camera": {"--camera": "surround"},
    "--size": {"--size": "800x450"}, "--decision-hz": {"--decision-hz": 2}, "--latency": {"--latency": "0.5"},
    "--latency measured": {"--latency": "measured"}, "--latency waits": {"--latency": "waits"},
    "--policy": {"--policy": "official"}, "--workers": {"--workers": 2}, "--frames": {"--frames": True},
    "--retry-failed": {"--retry-failed": True}, "--retries": {"--retries": 0},
    "--world-timeout": {"--world-timeout": 100},
}  # fmt: skip
MCQ: Options = {"--source": "SOURCE", "--images": "IMAGES", "--total": 20, "--limit": 1, "--no-progress": True}
MCQ_CHANGES: dict[str, Options] = {
    "nothing": {}, "--limit": {"--limit": 2}, "--total": {"--total": 21}, "--seed": {"--seed": 1},
    "--tasks": {"--tasks": "perception=0.5,prediction=0.5"}, "--distractors": {"--distractors": "naive"},
    "--n": {"--n": 5}, "--rounds": {"--rounds": 2}, "--threshold": {"--threshold": 3}, "--views": {"--views": "front"},
    "--cache": {"--cache": "other.sqlite"}, "--skip-bad": {"--skip-bad": True}, "--split": {"--split": "val"},
    "--images": {"--images": "OTHER_IMAGES"}, "--source": {"--source": "OTHER_SOURCE"}, "--mix": {"--mix": "drivelm=1"},
}  # fmt: skip
MODEL_CHANGES: dict[str, Options] = {
    **{name: MCQ_CHANGES[name] for name in ("nothing", "--limit", "--n", "--rounds", "--threshold", "--views")},
    "--llm model": {"--llm": "endpoint:other@URL"},
    "--llm temperature": {"--llm": "endpoint:golden@URL,temperature=0.5"},
    "--llm timeout": {"--llm": "endpoint:golden@URL,timeout=30"},
    "--llm concurrency": {"--llm": "endpoint:golden@URL,concurrency=2"},
    "--llm price": {"--llm": "endpoint:golden@URL,price_prompt=1"},
    "--llm max_tokens": {"--llm": "endpoint:golden@URL,max_tokens=99"}, "--llm kind": {"--llm": "rules"},
    "--evaluator": {"--evaluator": "endpoint:other@URL"},
}  # fmt: skip
THREATS: Options = {"--suite": "demo", "--routes-ids": "101", "--agent": "still", "--fuser": "rules",
                    "--no-check": True, "--attempts": 1}  # fmt: skip
THREATS_CHANGES: dict[str, Options] = {
    "nothing": {}, "--routes-ids": {"--routes-ids": "101,102"}, "--limit": {"--routes-ids": None, "--limit": 1},
    "--seed": {"--seed": 1}, "--frames": {"--frames": 2}, "--camera": {"--camera": "surround"},
    "--size": {"--size": "800x450"}, "--profile": {"--profile": "bench2drive"},
    "--fuser": {"--fuser": "endpoint:golden@URL"}, "--agent": {"--agent": "straight"}, "--workers": {"--workers": 2},
    "--attempts": {"--attempts": 2}, "--tries": {"--tries": 2}, "--repairs": {"--repairs": 1},
}  # fmt: skip
SEARCH: Options = {"PROGRAM": True, "--agent": "still", "--budget": 1, "--no-expert": True}
SEARCH_CHANGES: dict[str, Options] = {
    "nothing": {}, "--seed": {"--seed": 1}, "--sampler": {"--sampler": "halton"}, "--objective": {"--objective": "ttc"},
    "--no-traffic": {"--no-traffic": True}, "--set": {"--set": "pace=2"}, "--profile": {"--profile": "bench2drive"},
    "--agent": {"--agent": "straight"}, "--decision-hz": {"--decision-hz": 2}, "--latency": {"--latency": "0.5"},
    "--policy": {"--policy": "strict"}, "--workers": {"--workers": 2}, "--retries": {"--retries": 0},
    "--world-timeout": {"--world-timeout": 100}, "--route": {"--route": "demo:103"},
}  # fmt: skip
ROBOT: Options = {"--segments": "1", "--runs": 1, "--agent": "still"}
ROBOT_CHANGES: dict[str, Options] = {
    "nothing": {}, "--runs": {"--runs": 2}, "--segments": {"--segments": "1,2"}, "--seed": {"--seed": 1},
    "--agent": {"--agent": "straight"}, "--robot": {"--robot": "robot.yaml"}, "--profile": {"--profile": "bench2drive"},
    "--retry-failed": {"--retry-failed": True}, "--markdown": {"--markdown": True},
}  # fmt: skip
ANNOTATE: Options = {"RECORDS": True, "--images": "IMAGES", "--no-page": True}
ANNOTATE_CHANGES: dict[str, Options] = {
    "nothing": {}, "--limit": {"--limit": 2}, "--lang": {"--lang": "zh"}, "--scale": {"--scale": 5},
    "--scale default": {"--scale": 10}, "--ask": {"--ask": "general"}, "--images": {"--images": "OTHER_IMAGES"},
    "--pre": {"--pre": "drafts.jsonl"}, "--reviewer": {"--reviewer": "anna"}, "--port": {"--port": 0},
    "--split": {"--split": "test"}, "--check": {"--check": True},
    "the source": {"RECORDS": None, "OTHER_RECORDS": True},
}  # fmt: skip
EVAL: Options = {"--model": "ad2_chance", "--tasks": "ad2demo_mcq_planning", "--limit": 2, "--judge": "lexical"}
EVAL_CHANGES: dict[str, Options] = {
    "nothing": {}, "--limit": {"--limit": 3}, "--batch-size": {"--batch-size": 4},
    "--tasks": {"--tasks": "ad2demo_mcq_prediction"}, "--model": {"--model": "ad2_majority"},
    "--model-args": {"--model-args": "seed=3"}, "-- --seed": {"-- --seed": 5},
    "-- --gen_kwargs": {"-- --gen_kwargs": "max_new_tokens=9"},
    "-- --system_instruction": {"-- --system_instruction": "Be brief."}, "--prompts": {"--prompts": "prompts.yaml"},
}  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    with serve(lambda body: "I cannot say.", models=("golden", "other")) as endpoint:
        values = _files(work, endpoint)
        return {
            "drive run": _rules(work, values, ("drive", "run"), DRIVE, DRIVE_CHANGES, "run.json"),
            "mcq build, rules": _rules(
                work, values, ("mcq", "build"), {**MCQ, "--llm": "rules"}, MCQ_CHANGES, "settings.json"
            ),
            "mcq build, a model": _rules(
                work,
                values,
                ("mcq", "build"),
                {**MCQ, "--llm": "endpoint:golden@URL"},
                MODEL_CHANGES,
                "settings.json",
            ),
            "threats generate": _rules(work, values, ("threats", "generate"), THREATS, THREATS_CHANGES, "suite.json"),
            "threats search": _rules(work, values, ("threats", "search"), SEARCH, SEARCH_CHANGES, "run.json"),
            "robot run": _rules(work, values, ("robot", "run"), ROBOT, ROBOT_CHANGES, "run.json"),
            "annotate": _rules(work, values, ("annotate",), ANNOTATE, ANNOTATE_CHANGES, "annotation.json"),
            "eval": _eval(work, values),
        }


def _files(work: Workspace, endpoint: Endpoint) -> dict[str, str]:
    """Values of the placeholders in the tables above."""
    real = work.data / "drivelm"
    again = work.folder / "again_train.json"
    again.write_text((real / "train_sample.json").read_text("utf-8") + "\n", "utf-8")
    records = data_layouts.records(work.folder / "records")
    records.write_text("".join(f"{line}\n" for line in records.read_text("utf-8").splitlines()[:-1]), "utf-8")
    others = data_layouts.write_lines(work.folder / "others.jsonl", read_jsonl(records)[:1])
    data_layouts.write_lines(work.folder / "drafts.jsonl", [{"id": "a/region", "answer": "A cat."}])
    for name in ("IMAGES", "OTHER_IMAGES"):
        (work.folder / name).symlink_to(real / "images")
    for name in ("a.png", "b.png"):
        data_layouts.picture(work.folder / "records" / name, 20)
    (work.folder / "robot.yaml").write_text("vehicle: limo-ackermann\nlimits:\n  speed: 0.3\n", "utf-8")
    (work.folder / "prompts.yaml").write_text('en:\n  mcq: "{question} {options}"\n', "utf-8")
    return {
        "URL": endpoint.url, "OTHER_SOURCE": f"drivelm={again}", "SOURCE": f"drivelm={real / 'train_sample.json'}",
        "OTHER_RECORDS": str(others), "RECORDS": str(records),
        "OTHER_ROUTES": str(work.data / "bench2drive" / "bench2drive_dev10.xml"),
        "PROGRAM": str(work.repo / "configs" / "scenarios" / "child_behind_van.scenic"),
    }  # fmt: skip


def _rules(
    work: Workspace, values: Mapping[str, str], command: tuple[str, ...], base: Options,
    changes: Mapping[str, Options], settings: str,
) -> dict[str, Any]:  # fmt: skip
    """One folder, started by `base`, then once for each change of it."""
    out = work.folder / "_".join((*command, str(len(list(work.folder.iterdir())))))
    first = _start(work, values, command, base, out)
    return {
        "first start": first,
        "compared": _keys(json.loads((out / settings).read_text("utf-8"))),
        "options": {name: _start(work, values, command, {**base, **change}, out) for name, change in changes.items()},
    }


def _start(work: Workspace, values: Mapping[str, str], command: tuple[str, ...], options: Options, out: Path) -> str:
    words = [*_words(options, values), "--out", str(out)]
    done = subprocess.run(
        [str(BIN / "ad2"), *command, *words], cwd=work.folder, env=work.environment(OPENAI_API_KEY=KEY),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
        raise RuntimeError(f"{command} {words}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return "refused" if done.returncode == 2 else "continues"


def _words(options: Options, values: Mapping[str, str]) -> list[str]:
    """The command line; "-- --x" is last, as an option of lmms-eval."""
    words: list[str] = []
    for name, value in sorted(options.items(), key=lambda item: item[0].startswith("-- ")):
        if value is None:
            continue
        words += [values.get(part, part) for part in name.split(" ")]
        if value is not True:
            text = values.get(str(value), str(value))
            words.append(text.replace("URL", values["URL"]) if text.startswith("endpoint:") else text)
    return words


def _keys(value: Any, above: str = "") -> list[str]:
    """Every key of the settings, nested ones with dots."""
    if not isinstance(value, dict):
        return []
    found = [f"{above}{key}" for key in value]
    return sorted(found + [inner for key, part in value.items() for inner in _keys(part, f"{above}{key}.")])


def _eval(work: Workspace, values: Mapping[str, str]) -> dict[str, Any]:
    """The same folder is resumed; a new one is started if the model could answer differently."""
    found: dict[str, Any] = {}
    out, before = work.folder / "eval", {"folders": 0, "answers": 0}
    for name, change in {"first start": {}, **EVAL_CHANGES}.items():
        options = _words({**EVAL, **change}, values)
        rest = options.index("--") if "--" in options else len(options)
        work.run("ad2", "eval", *options[:rest], "--out", out, *options[rest:])
        now = {
            "folders": len(list(out.rglob("journal"))),
            "answers": sum(len(read_jsonl(path)) for path in out.rglob("rank*.jsonl")),
        }
        tasks = {path.parent.name.partition("-")[0]: sorted(json.loads(path.read_text("utf-8"))["tasks"])
                 for path in sorted(out.rglob("summary.json"), key=lambda path: path.stat().st_mtime_ns)}  # fmt: skip
        found[name] = {"new folder": now["folders"] > before["folders"],
                       "answers asked for": now["answers"] - before["answers"], "summary": tasks}  # fmt: skip
        before = now
    return found
