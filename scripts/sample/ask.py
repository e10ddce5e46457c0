"""Common parts of deriving records from the ground truth of an image: visible objects, options, marks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from PIL import Image, ImageFilter

from lmms_eval_ad2.records import AnswerOption, BilingualText, Form, ReasoningStep, Record, VisualPrompt
from scripts.sample.air import air_of
from scripts.sample.camera import HEIGHT, WIDTH
from scripts.sample.canvas import Seen
from scripts.sample.draw import Picture
from scripts.sample.scene import Scene, Thing

SIZE = (WIDTH, HEIGHT)
NONE_FITS = BilingualText("None of the options fits", "以上选项均不符合")
NOT_THERE = BilingualText("What is asked about is not in the image", "图像中没有所问的目标")

# No questions about objects below these limits.
MIN_PIXELS = 180
MIN_VISIBLE = 0.6  # share of the object's area
MIN_CLEAR = 0.12  # share of its contrast that the air leaves


@dataclass
class Asker:
    """Collects the records about one image. All of them have these `images` and `views`."""

    picture: Picture
    benchmark: str
    images: tuple[str, ...]
    views: tuple[str, ...] = ()
    records: list[Record] = field(default_factory=list)

    @property
    def scene(self) -> Scene:
        return self.picture.scene

    def seen(self, thing: Thing) -> Seen | None:
        return self.picture.seen.get(thing.key)

    def clear(self, thing: Thing, share: float = MIN_VISIBLE) -> bool:
        """Whether a person would find it: large enough, not much occluded, enough contrast."""
        s = self.seen(thing)
        faint = air_of(self.scene).clearness((thing.x**2 + thing.z**2) ** 0.5) < MIN_CLEAR
        return s is not None and s.pixels >= MIN_PIXELS and s.visible >= share and not faint

    def asked(self, *kinds: str) -> list[Thing]:
        """Clearly visible objects of these kinds (of all kinds if none is given), nearest first."""
        things = self.scene.of(*kinds) if kinds else sorted(self.scene.things, key=lambda t: abs(t.z))
        return [t for t in things if self.clear(t)]

    def only(self, *kinds: str) -> Thing | None:
        """A clearly visible object of `kinds` that is the only one of its kind, or None."""
        things = self.asked(*kinds)
        return next((t for t in things if len(self.scene.of(t.kind)) == 1), None)

    def box(self, thing: Thing) -> tuple[float, ...]:
        seen = self.seen(thing)
        assert seen is not None, thing.key
        return tuple(float(v) for v in seen.box)

    def centre(self, thing: Thing) -> tuple[float, ...]:
        seen = self.seen(thing)
        assert seen is not None, thing.key
        return tuple(float(v) for v in seen.centre)

    def boxed(self, *things: Thing, text: BilingualText = BilingualText()) -> VisualPrompt:
        return VisualPrompt("box", tuple(self.box(t) for t in things), text)

    def dotted(self, *things: Thing, text: BilingualText = BilingualText()) -> VisualPrompt:
        return VisualPrompt("point", tuple(self.spot(t) for t in things), text)

    def spot(self, thing: Thing) -> tuple[float, ...]:
        """A pixel of the object near its centre, with a margin to whatever hides it if it is wide enough for one."""
        own = Image.fromarray(np.asarray(self.picture.owners) == self.picture.number(thing.key)).convert("L")
        box = own.getbbox()
        assert box, f"{thing.key} has no pixel"
        widest = 6  # the filter is slow, and nothing changes outside of the object
        left, top = max(0, box[0] - widest), max(0, box[1] - widest)
        own = own.crop((left, top, min(own.width, box[2] + widest), min(own.height, box[3] + widest)))
        x, y = (place - start for place, start in zip(self.centre(thing), (left, top), strict=True))
        for margin in (widest, 3, 0):
            inner = own.filter(ImageFilter.MinFilter(2 * margin + 1)) if margin else own
            rows, columns = np.nonzero(np.asarray(inner))
            if len(rows):
                nearest = int(np.argmin((columns - x) ** 2 + (rows - y) ** 2))
                return float(columns[nearest] + left), float(rows[nearest] + top)
        raise AssertionError("every object is in its own box")

    def add(
        self,
        task: str,
        subtask: str,
        form: Form,
        question: BilingualText,
        answer: BilingualText,
        *,
        mark: VisualPrompt | None = None,
        options: tuple[AnswerOption, ...] = (),
        letter: str = "",
        steps: tuple[ReasoningStep, ...] = (),
        **meta: Any,
    ) -> None:
        """Append a record; ids are numbered within scene, task and subtask."""
        stem = f"{self.scene.id}/{task}/{subtask}"
        number = 1 + sum(r.id.startswith(f"{stem}/") for r in self.records)
        self.records.append(
            Record(
                id=f"{stem}/{number}",
                benchmark=self.benchmark,
                task=task,
                subtask=subtask,
                form=form,
                images=self.images,
                question=question,
                answer=answer,
                letter=letter,
                options=options,
                mark=mark or VisualPrompt(),
                steps=steps,
                views=self.views,
                image_size=SIZE,
                cluster=self.scene.id,
                scene={"weather": self.scene.weather, "severity": self.scene.severity},
                meta=meta,
            )
        )

    def choose(
        self,
        task: str,
        subtask: str,
        question: BilingualText,
        right: BilingualText | Literal["E", "F"],
        wrong: Sequence[BilingualText],
        mark: VisualPrompt | None = None,
        free: BilingualText | None = None,
    ) -> None:
        """Add an AD2-Bench choice: A to D, E none of them fits, F the target is not in the image (section A.1).

        `right`: the text of the correct option among A to D, or "E" or "F" if that is correct, with four wrong ones.
        `free`: the reference as free text; the record then has both forms.
        """
        texts = [*wrong[:3], right] if isinstance(right, BilingualText) else [*wrong[:4]]
        assert len(texts) == 4, (question, texts)
        assert len({t.en for t in texts}) == 4, texts
        random.Random(f"{self.scene.id}:{subtask}:{len(self.records)}").shuffle(texts)
        options = tuple(
            AnswerOption(letter, t, "correct" if t == right else "distractor")
            for letter, t in zip("ABCD", texts, strict=True)
        )
        options += (AnswerOption("E", NONE_FITS, "none_matches"), AnswerOption("F", NOT_THERE, "absent"))
        correct = next(o for o in options if right in (o.text, o.letter))
        form: Form = "mc" if free is None else "vqa"
        self.add(task, subtask, form, question, free or correct.text, mark=mark, options=options, letter=correct.letter)


def others(
    right: str, table: dict[str, BilingualText], seed: str, count: int = 3, without: Sequence[str] = ()
) -> list[BilingualText]:
    """`count` other entries of a table, in an order that depends on `seed` only."""
    names = [n for n in table if n != right and n not in without]
    random.Random(seed).shuffle(names)
    return [table[n] for n in names[:count]]
