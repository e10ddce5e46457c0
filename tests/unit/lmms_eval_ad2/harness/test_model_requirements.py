"""What a model needs is found without importing its wrapper: name, libraries, API key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lmms_eval_ad2.harness import model_requirements
from lmms_eval_ad2.harness.model_requirements import faults, find_wrapper, key_fault

pytestmark = pytest.mark.integration

KEYS = ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY", "GOOGLE_API_KEY", "API_TYPE")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(model_requirements, "_in_dotenv", lambda variable: False)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_requirements, "importable", lambda name: name in ("torch", "transformers"))


@pytest.mark.parametrize(
    ("name", "near"),
    [("opnai", "did you mean openai"), ("qwen25_vl", "qwen2_5_vl"), ("ad2_chanc", "ad2_chance"), ("x", "lists them")],
)
def test_an_unknown_model_is_reported_with_similar_names(name: str, near: str) -> None:
    (fault,) = faults(name)
    assert fault.startswith(f"no model '{name}'; ") and near in fault


def test_an_alias_is_its_model() -> None:
    assert find_wrapper("openai_compatible").model_id == "openai"


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("qwen2_5_vl", {"decord", "qwen_vl_utils", "transformers"}),  # both in the base class of the wrapper
        ("internvl_hf", {"transformers"}),
        ("vllm", {"vllm"}),  # an optional import
        ("gemini", {"google.genai"}),  # in a `try`
        ("litellm", {"litellm"}),  # with the first request
        ("whisper", {"librosa"}),
        ("ad2_chance", set()),
    ],
)
def test_libraries_are_read_from_the_source(name: str, needed: set[str]) -> None:
    libraries = set(find_wrapper(name).libraries())
    assert needed <= libraries
    assert not libraries & {"decord", "qwen_vl_utils", "vllm", "litellm"} - needed, "video only, or of another model"


def test_no_wrapper_is_said_to_need_something_that_this_environment_shows_it_does_not() -> None:
    """These wrappers can be imported with the extra `models`."""
    for name in ("qwen2_5_vl", "qwen2_vl", "qwen3_vl", "llava_hf", "internvl_hf", "openai", "async_openai"):
        assert not [fault for fault in faults(name) if "not installed" in fault], name


def test_missing_libraries_are_one_line_with_one_command(nothing_installed: None) -> None:
    (line,) = [fault for fault in faults("qwen2_5_vl") if "qwen_vl_utils" in fault]
    assert line.startswith("--model qwen2_5_vl needs PIL and accelerate and decord and ")
    assert line.count("pip install") == 1 and line.count("[models]'") == 1 and "\n" not in line


def test_a_module_of_a_models_repository_is_not_looked_for_on_an_index(nothing_installed: None) -> None:
    (line,) = faults("llava_vid")
    assert "pip install llava" not in line and "llava is part of the model's own repository" in line


def test_our_swift_model_needs_swift_or_a_server(nothing_installed: None) -> None:
    assert "swift" in faults("ad2_swift", "model=x")[0].split("not installed")[0]
    assert "swift," not in faults("ad2_swift", "server=http://host")[0]


def test_a_missing_key_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults("openai") == ["--model openai: OPENAI_API_KEY is not set: export OPENAI_API_KEY=..."]
    assert faults("async_openai", "base_url=http://host/v1")[0].endswith("(any text, if the server needs no key)")
    assert not faults("openai", "api_key=x")
    assert "AZURE_OPENAI_API_KEY is not set" in faults("openai", "azure_openai=True")[0]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert not faults("openai", {"model_version": "m"})


def test_a_key_has_alternatives_and_may_be_in_an_env_file(monkeypatch: pytest.MonkeyPatch) -> None:
    gemini, openai = find_wrapper("gemini"), find_wrapper("openai")
    assert "GOOGLE_API_KEY or GEMINI_API_KEY is not set" in str(key_fault(gemini, {}))
    assert key_fault(gemini, {"vertexai": "True"}) is None
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    assert key_fault(gemini, {}) is None
    monkeypatch.setattr(model_requirements, "_in_dotenv", lambda variable: variable == "OPENAI_API_KEY")
    assert key_fault(openai, {}) is None


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from lmms_eval_ad2.harness.model_requirements import faults; faults('qwen2_5_vl');"
        "sys.exit(', '.join({'torch', 'transformers', 'openai', 'lmms_eval.api'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == "\n", done.stderr


def test_a_path_without_a_model_is_a_fault_unless_a_server_has_it() -> None:
    (fault,) = faults("llava_hf", "pretrained=/gone,device=cpu")
    assert fault.startswith("--model llava_hf: pretrained=/gone: no such file")
    assert not [f for f in faults("ad2_swift", "server=http://localhost:1,pretrained=/gone") if "/gone" in f]


def test_a_wrapper_that_expands_the_home_folder_may_be_given_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [f for f in faults("vita", "pretrained=~/m") if f"pretrained={tmp_path}/m: no such" in f]
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    assert not [f for f in faults("vita", "pretrained=~/m") if "pretrained" in f]
    assert [f for f in faults("llava_hf", "pretrained=~/m") if "write $HOME" in f]
