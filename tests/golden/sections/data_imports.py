"""`ad2 data import`, `list` and `verify` of every release: manifests, digests of every record, bad rows, resuming.

The real DriveLM sample, and small layouts of the others. Hashes of parquet files depend on the library that
writes them and are left out; hashes of their content are recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_layouts
from workspace import Workspace, file_names, json_digest, read_jsonl

COST = "minutes"
DIFFERENT_EACH_TIME = ("created", "version", "key")  # key: a hash that includes absolute paths


def record(work: Workspace) -> dict[str, Any]:
    sources = _sources(work)
    found = {name: _imported(work, name, *words) for name, words in sources.items()}
    listed = json.loads(work.run("ad2", "data", "list", "--json").stdout)
    return {
        "imports": found,
        "list": [f"{manifest['name']} {manifest['split']} {manifest['n']}" for manifest in listed],
        "refused": _refused(work),
        "again": _again(work),
        "files": [name for name in file_names(work.home) if "/images/" not in name],
    }


def _sources(work: Workspace) -> dict[str, tuple[str | Path, ...]]:
    """Name in the data home -> release, file or folder, and options."""
    real, made = work.data / "drivelm", data_layouts
    bench, records = made.ad2_bench(work.folder / "bench"), made.records(work.folder / "records")
    mcq, questions = made.autodrive_qa(work.folder / "mcq"), made.nuscenes_qa(work.folder / "nuscenes")
    lingo = made.lingoqa(work.folder / "lingo")
    photo = made.picture(work.folder / "photo.jpg", 77)
    partial, skip = ("--partial",), ("--skip-bad",)
    coda = {split: made.coda_lm(work.folder / f"coda_{split}", split=split, chinese=split != "Val")
            for split in ("Test", "Train", "Val", "Mini")}  # fmt: skip
    return {
        "drivelm_train": ("drivelm", real / "train_sample.json", "--check-images"),
        "drivelm_test": ("drivelm", real / "test_eval.json"),
        "drivelm_llama": ("drivelm", real / "test_llama.json"),
        "records": ("records", records, *skip),
        "ad2_bench": ("ad2_bench", bench, *skip, "--check-images"),
        **{f"coda_lm_{split}": ("coda_lm", root, "--split", split.lower(), *partial) for split, root in coda.items()},
        "coda_lm_llava": ("coda_lm", made.coda_llava(work.folder / "llava" / "Mini-00000-of-00001.parquet", photo),
                          "--format", "llava", *skip),
        "nuscenes_qa": ("nuscenes_qa", questions, *partial, *skip),
        "lingoqa_train": ("lingoqa", lingo, "--split", "train"),
        "lingoqa_val": ("lingoqa", lingo, "--split", "val", *partial),
        "lingoqa_file": ("lingoqa", lingo / "action" / "train.parquet"),
        "autodrive_qa": ("autodrive_qa", mcq, *skip, "--check-images"),
    }  # fmt: skip


def _imported(work: Workspace, name: str, *words: str | Path) -> dict[str, Any]:
    """The manifest, each record's digest, the bad rows, and what `verify` finds."""
    work.run("ad2", "data", "import", *words, "--as", name)
    ((folder),) = [path.parent for path in (work.home / "data" / name).glob("*/manifest.json")]
    manifest = work.scrub(
        json.loads((folder / "manifest.json").read_text("utf-8")),
        drop=DIFFERENT_EACH_TIME, replace={str(work.data): "<data>"},
    )  # fmt: skip
    for part in manifest["parts"]:
        part.pop("sha256")
    bad = folder / "bad_rows.jsonl"
    checked = json.loads(work.run("ad2", "data", "verify", name, "--images", "--json").stdout)
    return {
        "manifest": manifest,
        "records": _records(work, name),
        "bad_rows": [{k: v for k, v in row.items() if k in ("row", "field")} for row in read_jsonl(bad)]
        if bad.exists() else [],
        "verify": [{k: v for k, v in verdict.items() if k != "problems"} for verdict in checked],
    }  # fmt: skip


def _records(work: Workspace, name: str) -> list[str]:
    """Digests of the records in order: the annotation page keeps them as lines of JSON."""
    notes = work.folder / "notes" / name
    work.run("ad2", "annotate", name, "--out", notes, "--no-page")
    rows = read_jsonl(notes / "records.jsonl")
    return [f"{row['id'][-20:]} {row['task']} {row['form']} {json_digest(row)[:16]}" for row in rows]


def _refused(work: Workspace) -> dict[str, int]:
    """Exit codes of imports that must be refused."""
    folder = work.folder
    cases: dict[str, tuple[str | Path, ...]] = {
        "a bad row": ("ad2_bench", folder / "bench" / "rows.jsonl"),
        "too few": ("coda_lm", folder / "coda_Test", "--split", "test"),
        "too few questions": ("lingoqa", folder / "lingo", "--split", "val"),
        "another split": ("coda_lm", folder / "coda_Test", "--split", "mini", "--partial"),
        "no such release": ("codalm", folder / "coda_Test"),
        "no such file": ("ad2_bench", folder / "none.jsonl"),
        "a split of no name": ("ad2_bench", folder / "bench" / "rows.jsonl", "--split", "../x", "--skip-bad"),
        "a name of no folder": ("ad2_bench", folder / "bench" / "rows.jsonl", "--as", "a/b", "--skip-bad"),
        "unknown format": ("coda_lm", folder / "coda_Test", "--format", "other"),
    }
    return {name: work.run("ad2", "data", "import", *words, code=2).returncode for name, words in cases.items()}


def _again(work: Workspace) -> dict[str, Any]:
    """Repeated imports: unchanged with equal options, written again with --no-resume or other options. Moved images."""
    source = work.folder / "bench" / "rows.jsonl"
    (part,) = (work.home / "data" / "ad2_bench").rglob("*.parquet")
    modified_ns: Callable[[], int] = lambda: part.stat().st_mtime_ns  # noqa: E731
    unchanged = {}
    for name, words in {"same": (), "no_resume": ("--no-resume",), "unchecked": ("--as", "ad2_bench")}.items():
        before = modified_ns()
        checks = () if name == "unchecked" else ("--check-images",)
        work.run("ad2", "data", "import", "ad2_bench", source, "--skip-bad", "--as", "ad2_bench", *checks, *words)
        unchanged[name] = modified_ns() == before
    moved = work.folder / "moved"
    (work.folder / "bench" / "fog").rename(moved)
    missing = json.loads(work.run("ad2", "data", "verify", "ad2_bench", "--images", "--json", code=1).stdout)
    moved.rename(work.folder / "elsewhere_fog")
    (work.folder / "elsewhere").mkdir()
    (work.folder / "elsewhere_fog").rename(work.folder / "elsewhere" / "fog")
    work.run("ad2", "data", "relocate", "ad2_bench", "--images", work.folder / "elsewhere")
    found = json.loads(work.run("ad2", "data", "verify", "ad2_bench", "--images", "--json").stdout)
    return {
        "left_alone": unchanged,
        "missing_images": [verdict["n_problems"] for verdict in missing],
        "relocated": [(verdict["ok"], verdict["n_problems"]) for verdict in found],
    }
