"""AutoDrive-QA rebuilt by rules from real DriveLM questions: two sets of distractors, all orders, one report."""

from __future__ import annotations

import json
from pathlib import Path

from support.running import BIN, run, run_folder, run_lmms_eval, tables

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS

TASKS = ("ad2_mcq_planning", "ad2x_mcq_planning_naive", "ad2x_mcq_planning_circular")


def test_naive_error_modelled_and_rotated_questions_of_one_source(data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "drivelm"
    for kind, name in (("all", "autodrive_qa"), ("naive", "autodrive_qa_naive")):
        build_options = (
            "--llm",
            "rules",
            "--distractors",
            kind,
            "--out",
            tmp_path / kind,
            "--config",
            "no_progress=true",
        )
        words = ("--source", f"drivelm={source / 'test_eval.json'}", "--images", source / "images")
        run(BIN / "ad2", "mcq", "build", *words, *build_options, cwd=tmp_path, code=None)
        questions, images = tmp_path / kind / "questions.jsonl", tmp_path / kind / "images"
        run(BIN / "ad2", "data", "import", "autodrive_qa", questions, "--images", images, "--as", name, cwd=tmp_path)
    run_lmms_eval("--model", "ad2_oracle", "--tasks", ",".join(TASKS), "--output_path", tmp_path / "out", cwd=tmp_path)
    found = tables(tmp_path / "out")
    plain, naive, rotated = (found[name] for name in TASKS)
    assert {t["data"]["distractors"] for t in (plain, rotated)} == {"all"}
    assert (naive["data"]["distractors"], naive["data"]["maker"]) == ("naive", "rules")
    assert plain["data"]["correctness"] == {"mean": None, "n": 0, "unrated": plain["n"]}
    assert rotated["data"]["n"] == sum(v["n"] for v in rotated["position"]["letters"].values()) == 4 * plain["n"]
    assert [c["official"] for c in rotated["columns"].values()] == [100, 100, 100]
    assert rotated["position"]["distance"] == 0
    offered = {kind: v["offered"] for kind, v in plain["offered_kinds"].items()}
    assert sum(offered.values()) == 3 * plain["n"]
    assert "uncategorised" in offered and set(offered) <= {"uncategorised", *ERRORS}
    assert set(naive["offered_kinds"]) == {"naive"}
    words = ("report", "compare", run_folder(tmp_path / "out"), "--config", "distractors=[naive, all]", "--json")
    (row,) = json.loads(run(BIN / "ad2", *words, cwd=tmp_path).stdout)["tasks"]
    # The same question has one id in both sets; kinds that the rules leave out have naive options only.
    assert (row["n"], row["only_b"]) == (plain["n"], 0)
    assert row["only_a"] == naive["n"] - plain["n"] > 0
