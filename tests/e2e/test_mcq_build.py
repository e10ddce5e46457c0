"""`ad2 mcq build` on the command line: with a local endpoint, with rules, and with wrong input."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.running import environment, kill_on_error, refusing_port
from support.tiers import count

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.testing.fake_endpoint import FakeEndpointServer, serve

SUBTASKS = (("perception", "motion state"), ("prediction", "signal meaning"), ("planning", "goal action"))
FAST = "max_retries=2,backoff=0.01,timeout=60,concurrency=16"


def source(folder: Path, count: int = 9) -> str:
    """The --source argument of a file of records with an image in its folder."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 18), (90, 120, 60)).save(folder / "a.jpg")
    lines = []
    for number in range(count):
        task, subtask = SUBTASKS[number % 3]
        lines.append(
            Record(
                f"q{number}",
                "records",
                task,
                subtask,
                "vqa",
                ("a.jpg",),
                BilingualText(f"What is thing {number} doing?"),
                BilingualText(f"It waits at gate {number} for a train."),
                image_size=(32, 18),
                cluster=f"s{number % 4}",
            ).to_json()
        )
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return f"records={folder / 'records.jsonl'}"


def spec(server: FakeEndpointServer, more: str = FAST) -> str:
    return f"endpoint:tiny@{server.url},{more}"


def build(*words: str | Path) -> int:
    return main(["mcq", "build", *map(str, words), "--config", "no_progress=true"])


