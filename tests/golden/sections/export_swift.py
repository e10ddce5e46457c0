"""`ad2 export swift`: rows, cards, drawn pictures and found leaks of the real DriveLM sample, CODA-LM and AD2-Bench.

Questions are built from the real sample by `ad2 mcq build --llm rules` and split by scene; the others are small
generated layouts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import data_layouts
from workspace import Workspace, digest, file_names, json_digest, read_jsonl

COST = "minutes"
NOT_COMPARED = ("version", "sha256")  # hash of the file: it contains absolute paths
EXPORTS: dict[str, tuple[str, ...]] = {
    "mcq": ("--tasks", "ad2_mcq_*"),
    "mcq_drawn": ("--tasks", "ad2_mcq_planning", "--shuffle", "--seed", "5", "--limit", "30"),
    "mosaic": ("--tasks", "ad2x_mcq_planning_mosaic", "--limit", "5"),
    "coda": ("--tasks", "ad2_coda_*"),
    "bench": ("--tasks", "bench_ad2,ad2x_cot_rounds,ad2x_cot_zh"),
    "two_sets": ("--tasks", "ad2_coda_region,ad2_cot"),
}
LEAKING: dict[str, tuple[str, ...]] = {
    "leaks": ("--tasks", "bench_coda_lm"),
    "leaks_dropped": ("--tasks", "bench_coda_lm", "--drop-leaks"),
    "scenes": ("--tasks", "ad2_mcq_*"),
    "scenes_allowed": ("--tasks", "ad2_mcq_*", "--allow-shared-scenes"),
    "scenes_dropped": ("--tasks", "ad2_mcq_*", "--drop-leaks"),
}
CODES = {"leaks": 2, "leaks_dropped": 2, "scenes": 2, "scenes_dropped": 2}


def record(work: Workspace) -> dict[str, Any]:
    _questions(work)
    for split in ("train", "test"):
        _import(
            work, "autodrive_qa", work.folder / f"{split}.jsonl", split, "--images", work.folder / "made" / "images"
        )
        coda = data_layouts.coda_lm(work.folder / f"coda_{split}", split=split.title())
        _import(work, "coda_lm", coda, split, "--partial")
    bench = data_layouts.ad2_bench(work.folder / "bench")
    _import(work, "ad2_bench", bench, "train", "--skip-bad")
    found = {name: _exported(work, name, words, 0) for name, words in EXPORTS.items()}
    # The same pictures in training as in evaluation; the same scenes in both.
    _import(work, "coda_lm", _same_as_test(work), "train", "--partial")
    _share_scenes(work)
    found |= {name: _exported(work, name, words, CODES.get(name, 0)) for name, words in LEAKING.items()}
    return found


def _import(work: Workspace, release: str, source: Path, split: str, *words: str | Path) -> None:
    work.run("ad2", "data", "import", release, source, "--split", split, *words)


def _questions(work: Workspace) -> None:
    """train.jsonl and test.jsonl, of different scenes."""
    real = work.data / "drivelm"
    work.run(
        "ad2", "mcq", "build", "--source", f"drivelm={real / 'train_sample.json'}", "--images", real / "images",
        "--llm", "rules", "--out", "made", "--no-progress", "--total", "240", "--seed", "1",
        code=1,  # sub-tasks whose kinds the rules leave out fall short of a total
    )  # fmt: skip
    work.run("ad2", "mcq", "split", "made/questions.jsonl", "--test", "0.5", "--out", work.folder)


def _same_as_test(work: Workspace) -> Path:
    """CODA-LM's Train with the pictures of Test under Train's names."""
    again = data_layouts.coda_lm(work.folder / "again", split="Train")
    for picture in sorted((again / "val" / "images").iterdir()):
        source = work.folder / "coda_test" / "test" / "images" / picture.name
        picture.write_bytes(source.read_bytes())
    return again


def _share_scenes(work: Workspace) -> None:
    """Train and test sets of the same scenes: the questions of alternate key frames."""
    rows = read_jsonl(work.folder / "made" / "questions.jsonl")
    frames = sorted({row["images"][0] for row in rows})
    for part, split in enumerate(("train", "test")):
        chosen = [row for row in rows if frames.index(row["images"][0]) % 2 == part]
        path = data_layouts.write_lines(work.folder / f"mixed_{split}.jsonl", chosen)
        _import(work, "autodrive_qa", path, split, "--images", work.folder / "made" / "images")


def _exported(work: Workspace, name: str, words: tuple[str, ...], code: int) -> dict[str, Any]:
    out = work.folder / name / "train.jsonl"
    done = work.run("ad2", "export", "swift", *words, "--out", out, code=code)
    found: dict[str, Any] = {"code": done.returncode, "files": sorted(set(file_names(out.parent)))}
    leaks = out.with_suffix(".leaks.jsonl")
    if leaks.exists():
        rows = [_plain(work, row) for row in read_jsonl(leaks)]
        found["leaks"] = {"n": len(rows), "first": rows[:3], "rows": digest("".join(map(json_digest, rows)))}
    if code == 0:
        card = json.loads(out.with_suffix(".card.json").read_text("utf-8"))
        rows = [_plain(work, row) for row in read_jsonl(out)]
        found["card"] = _plain(work, {k: v for k, v in card.items() if k not in NOT_COMPARED})
        found["rows"] = [f"{row['id'][:40]} {json_digest(row)[:16]}" for row in rows]
        found["drawn"] = sorted(f"{digest(p)[:16]}" for p in out.parent.rglob("*.jpg"))
    return found


def _plain(work: Workspace, value: Any) -> Any:
    """Without the paths of this machine. Names of drawn pictures are hashes of their content and are kept."""
    return work.scrub(value, replace={str(work.data): "<data>"})
