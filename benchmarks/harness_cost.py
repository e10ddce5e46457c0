"""Run time of our tasks relative to a minimal lmms-eval task over the same documents, alternating in one process.

Both tasks decode every image in `doc_to_visual`; the model answers "A" at once. Ours also writes a journal and samples,
scores, and computes intervals.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measured_json import in_own_process, scaled

DOCUMENTS, ROUNDS = 500, 4
SIZE = (1600, 900)  # nuScenes' size; CODA's and ACDC's images are larger

LEAN = """
task: lean_mc
dataset_path: parquet
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_visual: !function lean_hooks.doc_to_visual
doc_to_text: question
doc_to_target: answer
process_results: !function lean_hooks.process_results
generation_kwargs: {{max_new_tokens: 8, until: []}}
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
HOOKS = """
from PIL import Image
def doc_to_visual(doc):
    return [Image.open(doc["image"]).convert("RGB")]
def process_results(doc, results):
    return {"acc": float(results[0].strip() == doc["answer"])}
"""


def measure(scale: float) -> dict[str, float]:
    """Run in a separate process with its own data home."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "AD2_HOME": folder, "HF_HUB_OFFLINE": "1", "AD2_JUDGE": "lexical", "TQDM_DISABLE": "1",
            "HF_DATASETS_CACHE": f"{folder}/hf",
        }  # fmt: skip
        return in_own_process(__file__, folder, scaled(ROUNDS, scale), environment=environment)


def prepare(folder: Path) -> None:
    """Write the same documents to our data home and to a plain parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record
    from lmms_eval_ad2.data.home import open_dataset, write_dataset
    from lmms_eval_ad2.data.sample import ensure_sample

    ensure_sample()
    source = open_dataset("sample_ad2_bench", "test")
    rows = [r for p in source.parts for r in pq.read_table(p)["record"].to_pylist()]
    images = []
    for i, name in enumerate(sorted({Record.from_json(r).images[0] for r in rows})):
        with Image.open(Path(source.image_root) / name) as drawn:
            drawn.resize(SIZE).save(folder / f"{i}.jpg", quality=90)
        images.append(f"{i}.jpg")
    options = tuple(AnswerOption(x, BilingualText(f"option {x}")) for x in "ABCDEF")
    records = [
        Record(f"d{i}", "ad2_bench", "perception_base", "existence", "mc", (images[i % len(images)],),
               BilingualText(f"Question {i}: which of these is in the image?"), BilingualText("option A"), "A", options)
        for i in range(DOCUMENTS)
    ]  # fmt: skip
    write_dataset("ad2_bench", "test", records, image_root=folder, source={"made": "benchmark"})
    table = pa.table(
        {
            "question": [r.question.en for r in records],
            "answer": [r.letter for r in records],
            "image": [str(folder / r.images[0]) for r in records],
        }
    )
    pq.write_table(table, folder / "lean.parquet")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "lean.yaml").write_text(LEAN.format(data=folder / "lean.parquet"))
    (folder / "lean_hooks.py").write_text(HOOKS)
    sys.path.insert(0, str(folder))


def inside(folder: Path, rounds: int) -> dict[str, float]:
    prepare(folder)
    from lmms_eval import evaluator
    from lmms_eval.api.model import lmms
    from lmms_eval.tasks import TaskManager

    class Instant(lmms):
        is_simple = True
        batch_size = 64

        def generate_until(self, requests: list) -> list[str]:
            for r in requests:
                _, _, visual, doc_id, task, split = r.args
                visual(self.task_dict[task][split][doc_id])
            return ["A"] * len(requests)

        def loglikelihood(self, requests: list) -> list:
            return []

        def generate_until_multi_round(self, requests: list) -> list:
            return []

    manager = TaskManager(include_path=str(folder / "tasks"), model_name="instant")
    times: dict[str, list[float]] = {"lean_mc": [], "ad2_perception_base": []}
    for i in range(rounds + 1):
        for task, kept in times.items():
            cli = argparse.Namespace(output_path=str(folder / f"out{i}"), process_with_media=False, limit=None)
            started = time.perf_counter()
            evaluator.simple_evaluate(
                model=Instant(), tasks=[task], task_manager=manager, batch_size=64, log_samples=False, cli_args=cli
            )
            if i:  # the first round fills the caches of both
                kept.append(time.perf_counter() - started)
    return _figures(times)


def _figures(times: dict[str, list[float]]) -> dict[str, float]:
    lean, ours = (statistics.median(times[t]) for t in times)
    ratios = [b / a for a, b in zip(times["lean_mc"], times["ad2_perception_base"], strict=True)]
    return {
        "lean_ms_per_document": 1000 * lean / DOCUMENTS,
        "ours_ms_per_document": 1000 * ours / DOCUMENTS,
        "ratio": statistics.median(ratios),
        "worst_ratio": max(ratios),
    }


if __name__ == "__main__":
    import contextlib

    with contextlib.redirect_stdout(sys.stderr):
        result = inside(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(result))
