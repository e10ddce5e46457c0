"""`ad2 eval --dry-run` predicts the requests of a run, also of one that continues after a refused API key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from support.builders import chain, record
from support.running import BIN, environment, run, run_folder

from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.data.home import home, write_dataset
from lmms_eval_ad2.harness import model_requirements
from lmms_eval_ad2.testing.fake_endpoint import serve

TASKS = "ad2demo_relation,ad2demo_coda_suggestion"
BEFORE = 7  # replies before the key is refused


@pytest.fixture(autouse=True)
def restored_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_JUDGE", "lexical")
    monkeypatch.setenv("AD2_PROMPTS", "")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-test-key")


def plan(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> tuple[str, list[str]]:
    """The output of a dry run, and its lines on stderr."""
    capsys.readouterr()
    assert main(["eval", "--dry-run", *map(str, words)]) == code
    output = capsys.readouterr()
    return output.out, output.err.splitlines()


def to_come(text: str, task: str) -> tuple[int, str]:
    """Answers that are there and requests to come, in the row of a task."""
    (line,) = (line for line in text.splitlines() if line.split(" ")[0] == task)
    answered, requests = re.split(r"\s{2,}", line)[-2:]
    return int(answered), requests


@pytest.mark.system  # 10 s and more
@pytest.mark.parametrize(
    ("model", "tasks", "limit", "total"),
    [("openai", f"{TASKS},ad2demo_cot_rounds", 3, 21), ("async_openai", TASKS, 9, 18)],  # three chains of five rounds
    ids=["openai", "async_openai"],
)
def test_a_dry_run_predicts_the_requests_before_and_after_a_refused_key(
    model: str, tasks: str, limit: int, total: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = lambda n, body: "ok" if n < BEFORE else "401"  # noqa: E731
    with serve(reply="Slow down.", failures=refused) as server, serve() as judge:
        spec = f"openai:model=j,base_url={judge.url},price_prompt=1000,price_completion=0,concurrency=2"
        words = (
            "--model", model, "--model-args", f"model_version=fake,base_url={server.url},num_concurrent=2,num_cpus=2",
            "--tasks", tasks, "--limit", str(limit), "--out", tmp_path / "out", "--judge", spec,
        )  # fmt: skip
        text, faults = plan(capsys, *words)
        assert to_come(text, "all") == (0, str(total)) and not faults
        ratings = int(re.findall(r"at most (\d+) requests", text)[0])
        assert re.search(r"cost \d+\.\d\d to \d+\.\d\d \(about \d+ prompt tokens", text)
        assert "OPENAI_API_KEY set" in text and "the run can start" in text
        assert (server.requests, judge.requests) == (0, 0) and not (tmp_path / "out").exists()

        stopped = run(BIN / "ad2", "eval", *words, cwd=tmp_path, code=2)
        (line,) = (line for line in stopped.stderr.splitlines() if "error" in line)
        assert line.startswith(f"error: {server.url} refuses every request: ") and "OPENAI_API_KEY" in line
        assert "Traceback" not in stopped.stdout + stopped.stderr and "never retrieved" not in stopped.stderr
        assert server.requests <= BEFORE + 2
        assert judge.requests == 0 and not list(tmp_path.rglob("summary.json")), "nothing is scored"
        assert to_come(plan(capsys, *words)[0], "all") == (BEFORE, str(total - BEFORE))

        server.behaviour.failures, sent = (), server.requests
        done = run(BIN / "ad2", "eval", *words, cwd=tmp_path)
        assert server.requests - sent == total - BEFORE, "as planned"
        assert 0 < judge.requests <= ratings
        assert f"limit: {limit}," in done.stdout
        about = json.loads((run_folder(tmp_path) / "summary.json").read_text("utf-8"))["run"]
        assert repr(about["limit"]) == str(limit)
        text, _ = plan(capsys, *words)
        assert to_come(text, "all") == (total, "0") and "at most 0 requests" in text and "cost 0.00 to 0.00" in text
        text, _ = plan(capsys, *words, "--", "--gen_kwargs", "temperature=1")
        assert to_come(text, "all") == (0, f"at most {total}"), "other prompts cannot be compared with the answers"


def test_a_dry_run_reports_every_problem_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (100, 50)).save(tmp_path / "a.png")
    rows = [record("1", images=("a.png",)), record("2", images=("b.png",)), chain(images=("a.png",))]
    write_dataset("ad2_bench", "test", rows, image_root=tmp_path, source={})
    (tmp_path / "bad.yaml").write_text("en: [\n")
    (tmp_path / "out").touch()
    text, faults = plan(
        capsys, "--model", "opnai", "--tasks", "ad2_*,ad2x_relation_mc,mmmu_val,ad2drive_demo", "--out",
        tmp_path / "out", "--prompts", tmp_path / "bad.yaml", "--judge", "lexicall", code=2,
    )  # fmt: skip
    problems = [line.removeprefix("error: ") for line in faults if line.startswith("error: ")]
    expected = (
        "no model 'opnai'; did you mean openai?", "--output_path", "expected valid YAML", "did you mean lexical",
        "task ad2x_relation_mc: dataset 'ad2_bench' (test) has no records of part 'relation'",
        "task ad2_perception_base: 1 of 2 images are missing, e.g. b.png: ad2 data verify ad2_bench",
    )  # fmt: skip
    assert len(problems) == len(expected)
    assert all(part in problem for part, problem in zip(expected, problems, strict=True))
    assert [line for line in faults if line.startswith("left out, no data: ad2_coda_general")]
    assert "1 of 2" in text and "the run cannot start: 6 to correct" in text
    assert "mmmu_val: no task of this package, not checked" in text
    assert "ad2drive_demo: data ready" in text
    assert "Traceback" not in text


def test_a_large_data_set_is_sampled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jpg").touch()
    rows = [record(str(i), "vqa", task="relation") for i in range(40)]
    write_dataset("ad2_bench", "test", rows, image_root=tmp_path, source={})
    monkeypatch.setattr("lmms_eval_ad2.harness.run_plan.ROWS_READ", 10)
    text, _ = plan(capsys, "--model", "ad2_chance", "--tasks", "ad2_relation", "--out", tmp_path / "o")
    assert "1 of 1 (10 questions read)" in text
    assert to_come(text, "ad2_relation") == (0, "40")
    assert "lexical, 40 texts to rate, no requests" in text


def test_a_dry_run_imports_neither_lmms_eval_nor_torch(tmp_path: Path) -> None:
    """It must take less than 5 CPU-seconds; these libraries alone take longer."""
    heavy = "torch", "transformers", "datasets", "openai", "lmms_eval.__main__", "lmms_eval.evaluator"
    code = (
        "import sys; from lmms_eval_ad2.cli.main import main;"
        f"code = main(['eval', '--model', 'qwen2_5_vl', '--model-args', 'device_map=cpu', '--device', 'cpu', '--tasks',"
        f"'{TASKS}', '--out', 'o', '--dry-run']);"
        f"sys.exit(code or ' '.join({set(heavy)} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stderr == "\n", done.stderr + done.stdout
    assert "the run can start" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "ad2_chance", "--limit", "0"), "--limit 0: a number of records"),
        (("--model", "ad2_chance", "--limit", "-3"), "--limit -3: a number of records"),
        (("--model", "ad2_chance", "--", "--num_fewshot", "2"), "--num_fewshot 2: the tasks of this package"),
        (("--model", "ad2_chance", "--", "--baseline", "x.jsonl"), "--baseline x.jsonl: not used by these tasks"),
        (("--model", "ad2_chance", "--model-args", "sed=1"), "unknown model argument 'sed'; did you mean 'seed'?"),
        (("--model", "ad2_chance", "--tasks", "ad3_*"), "no task matches 'ad3_*'; ours: ad2 tasks"),
        (("--model", "ad2_chance", "--tasks", "ad2_no*"), "no task matches 'ad2_no*'"),
        (("--model", "ad2_chance", "--tasks", " ,"), "--tasks is empty"),
        (("--model", "ad2_chance", "--limit", "1.5"), "--limit 1.5: a number of records"),
        (("--model", "ad2_chance", "--limit", "inf"), "--limit inf: a number of records"),
        (("--model", "ad2_chance", "--limit", "2", "--", "--limit", "0"), "--limit 0: a number of records"),
        (("--model", "ad2_chance", "--repeats", "0"), "--repeats 0: 1 or more"),
        (("--model", "ad2_chance", "--batch-size", "x"), "--batch_size x: a whole number of 1 or more, or auto"),
        (("--model", "ad2_chance", "--device", "cudda"), "--device cudda: no device of torch"),
        (("--model", "ad2_chance", "--", "--offset=-1"), "--offset -1: 0 or more"),
        (
            ("--model", "ad2_chance", "--", "--offset", "100000"),
            "--offset 100000: task ad2demo_relation has 42 records",
        ),
        (("--model", "ad2_chance", "--", "--no_such"), "unknown option --no_such; all: lmms_eval --help"),
        (("--model", "ad2_chance", "--", "--systm_instruction", "x"), "did you mean --system_instruction?"),
        (("--model", "ad2_chance", "--", "stray"), "'stray' belongs to no option"),
        (("--model", "ad2_chance", "--", "--cache_requests", "no"), "invalid choice: 'no'"),
        (("--model", "ad2_chance", "--", "--max_tokens", "many"), "invalid int value: 'many'"),
        (("--model", "ad2_chance", "--", "--tasks", "x"), "--tasks after --: it is an option of ad2 eval"),
        (("--model", "ad2_chance", "--", "--verbosity", "LOUD"), "--verbosity LOUD: one of TRACE, DEBUG"),
        (("--model", "ad2_chance", "--", "--use_cache", "x"), "--use_cache ignores image content"),
        (("--model", "ad2_chance", "--", "--config", "/no.yaml"), "--config /no.yaml: no such file"),
        (("--model", "ad2_chance", "--", "--fewshot_as_multiturn"), "asked without examples"),
        (("--model", "ad2_chance", "--", "--gen_kwargs", "max_new_tokens"), "expected KEY=VALUE"),
        (("--model", "ad2_chance", "--", "--gen_kwargs", "max_new_token=5"), "did you mean max_new_tokens?"),
        (("--model", "ad2_chance", "--", "--gen_kwargs", "temperature=hot"), "temperature=hot: expected a number"),
        (("--model", "ad2_chance", "--", "--gen_kwargs", "max_new_tokens=-5"), "expected a whole number of 1 or more"),
        (("--model", "ad2_chance", "--", "--gen_kwargs", "num_beams=0"), "expected a whole number of 1 or more"),
        (
            ("--model", "openai", "--model-args", "model_version=m,base_url=host:80/v1"),
            "expected http(s)://host[:port]/v1",
        ),
        (("--model", "ad2_chance", "--model-args", "seed=x"), "ad2_chance: seed must be a whole number, not 'x'"),
        (("--model", "ad2_chance", "--model-args", "seed"), "expected KEY=VALUE,..., found 'seed'"),
        (("--model", "openai", "--model-args", "model_versio=m"), "did you mean 'model_version'?"),
        (("--model", "ad2_chance", "--out", "/proc/x"), "--output_path /proc/x: cannot be written to"),
        (("--model", "ad2_chance", "--out", "x" * 300), "cannot be written to: File name too long"),
        (("--model", "ad2_chance", "--out", ""), "--out is empty; name a folder"),
        (("--model", "qwen2_5_vl"), "it uses a GPU by default, and this torch has no CUDA: give --device cpu"),
    ],
)
def test_an_option_that_would_end_the_run_is_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(model_requirements, "torch_has_cuda", lambda: False)
    assert main(["eval", "--tasks", "ad2demo_relation", "--out", str(tmp_path / "x"), "--dry-run", *words]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("left out")]
    assert len([line for line in errors if line.startswith("error: ")]) == 1
    assert message in errors[-1]


@pytest.mark.parametrize("content", [b"", b"x" * 1000, None], ids=["empty", "other", "cut"])
def test_a_damaged_file_of_a_dataset_is_one_line(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset("ad2_bench", "test", [record()], image_root=tmp_path, source={})
    (file,) = (home() / "data" / "ad2_bench" / "test").glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-100] if content is None else content)
    _, errors = plan(capsys, "--model", "ad2_chance", "--out", tmp_path / "x", "--tasks", "ad2_perception_base", code=2)
    expected = f"is damaged: {file} is no complete parquet file"
    assert [line for line in errors if expected in line] == errors and len(errors) == 1
    assert "ad2 data import ad2_bench SOURCE --split test" in errors[0]
    assert main(["tasks", "--json"]) == 0, "the list of all tasks"
    rows = {row["task"]: row for row in json.loads(capsys.readouterr().out)}
    assert not rows["ad2_perception_base"]["ready"] and rows["ad2demo_relation"]["ready"]