def rows(out: Path, name: str = "questions.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / name).read_text("utf-8").splitlines()]


def card(out: Path) -> dict[str, Any]:
    return json.loads((out / "card.json").read_text("utf-8"))


def test_a_question_set_is_built_and_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    with serve(reply="mcq") as server:
        assert build("--source", source(tmp_path), "--llm", spec(server), "--out", out) == 0
    output = capsys.readouterr().out
    assert "9 questions made by openai:tiny" in output and "correctness: mean" in output
    assert "goal action" in output and "usage of all starts together: requests" in output
    command = next(line for line in output.splitlines() if line.strip().startswith("ad2 data import"))
    assert main(command.split()[1:]) == 0
    assert "9 records" in capsys.readouterr().out
    assert {len(row["options"]) for row in rows(out)} == {4}
    assert all(row["meta"]["correctness"] >= 4 for row in rows(out))


def test_naive_distractors_are_imported_as_a_separate_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The questions have the ids and letters of the error-modelled set, so that Table 8 can pair them."""
    given = ["--source", source(tmp_path)]
    with serve(reply="mcq") as server:
        assert build(*given, "--llm", spec(server), "--out", tmp_path / "all") == 0
        capsys.readouterr()
        assert build(*given, "--llm", spec(server), "--out", tmp_path / "naive", "--distractors", "naive") == 0
    assert "--split test --as autodrive_qa_naive" in capsys.readouterr().out
    pairs = zip(rows(tmp_path / "all"), rows(tmp_path / "naive"), strict=True)
    assert all((a["id"], a["answer"]) == (b["id"], b["answer"]) for a, b in pairs)
    assert {option["kind"] for row in rows(tmp_path / "naive") for option in row["options"]} == {"correct", "naive"}
    assert {row["meta"]["distractors"] for row in rows(tmp_path / "naive")} == {"naive"}


def test_rules_need_no_endpoint(tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every question of the real DriveLM sample, offline."""
    pytest.importorskip("lmms_eval_ad2.mcq.rules.maker")
    drivelm = data_dir / "drivelm"
    given = ["--source", f"drivelm={drivelm / 'train_sample.json'}", "--images", drivelm / "images", "--llm", "rules"]
    assert build(*given, "--out", tmp_path / "a", "--config", "test=0.2") == 0
    built = card(tmp_path / "a")
    (source,) = built["sources"]
    assert built["counts"]["n"] + sum(built["rejected"].values()) == source["usable"] > 500
    assert source["usable"] + sum(source["unclassified"].values()) > 780  # nothing is left out without a reason
    assert set(built["counts"]["task"]) == {"perception", "prediction", "planning"}
    assert built["maker"] == "rules" and built["evaluator"] is None
    printed = capsys.readouterr().out
    assert "correctness: not rated" in printed
    assert f"{tmp_path / 'a/train.jsonl'} --images {tmp_path / 'a/images'} --split train" in printed
    assert (tmp_path / "a/test.jsonl").is_file()
    questions, images = tmp_path / "a/questions.jsonl", tmp_path / "a/images"
    assert main(["data", "import", "autodrive_qa", str(questions), "--images", str(images)]) == 0


def lingoqa(root: Path) -> Path:
    """A LingoQA folder: two segments in action/, one of them and another in scenery/, and val."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    def question_row(name: str, segment: str, question: str, answer: str) -> dict[str, Any]:
        frames = [f"images/train/{segment}/{i}.jpg" for i in range(5)]
        return {"question_id": name, "segment_id": segment, "images": frames, "question": question, "answer": answer}

    files = {
        "action/train.parquet": [
            question_row("a1", "s1", "Why are you stopping?", "I am stopping because the light is red."),
            question_row("a2", "s1", "Are you turning left?", "No, I am going straight on."),
            question_row("a3", "s2", "Is it safe to overtake?", "No, the road is narrow."),
            question_row("a4", "s2", "Flibbertigibbet?", "Yes."),
        ],
        "scenery/train.parquet": [
            question_row("b1", "s3", "How many cyclists are there?", "There are two cyclists."),
            question_row("b2", "s3", "What colour is the traffic light?", "The traffic light is green."),
            question_row("b3", "s1", "Is the van in front of you parked?", "Yes, the van is parked."),
        ],
        "evaluation/val.parquet": [question_row("v1", "s9", "Is it wet?", "Yes.")],
    }
    for name, rows in files.items():
        (root / name).parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), root / name)
        for number, path in enumerate(sorted({str(path) for row in rows for path in row["images"]})):
            image = (root / name).parent / path
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 18), (90 + number, 120, 60)).save(image)
    return root


def test_both_training_files_of_lingoqa_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder and its import give the same set. Questions without a sub-task are counted in card and summary."""
    release, out = lingoqa(tmp_path / "LingoQA"), tmp_path / "out"
    assert build("--source", f"lingoqa:train={release}", "--llm", "rules", "--distractors", "naive", "--out", out) == 0
    assert "lingoqa, not usable: no_subtask 1" in capsys.readouterr().out
    folders = {row["meta"]["source_id"]: row["images"][0].split("/")[1] for row in rows(out)}
    assert folders == {"a1": "action", "a2": "action", "a3": "action", "b1": "scenery", "b2": "scenery", "b3": "action"}
    assert all((out / "images" / path).is_file() for row in rows(out) for path in row["images"])
    (built,) = card(out)["sources"]
    assert (built["spec"], built["usable"], built["unclassified"]) == ("lingoqa:train=LingoQA", 6, {"no_subtask": 1})

    assert main(["data", "import", "lingoqa", str(release), "--split", "train"]) == 0
    assert (
        build("--source", "lingoqa:train", "--llm", "rules", "--distractors", "naive", "--out", tmp_path / "imported")
        == 0
    )
    assert rows(tmp_path / "imported") == rows(out)


def test_no_question_is_lost_if_a_third_of_the_replies_fail_or_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every question is accepted or rejected with a reason; requests failed by the endpoint are repeated."""
    out = tmp_path / "out"
    faults = ("429", "500", "cut", "invalid_json", "503", "html_200", "cut_body", "empty")

    def failing(number: int, body: Any) -> str:
        return faults[number // 3 % len(faults)] if number % 3 == 0 else "ok"

    given = ["--source", source(tmp_path, 24), "--out", out]
    with serve(reply="mcq_lying", failures=failing, retry_after_s=0.01) as server:
        code = build(*given, "--llm", spec(server))
        for _ in range(10):
            if code == 0:
                break
            assert "run the same command again" in capsys.readouterr().out
            code = build(*given, "--llm", spec(server))
    built = card(out)
    assert code == 0 and not built["unfinished"]
    assert built["counts"]["n"] + sum(built["rejected"].values()) == 24 and built["counts"]["n"] > 8
    assert built["counts"]["n"] == len(rows(out)) and sum(built["rejected"].values()) == len(
        rows(out, "rejected.jsonl")
    )
    assert built["account"]["retries"] > 0 and any(name.startswith("reply_") for name in built["notes"])
    for row in rows(out):
        texts = [option["text"].casefold() for option in row["options"]]
        assert len(set(texts)) == 4
    for row in rows(out) + rows(out, "rejected.jsonl"):
        assert row.get("reason") or row["options"]


def test_a_dead_endpoint_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--source", source(tmp_path), "--out", tmp_path / "out"]
    with refusing_port() as port:
        assert build(*given, "--llm", f"endpoint:tiny@http://127.0.0.1:{port}/v1") == 2
    assert "no endpoint answers" in capsys.readouterr().err
    with serve(reply="mcq") as server:  # another port: the address is not part of the run identity
        assert build(*given, "--llm", spec(server)) == 0
    assert len(rows(tmp_path / "out")) == 9


def test_the_same_command_resumes_after_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--source", source(tmp_path), "--out", tmp_path / "out"]
    with serve(reply="mcq") as server:
        assert build(*given, "--llm", spec(server), "--limit", "2") == 0
        assert "7 questions are not processed yet" in capsys.readouterr().out
        assert build(*given, "--llm", spec(server)) == 0
    assert len(rows(tmp_path / "out")) == 9


def _start_build(server: FakeEndpointServer, given: list[str], out: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "lmms_eval_ad2.cli.main", "mcq", "build", *given]
    return subprocess.Popen(
        [*words, "--llm", spec(server), "--out", str(out)],
        env=environment(AD2_HOME=os.environ["AD2_HOME"]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _wait_for_requests(process: subprocess.Popen[bytes], server: FakeEndpointServer, requests: int) -> None:
    """Wait for this total number of requests. Later ones hang, so the process is still running."""
    server.behaviour.failures = lambda number, body: "hang" if number >= requests else "ok"
    while server.requests < requests:
        assert process.poll() is None, process.communicate()[0].decode()
        time.sleep(0.005)


@pytest.mark.soak
def test_the_same_command_resumes_after_a_kill_at_any_moment(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The final set equals that of an undisturbed run byte for byte; only requests in flight are repeated."""
    given = ["--source", source(tmp_path, 16)]
    with serve(reply="mcq", latency_s=0.02) as server:
        assert build(*given, "--llm", spec(server), "--out", tmp_path / "whole") == 0
        needed = server.requests
    rng, kills = random.Random(7), count(30)
    out = tmp_path / "out"
    with serve(reply="mcq", latency_s=0.02) as server:
        for _ in range(kills):
            with kill_on_error(_start_build(server, given, out)) as process:
                _wait_for_requests(process, server, server.requests + rng.randrange(1, needed // (kills + 1)))
                process.send_signal(signal.SIGKILL)
        server.behaviour.failures = ()
        assert build(*given, "--llm", spec(server), "--out", out) == 0
        assert needed <= server.requests <= needed + (16 + 16) * kills  # hanging requests, and replies not yet written
    record_property("kills", kills)
    record_property("requests sent again", server.requests - needed)
    for name in ("questions.jsonl", "rejected.jsonl"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_ctrl_c_writes_the_set_so_far_and_the_command_resumes(tmp_path: Path) -> None:
    given = ["--source", source(tmp_path, 16)]
    with serve(reply="mcq", latency_s=0.05) as server:
        with kill_on_error(_start_build(server, given, tmp_path / "out")) as process:
            _wait_for_requests(process, server, 150)
            process.send_signal(signal.SIGINT)
            output = process.communicate()[0].decode()
        server.behaviour.failures = ()
        assert process.returncode == 130 and "resumes where this one stopped" in output and "Traceback" not in output
        before = card(tmp_path / "out")["counts"]["n"]
        assert before == len(rows(tmp_path / "out")) < 16
        assert build(*given, "--llm", spec(server), "--out", tmp_path / "out") == 0
    assert len(rows(tmp_path / "out")) + len(rows(tmp_path / "out", "rejected.jsonl")) == 16


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--distractors", "naiv"], "did you mean naive"),
        (["--distractors", "logical"], "logical_inconsistencies"),
        (["--llm", "gpt"], "--llm"),
        (["--llm", "rulez"], "did you mean rules"),
        (["--llm", "no/such.yaml"], "no/such.yaml"),
        (["--llm", "openai:gpt-4o-2024-11-20"], "OPENAI_API_KEY"),
        (["--llm", "endpoint:m@http://user:secret@host/v1"], "user names, passwords"),
        (["--mix", "drivelm=1"], "drivelm"),
        (["--tasks", "perception=0.5,planning=0.4"], "0.9"),
        (["--tasks", "seeing=1"], "seeing"),
        (["--total", "10"], "10"),
        (["--total", "0"], "--total"),
        (["--limit", "-1"], "--limit"),
        (["--config", "n=2"], "n: "),
        (["--config", "threshold=6"], "threshold"),
        (["--config", "prompts=no/such.yaml"], "prompts"),
        (["--images", "no/such/folder"], "no/such/folder"),
        (["--images", "lingoqa=."], "no source 'lingoqa'"),
        (["--source", "coda_lm"], "coda_lm"),
        (["--source", "records=no/such.jsonl"], "named more than once"),
        (["--source", "lingoqa=a/t.parquet", "--source", "lingoqa=b/t.parquet"], "lingoqa:train=FOLDER"),
        (["--source", "drivelm"], "ad2 data import"),
        (["--source", "drivelm=no/such.json"], "no/such.json"),
    ],
)
def test_bad_input_is_reported_in_one_message(
    tmp_path: Path, words: list[str], output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llm = [] if "--llm" in words else ["--llm", "endpoint:m@http://127.0.0.1:9/v1"]
    assert build("--source", source(tmp_path), *llm, "--out", tmp_path / "out", *words) == 2
    captured = capsys.readouterr()
    assert output in captured.err and captured.err.startswith("error: ")
    assert "secret" not in captured.err
    assert not (tmp_path / "out/questions.jsonl").exists()


def test_a_bad_row_is_reported_or_skipped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--source", source(tmp_path), "--out", str(tmp_path / "out")]
    with (tmp_path / "records.jsonl").open("a") as handle:
        handle.write('{"id": "bad"}\n')
    with serve(reply="mcq") as server:
        assert build(*given, "--llm", spec(server)) == 2
        assert "records.jsonl, row 10" in capsys.readouterr().err
        assert build(*given, "--llm", spec(server), "--config", "skip_bad=true") == 0
    assert "bad rows skipped: 1" in capsys.readouterr().out


def test_the_api_key_is_not_written_to_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serve(reply="mcq") as server:
        assert build("--source", source(tmp_path), "--llm", spec(server), "--out", tmp_path / "out") == 0
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 9
    assert not [path for path in files if b"very-secret" in path.read_bytes()]
    assert not [path for path in files if path.suffix == ".json" and b"base64" in path.read_bytes()]


@pytest.mark.parametrize("name", ["openai.yaml", "local_vllm.yaml"])
def test_the_shipped_maker_configs_are_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.running import REPO

    from lmms_eval_ad2.mcq.makers import make_maker

    monkeypatch.setenv("OPENAI_API_KEY", "x")
    assert make_maker(str(REPO / "configs/mcq" / name)).label.startswith("openai:")


def test_the_oracle_scores_100_on_a_built_set(tmp_path: Path) -> None:
    """From open questions to a score: build, import, `ad2 eval` with the oracle, in the three canonical tasks."""
    from support.running import run_lmms_eval, tables

    out = tmp_path / "out"
    with serve(reply="mcq") as server:
        assert build("--source", source(tmp_path), "--llm", spec(server), "--out", out) == 0
    questions, images = str(out / "questions.jsonl"), str(out / "images")
    assert main(["data", "import", "autodrive_qa", questions, "--images", images, "--split", "test"]) == 0
    names = [f"ad2_mcq_{task}" for task in ("perception", "prediction", "planning")]
    run_lmms_eval(
        "--model", "ad2_oracle", "--tasks", ",".join(names), "--batch_size", "1", "--output_path", tmp_path / "run",
        cwd=tmp_path,
    )  # fmt: skip
    found = tables(tmp_path / "run")
    results = {name: (table["n"], table["score"]["official"]) for name, table in found.items()}
    assert results == dict.fromkeys(names, (3, 100.0))
