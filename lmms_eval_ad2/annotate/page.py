"""The annotation page in Gradio, on top of a project: review of texts, or check of questions.

Everything is served locally (page_server.py): no fonts, scripts or statistics from other hosts. Actions are saved
through one queue, in the order in which the browser sent them. A reply of the server never writes into a box in which
the reviewer may be typing, except after "keep", which restores the original text.
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.page_server import keep_open, serve_blocks
from lmms_eval_ad2.annotate.project import AnnotationProject, FolderProject, QuestionCheckProject
from lmms_eval_ad2.annotate.question_check import QuestionCheck
from lmms_eval_ad2.annotate.record_review import PieceReview, RecordReview
from lmms_eval_ad2.annotate.review_log import LONGEST, LONGEST_NAME, reviewer_name
from lmms_eval_ad2.core.errors import Ad2Error, require

Words = tuple[str, str, str]


class ReviewView:
    """Builds the inputs of one record, each time it is displayed.

    `page` provides Gradio (`gr`) and the event queue (`on`).
    """

    def __init__(self, page: AnnotationPage, reviewer: str, number: int, review: RecordReview | QuestionCheck) -> None:
        self.page, self.gr = page, page.gr
        self.reviewer, self.number = reviewer, number
        self.status = self.gr.HTML(page_html.status(review), elem_id="status", render=False)
        self._display_id = secrets.token_hex(4)

    def input_settings(self, name: str) -> dict[str, Any]:
        """Gradio settings of an input: a new key each time the record is displayed.

        Without a key of its own, an input takes over the value of the one that was in its place before.
        """
        return {"interactive": True, "key": f"{self._display_id}-{name}", "preserved_by_key": []}

    def _note(self, project: FolderProject[Any], text: str) -> None:
        note = self.gr.Textbox(
            text, label="Note", lines=1, max_lines=4, max_length=LONGEST, elem_id="note",
            **self.input_settings("note"),
        )  # fmt: skip
        self._save_on(project, note.blur, "note", note, lambda value: value or None)

    def _save_on(
        self, project: FolderProject[Any], event: Any, field: str, box: Any,
        read: Callable[[Any], Any] = lambda value: value,
    ) -> None:  # fmt: skip
        def save(value: Any) -> list[str]:
            return self.updates(project.save(self.reviewer, self.number, field, read(value)))

        self.page.on(event, save, [box], [self.status, self.page.progress])

    def updates(self, review: RecordReview | QuestionCheck) -> list[str]:
        """The new status and progress, shown after each action."""
        return [page_html.status(review), self.page.progress_html(self.reviewer, self.number)]

    def on_click(self, button: Any, action: Callable[[], Any]) -> None:
        """Bind an action after which the whole record is displayed again."""

        def run(version: int) -> int:
            action()
            return version + 1

        self.page.on(button.click, run, [self.page.version], self.page.version)


class RecordView(ReviewView):
    """The texts of one record and the fields of the whole record."""

    def __init__(
        self, page: AnnotationPage, project: AnnotationProject, reviewer: str, number: int, review: RecordReview
    ) -> None:
        super().__init__(page, reviewer, number, review)
        self.project, self.review = project, review

    def show(self) -> None:
        """Build all inputs and bind their events."""
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
            self.on_click(button, partial(self.project.add, self.reviewer, self.number))
        self._record_fields()
        self.status.render()

    def _record_fields(self) -> None:
        gr = self.gr
        if self.review.record.options:
            letters = [o.letter for o in self.review.record.options]
            letter = gr.Radio(
                letters,
                value=self.review.letter or None,
                label="Correct option",
                elem_id="letter",
                **self.input_settings("letter"),
            )
            self._save_on(self.project, letter.input, "letter", letter)
        state = {None: None, True: "complete", False: "incomplete"}[self.review.complete]
        complete = gr.Radio(
            ["complete", "incomplete"], value=state, elem_id="complete", **self.input_settings("complete"),
            label="Do the texts that stay cover all that matters here?",
        )  # fmt: skip
        self._save_on(self.project, complete.input, "complete", complete, lambda value: value == "complete")
        self._note(self.project, self.review.note)


class QuestionCheckView(ReviewView):
    """The check of one question: its options, then the marked answer and the verdict. Without categories of options."""

    def __init__(
        self, page: AnnotationPage, project: QuestionCheckProject, reviewer: str, number: int, check: QuestionCheck
    ) -> None:
        super().__init__(page, reviewer, number, check)
        self.project, self.check = project, check

    def show(self) -> None:
        """Build all inputs and bind their events."""
        gr, check = self.gr, self.check
        options = gr.Radio(
            [(page_html.option_text(check, option.letter), option.letter) for option in check.record.options],
            value=check.choice or None, label="Which option is right?", elem_id="choice",
            **{**self.input_settings("choice"), "interactive": not check.choice},
        )  # fmt: skip
        self.page.on(options.input, self._choose, [options, self.page.version], self.page.version)
        if check.choice:
            gr.HTML(page_html.marked_answer(check), elem_id="marked")
            verdict = gr.Radio(
                [(f"{name}: {meaning}", name) for name, meaning in page_html.CHECK_MEANINGS.items()],
                value=check.verdict or None, label="The question is", elem_id="verdict",
                **self.input_settings("verdict"),
            )  # fmt: skip
            self.page.on(verdict.input, self._judge, [verdict], [self.status, self.page.progress])
            self._note(self.project, check.note)
        self.status.render()

    def _choose(self, letter: str, version: int) -> int:
        self.project.save_choice(self.reviewer, self.number, letter)
        return version + 1

    def _judge(self, verdict: Any) -> list[str]:
        return self.updates(self.project.save_verdict(self.reviewer, self.number, verdict))


class PieceView:
    """One text with its verdict and score. `place`: position among the steps or objects, from 1; 0 for others."""

    def __init__(self, view: RecordView, line: PieceReview, place: int) -> None:
        self.view, self.line, self.place, self.gr = view, line, place, view.gr
        self.key, self.added = line.base.key, line.verdict == "add"
        self.at = (view.reviewer, view.number, self.key)

    def show(self) -> None:
        """Build the inputs and bind their events."""
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
            **view.input_settings(f"verdict {self.key}"),
        )  # fmt: skip
        if self.added:
            back = gr.Button("Take back", size="sm", scale=0, min_width=90)
            view.on_click(back, partial(view.project.save_verdict, *self.at, "delete", self.line.now.words))
        low, high = view.project.scale
        marks = [("score –", 0), *((f"score {n}", n) for n in range(low, high + 1))]
        score = gr.Dropdown(marks, value=self.line.score or 0, show_label=False, container=False, scale=1,
                            min_width=118, filterable=False, elem_classes="score",
                            **view.input_settings(f"score {self.key}"))  # fmt: skip
        view.page.on(score.input, self._rate, [score], [view.status, view.page.progress])
        if self.line.base.kind == view.review.listed:
            for sign, by, name in (("↑", -1, "up"), ("↓", 1, "down")):
                button = gr.Button(sign, size="sm", scale=0, elem_classes=["small", name])
                view.on_click(button, partial(view.project.move, *self.at, by))

    def _boxes(self) -> list[Any]:
        """Inputs of the editable texts: the text; for a step also name and question, for an object its name."""
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
        settings = {"max_length": LONGEST, **self.view.input_settings(f"{label} {self.key}"), **settings}
        return self.gr.Textbox(text, label=label, **settings)

    def _words(self, values: tuple[str, ...]) -> Words:
        """Name, question and text, from the values of the inputs."""
        match values:
            case (name, question, text):
                return name, question, text
            case (name, text):
                return name, self.line.base.question, text
        return self.line.base.name, self.line.base.question, values[0]

    def _judge(self, chosen: Any, *values: str) -> list[Any]:
        review = self.view.project.save_verdict(*self.at, chosen, self._words(values))
        words = (review.line(self.key) or self.line).now.words if chosen == "keep" else None
        shown = (
            [self.gr.skip()] * len(values) if words is None else {1: words[2:], 2: words[::2], 3: words}[len(values)]
        )
        return [*self._updates(review), *shown]

    def _edit(self, *values: str) -> list[Any]:
        return self._updates(self.view.project.save_words(*self.at, self._words(values)))

    def _rate(self, chosen: int) -> list[str]:
        return self.view.updates(self.view.project.save_score(*self.at, chosen or None))

    def _updates(self, review: RecordReview) -> list[Any]:
        line = review.line(self.key) or self.line
        return [page_html.head(line, self.place), None if self.added else line.verdict, *self.view.updates(review)]


class AnnotationPage:
    """`AnnotationPage(project, reviewer).blocks` is the Gradio app."""

    def __init__(self, project: AnnotationProject | QuestionCheckProject, reviewer: str = "") -> None:
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        self.gr = require("gradio", "for the annotation page")
        self.project, self.total = project, len(project.folder)
        self.blocks = self._build(reviewer)

    # -- header: reviewer, navigation, progress --------------------------------------------------------------------

    def _build(self, reviewer: str) -> Any:
        gr = self.gr
        with gr.Blocks(title="Annotation", analytics_enabled=False, fill_width=True) as blocks:
            with gr.Row(elem_classes="top"):
                self.reviewer = gr.Textbox(
                    reviewer, label="Reviewer", placeholder="your name", max_lines=1, max_length=60, interactive=True,
                    scale=1, min_width=140, elem_id="reviewer",
                )  # fmt: skip
                self.progress = gr.HTML(elem_id="progress", min_height=30)
                previous = gr.Button("◀ Previous", scale=0, min_width=130, elem_id="previous")
                following = gr.Button("Next ▶", scale=0, min_width=110, elem_id="next", variant="primary")
                unfinished = gr.Button("First unfinished", scale=0, min_width=160, elem_id="first-open")
                only_open = gr.Checkbox(
                    label="unfinished only", container=False, scale=0, min_width=150, elem_id="only-open"
                )
                jump = gr.Number(1, label="Go to", precision=0, minimum=1, maximum=self.total, scale=0, min_width=90,
                                 elem_id="jump")  # fmt: skip
            self.number, self.version, seen = gr.State(0), gr.State(0), gr.State(reviewer)
            triggers = [blocks.load, self.number.change, self.version.change]
            gr.render(inputs=[self.reviewer, self.number], triggers=triggers, show_progress="hidden")(self._record)
            for button, by in ((previous, -1), (following, 1)):
                self.on(
                    button.click, functools.partial(self._go, by), [self.reviewer, self.number, only_open], self.number
                )
            self.on(unfinished.click, self._first, [self.reviewer], self.number)
            self.on(jump.submit, lambda n: min(max(int(n or 1), 1), self.total) - 1, [jump], self.number)
            self.on(self.number.change, lambda n: n + 1, [self.number], jump)
            for event in triggers:
                self.on(event, self.progress_html, [self.reviewer, self.number], self.progress)
            for event in (self.reviewer.submit, self.reviewer.blur):
                # Leaving the box without a new name must not redraw the record: an action may be in progress.
                self.on(event, lambda name, seen, v: (name, v + (name != seen)), [self.reviewer, seen, self.version],
                        [seen, self.version])  # fmt: skip
            self.on(blocks.load, self._first, [self.reviewer], self.number)
            keep_open(blocks)
        return blocks

    def on(self, event: Callable[..., Any], work: Callable[..., Any], inputs: list[Any], outputs: Any) -> None:
        """Bind an event: one queue for all, no public API, errors shown as text and never as HTML.

        trigger_mode: Gradio's default, "once", drops an event while an earlier one of the same control is pending; a
        second click on another verdict would be shown but not saved.
        """
        event(
            self._with_errors_shown(work), inputs, outputs, show_progress="hidden", concurrency_limit=1,
            concurrency_id="saving", api_visibility="private", trigger_mode="multiple",
        )  # fmt: skip

    def _with_errors_shown(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            try:
                return work(*values)
            except Ad2Error as exc:
                raise self.gr.Error(page_html.escape(str(exc)), duration=None, print_exception=False) from exc

        return run

    def _go(self, by: int, reviewer: str, number: int, only_open: bool) -> int:
        return self.project.go(reviewer_name(reviewer), number, by, only_open)

    def _first(self, reviewer: str) -> int:
        return self.project.first_open(reviewer_name(reviewer)) if reviewer.strip() else 0

    def progress_html(self, reviewer: str, number: int) -> str:
        done = self.project.finished(reviewer_name(reviewer)) if reviewer.strip() else ()
        return page_html.progress(len(done), self.total, number)

    # -- one record ------------------------------------------------------------------------------------------------

    def _record(self, reviewer: str, number: int) -> None:
        gr = self.gr
        try:
            reviewer = reviewer_name(reviewer)
            review = self.project.review(reviewer, number)
        except Ad2Error as exc:
            gr.HTML(
                page_html.error_message(
                    str(exc) if str(reviewer).strip() else "Give your name above; it is saved with every action."
                )
            )
            return
        with gr.Row(elem_classes="split", equal_height=False):
            with gr.Column(scale=6, elem_classes="look", min_width=420):
                gr.HTML(page_html.picture(review, self.project.folder.about.image_root), elem_id="picture")
                gr.HTML(page_html.facts(review), elem_id="facts")
                view = self._view(reviewer, number, review)
                if isinstance(view, RecordView):
                    self._marks(view)
            with gr.Column(scale=5, min_width=420):
                view.show()
        gr.HTML(f'<span hidden id="shown">{number + 1}</span>')

    def _view(self, reviewer: str, number: int, review: RecordReview | QuestionCheck) -> RecordView | QuestionCheckView:
        if isinstance(self.project, AnnotationProject) and isinstance(review, RecordReview):
            return RecordView(self, self.project, reviewer, number, review)
        if isinstance(self.project, QuestionCheckProject) and isinstance(review, QuestionCheck):
            return QuestionCheckView(self, self.project, reviewer, number, review)
        raise TypeError(f"{type(self.project).__name__} has no reviews of type {type(review).__name__}")

    def _marks(self, view: RecordView) -> None:
        gr, review = self.gr, view.review
        with gr.Accordion(f"Boxes and points ({len(review.mark.coords)})", open=bool(review.mark.coords)):
            boxes = gr.Textbox(
                page_html.marks_text(review.mark), lines=2, max_lines=8, max_length=LONGEST, elem_id="boxes",
                **view.input_settings("boxes"), label="one per line, in pixels: x_min y_min x_max y_max, or x y",
            )  # fmt: skip
            button = gr.Button("Save boxes", size="sm", elem_id="save-boxes")

        def save(text: str, version: int) -> int:
            view.project.save(view.reviewer, view.number, "mark", page_html.read_marks(text))
            return version + 1

        self.on(button.click, save, [boxes, self.version], self.version)


def serve(
    project: AnnotationProject | QuestionCheckProject,
    *,
    reviewer: str = "",
    host: str = "127.0.0.1",
    port: int = 7861,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve the page until Ctrl-C or SIGTERM. Raises Ad2Error if the address cannot be used.

    allowed_hosts: further names under which browsers may open the page (served_connections).
    """
    page = AnnotationPage(project, reviewer)
    script = f"<script>{page_html.DRAG.read_text('utf-8')}</script>"
    serve_blocks(
        page.blocks, title="annotation page", host=host, port=port, allowed_hosts=allowed_hosts, head=script
    )  # fmt: skip
