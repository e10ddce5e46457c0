"""The annotation page in Gradio, on top of a project: review of texts, or check of questions.

Everything is served locally (page_html.POLICY): no fonts, scripts or statistics from other hosts. Actions are saved
through one queue, in the order in which the browser sent them.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.actions import LONGEST, reviewer_name
from lmms_eval_ad2.annotate.event_errors import EventErrors
from lmms_eval_ad2.annotate.page_guard import PageGuard
from lmms_eval_ad2.annotate.project import AnnotationProject, QuestionCheckProject
from lmms_eval_ad2.annotate.question_check import QuestionCheck
from lmms_eval_ad2.annotate.record_review import RecordReview
from lmms_eval_ad2.annotate.record_view import QuestionCheckView, RecordView
from lmms_eval_ad2.core.errors import Ad2Error, require

_EVENTS = 1024  # waiting in Gradio's queue: the actions, and one event for each open page (`_never`)


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


def keep_open(blocks: Any) -> None:
    """Set up the queue of a Gradio app, in its context, so that the reply to every event is shown (`_never`)."""
    blocks.load(_never, show_progress="hidden", concurrency_limit=1, concurrency_id="open pages",
                api_visibility="private")  # fmt: skip
    blocks.queue(max_size=_EVENTS)


async def _never() -> None:
    """An event that stays pending, so that the page's stream of replies stays open.

    Gradio closes that stream when the last event of a page is done. An event that is sent before the page has noticed
    is processed, but its reply is shown only with the next event. One of these runs, those of other pages are queued.
    """
    await asyncio.Event().wait()


def serve(
    project: AnnotationProject | QuestionCheckProject,
    *,
    reviewer: str = "",
    host: str = "127.0.0.1",
    port: int = 7861,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve the page until Ctrl-C or SIGTERM. Raises Ad2Error if the address cannot be used.

    allowed_hosts: further names under which browsers may open the page (served_hosts).
    """
    page = AnnotationPage(project, reviewer)
    script = f"<script>{page_html.DRAG.read_text('utf-8')}</script>"
    serve_blocks(
        page.blocks, title="annotation page", host=host, port=port, allowed_hosts=allowed_hosts, head=script
    )  # fmt: skip


def serve_blocks(
    blocks: Any, *, title: str, host: str, port: int, allowed_hosts: Sequence[str], css: str = "", head: str = ""
) -> None:
    """Serve a Gradio app behind the page's guard until Ctrl-C or SIGTERM; `css` and `head` extend the page's."""
    gr, fastapi, uvicorn = require("gradio"), require("fastapi"), require("uvicorn")
    app = fastapi.FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def add_headers(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["Content-Security-Policy"] = page_html.POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    theme = gr.themes.Default(font=page_html.FONTS, font_mono=("ui-monospace", "monospace"))
    app = gr.mount_gradio_app(
        app, blocks, path="/", theme=theme, css=page_html.CSS + css, head=head,
        footer_links=[], run_history=False, show_error=True, ssr_mode=False,
        enable_monitoring=False, mcp_server=False, pwa=False, max_file_size=1,
    )  # fmt: skip
    listener = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    print(
        f"{title}: http://{shown}:{listener.getsockname()[1]}/   (Ctrl-C stops it; everything is saved)",
        flush=True,
    )
    EventErrors().install(require("gradio.queueing"), require("gradio.routes"))
    guard = PageGuard(app, host, allowed_hosts)
    config = uvicorn.Config(
        guard, http=guard.connections.factory(require("uvicorn.protocols.http.h11_impl").H11Protocol), ws="none",
        log_level="warning", timeout_graceful_shutdown=2,
    )  # fmt: skip
    asyncio.run(_run(uvicorn.Server(config), guard, listener))


async def _run(server: Any, guard: PageGuard, listener: socket.socket) -> None:
    guard.connections.handle_accept_errors(asyncio.get_running_loop())
    await server.serve(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as exc:
        raise Ad2Error(f"cannot listen on {host}:{port}: {exc}; choose another --port (0: any free one)") from exc
    listener.listen(128)
    return listener
