"""Prompts of the pipeline's roles: instructions, fenced material, pictures.

Question, answer and candidates are untrusted, whether they come from a data set or from a model. They are placed
between fences that carry a nonce of their content, and cannot imitate a fence or a turn (llm/untrusted_text.py).
The texts are those of prompts.yaml, overlaid by a user's YAML file; its keys and placeholders are checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE
from lmms_eval_ad2.llm.request_body import DataUrlImage
from lmms_eval_ad2.llm.untrusted_text import fence, neutralise, nonce
from lmms_eval_ad2.mcq.base import Distractor, OpenQuestion
from lmms_eval_ad2.mcq.question_rows import objects_of, sent_views
from lmms_eval_ad2.prompts.prompt_set import PromptTable
from lmms_eval_ad2.prompts.views import CAMERAS, Views
from lmms_eval_ad2.prompts.visual import render

_NAME = re.compile(r"[\w-]{1,32}")
_REPEATED = 4_000  # characters of a refused reply that are repeated to the model

Message = dict[str, Any]


def pictures(question: OpenQuestion, views: Views) -> tuple[DataUrlImage, ...]:
    """Load the pictures of a question, with its mark drawn on the first. Slow (files, JPEG): call it in a thread.

    Which ones: evidence.sent_views. Raises DataError for a missing or broken picture.
    """
    record, sent = question.record, sent_views(question, views)
    names, files = tuple(view for view, _ in sent), tuple(file for _, file in sent)
    # With one image left of several, the size of the record would be compared with it; it is that of all cameras.
    size = record.image_size if len(record.images) == 1 else None
    images = render(replace(record, images=files, views=names, image_size=size), question.image_root)
    return tuple(DataUrlImage.of(view, image) for view, image in zip(names, images, strict=True))


@dataclass(frozen=True, slots=True)
class RolePrompt:
    """A request without its pictures. turns: earlier (refused reply, complaint about it) pairs."""

    role: str
    system: str
    text: str
    labels: tuple[str, ...] = ()
    turns: tuple[tuple[str, str], ...] = ()

    def after(self, reply: str, complaint: str) -> RolePrompt:
        """The same request after an unusable reply."""
        return replace(self, turns=(*self.turns, (neutralise(reply[:_REPEATED]), complaint)))

    def messages(self, images: Sequence[DataUrlImage]) -> list[Message]:
        """Chat messages, with the pictures as data URLs."""
        return self._messages([{"type": "image_url", "image_url": {"url": p.url}} for p in images])

    def outline(self, images: Sequence[DataUrlImage]) -> list[Message]:
        """Chat messages with hashes in place of the pictures, for the cache key."""
        return self._messages([{"type": "image", "sha256": p.sha256} for p in images])

    @property
    def latest(self) -> str:
        """The text that the last request added, for the transcript: the task, or the complaint about a reply."""
        return self.turns[-1][1] if self.turns else self.text

    def _messages(self, parts: Sequence[Message]) -> list[Message]:
        content: list[Message] = []
        for label, part in zip(self.labels, parts, strict=True):
            content += [{"type": "text", "text": label}, part]
        content.append({"type": "text", "text": self.text})
        messages: list[Message] = [{"role": "system", "content": self.system}, {"role": "user", "content": content}]
        for reply, complaint in self.turns:
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": complaint}]
        return messages


@dataclass(frozen=True, slots=True)
class QuestionPrompts:
    """The prompts of all roles for one question. objects: one line for each annotated object, untrusted."""

    texts: McqPromptTexts
    question: OpenQuestion
    labels: tuple[str, ...]
    objects: str = ""

    @classmethod
    def of(cls, texts: McqPromptTexts, question: OpenQuestion, images: Sequence[DataUrlImage]) -> QuestionPrompts:
        """The prompts for a question with these pictures."""
        labels = tuple(_label(texts, picture, i, len(images)) for i, picture in enumerate(images, 1))
        return cls(texts, question, labels, "\n".join(one.line() for one in objects_of(question)))

    def propose(self, category: str, n: int) -> RolePrompt:
        """Request n wrong options of one error category, or naive ones."""
        key = NAIVE if category == NAIVE else "propose"
        return self._prompt(key, f"propose:{category}", (), n, category)

    def review(self, category: str, candidates: Sequence[Distractor]) -> RolePrompt:
        """Request a verdict and a comment for each candidate of one category."""
        parts = [part for i, d in enumerate(candidates, 1) for part in _with_reason("distractor", i, d)]
        return self._prompt("review", f"review:{category}", parts, len(candidates), category)

    def refine(self, category: str, candidates: Sequence[Distractor], comments: Mapping[int, str]) -> RolePrompt:
        """Request a rewrite of the candidates of one category. comments: the reviewer's, by number."""
        parts: list[tuple[str, str]] = []
        for i, d in enumerate(candidates, 1):
            parts += _commented(i, d, comments.get(i, ""), "reviewer")
        return self._prompt("refine", f"refine:{category}", parts, len(candidates), category)

    def select(self, pool: Sequence[Distractor], n: int) -> RolePrompt:
        """Request the best n candidates of the pool."""
        parts = [part for i, d in enumerate(pool, 1) for part in _with_reason("candidate", i, d)]
        return self._prompt("select", "select", parts, n)

    def evaluate(self, distractors: Sequence[Distractor]) -> RolePrompt:
        """Request a rating: could any distractor be considered right?"""
        parts = [(f"distractor {i}", d.text) for i, d in enumerate(distractors, 1)]
        return self._prompt("evaluate", "evaluate", parts, len(distractors))

    def repair(self, distractors: Sequence[Distractor], comments: Mapping[int, str]) -> RolePrompt:
        """Request a rewrite of the distractors with a comment by the evaluator; the others are shown unchanged."""
        parts: list[tuple[str, str]] = []
        for i, d in enumerate(distractors, 1):
            parts += _commented(i, d, comments[i], "evaluator") if i in comments else [(f"distractor {i}", d.text)]
        # "mend" is the key in prompts.yaml, and part of fences, transcripts and cache keys.
        return self._prompt("mend", "mend", parts, len(comments))

    def complaint(self, fault: str) -> str:
        """The message to the model about an unusable reply."""
        return self.texts.fill("again", fault=fault)

    def _prompt(self, key: str, role: str, parts: Sequence[tuple[str, str]], n: int, category: str = "") -> RolePrompt:
        annotated = [("annotated objects", self.objects)] if self.objects else []
        shown_parts = [("question", self.question.text), ("correct answer", self.question.answer), *annotated, *parts]
        material = fence(shown_parts, nonce(role, {"parts": [list(part) for part in shown_parts]}))
        error = self.texts.fill(f"error_{category}") if category and category != NAIVE else ""
        text = self.texts.fill(
            key, material=material, n=n, error=error, category=_words(category), style=self.texts.fill("style")
        )
        return RolePrompt(role, self.texts.fill("system"), text, self.labels)


