"""The right half of the page: the texts of one record, and what is said of the whole.

An answer of the server never writes into a box in which the reviewer may be typing: only "keep" does, since it brings
the words of before back.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.actions import LONGEST, LONGEST_NAME
from lmms_eval_ad2.annotate.record_review import PieceReview, RecordReview

if TYPE_CHECKING:
    from lmms_eval_ad2.annotate.page import AnnotationPage

Words = tuple[str, str, str]


class RecordView:
    """Made anew each time the record is laid out. `page` has Gradio (`gr`), the project and the queue of events (`on`)."""

    def __init__(self, page: AnnotationPage, who: str, number: int, review: RecordReview) -> None:
        self.page, self.gr, self.project = page, page.gr, page.project
        self.who, self.number, self.review = who, number, review
        self.status = self.gr.HTML(page_html.status(review), elem_id="status", render=False)
        self._laid_out = secrets.token_hex(4)

    def fresh(self, name: str) -> dict[str, Any]:
        """Settings of a box that the reviewer fills in: another one each time the record is laid out.

        Without a key of its own a box takes over what was chosen in the one that stood in its place before.
        """
        return {"interactive": True, "key": f"{self._laid_out}-{name}", "preserved_by_key": []}

    def show(self) -> None:
        """Lay all of it out."""
        gr, place = self.gr, 0
        for line in self.review.lines:
            place += line.base.kind == self.review.listed
            if line.base.kind == "question":
                with gr.Accordion("Change the question", open=line.verdict is not None, elem_id="question"):
                    PieceView(self, line, 0).show()
            else:
                PieceView(self, line, place if line.base.kind == self.review.listed else 0).show()
        if self.review.listed:
            button = gr.Button(f"Add {'a step' if self.review.listed == 'step' else 'an object'}", size="sm",
                               elem_id="add")  # fmt: skip
            self.again(button, partial(self.project.add, self.who, self.number))
        self._whole()
        self.status.render()

    def _whole(self) -> None:
        gr = self.gr
        if self.review.record.options:
            letters = [o.letter for o in self.review.record.options]
            letter = gr.Radio(
                letters,
                value=self.review.letter or None,
                label="Correct option",
                elem_id="letter",
                **self.fresh("letter"),
            )
            self._saves(letter.input, "letter", letter)
        state = {None: None, True: "complete", False: "incomplete"}[self.review.complete]
        complete = gr.Radio(
            ["complete", "incomplete"], value=state, elem_id="complete", **self.fresh("complete"),
            label="Do the texts that stay cover all that matters here?",
        )  # fmt: skip
        self._saves(complete.input, "complete", complete, lambda value: value == "complete")
        note = gr.Textbox(
            self.review.note,
            label="Note",
            lines=1,
            max_lines=4,
            max_length=LONGEST,
            elem_id="note",
            **self.fresh("note"),
        )
        self._saves(note.blur, "note", note, lambda value: value or None)

    def _saves(self, event: Any, field: str, box: Any, read: Callable[[Any], Any] = lambda value: value) -> None:
        def save(value: Any) -> list[str]:
            return self.told(self.project.save(self.who, self.number, field, read(value)))

        self.page.on(event, save, [box], [self.status, self.page.progress])

    def told(self, review: RecordReview) -> list[str]:
        """What is shown after each action: the record's state and the reviewer's."""
        return [page_html.status(review), self.page.where(self.who, self.number)]

    def again(self, button: Any, work: Callable[[], Any]) -> None:
        """An action after which the record is laid out anew."""

        def run(version: int) -> int:
            work()
            return version + 1

        self.page.on(button.click, run, [self.page.version], self.page.version)


class PieceView:
    """One text with its verdict and score. `place`: among the steps or objects, from 1; 0 elsewhere."""

    def __init__(self, view: RecordView, line: PieceReview, place: int) -> None:
        self.view, self.line, self.place, self.gr = view, line, place, view.gr
        self.key, self.added = line.base.key, line.verdict == "add"
        self.at = (view.who, view.number, self.key)

    def show(self) -> None:
        """Lay it out and bind its events."""
        gr = self.gr
        with gr.Column(elem_classes="piece", elem_id=f"piece-{self.key.replace('.', '-')}"):
            self.head = gr.HTML(page_html.head(self.line, self.place))
            self.words = self._boxes()
            if self.line.base.own:
                gr.HTML(page_html.own(self.line))
            with gr.Row(elem_classes="tools"):
                self._tools()
        outputs = [self.head, self.verdict, self.view.status, self.view.page.progress]
        self.view.page.on(self.verdict.input, self._judge, [self.verdict, *self.words], [*outputs, *self.words])
        for box in self.words:
            self.view.page.on(box.blur, self._edit, self.words, outputs)

    def _tools(self) -> None:
        gr, view = self.gr, self.view
        self.verdict = gr.Radio(
            ["keep", "change", "delete"], value=None if self.added else self.line.verdict, show_label=False,
            container=False, scale=4, min_width=220, elem_classes="verdict", visible=not self.added,
            **view.fresh(f"verdict {self.key}"),
        )  # fmt: skip
        if self.added:
            back = gr.Button("Take back", size="sm", scale=0, min_width=90)
            view.again(back, partial(view.project.save_verdict, *self.at, "delete", self.line.now.words))
        low, high = view.project.scale
        marks = [("score –", 0), *((f"score {n}", n) for n in range(low, high + 1))]
        score = gr.Dropdown(marks, value=self.line.score or 0, show_label=False, container=False, scale=1,
                            min_width=118, filterable=False, elem_classes="score",
                            **view.fresh(f"score {self.key}"))  # fmt: skip
        view.page.on(score.input, self._rate, [score], [view.status, view.page.progress])
        if self.line.base.kind == view.review.listed:
            for sign, by, name in (("↑", -1, "up"), ("↓", 1, "down")):
                button = gr.Button(sign, size="sm", scale=0, elem_classes=["small", name])
                view.again(button, partial(view.project.move, *self.at, by))

    def _boxes(self) -> list[Any]:
        """The boxes for what may be changed: a text; of a step also its name and question, of an object its name."""
        now, found = self.line.now, []
        with self.gr.Row():
            if now.kind in ("step", "object"):
                named = "Name" if now.kind == "step" else "Category"
                found.append(self._box(now.name, named, max_lines=1, max_length=LONGEST_NAME, scale=3))
            if now.kind == "step":
                found.append(self._box(now.question, "Question", max_lines=4, scale=5))
        label = "Answer" if now.kind == "step" else "Text"
        return [*found, self._box(now.text, label, lines=2, max_lines=16, elem_classes="text")]

    def _box(self, text: str, label: str, **settings: Any) -> Any:
        fresh = self.view.fresh(f"{label} {self.key}")
        return self.gr.Textbox(text, label=label, **{"max_length": LONGEST, **fresh, **settings})

    def _said(self, said: tuple[str, ...]) -> Words:
        """Name, question and text, from the boxes that there are."""
        match said:
            case (name, question, text):
                return name, question, text
            case (name, text):
                return name, self.line.base.question, text
        return self.line.base.name, self.line.base.question, said[0]

    def _judge(self, chosen: Any, *said: str) -> list[Any]:
        review = self.view.project.save_verdict(*self.at, chosen, self._said(said))
        words = (review.line(self.key) or self.line).now.words if chosen == "keep" else None
        shown = [self.gr.skip()] * len(said) if words is None else {1: words[2:], 2: words[::2], 3: words}[len(said)]
        return [*self._told(review), *shown]

    def _edit(self, *said: str) -> list[Any]:
        return self._told(self.view.project.save_words(*self.at, self._said(said)))

    def _rate(self, chosen: int) -> list[str]:
        return self.view.told(self.view.project.save_score(*self.at, chosen or None))

    def _told(self, review: RecordReview) -> list[Any]:
        line = review.line(self.key) or self.line
        return [page_html.head(line, self.place), None if self.added else line.verdict, *self.view.told(review)]
