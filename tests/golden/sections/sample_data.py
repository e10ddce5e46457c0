"""The bundled sample: digests of every picture, every record and the manifests of its three data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workspace import Workspace, digest, file_names, json_digest, read_jsonl

COST = "seconds"
SETS = ("sample_ad2_bench", "sample_coda_lm", "sample_autodrive_qa")
DIFFERENT_EACH_TIME = ("created", "version", "key")  # key: a hash that includes absolute paths
OF_THE_LIBRARY = "sha256"  # hash of a parquet file: depends on the library that writes it, unlike `content`


def record(work: Workspace) -> dict[str, Any]:
    images = work.home / "data" / "sample_images"
    records = {name: _records(work, name) for name in SETS}
    return {
        "files": file_names(work.home),
        "images": {str(path.relative_to(images)): digest(path) for path in sorted(images.rglob("*.jpg"))},
        "version": (images / "version").read_text("utf-8"),
        "records": records,
        "manifests": {name: _manifest(work, name) for name in SETS},
        "list": [row["name"] for row in json.loads(work.run("ad2", "data", "list", "--json").stdout)],
        "verify": {
            name: json.loads(work.run("ad2", "data", "verify", name, "--images", "--json").stdout) for name in SETS
        },
    }


def _records(work: Workspace, name: str) -> list[str]:
    """Id, form and digest of every record, in order; the annotation page keeps the records as lines of JSON."""
    notes = work.folder / name
    work.run("ad2", "annotate", name, "--out", notes, "--no-page")
    rows = read_jsonl(notes / "records.jsonl")
    return [f"{row['id']} {row['form']} {json_digest(row)[:24]}" for row in rows]


def _manifest(work: Workspace, name: str) -> Any:
    path: Path = work.home / "data" / name / "test" / "manifest.json"
    data = work.scrub(json.loads(path.read_text("utf-8")), drop=DIFFERENT_EACH_TIME)
    for part in data["parts"]:
        part.pop(OF_THE_LIBRARY)
    return data
