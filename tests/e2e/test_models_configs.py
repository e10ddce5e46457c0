"""The run files in configs/models have only keys of lmms-eval, existing models, and valid arguments."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.running import run_lmms_eval, tables

from lmms_eval_ad2.core.coordinates import FrameSetting
from lmms_eval_ad2.harness.models import manifests

REPO = Path(__file__).resolve().parents[2]
FILES = sorted((REPO / "configs" / "models").glob("*.yaml"))


def runs(path: Path) -> list[dict[str, Any]]:
    data = yaml.safe_load(path.read_text("utf-8"))
    return data if isinstance(data, list) else [data]


def parameters_of(class_path: str) -> set[str]:
    """The constructor's parameters, from the source, since most wrappers import a library that is not installed."""
    module, name = class_path.rsplit(".", 1)
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    (kind,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
    for item in kind.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return {a.arg for a in (*item.args.args, *item.args.kwonlyargs)}
    return set()


def known_arguments(model: str) -> set[str]:
    from lmms_eval.models import get_model_manifest

    from lmms_eval_ad2.harness.models.swift import _COMMON, _LOCAL, _SERVER

    if model == "ad2_swift":
        return {*_COMMON, *_LOCAL, *_SERVER}
    if model in {m.model_id for m in manifests()}:
        return {"seed"}
    manifest = get_model_manifest(model)
    paths = [p for p in (manifest.chat_class_path, manifest.simple_class_path) if p]
    return set().union(*(parameters_of(p) for p in paths))


def test_run_files_exist() -> None:
    assert {p.stem for p in FILES} >= {"baselines", "qwen2_5_vl", "internvl_swift", "openai_endpoint", "vllm"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_lmms_eval_accepts_each_run_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lmms_eval.__main__ import parse_eval_args

    monkeypatch.setattr(sys, "argv", ["lmms-eval", "--config", str(path)])
    parser, _ = parse_eval_args()
    types = {action.dest: action.type for action in parser._actions}
    for run in runs(path):
        assert run.keys() - {"env"} <= types.keys()
        assert all(isinstance(v, (str, int)) for k, v in run.items() if k != "env")
        given = dict(pair.split("=", 1) for pair in run.get("model_args", "").split(",") if pair)
        assert given.keys() <= known_arguments(run["model"]), run["model"]
        if frame := run.get("env", {}).get("AD2_FRAME"):
            FrameSetting.parse(frame, path.name)
        assert frame or run["model"] in {m.model_id for m in manifests()} - {"ad2_swift"}, "the family's frame"
        for group in run["tasks"].split(","):
            assert list((REPO / "tasks").glob(f"*/{group}.yaml")), group


def test_the_baselines_file_runs_chance_majority_and_oracle(tmp_path: Path) -> None:
    """Relative output folders are below the current folder; the command line overrides the file."""
    config = REPO / "configs" / "models" / "baselines.yaml"
    run_lmms_eval("--config", config, "--tasks", "ad2demo_perception_base", cwd=tmp_path)
    scores = {
        name: tables(tmp_path / "runs" / name)["ad2demo_perception_base"]["score"]["official"]
        for name in ("chance", "majority", "oracle")
    }
    assert scores["chance"] < scores["majority"] < scores["oracle"] == 100
