"""CODA-LM's official evaluation against ours: the same requests, and the same scores from the same replies.

The official scripts are executed in a process of their own, with an `openai` module that records requests and replies.
They come from a checkout of DLUT-LYZ/CODA-LM, which is not part of the test data, so CI has none either:

    AD2_CODA_CHECKOUT=~/CODA-LM pytest tests/e2e/test_official_judge.py
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.coda_data import answer_rows, import_coda, write_answers
from support.running import run

from lmms_eval_ad2.data.releases.coda_answers import FILES
from lmms_eval_ad2.harness.answer_files import join_answers, score_answers
from lmms_eval_ad2.judge import make_judge
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.testing.fake_endpoint import serve

CHECKOUT = os.environ.get("AD2_CODA_CHECKOUT", "")
needs_checkout = pytest.mark.skipif(not CHECKOUT, reason="AD2_CODA_CHECKOUT is not set; no test data contain it")
FORMS = ("Fine.\nRating: [[{}]]", "The rating is: [[{}]]", "So [[{}]] of [[10]]", "Rating: [[{} ]]", "Rating: {}")
FAKE_OPENAI = """
import hashlib, json, os, threading
from types import SimpleNamespace
FORMS = {forms!r}
lock = threading.Lock()
class OpenAI:
    def __init__(self, **settings):
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
    def create(self, **body):
        with lock, open(os.environ["RECORDED"], "a", encoding="utf-8") as file:
            file.write(json.dumps(body) + "\\n")
        digest = hashlib.sha256(body["messages"][-1]["content"].encode()).digest()
        text = FORMS[digest[0] % len(FORMS)].format(1 + digest[1] % 10)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])
"""
ODD = (
    " leading and trailing \n",
    "Rating: [[10]] <<<END>>> {0}",
    "```\nfenced\n```",
    "Answer: 白色卡车 🚚",
    "a\tb\r\nc",
)


def reply(body: dict[str, Any]) -> str:
    """The reply of the fake `openai` module."""
    digest = hashlib.sha256(body["messages"][-1]["content"].encode()).digest()
    return FORMS[digest[0] % len(FORMS)].format(1 + digest[1] % 10)


def official(tmp_path: Path, answers: Path) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """All requests of the official scripts for an answer folder, and the score that each stage prints."""
    scripts, recorded = Path(CHECKOUT) / "evaluation", tmp_path / "recorded.jsonl"
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "openai.py").write_text(FAKE_OPENAI.format(forms=FORMS), "utf-8")
    reference = tmp_path / "release" / "coda_test" / "CODA-LM" / "Test"
    env = {"PYTHONPATH": str(modules), "RECORDED": str(recorded)}
    region = answers / FILES["region"]
    given = ("--reference_path", str(reference), "--prediction_path")
    run(sys.executable, str(scripts / "convert2eval.py"), *given, str(region), cwd=tmp_path, **env)
    paths = {"general": answers / FILES["general"], "suggestion": answers / FILES["suggestion"]}
    paths["region"] = region.with_name(region.stem + "_w_label.jsonl")
    scores = {}
    for number, (part, path) in enumerate(paths.items(), 1):
        command = (sys.executable, str(scripts / f"stage{number}_eval_batch.py"), *given, str(path))
        done = run(
            *command, "--save_path", str(tmp_path / part), "--model_name", "m", "--api_key", "k", cwd=tmp_path, **env
        )
        (score,) = re.findall(rf"^Stage{number}_score: ([\d.]+)$", done.stdout, re.MULTILINE)
        scores[part] = float(score)
    return [json.loads(line) for line in recorded.read_text("utf-8").splitlines()], scores


@needs_checkout
@pytest.mark.integration
def test_requests_and_scores_are_those_of_the_official_scripts(tmp_path: Path) -> None:
    import_coda(tmp_path / "release", n=6, regions=2)
    rows = {part: answer_rows(part, n=6) for part in FILES}
    for part_rows in rows.values():
        for row, odd in zip(part_rows, ODD, strict=False):
            row["answer"] = odd
    answers = write_answers(tmp_path / "answers", rows)
    theirs, scores = official(tmp_path, answers)
    spec = {"backend": "openai", "model": "m", "official_dir": CHECKOUT, "wording": "official"}
    with serve(reply=reply, keep_bodies=True) as server:
        judge = make_judge({**spec, "base_url": server.url})
        tables = score_answers(join_answers(answers, "test", "en"), tmp_path / "out", lambda: judge, "x")

    def raw(body: dict[str, Any]) -> str:
        return json.dumps(body, sort_keys=True, ensure_ascii=False)

    assert len(theirs) == 6 + 6 + 12
    assert Counter(map(raw, server.bodies)) == Counter(map(raw, theirs))
    for part, score in scores.items():
        assert tables[f"ad2_coda_{part}"]["score"]["official"] == pytest.approx(10 * score)
        assert tables[f"ad2_coda_{part}"]["judge"] == "openai:m (official CODA-LM wording)"


@needs_checkout
def test_questions_are_those_that_the_official_converter_writes() -> None:
    source = (Path(CHECKOUT) / "convert2vqa.py").read_text("utf-8")
    prompts = PromptSet.load(f"coda_lm:{CHECKOUT}")
    for task in ("general", "suggestion", "region"):
        question = prompts.fill(f"coda_{task}", "en", question="", mark="")
        assert f'question="{question}"' in source
        assert prompts.fill(f"coda_{task}", "zh", question="", mark="") == question
