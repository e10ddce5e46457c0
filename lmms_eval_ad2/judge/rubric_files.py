"""The rubrics of a judge's specification: the packaged ones, changed by a user's files or by CODA-LM's own prompts.

`official_dir` is a checkout of CODA-LM or its folder `evaluation` (coda_checkout.py; none of its text is part of this
package). With the wording "ours", its examples replace those of `coda_general` and `coda_suggestion`; with "official",
the three CODA rubrics send the requests of the official scripts unchanged. In both cases replies are read in the
official form.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.data.coda_checkout import STAGES, evaluation_folder, judge_prompt, read_shot
from lmms_eval_ad2.judge.rubrics import Rubric, RubricExample, changed, checked, from_yaml, packaged
from lmms_eval_ad2.judge.verdict import REPLY_FORMS, Wording
from lmms_eval_ad2.llm.settings import one_of
from lmms_eval_ad2.storage import user_yaml
from lmms_eval_ad2.storage.untrusted_json import parse

# Folders of the examples that replace ours.
_FOLDERS = {"coda_general": "scene_few_shot", "coda_suggestion": "suggestion_few_shot"}
_FILES = ("high.json", "low.json")


def load(
    *,
    override: Path | None = None,
    official_dir: Path | None = None,
    wording: Wording = "ours",
    system_files: Mapping[str, str | Path] | None = None,
    reply: Mapping[str, str] | None = None,
) -> dict[str, Rubric]:
    """Load the packaged rubrics and apply, in this order, a YAML file, official files, system texts, reply forms.

    Raises Ad2Error or DataError for a missing or malformed file, or an unknown rubric.
    """
    rubrics = dict(packaged())
    if override is not None:
        rubrics |= from_yaml(_text(override, "the rubric file "), override, rubrics)
    if official_dir is not None:
        rubrics |= (_official if wording == "official" else _few_shots)(official_dir, rubrics)
    rubrics |= _system_texts(system_files or {}, rubrics)
    for name, form in (reply or {}).items():
        known = rubrics[one_of(name, rubrics, "rubric")]
        rubrics[name] = changed(known, reply=one_of(form, REPLY_FORMS, "reply form"))
    return rubrics


def _official(checkout: Path, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """The three CODA-LM rubrics with the messages and the parameters of the official scripts."""
    return {
        name: Rubric(
            name=name, system="", parts=rubrics[name].parts, reply="official", version="official",
            official=judge_prompt(checkout, name),
        )
        for name in STAGES
    }  # fmt: skip


def _few_shots(checkout: Path, rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """The three CODA-LM rubrics in our wording, with the official examples."""
    folder = evaluation_folder(checkout)
    found = {"coda_region": changed(rubrics["coda_region"], reply="official")}
    for name, sub in _FOLDERS.items():
        examples = tuple(_few_shot(folder / sub / file, name) for file in _FILES)
        found[name] = changed(rubrics[name], reply="official", examples=examples)
    return found


def _few_shot(path: Path, rubric: str) -> RubricExample:
    shot = read_shot(path)
    fields = {"reference": shot.reference, "answer": shot.prediction}
    return checked(RubricExample(fields, shot.response), "official", path, rubric)


def _system_texts(files: Mapping[str, str | Path], rubrics: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """Rubrics with the system prompt of a file: plain text, or a JSON string (also under the key `system`).

    Such a prompt specifies how a reply must end, so `closing` is removed; `guard` is kept.
    """
    return {
        name: changed(rubrics[one_of(name, rubrics, "rubric")], system=_system(Path(path)), closing="")
        for name, path in files.items()
    }


def _system(path: Path) -> str:
    data: Any = _text(path)
    if path.suffix == ".json":
        try:
            data = parse(data)
        except ValueError as exc:
            raise Ad2Error(f"{path} is not JSON: {exc}") from exc
    data = data.get("system") if isinstance(data, dict) else data
    if not isinstance(data, str) or not data.strip():
        raise DataError(path, None, "system", "the text of a system prompt", data)
    return data.strip()


def _text(path: Path, what: str = "") -> str:
    try:
        return user_yaml.read_text(path)
    except OSError as exc:
        raise Ad2Error(f"cannot read {what}{path}: {exc}") from exc
