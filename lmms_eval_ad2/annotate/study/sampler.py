"""Sampling of a study: records that two or more runs answered in free text, the same for every pair of runs.

CODA-LM section 5.4 compares the answers of models to 100 samples of each task.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate.study.folder import AnswerPair, PairwiseStudy
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.judge.agreement import TIE
from lmms_eval_ad2.parsing import failure_reason
from lmms_eval_ad2.scoring.result_files import read_samples, read_summary
from lmms_eval_ad2.storage.saved_samples import read_record

Answers = dict[str, tuple[str, dict[str, Any]]]  # id of a record -> answer and row of the samples file
DEFAULT_ITEMS = 100


def draw(runs: Sequence[Path], out: Path, *, n: int = DEFAULT_ITEMS, seed: int = 0) -> PairwiseStudy:
    """Draw `n` records of each task, all if there are fewer, and write the study.

    Raises Ad2Error for fewer than two runs, equal labels, or no task in common; DataError for runs on other data.
    """
    if len(runs) < 2:
        raise Ad2Error("a study compares runs: name two or more run folders")
    summaries: dict[str, tuple[Path, dict[str, Any]]] = {}
    for folder in runs:
        summary = read_summary(folder)
        label = str(summary["run"].get("label") or folder.name)
        if label in summaries or label == TIE:
            raise Ad2Error(f"{folder}: another run is named {label!r}; a study compares runs of different names")
        summaries[label] = (folder, summary)
    found, roots, drawn = [], {}, {}
    for task in dict.fromkeys(task for _, summary in summaries.values() for task in summary["tasks"]):
        tables = {label: s["tasks"][task] for label, (_, s) in summaries.items() if task in s["tasks"]}
        answers = {label: _answers(summaries[label][0], task) for label in tables}
        pairs, common, items = _of_task(task, answers, n, random.Random(f"{seed}:{task}"))
        if not pairs:
            continue
        _check_data(task, tables)
        found += pairs
        roots[task] = str(next(iter(tables.values())).get("data", {}).get("image_root"))
        drawn[task] = {"common": common, "items": items, "pairs": len(pairs)}
    if not found:
        raise Ad2Error("these runs have no free-text task in common, with answers of two of them to the same record")
    named = {label: str(folder.resolve()) for label, (folder, _) in summaries.items()}
    study = PairwiseStudy(out, seed, named, roots, drawn, tuple(found))
    study.save()
    return study


def _answers(folder: Path, task: str) -> Answers:
    """The free-text answers of a run; failed requests and empty replies are no answers."""
    found: Answers = {}
    for row in read_samples(folder, task):
        raw = row.get("raw")
        if row.get("form") == "vqa" and isinstance(raw, str) and raw.strip() and failure_reason(raw) is None:
            found[str(row.get("id"))] = (raw, row)
    return found


def _of_task(
    task: str, answers: Mapping[str, Answers], n: int, chance: random.Random
) -> tuple[list[AnswerPair], int, int]:
    """The pairs of the drawn records in random order, the records with two answers, and the records drawn."""
    models = list(answers)
    common = sorted({id for a, b in combinations(models, 2) for id in answers[a].keys() & answers[b].keys()})
    chosen = chance.sample(common, min(n, len(common)))
    pairs = []
    for id in chosen:
        for a, b in combinations([m for m in models if id in answers[m]], 2):
            (first, row), (second, _) = answers[a][id], answers[b][id]
            record = read_record(Path(f"{task}.jsonl"), id, row)
            pairs.append(AnswerPair(task, id, (a, b), (first, second), str(row.get("prompt")), record))
    chance.shuffle(pairs)
    return pairs, len(common), len(chosen)


def _check_data(task: str, tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise Ad2Error if the runs were asked other records under the same names."""
    shas = {label: str(table.get("data", {}).get("sha256")) for label, table in tables.items()}
    if len(set(shas.values())) > 1:
        each = ", ".join(f"{label} {sha[:8]}" for label, sha in shas.items())
        raise Ad2Error(f"task {task}: the runs are on different data (sha256: {each})")
