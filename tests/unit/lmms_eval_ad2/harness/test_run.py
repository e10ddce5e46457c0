"""Identity of a run: which settings change the folder, and redaction of secrets."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

import pytest

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.harness import run
from lmms_eval_ad2.harness.run import EvaluationRun, _both_versions, _own_tasks
from lmms_eval_ad2.harness.run_identity import identity, redact, versions
from lmms_eval_ad2.storage.identity import code_label, run_folder
from lmms_eval_ad2.storage.local_weights import model_label
from lmms_eval_ad2.storage.lock import lock_folder

pytestmark = pytest.mark.integration

CLI = argparse.Namespace(seed=[0, 1234, 1234, 1234], force_simple=False, system_instruction=None)


def folder(model: object = "m", args: str = "a=1", **changes: object) -> Path:
    return run_folder(Path("out"), "m", identity(model, args, argparse.Namespace(**{**vars(CLI), **changes})))


def test_the_same_command_has_the_same_folder() -> None:
    assert folder() == folder()


@pytest.mark.parametrize("changes", [{"seed": [1]}, {"force_simple": True}, {"system_instruction": "x"}])
def test_settings_that_affect_answers_change_the_folder(changes: dict) -> None:
    assert folder(**changes) != folder()


def test_another_endpoint_is_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = folder()
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    assert folder() != before


def test_other_weights_at_the_same_path_are_another_run(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"1")
    before = folder(args=f"pretrained={tmp_path}")
    assert folder(args=f"pretrained={tmp_path}") == before
    (tmp_path / "model.safetensors").write_bytes(b"22")
    assert folder(args=f"pretrained={tmp_path}") != before


@pytest.mark.parametrize(
    "name",
    [
        "pretrained",
        "model",
        "adapters",
        "peft",
        "lora_path",
        "model_name_or_path",
        "ckpt_dir",
        "model_path",
        "any_name",
    ],
)
def test_weights_in_any_argument_are_part_of_the_identity(tmp_path: Path, name: str) -> None:
    checkpoint = tmp_path / "adapter_model.safetensors"
    checkpoint.write_bytes(b"1")
    args = f"device=cuda,{name}={tmp_path},batch_size=1"
    before = folder(args=args)
    assert folder(args=args) == before
    checkpoint.write_bytes(b"22")  # trained again at the same path
    assert folder(args=args) != before


def test_one_process_at_a_time_writes_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = EvaluationRun("m", "", argparse.Namespace(**vars(CLI), output_path=str(tmp_path)))
    monkeypatch.setattr(run, "_current", current)
    monkeypatch.setattr(run, "own_task_names", lambda task_dict: ["ad2_relation"])
    evaluated: list[object] = []
    evaluate = run.wrap_evaluate(lambda lm, task_dict: evaluated.append(lm))

    class Model:
        def generate_until(self, requests: list[object]) -> list[object]:
            return requests

    lm = Model()
    assert current.folder is not None
    with lock_folder(current.folder), pytest.raises(Ad2Error, match="another process is writing to this folder"):
        evaluate(lm, {})
    assert not evaluated
    evaluate(lm, {})
    evaluate(lm, {})  # the lock is released at the end
    assert evaluated == [lm, lm]


def test_a_summary_with_tables_of_an_earlier_version_names_both() -> None:
    now = versions()
    assert now["lmms_eval_ad2"] == code_label()
    earlier = {"run": {"versions": {"lmms_eval_ad2": "0.1.0", "torch": "1"}}, "tasks": {"a": {}}}
    assert _both_versions(earlier, now, kept={"a"}) == {**now, "lmms_eval_ad2": f"0.1.0, {code_label()}"}
    assert _both_versions(earlier, now, kept=set()) == now  # all tables are made again
    same = {"run": {"versions": now}}
    assert _both_versions(same, now, kept={"a"}) == now
    assert _both_versions({"run": {}}, now, kept={"a"})["lmms_eval_ad2"] == f"unknown, {code_label()}"


def test_our_tasks_are_found_among_names_groups_and_objects() -> None:
    found = _own_tasks(["mmmu_val", {"task": "ad2_relation"}, "bench_coda_lm", "ad2_cot"])
    assert [t.name for t in found] == ["ad2_coda_general", "ad2_coda_region", "ad2_coda_suggestion", "ad2_cot"]


def test_published_prompts_are_part_of_the_name_and_of_the_record_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AD2_PROMPTS", "paper")
    run.hooks.prompts.cache_clear()
    try:
        about = EvaluationRun("ad2_chance", "", CLI).describe()
        paper = run.hooks.prompts()
    finally:
        run.hooks.prompts.cache_clear()
    assert about["label"] == "ad2_chance (paper prompts)"
    assert (about["profile"], about["prompts_sha256"]) == ("paper prompts", paper.sha256)


def test_a_model_object_never_resumes() -> None:
    model = object()
    assert folder(model) != folder(model)


@pytest.mark.parametrize(
    "text",
    [
        "base_url=http://user:SECRET@host/v1",
        "openai_key=SECRET,x=1",
        "x=1,api_key=SECRET",
        "token=SECRET",
        "key=sk-SECRET-abcdefgh",
        "headers=Authorization: Bearer SECRET",
        "auth=SECRET",
        "hf_SECRETabcdefghijklmnopq",
        "pw=SECRET",
        "db_password=SECRET",
        "passwd: SECRET",
        "pretrained=hf_SECRETabcdefghij",
        "x=AIzaSECRET_abcdefghij",
        "gh=ghp_SECRETabcdefghij",
        "sk-SECRETSECRET",
        "{'api_key': 'SECRET', 'a': 1}",
    ],
)
def test_secrets_are_redacted(text: str) -> None:
    assert "SECRET" not in redact(text)


def test_other_arguments_are_kept() -> None:
    text = "pretrained=Qwen/Qwen2.5-VL-7B-Instruct,max_pixels=12544,tokenizer=x"
    assert redact(text) == text
    assert model_label("qwen2_5_vl", text) == "Qwen2.5-VL-7B-Instruct"


@pytest.mark.parametrize(
    ("exc", "code", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "s.jsonl"), 2, "error: s.jsonl: the disk is full; what was"),
        (AssertionError("Unexpected kwargs: {'max_pixel': 1}"), 1, "error: the evaluation failed: AssertionError: U"),
        (MemoryError(), 2, "error: the evaluation: out of memory; what was finished is kept"),
        (KeyboardInterrupt(), 130, "interrupted; the same command resumes this run"),
        (Ad2Error("no such judge"), 2, "error: no such judge"),
        (
            ModuleNotFoundError("No module named 'no_such_library'"), 2, "error: --model ad2_chance cannot be run, an "
            "import fails: No module named 'no_such_library': pip install no_such_library\n",
        ),
    ],
)  # fmt: skip
def test_an_error_of_an_evaluation_of_ours_is_one_line_and_a_code(
    exc: BaseException, code: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """lmms-eval itself would print a traceback and exit with 0."""

    def failing(*args: object, **kwargs: object) -> None:
        raise exc

    cli = argparse.Namespace(output_path=str(tmp_path), limit=1, repeats=1, offset=0)
    with pytest.raises(SystemExit) as ended:
        run.wrap_simple_evaluate(failing)("ad2_chance", "", tasks=["ad2demo_relation"], cli_args=cli)
    error = capsys.readouterr().err
    assert ended.value.code == code and error.startswith(line) and error.count("\n") == 1
    other = pytest.raises(type(exc) if not isinstance(exc, Ad2Error) else SystemExit)
    with other:
        run.wrap_simple_evaluate(failing)("ad2_chance", "", tasks=["mmmu_val"], cli_args=cli)
