"""What flows through the pipeline: an open Question in, Made (three distractors) or Rejected out.

    source -> Question -> Maker (five proposers, reviewer, refiner, selector, evaluator; or rules) -> Made | Rejected
           -> options shuffled by a stored seed -> a row that `ad2 data import autodrive_qa` reads

Whatever a language model said is untrusted: it becomes a Distractor only after `faults.fault` found nothing.
Source: AutoDrive-QA sections 3 and 4.1, appendices G to J.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lmms_eval_ad2.data.releases.autodrive_qa import ERRORS, NAIVE
from lmms_eval_ad2.records import Record

SELECTED = 3  # distractors of a question (section 4.1)

ENDPOINT_DOWN = "endpoint_down"  # as llm/session.py calls it

# What is asked of the maker: all five categories, one of them alone (Table 8), or distractors without error modelling.
KINDS: tuple[str, ...] = ("all", NAIVE, *ERRORS)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """One open question with its answer, placed in the paper's taxonomy (section 3.3).

    record: as its reader gave it; image paths are relative to `image_root`.
    source: drivelm | nuscenes_qa | lingoqa | records. task: perception | prediction | planning.
    answer: as an option prints it ("Yes.", "Two", "Going ahead.").
    scene: all records of the same key frame (this one among them), one tuple shared by them; what rules draw on.
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
        """The question's own words."""
        return self.record.question.get("en")


@dataclass(frozen=True, slots=True)
class Distractor:
    """A wrong option. category: one of ERRORS, or NAIVE. reason: why a model might choose it, and why it is wrong."""

    text: str
    category: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RoleExchange:
    """One request to a language model and what came back, as the transcript keeps it.

    role: "propose:logical_inconsistencies", "review:...", "refine:...", "select", "evaluate", ...
    fault: "" where the reply was taken, else why it was not. Image data are left out of `prompt`.
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
    """Three distractors. correctness: the evaluator's 1 to 5 (Table 8), None where nobody rated; rounds: refinements.

    pool: all candidates that were chosen from. notes: counts of what happened, by a short code ("equals_answer": 2).
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
    """No multiple-choice question. `reason` is a short stable code ("ambiguous", "too_few_distractors", "http_500").

    passing: a fault of the endpoint, not of the question: the same command asks it again. With the reason ENDPOINT_DOWN
    nothing else is asked in this start.
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
        """Everything that can change an outcome, JSON-able: models, settings, prompts' sha256. No keys, no addresses'
        passwords. Equal at every start of one folder."""
        ...

    def account(self) -> dict[str, Any]:
        """What was spent so far: requests, retries, cached, failed, tokens, cost (where prices are known)."""
        ...

    def make(self, questions: Iterable[OpenQuestion], done: Callable[[Outcome], None]) -> None:
        """Call `done` once for each question, as soon as it is finished, in any order.

        `done` may be called from another thread, never from two at once. Raises Ad2Error where no request can
        succeed; what was done until then has been handed over.
        """
        ...
