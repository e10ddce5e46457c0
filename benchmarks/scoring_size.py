"""The scoring stage at the full size of AD2-Bench: records/s, and peak memory at two sizes."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measured_json import in_own_process, scaled

SMALL, FULL = 7_000, 70_000


def measure(scale: float) -> dict[str, float]:
    """Each size in a separate process, since peak memory is measured per process. A scale above 1 changes nothing."""
    small_size, full_size = (scaled(n, min(scale, 1.0)) for n in (SMALL, FULL))
    small, full = (in_own_process(__file__, n) for n in (small_size, full_size))
    rate = full_size / full["seconds"]
    return {
        "records_per_s": rate,
        "peak_mb_of_a_tenth": small["peak_mb"],
        "peak_mb": full["peak_mb"],
        "memory_ratio": full["peak_mb"] / small["peak_mb"],
        "time_per_record_ratio": small_size / small["seconds"] / rate,
    }


def answered(size: int) -> Iterator[tuple[Any, str]]:
    """Synthetic records (exact-scored forms and free text) with a reply each, generated one at a time."""
    from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Record

    options = tuple(AnswerOption(x, BilingualText(f"a longer option text {x} for a road scene")) for x in "ABCDEF")
    for i in range(size):
        form, subtask, answer, reply = (
            ("mc", "existence", "x", f"The answer is ({'ABCDEF'[i % 6]})."),
            ("count", "counting", str(i % 9), f"There are {i % 7} cars."),
            ("point", "location", "<100,200>", f"<{i % 960},{i % 540}>"),
            ("box", "detection", "[10, 10, 50, 90]", f"<OUTPUT START>[{i % 40}, 5, 60, 80]<OUTPUT END>"),
            ("vqa", "category", "A red truck blocks the right lane ahead.", "There is a truck in the right lane."),
        )[i % 5]
        yield (
            Record(
                f"r{i}",
                "ad2_bench",
                "perception_base",
                subtask,
                form,  # type: ignore[arg-type]
                (f"{i // 7}.jpg",),
                BilingualText("What is in the marked region of this image?"),
                BilingualText(answer),
                "A" if form == "mc" else "",
                options if form == "mc" else (),
                image_size=(960, 540),
                cluster=str(i // 7),
                scene={"weather": "fog"},
            ),
            reply,
        )


def inside(size: int) -> dict[str, float]:
    from lmms_eval_ad2.judge import make_judge
    from lmms_eval_ad2.scoring import pipeline
    from lmms_eval_ad2.scoring.sample import score_sample
    from lmms_eval_ad2.scoring.variant import TaskVariant

    variant = TaskVariant("ad2_bench", "perception_base")
    judge = make_judge("lexical")
    samples = (score_sample(r, reply, variant, "bench", "prompt") for r, reply in answered(size))
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        table, _ = pipeline.score_task(samples, "bench", variant, lambda: judge, Path(folder), progress=False)
        seconds = time.perf_counter() - started
    assert table["n"] == size
    return {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    print(json.dumps(inside(int(sys.argv[1]))))
