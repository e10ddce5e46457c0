"""Data types of the pipeline: OpenQuestion in, AcceptedQuestion (three distractors) or RejectedQuestion out.

    source -> OpenQuestion -> DistractorMaker (five proposers, reviewer, refiner, selector, evaluator; or rules)
           -> AcceptedQuestion | RejectedQuestion
           -> options shuffled by a stored seed -> a row that `ad2 data import autodrive_qa` reads

Text from a language model is untrusted: it becomes a Distractor only after `faults.fault` has found nothing.
Source: AutoDrive-QA sections 3 and 4.1, appendices G to J.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE

SELECTED = 3  # distractors of a question (section 4.1)

ENDPOINT_DOWN = "endpoint_down"  # the reason code of llm/session.py

NO_PROPOSALS = "no_proposals"  # reason code: no proposer replied in the requested form

# Kinds of distractors: all five categories, without error modelling, or one category alone (Table 8).
KINDS: tuple[str, ...] = ("all", NAIVE, *ERRORS)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """One open question with its answer and its place in the paper's taxonomy (section 3.3).

    record: as read from the source; image paths are relative to `image_root`.
    source: drivelm | nuscenes_qa | lingoqa | records. task: perception | prediction | planning.
    answer: in the form of an option ("Yes.", "Two", "Going ahead.").
    scene: all records of the same key frame, this one included; one tuple shared by its questions. Input of the rules.
    """

    id: str
    record: Record
    source: str
    task: str
    subtask: str
    answer: str
    image_root: Path
    scene: tuple[Record, ...] = ()

    @property
    def text(self) -> str:
        """The text of the question."""
        return self.record.question.get("en")


@dataclass(frozen=True, slots=True)
class Distractor:
    """A wrong option.

    category: one of ERRORS, NAIVE, or UNCATEGORISED. reason: why a model might choose it, and why it is wrong.
    operation: what the rules changed ("changed_count", "changed_count+changed_class"); "" of a language model.
    """

    text: str
    category: str
    reason: str = ""
    operation: str = ""


@dataclass(frozen=True, slots=True)
class RoleExchange:
    """One request to a language model and its reply, as recorded in the transcript.

    role: "propose:logical_inconsistencies", "review:...", "refine:...", "select", "evaluate", ...
    fault: "" if the reply was accepted, else a code for why not. `prompt` does not contain image data.
    """

    role: str
    prompt: str
    reply: str
    fault: str = ""
    cached: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class AcceptedQuestion:
    """A question with its three distractors.

    correctness: the evaluator's rating, 1 to 5 (Table 8); None without an evaluator. rounds: number of refinements.
    pool: all candidates of the selection. notes: counts of events by short code ("equals_answer": 2).
    """

    question: OpenQuestion
    distractors: tuple[Distractor, ...]
    correctness: int | None = None
    rounds: int = 0
    pool: tuple[Distractor, ...] = ()
    exchanges: tuple[RoleExchange, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RejectedQuestion:
    """A question without a result. `reason` is a short stable code ("ambiguous", "too_few_distractors", "http_500").

    passing: the endpoint or the form of the replies failed (NO_PROPOSALS), not the question; running the same command
    again retries it. After the reason ENDPOINT_DOWN no further request is made in this run.
    """

    question: OpenQuestion
    reason: str
    detail: str = ""
    passing: bool = False
    rounds: int = 0
    exchanges: tuple[RoleExchange, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)


Outcome = AcceptedQuestion | RejectedQuestion


class DistractorMaker(Protocol):
    """Turns questions into outcomes. `label` names it in tables: "rules", "openai:gpt-4o-2024-11-20"."""

    label: str

    def describe(self) -> dict[str, Any]:
        """Everything that can change an outcome, JSON-able: models, settings, sha256 of the prompts.

        Excludes credentials. Must be equal in every run that continues a folder.
        """
        ...

    def unsuited(self, source: str, text: str) -> str | None:
        """Return why no question of this text is made, as a reason code; None if one may be.

        Asked before questions are drawn, so that others take the places of unsuited ones.
        """
        ...

    def account(self) -> dict[str, Any]:
        """Resources used so far: requests, retries, cached, failed, tokens, cost (if prices are known)."""
        ...

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        """Call `done` once for each question as soon as it is finished, in any order.

        `done` may be called from another thread, but never concurrently. Raises Ad2Error if no request can succeed;
        outcomes finished before that have been passed to `done`.
        """
        ...
