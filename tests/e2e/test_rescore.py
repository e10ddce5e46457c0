"""`ad2 rescore` with an LLM judge: the address is printed before it is asked, and the replies are in the samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.builders import record

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.records import BilingualText
from lmms_eval_ad2.judge.backends.lexical import LexicalJudge
from lmms_eval_ad2.scoring.pipeline import score_task
from lmms_eval_ad2.scoring.result_files import read_samples, write_summary
from lmms_eval_ad2.scoring.sample import score_sample
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration
FREE = TaskVariant("ad2_bench", "perception_base", form="vqa")


def test_address_and_replies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AD2_JUDGE", "lexical")  # restored, whatever the command sets
    run, new = tmp_path / "run", tmp_path / "new"
    answers = [score_sample(record(f"r{i}", "vqa", answer=BilingualText("a bus")), "a bus", FREE, "t") for i in (1, 2)]
    table, _ = score_task(answers, "t", FREE, LexicalJudge, run, progress=False)
    write_summary(run, {"model": "m", "label": "m", "versions": {}}, {"t": {**table, "data": {"image_root": "."}}})
    reply = "Both name a bus, so nothing is missing. Rating: [[9]]"
    with serve(reply=lambda body: reply) as server:
        spec = f"openai:model=m,base_url={server.url}"
        assert main(["rescore", str(run), "--judge", spec, "--out", str(new)]) == 0
    assert f"ad2: judge openai:m at {server.url}\n" in capsys.readouterr().err
    assert [entry["reply"] for row in read_samples(new, "t") for entry in row["judge"]] == [reply, reply]
    assert main(["report", str(new), "--sample", "r1", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["samples"]
    assert found["sample"]["judge"][0]["reply"] == reply


def test_the_default_judge_is_named_if_the_run_had_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AD2_JUDGE", raising=False)
    run = tmp_path / "run"
    answers = [score_sample(record(f"r{i}", "vqa", answer=BilingualText("a bus")), "a bus", FREE, "t") for i in (1, 2)]
    table, _ = score_task(answers, "t", FREE, LexicalJudge, run, progress=False)
    said = "ad2: the run was judged by openai:m, this is lexical; the same judge: --judge SPEC\n"
    for label, expected in (("openai:m", said), ("lexical", "")):
        about = {"model": "m", "label": "m", "versions": {}, "judge": {"label": label}}
        write_summary(run, about, {"t": {**table, "data": {"image_root": "."}}})
        assert main(["rescore", str(run), "--out", str(tmp_path / f"new {label[:3]}")]) == 0
        assert capsys.readouterr().err == expected
