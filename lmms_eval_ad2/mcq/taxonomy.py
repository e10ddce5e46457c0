"""The paper's task taxonomy (section 3.3) and the classification of every question.

- DriveLM: by the form of the question. A question of no known form is classified by its words within its own layer;
  in the planning layer it counts as a free-form comment, since its annotators wrote free questions there. The layer
  "behavior" is planning (goal action).
- NuScenes-QA: by template; all questions are perception.
- LingoQA and Records: by the task names of the Record if they belong to the taxonomy, else by words (taxonomy.yaml).

A question that cannot be classified gets a reason code; no class is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

import yaml

from lmms_eval_ad2.core.records import Record

NO_QUESTION, NO_ANSWER, LONG_ANSWER, NO_SUBTASK = "no_question", "no_answer", "long_answer", "no_subtask"
LONGEST_ANSWER = 2_000  # characters; a longer answer is not usable as an option
_READ = 600  # characters of a question that are matched

_DATA = yaml.safe_load(resources.files("lmms_eval_ad2.mcq").joinpath("taxonomy.yaml").read_text("utf-8"))
SUBTASKS: dict[str, tuple[str, ...]] = {task: tuple(names) for task, names in _DATA["subtasks"].items()}
TASKS = tuple(SUBTASKS)
TASK_OF = {name: task for task, names in SUBTASKS.items() for name in names}

_Rules = list[tuple[re.Pattern[str], str]]
_DRIVELM: _Rules = [(re.compile(pattern), name) for pattern, name in _DATA["drivelm"]]
_WORDS: _Rules = [(re.compile(pattern), name) for pattern, name in _DATA["words"]]
_TAG = re.compile(r"<[^<>]{1,100}>")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")  # NuScenes-QA's


def classify(record: Record) -> tuple[str, str] | str:
    """(task, sub-task) of the question, or a reason code: no_question, no_answer, long_answer, no_subtask."""
    question = masked(record.question.get("en"))
    if not question:
        return NO_QUESTION
    answer = answer_text(record)
    if not answer or record.meta.get("unanswered"):
        return NO_ANSWER
    if len(answer) > LONGEST_ANSWER:
        return LONG_ANSWER
    name = _subtask(record, question)
    return (TASK_OF[name], name) if name else NO_SUBTASK


def masked(question: str) -> str:
    """The question as matched by patterns: lower case, single blanks, object tags as <o>, at most _READ characters."""
    return " ".join(_TAG.sub("<o>", question[: 4 * _READ]).lower().split())[:_READ]


def answer_text(record: Record) -> str:
    """The answer in the form of an option: "Yes.", "Two", "Going ahead."; "" if there is none.

    If the source has options, the text of the right one. The first letter is upper case; a final full stop is kept
    if the source has one, and added after yes and no.
    """
    answer = next((o.text.get("en") for o in record.options if o.letter == record.letter), record.answer.get("en"))
    text = " ".join(answer.split())
    if record.form == "yesno":
        return f"{text.rstrip('.').capitalize()}." if text else ""
    if record.form == "count" and text.isdecimal() and len(text) < 3 and int(text) < len(_NUMBERS):
        text = _NUMBERS[int(text)]
    return text[:1].upper() + text[1:]


def _subtask(record: Record, question: str) -> str | None:
    if record.benchmark == "drivelm":
        form = next((name for pattern, name in _DRIVELM if pattern.match(question)), None)
        task = "planning" if record.task == "behavior" else record.task
        found = form or _by_words(question, SUBTASKS.get(task))
        return found or ("free-form comment" if task == "planning" else None)
    if record.benchmark == "nuscenes_qa":
        # The comparison questions of the release are about status ("the same status as ...").
        about_status = record.subtask == "status" or (record.subtask == "comparison" and "status" in question)
        return "motion state" if about_status else "surrounding objects"
    task, subtask = _name(record.task), _name(record.subtask)
    return subtask if TASK_OF.get(subtask) == task else _by_words(question, SUBTASKS.get(task))


def _by_words(question: str, among: Iterable[str] | None) -> str | None:
    """The first sub-task whose words are found, limited to `among` if given."""
    allowed = frozenset(TASK_OF if among is None else among)
    return next((name for pattern, name in _WORDS if name in allowed and pattern.search(question)), None)


@lru_cache(maxsize=1024)
def _name(text: str) -> str:
    """ "Goal_Action" -> "goal action"."""
    return text.strip().lower().replace("_", " ")
