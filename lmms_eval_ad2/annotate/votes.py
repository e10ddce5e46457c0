"""Votes on pairs of answers: an append-only journal, and the voting page on the annotation page's server.

Each line of votes.jsonl is on disk before the page confirms it; the last vote of a voter on a pair counts. Several
servers may use one folder (storage/journal.py). The page shows image, question and two answers without the names of
their models. What a browser is sent contains no name of a model and no position from which one could be derived: the
sides are random for each voter and pair.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from lmms_eval_ad2.annotate import page_html
from lmms_eval_ad2.annotate.page_server import keep_open, serve_blocks
from lmms_eval_ad2.annotate.pairwise_study import AnswerPair, PairwiseStudy
from lmms_eval_ad2.annotate.record_images import data_url, rendered
from lmms_eval_ad2.annotate.review_log import reviewer_name
from lmms_eval_ad2.core.errors import Ad2Error, require
from lmms_eval_ad2.judge.agreement import TIE, HumanVotes
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

VOTES = "votes.jsonl"
_LONGEST = 1 << 16  # bytes of a line
Choice = Literal["left", "right", "tie"]


class VotingProject:
    """A study with its votes. Models are known to this class only; a page shows `sides`."""

    def __init__(self, study: PairwiseStudy) -> None:
        self.study = study
        self.pairs = study.pairs
        self._models = {pair.key: pair.models for pair in self.pairs}
        self._votes: dict[tuple[str, str], str] = {}  # (voter, pair) -> vote
        self._path = study.path / VOTES
        self._offset = self._count = 0
        self._lock = threading.RLock()
        self.refresh()

    def sides(self, voter: str, number: int) -> tuple[str, str]:
        """The left and the right answer of a pair, in an order that is random for each voter and pair, but fixed."""
        pair = self.pairs[number]
        return pair.answers if self._order(voter, pair) else (pair.answers[1], pair.answers[0])

    def vote(self, voter: str, number: int, choice: Choice) -> None:
        """Save a vote; on return it is on disk. Raises Ad2Error for an invalid name or choice."""
        voter, pair = reviewer_name(voter), self.pairs[number]
        if choice not in ("left", "right", "tie"):
            raise Ad2Error(f"vote: expected left, right or tie, found {choice!r}")
        first = (choice == "left") == self._order(voter, pair)
        line = {
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"), "voter": voter, "pair": pair.key,
            "vote": TIE if choice == "tie" else pair.models[0 if first else 1], "choice": choice,
        }  # fmt: skip
        with self._lock, JournalFile(self._path, shared=True) as journal, journal.exclusive():
            journal.append(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace"))
            self.refresh()

    def choice(self, voter: str, number: int) -> Choice | None:
        """The voter's present choice for a pair."""
        pair = self.pairs[number]
        vote = self._votes.get((voter, pair.key))
        if vote is None or vote == TIE:
            return "tie" if vote else None
        return "left" if (vote == pair.models[0]) == self._order(voter, pair) else "right"

    def open_pairs(self, voter: str) -> list[int]:
        """Numbers of the pairs without a vote of this voter."""
        self.refresh()
        return [k for k, pair in enumerate(self.pairs) if (voter, pair.key) not in self._votes]

    def human_votes(self) -> list[HumanVotes]:
        """The votes of all voters by pair; pairs without a vote are left out."""
        self.refresh()
        votes: dict[str, list[str]] = {}
        for (_, key), vote in sorted(self._votes.items()):
            votes.setdefault(key, []).append(vote)
        return [HumanVotes(p.task, p.id, p.models, tuple(votes[p.key])) for p in self.pairs if p.key in votes]

    def voters(self) -> list[str]:
        return sorted({voter for voter, _ in self._votes})

    def refresh(self) -> None:
        """Read the lines appended since the last call. Raises DataError for a broken line."""
        with self._lock:
            for line in read(
                self._path, self._checked, start=self._offset, before=self._count, longest=_LONGEST,
                expected="a vote on a pair of this study", hint="Remove this line; all others stay valid.",
            ):  # fmt: skip
                voter, pair, vote = line.value
                self._votes[voter, pair] = vote
                self._offset, self._count = line.end, line.number

    def _checked(self, line: bytes) -> tuple[str, str, str]:
        """Voter, pair, and the preferred model or "tie"."""
        data = parse_object(line)
        voter, pair, vote = data["voter"], data["pair"], data["vote"]
        if not all(isinstance(value, str) for value in (voter, pair, vote)):
            raise ValueError("expected the texts voter, pair and vote")
        if vote not in (*self._models[pair], TIE):
            raise ValueError("the vote names neither of the two models")
        return voter, pair, vote

    def _order(self, voter: str, pair: AnswerPair) -> bool:
        """Return whether the first model's answer is on the left."""
        text = f"{self.study.seed}\n{voter}\n{pair.key}"
        return bool(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] & 1)


def open_project(path: Path) -> VotingProject:
    """Open a study for voting. Raises Ad2Error or DataError."""
    return VotingProject(PairwiseStudy.open(path))


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
