"""What is asked of an LLM judge: rubrics from YAML, or CODA-LM's own prompt files from the user's checkout.

The packaged rubrics.yaml is our wording of the published criteria. A rubric's hash covers every
word that a judge would read and the way in which its reply is read; it goes into cache keys and
result files, so that marks of different prompts are never taken for each other.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.judge.base import JudgeItem
from lmms_eval_ad2.judge.verdict import REPLY_FORMS, ReplyForm, read
from lmms_eval_ad2.llm import shield
from lmms_eval_ad2.llm.names import check_keys, one_of
from lmms_eval_ad2.records import Unscored

RUBRICS = (
    "coda_general", "coda_suggestion", "coda_region", "ad2_sacs", "ad2_slps", "ad2_orcs", "ad2_djss", "ad2_vqa",
)  # fmt: skip
PART_FIELDS = ("question", "reference", "steps", "answer")
_FIELDS = ("version", "reply", "parts", "system", "examples")

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Example:
    """A few-shot pair: the fields of an item, and the reply that it deserves."""

    fields: Mapping[str, Any]
    reply: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """One rubric. `parts` maps the fields of an item, in the order in which they are shown, to their titles.

    The system message is `system` (the criteria), `guard` (what the fences mean) and `closing` (how to end a reply).
    """

    name: str
    system: str
    parts: Mapping[str, str]
    reply: ReplyForm = "strict"
    examples: tuple[Example, ...] = ()
    version: str = "1"
    guard: str = ""
    closing: str = ""

    @property
    def sha256(self) -> str:
        """Hash of all prompt text and of the reply form."""
        shots = [[dict(e.fields), e.reply] for e in self.examples]
        content = [self.name, self.system_message, list(self.parts.items()), self.reply, shots]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    @property
    def system_message(self) -> str:
        return "\n\n".join(t.strip() for t in (self.system, self.guard, self.closing) if t.strip())

    def opening(self) -> list[Message]:
        """What every request of this rubric begins with: system, then each example as a user and an assistant turn."""
        turns: list[Message] = [{"role": "system", "content": self.system_message}]
        for example in self.examples:
            turns.append({"role": "user", "content": self._show(example.fields)})
            turns.append({"role": "assistant", "content": example.reply})
        return turns

    def question(self, item: JudgeItem) -> Message:
        """The user turn that shows `item`."""
        return {"role": "user", "content": self._show({name: getattr(item, name) for name in self.parts})}

    def missing(self, item: JudgeItem) -> Unscored | None:
        """Why `item` cannot be asked about: no reference to compare with, or no steps."""
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
        return shield.fence(shown, shield.nonce(self.name, plain))


@functools.cache
def packaged() -> Mapping[str, Rubric]:
    """The rubrics that come with the package."""
    text = resources.files("lmms_eval_ad2.judge").joinpath("rubrics.yaml").read_text("utf-8")
    return from_yaml(text, "rubrics.yaml", {})


def from_yaml(text: str, file: object, base: Mapping[str, Rubric]) -> dict[str, Rubric]:
    """Rubrics of a YAML document; a rubric takes the fields that it does not give from `base`."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise Ad2Error(f"{file} is not YAML: {exc}") from exc
    if not isinstance(data, dict) or not isinstance(data.get("rubrics"), dict):
        raise DataError(file, None, "rubrics", "a mapping from rubric names to rubrics", type(data).__name__)
    check_keys(data, ("common", "closing", "rubrics"), f"{file}")
    around = (str(data.get("common") or ""), str(data.get("closing") or ""))
    return {n: _rubric(one_of(n, RUBRICS, "rubric"), r, file, around, base.get(n)) for n, r in data["rubrics"].items()}


def _rubric(name: str, data: Any, file: object, around: tuple[str, str], base: Rubric | None) -> Rubric:
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
    guard, closing = (own or inherited for own, inherited in zip(around, _around(base), strict=True))
    return Rubric(name, system, dict(parts), form, examples, version, guard, closing)


def _around(base: Rubric | None) -> tuple[str, str]:
    return (base.guard, base.closing) if base else ("", "")


def _example(data: Any, parts: Mapping[str, str], file: object, name: str, form: ReplyForm) -> Example:
    if not isinstance(data, dict) or not isinstance(data.get("reply"), str):
        raise DataError(file, name, "examples", "mappings with the fields of an item and a reply", data)
    check_keys(data, (*parts, "reply"), f"{file}, example of rubric {name}")
    fields = {
        p: (tuple(map(str, data.get(p) or ())) if p == "steps" else str(data.get(p) or "").strip()) for p in parts
    }
    return checked(Example(fields, data["reply"].strip()), form, file, name)


def checked(example: Example, form: ReplyForm, file: object, name: str) -> Example:
    """An example whose reply our own reader could not read would teach the judge to be unreadable."""
    verdict = read(example.reply, "stop", form, name)
    if isinstance(verdict, Unscored):
        raise DataError(file, name, "reply", f"a reply that ends with a mark ({form} form)", verdict.reason)
    return example
