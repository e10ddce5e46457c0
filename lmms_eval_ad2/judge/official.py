"""CODA-LM's own prompt files, read from the user's checkout; none of their text is part of this package.

    <evaluation folder>/scene_few_shot/{high,low}.json         examples of coda_general
    <evaluation folder>/suggestion_few_shot/{high,low}.json    examples of coda_suggestion

Each holds `reference`, `prediction`, `response`. System prompts stand in their Python files: a user
who wants them verbatim saves them as text and names the files under `system_files`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.judge.rubrics import Example, Rubric, checked
from lmms_eval_ad2.llm.names import one_of

FOLDERS = {"coda_general": "scene_few_shot", "coda_suggestion": "suggestion_few_shot"}
FILES = ("high.json", "low.json")
KEYS = ("reference", "prediction", "response")


def changed(rubric: Rubric, **fields: Any) -> Rubric:
    """`rubric` with other fields; its version says that it is not the packaged one."""
    version = rubric.version if rubric.version.endswith("+own") else f"{rubric.version}+own"
    return dataclasses.replace(rubric, version=version, **fields)


def few_shots(folder: Path, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """The CODA-LM rubrics with the official examples, their replies read the official way (all three of them)."""
    if not folder.is_dir():
        raise Ad2Error(f"official_dir {folder} is no folder: name the 'evaluation' folder of a CODA-LM checkout")
    found = {"coda_region": changed(rubrics["coda_region"], reply="official")}
    for name, sub in FOLDERS.items():
        examples = tuple(_few_shot(folder / sub / file, name) for file in FILES)
        found[name] = changed(rubrics[name], reply="official", examples=examples)
    return found


def _few_shot(path: Path, rubric: str) -> Example:
    data = _json(path)
    data = data[0] if isinstance(data, list) and len(data) == 1 else data
    if not isinstance(data, dict):
        raise DataError(path, None, "(file)", f"a JSON object with the keys {', '.join(KEYS)}", type(data).__name__)
    for key in KEYS:
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise DataError(path, None, key, "a text", data.get(key), "is this CODA-LM's own file?")
    fields = {"reference": data["reference"], "answer": data["prediction"]}
    return checked(Example(fields, data["response"]), "official", path, rubric)


def system_texts(files: Mapping[str, str | Path], rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """Rubrics whose system prompt comes from a file: plain text, or JSON that holds one string (also under `system`).

    Such a prompt says itself how a reply must end, so our closing goes; what the fences mean is still said.
    """
    return {
        name: changed(rubrics[one_of(name, rubrics, "rubric")], system=_system(Path(path)), closing="")
        for name, path in files.items()
    }


def _system(path: Path) -> str:
    data = _json(path) if path.suffix == ".json" else _text(path)
    data = data.get("system") if isinstance(data, dict) else data
    if not isinstance(data, str) or not data.strip():
        raise DataError(path, None, "system", "the text of a system prompt", data)
    return data.strip()


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as exc:
        raise Ad2Error(f"{path} is not JSON: {exc}") from exc


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Ad2Error(f"cannot read {path}: {exc}") from exc
