"""Model folders: no model is written over another, and a failed or killed start leaves no weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from closedloop_plugin.learn.model_folder import complete_model, new_model
from lmms_eval_ad2.core.errors import Ad2Error


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.safetensors.index.json"])
def test_a_folder_with_a_model_is_refused_and_not_changed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("weights of many hours")
    with pytest.raises(Ad2Error, match="holds a model already; choose another --out"), new_model(tmp_path):
        raise AssertionError("not reached")
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_model_appears_complete_with_its_weights_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, moved = tmp_path / "model", []
    move = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (moved.append(to.name), move(self, to))[1])
    (out / "new").mkdir(parents=True)
    (out / "new" / "of a killed process").touch()
    with new_model(out) as folder:
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            (folder / name).touch()
        assert [file.name for file in out.iterdir() if file.is_file()] == ["lock"]
    assert len(moved) == 3 and moved[-1] == "model.safetensors"
    assert {file.name for file in out.iterdir()} == {"lock", *moved}


def test_a_model_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too wide"), complete_model(tmp_path / "model") as folder:
        (folder / "config.json").touch()
        raise ValueError("too wide")
    assert not list((tmp_path / "model").iterdir())
