"""`ad2 annotate` without a browser: folders, drafts from a file, export, merge by majority and agreement.

The page writes the reviewers' actions to actions.jsonl; here the same lines are written without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import data_layouts
from workspace import Workspace, file_names, json_digest, read_jsonl

COST = "seconds"
ANNA, BO, CY = "anna", "bo", "cy"
PIECES = {
    "a/region": {"answer": ("", "", "A dog ahead.")},
    "a/cot": {f"step.{n}": (name, f"{name}?", f"{name} is fine.")
              for n, name in enumerate(("weather", "vehicles", "decision"), 1)},
    "a/mc": {f"option.{letter}": (f"{letter} · {kind}", "", word) for letter, kind, word in
             (("A", "distractor", "cat"), ("B", "correct", "dog"), ("C", "logical inconsistencies", "cow"))},
    "b/general": {"answer": ("", "", "A dog ahead.")},
}  # fmt: skip
DRAFTS = (
    {"id": "a/region", "model": "toy", "answer": "A cat."},
    {"id": "a/cot", "raw": ["Fog.", "Two cars.", "Brake."]},
    {"id": "a/mc", "answer": "B"},
    {"id": "zzz", "answer": "No such record."},
    {"id": "b/general", "steps": [{"name": "n", "question": "q", "answer": "a"}], "answer": "One car.",
     "objects": [{"category": "vehicles", "text": "a van"}]},
)  # fmt: skip


def record(work: Workspace) -> dict[str, Any]:
    source = data_layouts.records(work.folder / "source")
    _drop_invalid_row(source)
    drafts = data_layouts.write_lines(work.folder / "drafts.jsonl", DRAFTS)
    notes = _annotate(work, "notes", source, "--scale", "5")
    drafted = _annotate(work, "drafted", source, "--pre", drafts)
    nothing = work.run("ad2", "annotate", "export", notes, "--out", "none.jsonl", code=1).returncode
    data_layouts.write_lines(notes / "actions.jsonl", list(_actions()))
    return {
        "folder": {name: _content(work, notes / name) for name in ("annotation.json", "records.jsonl")},
        "drafts": read_jsonl(drafted / "pre.jsonl"),
        "draft_kept": _draft_kept(work, drafted),
        "nothing_finished": nothing,
        "exports": {reviewer: _export(work, "--reviewer", reviewer) for reviewer in (ANNA, BO, CY)},
        "majority": _export(work, "--merge", "majority"),
        "nobody_named": work.run("ad2", "annotate", "export", notes, "--out", "x.jsonl", code=2).returncode,
        "agreement": json.loads(work.run("ad2", "annotate", "agreement", notes, "--json").stdout),
        "pictures": _from_pictures(work),
        "limited": _content(work, _annotate(work, "limited", source, "--limit", "2", "--lang", "zh") / "records.jsonl"),
    }


def _drop_invalid_row(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), "utf-8")


def _annotate(work: Workspace, name: str, source: Path, *words: str | Path) -> Path:
    work.run("ad2", "annotate", source, "--out", name, "--no-page", *words)
    return work.folder / name


def _content(work: Workspace, path: Path) -> Any:
    if path.suffix == ".json":
        return work.scrub(json.loads(path.read_text("utf-8")))
    return [f"{row['id']} {json_digest(row)[:24]}" for row in work.scrub(read_jsonl(path))]


def _export(work: Workspace, *words: str, folder: str = "notes") -> list[Any]:
    """The exported records, in full: they are few."""
    out = work.folder / f"{folder}_{words[-1]}.jsonl"
    work.run("ad2", "annotate", "export", folder, "--out", out, *words)
    return read_jsonl(out)


def _draft_kept(work: Workspace, drafted: Path) -> list[Any]:
    """Export after "keep" verdicts on a draft's text and on a record's own text, which the page does not show."""
    lines = [
        _verdict(ANNA, "a/region", "answer", "keep", ("", "", "A cat.")),
        _field(ANNA, "a/region", "complete", True),
        _verdict(ANNA, "b/general", "answer", "keep", PIECES["b/general"]["answer"]),
        _field(ANNA, "b/general", "complete", True),
    ]
    data_layouts.write_lines(drafted / "actions.jsonl", lines)
    return _export(work, "--reviewer", ANNA, folder="drafted")


def _from_pictures(work: Workspace) -> dict[str, Any]:
    """Records of a folder of pictures, with boxes in our form, and a second start in the same folder."""
    pictures = work.folder / "pictures"
    for number, name in enumerate(("a.png", "b.jpg")):
        data_layouts.picture(pictures / name, 60 * number)
    boxes = work.folder / "boxes.json"
    boxes.write_text(
        json.dumps({"a.png": [{"box": [10, 20, 60, 90]}, {"box": [1, 2, 30, 40], "category": "car"}]}), "utf-8"
    )
    folder = _annotate(work, "blank", pictures, "--boxes", boxes)
    first = work.scrub(read_jsonl(folder / "records.jsonl"))
    asked = _annotate(work, "asked", pictures, "--ask", "suggestion,chain")
    again = _annotate(work, "blank", pictures, "--boxes", boxes)
    assert work.scrub(read_jsonl(again / "records.jsonl")) == first
    return {"records": first, "suggestion_and_chain": _content(work, asked / "records.jsonl"),
            "files": file_names(folder)}  # fmt: skip


def _actions() -> Iterator[dict[str, Any]]:
    """Actions of three reviewers: keep, change, delete, add, score, mark. Two of them finish everything."""
    for reviewer, count in ((ANNA, 4), (BO, 4), (CY, 3)):
        for name in list(PIECES)[:count]:
            for key, values in PIECES[name].items():
                yield _verdict(reviewer, name, key, "keep", values)
            yield _field(reviewer, name, "complete", not (reviewer == CY and name == "a/mc"))
    for place, (reviewer, score) in enumerate(((ANNA, 1), (BO, 1), (ANNA, 2), (BO, 3), (CY, 2), (ANNA, 5), (BO, 5))):
        yield _field(reviewer, ("a/region", "a/cot", "a/mc")[place // 3], _score_field(place), score)
    yield _verdict(ANNA, "a/region", "answer", "change", ("", "", "A brown dog."))
    yield _verdict(BO, "a/region", "answer", "change", ("", "", "A brown dog ahead."))
    yield _verdict(BO, "a/cot", "step.2", "delete", PIECES["a/cot"]["step.2"])
    yield _verdict(CY, "a/cot", "step.2", "delete", PIECES["a/cot"]["step.2"])
    for reviewer, text in ((ANNA, "People wait."), (BO, "People wait!"), (CY, "Nobody.")):
        yield _verdict(reviewer, "a/cot", f"step.new-{reviewer}", "add", ("people", "Who is there?", text))
    yield _verdict(ANNA, "a/mc", "option.A", "delete", PIECES["a/mc"]["option.A"])
    yield _field(ANNA, "a/region", "mark", {"kind": "box", "coords": [[1, 2, 3, 4.5]]})
    yield _field(BO, "a/region", "mark", {"kind": "box", "coords": [[1, 2, 3, 4.5]]})
    yield _field(ANNA, "a/cot", "order", ["step.3", "step.1", "step.2", "step.new-anna"])
    yield _field(BO, "b/general", "note", "hm")
    yield _field(BO, "b/general", "note", None)


def _score_field(place: int) -> str:
    return "score/" + ("answer", "step.1", "option.B")[place // 3]


def _verdict(reviewer: str, name: str, key: str, verdict: str, values: tuple[str, str, str]) -> dict[str, Any]:
    fields = dict(zip(("name", "question", "text"), values, strict=True))
    return _field(reviewer, name, key, {"verdict": verdict, **fields})


def _field(reviewer: str, name: str, field: str, after: Any) -> dict[str, Any]:
    return {"time": "2026-01-02T03:04:05.678+00:00", "reviewer": reviewer, "id": name, "field": field, "action": "set",
            "before": None, "after": after}  # fmt: skip
