"""Result files of a run in the format of docs/architecture.md, written without scoring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.records import BilingualText, Record, VisualPrompt

SHA = "ab" * 32


def cell(
    official: float | None, *, strict: float | None = None, ci: Sequence[float] | None = None, n: int = 100,
    unparsed: int = 0, unscored: int = 0, judge: str | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "official": official, "strict": official if strict is None else strict, "ci": list(ci) if ci else None,
        "n": n, "n_ok": n - unparsed - unscored, "n_unparsed": unparsed, "n_unscored": unscored, "judge": judge, **more,
    }  # fmt: skip


def task(
    benchmark: str, part: str, score: dict[str, Any], columns: Mapping[str, Any] | None = None, *,
    data: str | None = None, split: str = "test", sha256: str = SHA, image_root: str = "",
    variant: Mapping[str, Any] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "benchmark": benchmark, "part": part, "lang": (variant or {}).get("lang", "en"), "variant": dict(variant or {}),
        "data": {"name": data or benchmark, "split": split, "sha256": sha256, "n": score["n"],
                 "image_root": image_root},
        **{k: score[k] for k in ("n", "n_ok", "n_unparsed", "n_unscored")},
        "reasons": {}, "score": score, "columns": dict(columns or {}), "subtasks": {}, "breakdowns": {},
        "error_kinds": {}, "judge": score["judge"], **more,
    }  # fmt: skip


def summary(tasks: Mapping[str, Any], *, label: str = "toy-7b", model: str = "qwen2_5_vl", judge: str | None = None,
            **more: Any) -> dict[str, Any]:  # fmt: skip
    judged = {"backend": judge.split(":")[0], "model": "m", "label": judge, "usage": {"requests": 3}} if judge else None
    run = {
        "model": model, "model_args": "pretrained=toy/toy-7b", "label": label, "date": "2026-01-02T03:04:05+00:00",
        "seed": 0, "limit": None, "policy": "official", "judge": judged, "versions": {"lmms_eval_ad2": "0.1.0"}, **more,
    }  # fmt: skip
    return {"schema": "ad2-run/1", "run": run, "tasks": dict(tasks)}


def write_run(
    folder: Path, data: Mapping[str, Any], samples: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
) -> Path:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(data), "utf-8")
    for name, rows in (samples or {}).items():
        path = folder / "samples" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def sample(id: str, score: float | None, *, raw: str = "B", status: str = "ok", reason: str | None = None,
           question: str = "Is there a truck?", images: tuple[str, ...] = ("a.jpg",),
           box: tuple[float, ...] | None = None, cluster: str | None = None,
           **more: Any) -> dict[str, Any]:  # fmt: skip
    record = Record(
        id=id,
        benchmark="ad2_bench",
        task="perception_base",
        subtask="existence",
        form="yesno",
        images=images,
        question=BilingualText(question),
        answer=BilingualText("yes"),
        mark=VisualPrompt("box", (box,)) if box else VisualPrompt(),
        cluster=cluster or id,
    )
    return {
        "id": id, "task": "t", "benchmark": "ad2_bench", "part": "perception_base", "subtask": "existence",
        "column": "existence", "form": "yesno", "lang": "en", "cluster": cluster or id, "raw": raw,
        "prompt": f"{question} Answer with yes or no.", "status": status, "reason": reason,
        "answer": raw if status == "ok" else None, "note": "",
        "values": {"existence": None if score is None else score / 100}, "score": score, "judge": [], "kind": None,
        "record": asdict(record), **more,
    }  # fmt: skip


def ad2_tasks(
    judge: str | None = "lexical", *, data: str = "ad2_bench", prefix: str = "ad2", **more: Any
) -> dict[str, Any]:
    """A full AD2-Bench run with simple averages: parts 40, 60, 50, 70; average 55."""

    def columns(values: Mapping[str, float], judged: Sequence[str] = ()) -> dict[str, Any]:
        return {k: cell(v, strict=v - 1, judge=judge if k in judged else None) for k, v in values.items()}

    base = columns({"existence": 50, "counting": 40, "location": 60, "detection": 10})
    base["category"] = cell(77.0)
    advanced = columns(
        {"ocr_f1": 80, "ocr_cer": 30, "attribute": 50, "position": 50, "caption_others": 60}, ["caption_others"]
    )
    cot = columns({"sacs": 70, "slps": 72, "orcs": 68, "djss": 70}, ["sacs", "slps", "orcs", "djss"])
    relation = columns({"spatial": 50, "occlusion": 40, "social": 60, "causal": 50})
    parts = {
        "perception_base": (cell(40.0, strict=39.0, ci=[38, 42], unparsed=2), base,
                            {"reasons": {"unparsed:hedged": 2}}),
        "perception_advanced": (cell(60.0, strict=59.0, ci=[58, 62], judge=judge), advanced, {}),
        "relation": (cell(50.0, strict=49.0, ci=[48, 52]), relation, {}),
        "reasoning": (cell(30.0, strict=29.0, ci=[28, 32], judge=judge), {"reasoning": cell(30.0, judge=judge)}, {}),
        "cot": (
            cell(70.0, strict=69.0, ci=[68, 72], unscored=1, judge=judge), cot,
            {"reasons": {"unscored:judge_timeout": 1}, "variant": {"style": "chain"}},
        ),
    }  # fmt: skip
    return {
        f"{prefix}_{part}": task("ad2_bench", part, score, cols, data=data, **{**extra, **more})
        for part, (score, cols, extra) in parts.items()
    }
