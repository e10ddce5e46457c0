"""A long open-loop run that is killed again and again: nothing is asked twice, nothing is lost."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.builders import record
from support.running import kill_when, run_folder, run_lmms_eval
from support.tiers import TIER, count

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import serve

IN_FLIGHT = 32
AHEAD = 300  # replies that a run may get beyond the moment of its kill
LETTERS = "ABCDEF"


def item(number: int) -> Record:
    return record(
        f"q{number}", "mc", task="relation", subtask=("spatial", "occlusion", "social", "causal")[number % 4],
        question=BilingualText(f"Where does vehicle {number} wait?"), cluster=f"c{number % 500}", image_size=(32, 18),
        letter=LETTERS[number % 5],
    )  # fmt: skip


def given(number: int) -> str:
    """The model's choice: right for two of three items."""
    return LETTERS[(number + (number % 3 == 0)) % 5]


def answer(body: dict[str, Any]) -> str:
    number = int(re.findall(r"ehicle (\d+)", fake_replies.asked(body))[-1])
    return f"The answer is ({given(number)})."


@pytest.mark.soak
def test_a_long_evaluation_is_resumed_again_and_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    n, kills = count(70_000), count(10)
    Image.new("RGB", (32, 18), "red").save(tmp_path / "a.jpg")
    write_dataset("ad2_bench", "test", map(item, range(n)), image_root=tmp_path, source={"made": "test"})
    dice = random.Random(f"{TIER} {n}")
    moments = sorted(dice.sample(range(IN_FLIGHT, n - 2 * AHEAD), kills))
    with serve(reply=answer) as model:
        args = f"model_version=fake,base_url={model.url},api_key=none,num_concurrent={IN_FLIGHT}"
        command = ["--model", "openai", "--model_args", args, "--tasks", "ad2_relation", "--output_path", str(tmp_path)]
        for moment in moments:
            # However late the kill is, the run has not finished before.
            model.behaviour.failures = lambda *_, most=moment + AHEAD: "hang" if model.replies >= most else "ok"
            kill_when(command, tmp_path, lambda moment=moment: model.replies >= moment)
        model.behaviour.failures = ()
        run_lmms_eval(*command, cwd=tmp_path)
        again = model.requests - n
    assert 0 <= again <= kills * IN_FLIGHT, f"{again} questions were asked again, killed after {moments} replies"
    folder = run_folder(tmp_path)
    rows = [json.loads(line) for line in (folder / "samples" / "ad2_relation.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["status"], row["score"]) for row in rows] == [
        (f"q{k}", "ok", 100.0 * (given(k) == LETTERS[k % 5])) for k in range(n)
    ]
    record_property("records", n)
    record_property("kills", kills)
    record_property("requests sent again", again)
