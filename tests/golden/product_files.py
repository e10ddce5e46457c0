"""The files of the product in this checkout, and those with a path that may change."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

from workspace import REPO

NOT_THE_PRODUCT = ("tests/", "scripts/golden.py")


def product_files() -> list[str]:
    """The files of a clone, without the tests and these recordings."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    names = (name for name in set(done.stdout.splitlines()) if not name.startswith(NOT_THE_PRODUCT))
    return sorted(name for name in names if (REPO / name).is_file())


def parsed(source: str | bytes, version: tuple[int, int] | None = None) -> ast.Module | None:
    """The module without comments and docstrings; None if it is not valid Python of that version."""
    try:
        tree = ast.parse(source, feature_version=version)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


# Adapter: paths that may change.


def text_files() -> dict[str, Path]:
    """The YAML files with prompt texts."""
    packages = {
        "prompts": "lmms_eval_ad2/prompts/default.yaml",
        "rubrics": "lmms_eval_ad2/judge/rubrics.yaml",
        "mcq roles": "lmms_eval_ad2/mcq/prompts.yaml",
        "mcq error categories": "lmms_eval_ad2/mcq/taxonomy.yaml",
        "driving": "closedloop_plugin/prompts/driving.yaml",
        "threats": "closedloop_plugin/prompts/threats.yaml",
    }
    advlm = sorted((REPO / "configs" / "advlm").glob("prompts_*.yaml"))
    return {**{name: REPO / path for name, path in packages.items()}, **{f"advlm {p.stem}": p for p in advlm}}


def old_python_files() -> dict[str, tuple[tuple[int, int], Path]]:
    """Files that run in the interpreters of other projects, with the oldest Python that must accept them."""
    folders = {"bench2drive": "closedloop_plugin/carla/leaderboard_agent", "advlm": "configs/advlm"}
    return {
        f"{name}/{path.name}": ((3, 7), path)
        for name, folder in folders.items()
        for path in sorted((REPO / folder).glob("*.py"))
    }
