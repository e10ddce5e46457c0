"""A user's mistakes in `ad2 eval` and `lmms_eval`: one line each, before lmms-eval is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.builders import record
from support.java import SPICE_MODELS, fake_java, fake_spice_folder, on_path
from support.running import run_lmms_eval

from lmms_eval_ad2.cli import lmms
from lmms_eval_ad2.cli.main import main
from lmms_eval_ad2.core.errors import install_command
from lmms_eval_ad2.core.import_probe import ImportReport
from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.harness import model_requirements

TASK = ("--tasks", "ad2demo_relation")


@pytest.fixture(autouse=True)
def before_the_slow_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An import of lmms-eval's main module fails; variables that the commands set are restored."""
    monkeypatch.setitem(sys.modules, "lmms_eval.__main__", None)
    monkeypatch.setenv("AD2_JUDGE", "lexical")
    monkeypatch.setenv("AD2_PROMPTS", "")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("en:\n  vqa: [a\n")
    Path("unknown.yaml").write_text("en: {vqaa: 'Say: {question}'}\n")
    Path("judge.yaml").write_text("backend: openai\nmodell: m\n")
    Path("a_file").touch()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "opnai"), "no model 'opnai'; did you mean openai?"),
        (("--model", "openai"), "OPENAI_API_KEY is not set: export OPENAI_API_KEY=..."),
        (("--model", "async_openai", "--model-args", "base_url=http://h/v1"), "(any text, if the server needs no key)"),
        (("--model", "llava_vid"), "--model llava_vid needs llava, not installed: "),
        (("--model", "ad2_chance", "--prompts", "bad.yaml"), "expected valid YAML"),
        (("--model", "ad2_chance", "--prompts", "unknown.yaml"), "Did you mean 'vqa'?"),
        (("--model", "ad2_chance", "--prompts", "absent.yaml"), "expected a readable YAML file of prompts"),
        (("--model", "ad2_chance", "--judge", "bad.yaml"), "bad.yaml is not YAML"),
        (("--model", "ad2_chance", "--judge", "judge.yaml"), "did you mean model?"),
        (("--model", "ad2_chance", "--judge", "openai:model=m"), "OPENAI_API_KEY is not set"),
        (("--model", "ad2_chance", "--judge", "evaluate:absent.py"), "is no local script"),
        (("--model", "ad2_chance", "--tasks", "ad2_relation"), "run: ad2 data import ad2_bench"),
        (("--model", "ad2_chance", "--out", "a_file"), "a_file is a file"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--out", "o", *TASK, *words]) == 2
    output = capsys.readouterr()
    assert output.err.startswith("error: ") and message in output.err
    assert output.err.count("\n") == 1 and not output.out


def test_a_missing_extra_is_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = model_requirements.importable
    monkeypatch.setattr(
        model_requirements, "importable", lambda name: name not in ("decord", "qwen_vl_utils") and real(name)
    )
    assert lmms.main(["--model", "qwen2_5_vl", *TASK]) == 2
    fix = install_command("models")
    expected = f"error: --model qwen2_5_vl needs decord and qwen_vl_utils, not installed: {fix}\n"
    assert capsys.readouterr().err == expected


def test_a_wildcard_leaves_out_a_task_that_cannot_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [record("d", "vqa", benchmark="drivelm", task="perception")]
    write_dataset("drivelm", "test", rows, image_root=tmp_path, source={})
    write_dataset("ad2_bench", "test", [record()], image_root=tmp_path, source={})
    wildcard = "ad2_p*,ad2x_drivelm_p*_mc,ad2_perception_base"
    assert main(["eval", "--model", "opnai", "--out", "o", "--tasks", wildcard]) == 2
    *lines, last = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        ["left out, nothing to ask", "ad2_perception_advanced"],
        ["left out, nothing to ask", "ad2x_drivelm_perception_mc"],
    ]
    assert last.startswith("error: no model 'opnai'"), "the other tasks can be asked"


