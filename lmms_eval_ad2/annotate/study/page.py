"""The voting page: image, question and two answers without the names of their models, on the annotation page's server.

What a browser is sent contains no name of a model and no position from which one could be derived: the sides are
random for each voter and pair (votes.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.actions import reviewer_name
from lmms_eval_ad2.annotate.page import keep_open, serve_blocks
from lmms_eval_ad2.annotate.record_images import data_url, rendered
from lmms_eval_ad2.annotate.study.folder import AnswerPair
from lmms_eval_ad2.annotate.study.votes import Choice, VotingProject
from lmms_eval_ad2.core.errors import Ad2Error, require

CHOICES: dict[Choice, str] = {"left": "Left is better", "tie": "Equally good", "right": "Right is better"}
CSS = """
.answer { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 16px; padding: 10px 12px; border-radius: 8px;
  border: 1px solid var(--border-color-primary); background: var(--block-background-fill); }
"""


class VotingPage:
    """`VotingPage(project, voter).blocks` is the Gradio app."""

    def __init__(self, project: VotingProject, voter: str = "") -> None:
        os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
        self.gr = require("gradio", "for the voting page")
        self.project = project
        self.blocks = self._build(voter)

    def _build(self, voter: str) -> Any:
        gr = self.gr
        with gr.Blocks(title="Votes", analytics_enabled=False, fill_width=True) as blocks:
            with gr.Row(elem_classes="top"):
                name = gr.Textbox(voter, label="Your name", max_lines=1, max_length=60, elem_id="reviewer")
                progress = gr.HTML(elem_id="progress", min_height=30)
                previous = gr.Button("◀ Previous", scale=0, min_width=130, elem_id="previous")
                following = gr.Button("Next open ▶", scale=0, min_width=150, elem_id="next")
            # Its value is the browser's: a second click on a button is a vote on the pair that was shown.
            number = gr.Number(0, visible="hidden", elem_id="number")
            question = gr.HTML(elem_id="question")
            with gr.Row():
                left, right = gr.HTML(elem_id="left"), gr.HTML(elem_id="right")
            with gr.Row():
                buttons = {c: gr.Button(text, elem_id=f"vote-{c}", size="lg") for c, text in CHOICES.items()}
            shown = [number, progress, question, left, right, *buttons.values()]
            how = {"show_progress": "hidden", "concurrency_limit": 1, "concurrency_id": "saving",
                   "api_visibility": "private", "trigger_mode": "multiple"}  # fmt: skip
            for choice, button in buttons.items():
                button.click(self._voting(choice), [name, number], shown, **how)
            previous.click(lambda who, k: self.show(who, max(0, k - 1)), [name, number], shown, **how)
            following.click(self.next_open, [name, number], shown, **how)
            for event in (name.submit, blocks.load):
                event(lambda who: self.next_open(who, -1), [name], shown, **how)
            name.blur(self.show, [name, number], shown, **how)
            keep_open(blocks)
        return blocks

    def _voting(self, choice: Choice) -> Any:
        def vote(who: str, number: int) -> list[Any]:
            try:
                self.project.vote(who, int(number), choice)
            except Ad2Error as exc:
                raise self.gr.Error(page_html.escape(str(exc)), duration=None, print_exception=False) from exc
            return self.next_open(who, number)

        return vote

    def next_open(self, who: str, number: int) -> list[Any]:
        """The next pair without a vote after `number`, else the first one, else the same pair again."""
        try:
            voter = reviewer_name(who)
        except Ad2Error:
            return self.show(who, int(number))
        left = self.project.open_pairs(voter)
        return self.show(who, next((k for k in left if k > number), left[0] if left else int(number)))

    def show(self, who: str, number: int) -> list[Any]:
        """Values of the page's parts for a pair: number, progress, question, the two answers, the three buttons."""
        number = min(max(int(number), 0), len(self.project.pairs) - 1)
        try:
            voter = reviewer_name(who)
        except Ad2Error as exc:
            text = str(exc) if str(who).strip() else "Give your name above; it is saved with every vote."
            return [number, "", page_html.error_message(text), "", "", *[self.gr.Button()] * len(CHOICES)]
        pair = self.project.pairs[number]
        total = len(self.project.pairs)
        done = total - len(self.project.open_pairs(voter))
        chosen = self.project.choice(voter, number)
        buttons = [self.gr.Button(variant="primary" if c == chosen else "secondary") for c in CHOICES]
        answers = [f'<div class="answer">{page_html.escape(text)}</div>' for text in self.project.sides(voter, number)]
        root = Path(self.project.study.image_roots.get(pair.task, ""))
        return [number, page_html.progress(done, total, number), _asked(pair, root), *answers, *buttons]


def _asked(pair: AnswerPair, root: Path) -> str:
    """The images with the mark drawn, and the question."""
    try:
        urls = [data_url(image) for image in rendered(pair.record, root)]
        pictures = [f'<div class="picture"><img src="{url}"></div>' for url in urls]
    except Ad2Error as exc:
        pictures = [page_html.error_message(str(exc))]
    return "".join(pictures) + f'<div class="facts"><p class="question">{page_html.escape(pair.question)}</p></div>'


def serve(project: VotingProject, *, voter: str, host: str, port: int, allowed_hosts: Sequence[str]) -> None:
    """Serve the page until Ctrl-C or SIGTERM. Raises Ad2Error if the address cannot be used."""
    page = VotingPage(project, voter)
    serve_blocks(page.blocks, title="voting page", host=host, port=port, allowed_hosts=allowed_hosts, css=CSS)
