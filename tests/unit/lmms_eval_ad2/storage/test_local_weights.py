"""Which arguments of a model name local files, and what changes their hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmms_eval_ad2.storage import local_weights as module
from lmms_eval_ad2.storage.local_weights import checkpoint_fault, local_weights

FORMS: list[Callable[[Path, Path], str]] = [
    lambda a, b: f"x={a}",
    lambda a, b: f"adapters={a}:{b}",
    lambda a, b: f"adapters=[{a},{b}],batch_size=1",
    lambda a, b: f"x=1,adapters={a},{b}",
    lambda a, b: f"lora_modules=one={b} two={a}",
    lambda a, b: f"loras=['{b}', '{a}'],x=2",
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "first", tmp_path / "a name with spaces"
    for folder in made:
        (folder / "rank0").mkdir(parents=True)
        (folder / "rank0" / "model.pt").write_bytes(b"weights")
    return made


@pytest.mark.parametrize("form", FORMS)
def test_paths_are_found_in_lists_and_pairs(folders: tuple[Path, Path], form: Callable[[Path, Path], str]) -> None:
    text = form(*folders)
    before = local_weights(text)
    assert len(before) == 1 and local_weights(text) == before
    (folders[0] / "rank0" / "model.pt").write_bytes(b"other weights")
    assert local_weights(text) != before


def test_weights_in_a_linked_folder_count(tmp_path: Path) -> None:
    model, real = tmp_path / "model", tmp_path / "elsewhere" / "adapter"
    for folder in (model, real):
        folder.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (real / "adapter_model.safetensors").write_bytes(b"weights")
    (model / "adapter").symlink_to(real, target_is_directory=True)
    before = local_weights(f"pretrained={model}")
    (real / "adapter_model.safetensors").write_bytes(b"weights that were trained again")
    assert local_weights(f"pretrained={model}") != before


def test_loops_of_links_end(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "a").mkdir(parents=True)
    (model / "b").mkdir()
    (model / "config.json").write_text("{}")
    (model / "self").symlink_to(model, target_is_directory=True)
    (model / "a" / "to_b").symlink_to(model / "b", target_is_directory=True)
    (model / "b" / "to_a").symlink_to(model / "a", target_is_directory=True)
    (model / "broken").symlink_to(tmp_path / "none")
    (model / "circle").symlink_to("circle")
    before = local_weights(f"pretrained={model}")
    assert before
    (model / "b" / "model.bin").write_bytes(b"weights")
    assert local_weights(f"pretrained={model}") != before


def test_many_links_to_each_other_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 folders that all link to each other have 20! paths."""
    monkeypatch.setattr(module, "MOST_ENTRIES", 500)
    model = tmp_path / "model"
    for i in range(20):
        (model / f"f{i}").mkdir(parents=True)
        (model / f"f{i}" / "a.bin").write_bytes(b"x")
        for k in range(20):
            (model / f"f{i}" / f"to{k}").symlink_to(model / f"f{k}", target_is_directory=True)
    assert local_weights(f"pretrained={model}")


def test_a_mapping_of_arguments(folders: tuple[Path, Path]) -> None:
    assert set(local_weights({"pretrained": folders[0], "adapters": [str(folders[1])], "device": "cuda"})) == {
        "pretrained", "adapters",
    }  # fmt: skip


def test_a_file_and_its_time_stamp(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"x")
    before = local_weights(f"gguf={file}")
    os.utime(file, ns=(1, 1))
    assert before and local_weights(f"gguf={file}") != before


def test_files_that_do_not_belong_to_the_model_change_nothing(folders: tuple[Path, Path]) -> None:
    before = local_weights(f"x={folders[0]}")
    (folders[0] / "events.out.tfevents").write_bytes(b"log")
    (folders[0] / ".cache").mkdir()
    (folders[0] / ".cache" / "a.json").write_text("{}")
    assert local_weights(f"x={folders[0]}") == before


@pytest.mark.parametrize(
    "text", ["", "a=1", "pretrained=Qwen/Qwen2.5-VL-7B-Instruct", f"a={'x' * 5000}", "a=~nobody0/x", "a=\0", "a"]
)
def test_other_values_have_no_hash(text: str) -> None:
    assert local_weights(text) == {}


def test_a_word_that_is_also_a_folder_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cuda").mkdir()
    (tmp_path / "1").write_text("x")
    assert local_weights("device=cuda,batch_size=1") == {}


def test_results_in_a_folder_with_the_name_of_the_model_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """lmms-eval writes its results to OUT/MODEL; with OUT "." the argument model_version=MODEL names that folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "20260101_000000_results.json").write_text("{}")
    assert local_weights("model_version=fake") == {}


def test_the_search_of_a_large_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 3)
    for number in range(9):
        (tmp_path / f"{number}.json").write_text("{}")
    before = local_weights(f"data={tmp_path}")
    (tmp_path / "8.json").write_text("{ }")
    assert local_weights(f"data={tmp_path}") == before


def test_a_path_without_a_model_is_one_line(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for value, expected in (
        ("/gone", "no such file or folder"), ("./gone", "no such"), ("models/of/mine", "OWNER/NAME"),
        (str(tmp_path / "empty"), "no model"), ("~/model", "write $HOME"),
    ):  # fmt: skip
        for name in ("pretrained", "model_path"):
            assert expected in (checkpoint_fault({"device": "cpu", name: value}) or "")
            assert str(checkpoint_fault({name: value})).startswith(f"{name}={value}: ")


def test_what_may_be_a_model_is_not_judged(folders: tuple[Path, Path]) -> None:
    """An id of the Hub, a model, an address, and arguments that may name files to write."""
    for value in ("Qwen/Qwen2.5-VL-7B-Instruct", "gpt2", str(folders[0]), str(folders[0]) + "/", "s3://a/b/c", ""):
        assert checkpoint_fault({"pretrained": value}) is None
    assert checkpoint_fault({"output_dir": "/gone", "model": "/models/on/a/server"}) is None