def _label(texts: McqPromptTexts, picture: DataUrlImage, i: int, n: int) -> str:
    width, height = picture.size
    known = {"i": i, "n": n, "size": texts.fill("size", width=width, height=height) if width else ""}
    if picture.view in CAMERAS:
        return texts.fill("view", view=f"CAM_{picture.view.upper()}", **known)  # the spelling of object tags
    # Any other name comes from the data and is not fenced: only plain words are accepted.
    if _NAME.fullmatch(picture.view):
        return texts.fill("view", view=picture.view, **known)
    return texts.fill("view_unnamed", **known)


def _words(category: str) -> str:
    return category.replace("_", " ")


def _with_reason(what: str, number: int, one: Distractor) -> list[tuple[str, str]]:
    title = f"{what} {number}" + (f" ({_words(one.category)})" if what == "candidate" else "")
    return [(title, one.text), (f"reason {number}", one.reason)]


def _commented(number: int, one: Distractor, comment: str, who: str) -> list[tuple[str, str]]:
    return [*_with_reason("distractor", number, one), (f"{who} on {number}", comment)]


PACKAGED = "prompts.yaml"

# Key of prompts.yaml -> (required placeholders, optional placeholders).
SLOTS: dict[str, tuple[str, str]] = {
    "system": ("", ""),
    "size": ("width height", ""),
    "view": ("view", "i n size"),
    "view_unnamed": ("", "i n size"),
    "style": ("", ""),
    "propose": ("material n error", "category style"),
    **{f"error_{category}": ("", "") for category in ERRORS},
    "naive": ("material n", "style"),
    "review": ("material", "n category error"),
    "refine": ("material", "n category error style"),
    "select": ("material n", ""),
    "evaluate": ("material", "n"),
    "mend": ("material", "n style"),
    "again": ("fault", ""),
    "open_system": ("", ""),
    "open": ("material", ""),
}


class McqPromptTexts(PromptTable):
    """The texts of the pipeline, by the keys of SLOTS."""

    @classmethod
    def load(cls, path: Path | None = None) -> McqPromptTexts:
        """The packaged texts, overlaid by those of the YAML file `path`. Raises DataError, see PromptTable.overlaid."""
        return cls.overlaid(resources.files(__package__).joinpath(PACKAGED), path, SLOTS)
