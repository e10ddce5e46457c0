"""A judge for a fake endpoint and items of every rubric, for tests of LLM judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmms_eval_ad2.judge import Judge, JudgeItem, make_judge
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer


def judge_for(server: FakeEndpointServer, cache: Path | None = None, **settings: Any) -> Judge:
    base = {
        "backend": "openai",
        "model": "fake-1",
        "base_url": server.url,
        "backoff": 0.001,
        "concurrency": 8,
        "max_retries": 1,
    }
    return make_judge({**base, **settings}, cache=cache)


def items(n: int, rubric: str = "coda_region") -> list[JudgeItem]:
    return [JudgeItem(f"s{i}", rubric, f"answer number {i}", f"reference number {i}") for i in range(n)]


COMPARING = ("coda_general", "coda_suggestion", "coda_region", "ad2_sacs", "ad2_vqa")
ONE_OF_EACH = [
    *(JudgeItem(r, r, "a red car", "a red car") for r in COMPARING),
    JudgeItem("ad2_slps", "ad2_slps", "b", steps=("a", "b")),
    JudgeItem("ad2_orcs", "ad2_orcs", "c", steps=("a", "b", "c")),
    JudgeItem("ad2_djss", "ad2_djss", "c", steps=("a", "b")),
]