def test_options_of_an_evaluation_are_checked_and_those_of_other_commands_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evaluation = ["--model", "ad2_chance", *TASK]
    for words in (evaluation, ["eval", *evaluation]):
        assert lmms.checked(words) == words
        assert lmms.main([*words, "--no_such_option"]) == 2
        assert capsys.readouterr().err == (
            "error: options of lmms-eval: unknown option --no_such_option; all: lmms_eval --help\n"
        )
    power = ["power", *TASK, "--effect-size", "0.1", "--own-option"]
    assert lmms.checked(power) == power


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "opnai", *TASK), "did you mean openai?"),
        (("--model", "openai", *TASK), "OPENAI_API_KEY is not set"),
    ],
)
def test_lmms_eval_itself_reports_it_too(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """After its start, but before the model is loaded, in one line and with an exit code."""
    done = run_lmms_eval(*words, cwd=tmp_path, code=2)
    assert message in done.stderr and "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("jars", "with_java", "words"),
    [
        (SPICE_MODELS, True, ["can run: Java and both jars found"]),
        (SPICE_MODELS[:1], True, ["cannot run", f"put {SPICE_MODELS[1]} into"]),
        ((), True, ["cannot run", f"put {SPICE_MODELS[0]} and {SPICE_MODELS[1]} into", "get_stanford_models.py"]),
        ((), False, ["cannot run", "No `java` on PATH", f"put {SPICE_MODELS[0]} and {SPICE_MODELS[1]} into"]),
    ],
)
def test_doctor_tells_whether_spice_can_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    jars: tuple[str, ...], with_java: bool, words: list[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("lmms_eval_ad2.cli.doctor.imports", lambda name: (name, True, "imports"))
    monkeypatch.setattr("lmms_eval_ad2.core.import_probe.ImportProbe.__init__", lambda self: None)
    monkeypatch.setattr("lmms_eval_ad2.core.import_probe.ImportProbe.report", lambda self: ImportReport(""))
    monkeypatch.setattr("lmms_eval_ad2.core.plugins.loaded", lambda group: ())
    fake_spice_folder(monkeypatch, tmp_path, jars)
    if with_java:
        fake_java(tmp_path, "")
    on_path(monkeypatch, tmp_path)
    main(["doctor"])
    lines = {line[6:20].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert lines["SPICE"].startswith("ok"), "one column of one table: not a fault of the installation"
    assert all(word in lines["SPICE"] for word in words)
    assert "can run" in lines["SPICE"] or str(tmp_path / "lib") in lines["SPICE"]
    assert ("version 17" in lines["java"]) == with_java


def test_doctor_names_what_a_model_needs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("lmms_eval_ad2.cli.doctor.imports", lambda name: (name, True, "imports"))
    monkeypatch.setattr("lmms_eval_ad2.core.import_probe.ImportProbe.__init__", lambda self: None)
    monkeypatch.setattr("lmms_eval_ad2.core.import_probe.ImportProbe.report", lambda self: ImportReport(""))
    monkeypatch.setattr("lmms_eval_ad2.cli.doctor.try_import", lambda name: (False, f"{name} is broken"))
    monkeypatch.setattr("lmms_eval_ad2.core.plugins.loaded", lambda group: ())
    assert main(["doctor", "--model", "openai"]) == 1
    lines = {line[6:20].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert lines["model"].startswith("ok") and "openai needs PIL, accelerate, " in lines["model"]
    assert lines["wrapper"].startswith("FAIL") and "lmms_eval.models.chat.openai is broken" in lines["wrapper"]
    assert lines["API key"].startswith("FAIL") and "OPENAI_API_KEY is not set" in lines["API key"]
    monkeypatch.setattr(model_requirements, "importable", lambda name: False)
    assert main(["doctor", "--model", "qwen2_5_vl"]) == 1
    assert f"FAIL  decord        not installed: {install_command('models')}" in capsys.readouterr().out
    assert main(["doctor", "--model", "qwn2_5_vl"]) == 1
    assert "no model 'qwn2_5_vl'; did you mean qwen2_5_vl" in capsys.readouterr().out
    main(["doctor"])
    missing = "ok    qwen_vl_utils not installed; for --model qwen2_5_vl and others"
    assert missing in capsys.readouterr().out, "an optional library is no fault of the installation"
