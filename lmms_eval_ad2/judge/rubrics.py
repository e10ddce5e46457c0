"""Rubrics of the LLM judge: the packaged ones, changed by a user's files or by CODA-LM's own prompts.

The packaged rubrics.yaml is our wording of the published criteria. `official_dir` is a checkout of CODA-LM or its
folder `evaluation` (coda_checkout.py; none of its text is part of this package). With the wording "ours", its examples
replace those of `coda_general` and `coda_suggestion`; with "official", the three CODA rubrics send the requests of the
official scripts unchanged. In both cases replies are read in the official form.

The hash of a rubric covers the whole prompt and the form in which replies are read; it is part of cache keys and result
files, so that marks of different prompts are never mixed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from lmms_eval_ad2.core.errors import Ad2Error, DataError, yaml_fault
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.data.coda_checkout import (
    STAGES,
    CodaJudgePrompt,
    evaluation_folder,
    judge_prompt,
    read_shot,
)
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.judge.verdict import REPLY_FORMS, ReplyForm, Wording, read
from lmms_eval_ad2.llm import untrusted_text
from lmms_eval_ad2.llm.settings import check_keys, one_of
from lmms_eval_ad2.storage import user_yaml
from lmms_eval_ad2.storage.untrusted_json import parse

RUBRICS = (
    "coda_general", "coda_suggestion", "coda_region", "ad2_sacs", "ad2_slps", "ad2_orcs", "ad2_djss", "ad2_vqa",
)  # fmt: skip
PART_FIELDS = ("question", "reference", "steps", "answer")
_FIELDS = ("version", "reply", "parts", "system", "examples")

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class RubricExample:
    """A few-shot example: the fields of an item, and the desired reply."""

    fields: Mapping[str, Any]
    reply: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """One rubric. `parts`: field of an item -> its title, in the order of the prompt.

    The system message consists of `system` (the criteria), `guard` (meaning of the fences) and `closing` (how to end a
    reply). `sight`: what a judge that sees the image is told about it, see `seeing`. `official`: CODA-LM's own
    messages, which are sent unchanged and without fences; the others are not used.
    """

    name: str
    system: str
    parts: Mapping[str, str]
    reply: ReplyForm = "strict"
    examples: tuple[RubricExample, ...] = ()
    version: str = "1"
    guard: str = ""
    closing: str = ""
    sight: str = ""
    official: CodaJudgePrompt | None = None

    def seeing(self) -> Rubric:
        """The rubric for a judge that is shown the images of the scene."""
        guard = "\n\n".join(text.strip() for text in (self.guard, self.sight))
        return dataclasses.replace(self, guard=guard, version=f"{self.version}+images")

    @property
    def sha256(self) -> str:
        """Hash of all prompt text and of the reply form."""
        content: list[Any]
        if self.official:
            content = [self.name, self.official.opening(), self.official.template, self.reply]
        else:
            shots = [[dict(e.fields), e.reply] for e in self.examples]
            content = [self.name, self.system_message, list(self.parts.items()), self.reply, shots]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    @property
    def system_message(self) -> str:
        return "\n\n".join(t.strip() for t in (self.system, self.guard, self.closing) if t.strip())

    def opening(self) -> list[Message]:
        """The first messages of every request: system, then each example as a user and an assistant turn."""
        if self.official:
            return self.official.opening()
        turns: list[Message] = [{"role": "system", "content": self.system_message}]
        for example in self.examples:
            turns.append({"role": "user", "content": self._show(example.fields)})
            turns.append({"role": "assistant", "content": example.reply})
        return turns

    def question(self, item: JudgeItem) -> Message:
        """The user turn that shows `item`."""
        if self.official:
            return self.official.message(item.reference, item.raw or item.answer)
        return {"role": "user", "content": self._show({name: getattr(item, name) for name in self.parts})}

    def missing(self, item: JudgeItem) -> Unscored | None:
        """Unscored if `item` lacks what the rubric needs (reference or steps), else None."""
        if "reference" in self.parts and not item.reference.strip():
            return Unscored(self.name, "no_reference")
        if "steps" in self.parts and len(item.steps) < (2 if self.name == "ad2_slps" else 1):
            return Unscored(self.name, "no_steps", f"{len(item.steps)} given")
        return None

    def _show(self, fields: Mapping[str, Any]) -> str:
        shown: list[tuple[str, str]] = []
        for name, title in self.parts.items():
            value = fields.get(name) or ""
            if name == "steps":
                shown += [(f"{title} {i} of {len(value)}", step) for i, step in enumerate(value, 1)]
            elif name != "question" or value:
                shown.append((title, value))
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
        return untrusted_text.fence(shown, untrusted_text.nonce(self.name, plain))


@functools.cache
def packaged() -> Mapping[str, Rubric]:
    """The rubrics of the package."""
    text = resources.files("lmms_eval_ad2.judge").joinpath("rubrics.yaml").read_text("utf-8")
    return from_yaml(text, "rubrics.yaml", {})


def from_yaml(text: str, file: object, base: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """Rubrics of a YAML document; fields that a rubric does not give are taken from `base`."""
    try:
        data = user_yaml.parse(text)
    except yaml.YAMLError as exc:
        raise Ad2Error(f"{file} is not YAML: {yaml_fault(exc)}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("rubrics"), dict):
        raise DataError(file, None, "rubrics", "a mapping from rubric names to rubrics", type(data).__name__)
    check_keys(data, ("common", "sight", "closing", "rubrics"), f"{file}")
    around = tuple(str(data.get(key) or "") for key in ("common", "sight", "closing"))
    return {n: _rubric(one_of(n, RUBRICS, "rubric"), r, file, around, base.get(n)) for n, r in data["rubrics"].items()}


def _rubric(name: str, data: Any, file: object, around: tuple[str, ...], base: Rubric | None) -> Rubric:
    if not isinstance(data, dict):
        raise DataError(file, name, "rubric", "a mapping", data)
    check_keys(data, _FIELDS, f"{file}, rubric {name}")
    parts = data.get("parts", base.parts if base else None)
    if not isinstance(parts, Mapping) or not parts or not all(isinstance(t, str) and t for t in parts.values()):
        raise DataError(file, name, "parts", "a mapping from fields of an item to their titles", parts)
    for part in parts:
        one_of(part, PART_FIELDS, f"part of rubric {name}")
    system = data.get("system", base.system if base else None)
    if not isinstance(system, str) or not system.strip():
        raise DataError(file, name, "system", "the text of the system prompt", system)
    form = one_of(str(data.get("reply", base.reply if base else "strict")), REPLY_FORMS, "reply form")
    shots = data.get("examples")
    examples = (
        base.examples if shots is None and base else tuple(_example(e, parts, file, name, form) for e in shots or ())
    )
    version = str(data.get("version", f"{base.version}+own" if base else "1"))
    inherited = (base.guard, base.sight, base.closing) if base else ("", "", "")
    guard, sight, closing = (own or other for own, other in zip(around, inherited, strict=True))
    return Rubric(
        name=name,
        system=system,
        parts=dict(parts),
        reply=form,
        examples=examples,
        version=version,
        guard=guard,
        sight=sight,
        closing=closing,
    )


def _example(data: Any, parts: Mapping[str, str], file: object, name: str, form: ReplyForm) -> RubricExample:
    if not isinstance(data, dict) or not isinstance(data.get("reply"), str):
        raise DataError(file, name, "examples", "mappings with the fields of an item and a reply", data)
    check_keys(data, (*parts, "reply"), f"{file}, example of rubric {name}")
    fields = {
        p: (tuple(map(str, data.get(p) or ())) if p == "steps" else str(data.get(p) or "").strip()) for p in parts
    }
    return checked(RubricExample(fields, data["reply"].strip()), form, file, name)


def checked(example: RubricExample, form: ReplyForm, file: object, name: str) -> RubricExample:
    """Raise DataError if the reply of an example cannot be read: it would teach the judge an unreadable form."""
    verdict = read(example.reply, "stop", form, name)
    if isinstance(verdict, Unscored):
        raise DataError(file, name, "reply", f"a reply that ends with a mark ({form} form)", verdict.reason)
    return example


def changed(rubric: Rubric, **fields: Any) -> Rubric:
    """`rubric` with other fields; "+own" is added to its version, since it is no longer the packaged one."""
    version = rubric.version if rubric.version.endswith("+own") else f"{rubric.version}+own"
    return dataclasses.replace(rubric, version=version, **fields)


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
        examples = []
        for path in (folder / sub / file for file in _FILES):
            shot = read_shot(path)
            fields = {"reference": shot.reference, "answer": shot.prediction}
            examples.append(checked(RubricExample(fields, shot.response), "official", path, name))
        found[name] = changed(rubrics[name], reply="official", examples=tuple(examples))
    return found


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
