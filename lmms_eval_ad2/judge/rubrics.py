"""Rubrics of the LLM judge, from YAML. rubric_files.py applies a user's files and CODA-LM's own prompts.

The packaged rubrics.yaml is our wording of the published criteria. The hash of a rubric covers the whole prompt and the
form in which replies are read; it is part of cache keys and result files, so that marks of different prompts are never
mixed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.core.errors import Ad2Error, DataError, yaml_fault
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.data.coda_checkout import CodaJudgePrompt
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.judge.verdict import REPLY_FORMS, ReplyForm, read
from lmms_eval_ad2.llm import untrusted_text
from lmms_eval_ad2.llm.settings import check_keys, one_of
from lmms_eval_ad2.storage import user_yaml

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
    guard, sight, closing = (own or inherited for own, inherited in zip(around, _around(base), strict=True))
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


def _around(base: Rubric | None) -> tuple[str, str, str]:
    return (base.guard, base.sight, base.closing) if base else ("", "", "")


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
