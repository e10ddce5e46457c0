"""`ad2 drivelm score --json` on the challenge's real sample files, with both tokenizers, and on changed answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workspace import Workspace

COST = "seconds"


def record(work: Workspace) -> dict[str, Any]:
    answers, truth = (work.data / "drivelm" / name for name in ("output.json", "test_eval.json"))
    rows = json.loads(answers.read_text("utf-8"))
    own_truth = _own_truth(work.folder / "own_truth.json")
    return {
        "ptb": _score(work, answers, truth),
        "plain": _score(work, answers, truth, "plain"),
        "truth_as_answers": _score(work, _write(work, "right.json", _correct(rows, truth)), truth, "plain"),
        "some_missing": _score(work, _write(work, "some.json", rows[::2]), truth, "plain"),
        "duplicates_and_strangers": _score(
            work, _write(work, "more.json", [*rows, rows[3], {"id": "zzz", "answer": "No."}]), truth, "plain"
        ),
        "nothing_known": work.run(
            "ad2",
            "drivelm",
            "score",
            _write(work, "none.json", [{"id": "zzz", "answer": "No."}]),
            "--truth",
            own_truth,
            code=2,
        ).returncode,
        "refused": {
            name: work.run("ad2", "drivelm", "score", _text(work, name, text), "--truth", truth, code=2).returncode
            for name, text in {"cut.json": "[1", "empty.json": "", "words.json": "not json"}.items()
        },
    }


def _score(work: Workspace, answers: Path, truth: Path, tokenizer: str = "ptb") -> Any:
    """The command's JSON output."""
    done = work.run("ad2", "drivelm", "score", answers, "--truth", truth, "--tokenizer", tokenizer, "--json")
    return json.loads(done.stdout)


def _correct(rows: list[dict[str, Any]], truth: Path) -> list[dict[str, Any]]:
    """The rows with the truth's answers in place of the model's."""
    correct = {
        f"{scene}_{frame}_{number}": question["A"]
        for scene, content in json.loads(truth.read_text("utf-8")).items()
        for frame, frame_content in content["key_frames"].items()
        for number, question in enumerate(
            q for layer in ("perception", "prediction", "planning", "behavior") for q in frame_content["QA"][layer]
        )
    }
    changed = [{**row, "answer": correct.get(row["id"], row["answer"])} for row in rows]
    assert changed != rows
    return changed


def _own_truth(path: Path) -> Path:
    layers = {"perception": [{"Q": "Wet?", "A": "No.", "tag": [0]}], "prediction": [], "planning": [], "behavior": []}
    path.write_text(json.dumps({"s": {"key_frames": {"f": {"QA": layers}}}}), "utf-8")
    return path


def _write(work: Workspace, name: str, rows: list[dict[str, Any]]) -> Path:
    return _text(work, name, json.dumps(rows))


def _text(work: Workspace, name: str, text: str) -> Path:
    path = work.folder / name
    path.write_text(text, "utf-8")
    return path
