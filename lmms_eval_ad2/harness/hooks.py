"""Functions that the task YAMLs name. A doc is a row of the data home plus `ad2_task` and `ad2_row` (task_data.py)."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.harness import plugin
from lmms_eval_ad2.harness.task_data import TASKS, LoadedTask
from lmms_eval_ad2.parsing.wrappers import unwrap
from lmms_eval_ad2.prompts import task_prompt, text
from lmms_eval_ad2.scoring.sample import reference_text

# `lmms-eval power --include-path` loads no models, so the entry point is not called; it imports this file for the
# functions that a YAML names, before it reads the data.
if "lmms_eval.tasks" in sys.modules:
    plugin.install_data()

METRIC = "ad2"  # the only per-sample metric; judging.py computes a task's columns from it


@functools.lru_cache(maxsize=1024)
def _parse(row: str) -> Record:
    return Record.from_json(row)


def open_doc(doc: Mapping[str, Any]) -> tuple[Record, LoadedTask]:
    return _parse(doc["record"]), TASKS[doc["ad2_task"]]


@functools.cache
def prompts() -> text.PromptSet:
    """The prompt texts of this run (AD2_PROMPTS extends the packaged ones)."""
    return text.PromptSet.load()


def prompt_of(record: Record, task: LoadedTask) -> str:
    """The text of the first turn."""
    return task_prompt.prompt_text(record, task.variant, prompts())


def round_of(record: Record, task: LoadedTask, step: int, replies: Sequence[str]) -> str:
    """The text of one turn if asked in rounds; `step` counts from 0, `replies` are those of earlier turns."""
    return task_prompt.round_text(record, task.variant, step, replies, prompts())


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    return prompt_of(*open_doc(doc))


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    record, task = open_doc(doc)
    return task_prompt.prompt_images(record, task.image_root, task.variant)


def doc_to_target(doc: Mapping[str, Any]) -> str:
    record, task = open_doc(doc)
    if task.variant.asked_form(record) == "mc":
        return record.letter
    return reference_text(record, task.variant.lang)


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Return the raw answer with its row: judging.py parses and scores all answers of a task at once.

    `results`: one answer, or with `--repeats` all of them (task_data.py), for some types of output as a list in it.
    """
    answers = results[0] if results and isinstance(results[0], list) else results
    texts = [answer if isinstance(answer, str) else str(answer) for answer in answers] or [""]
    return {METRIC: {"row": doc["ad2_row"], "raw": texts if len(texts) > 1 else texts[0]}}


def aggregate(items: Sequence[Any]) -> None:
    """Placeholder that lmms-eval requires in the YAML; judging.py aggregates all columns of a task at once."""
    return


# --- step by step over several rounds (output_type generate_until_agentic) ---


def round_to_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None, previous_output: Sequence[str] | None = None,
    round_idx: int | None = None, previous_round_info: Any = None,
) -> Any:  # fmt: skip
    """lmms-eval's protocol: the first prompt, or, given outputs, (visuals, text, terminal, outputs, info).

    Every turn shows the images (`visuals_of_round`; AD2-Bench Fig. 4) and repeats the earlier answers without their
    thoughts, as chat templates of models that think do.
    """
    if previous_output is None or round_idx is None:
        return doc_to_text(doc)
    record, task = open_doc(doc)
    replies = list(previous_output)
    if round_idx >= len(record.steps):
        # lmms-eval keeps the last output only, and only if it looks like JSON.
        return None, None, True, [*replies[:-1], pack_rounds(replies)], {"rounds": round_idx}
    answers = [unwrap(reply)[0] for reply in replies]
    return None, round_of(record, task, round_idx, answers), False, replies, {"rounds": round_idx}


def visuals_of_round(doc: Mapping[str, Any], step: int) -> list[Any]:
    """The images of turn `step` (from 0), with the mark of its step if that has one."""
    record, task = open_doc(doc)
    return task_prompt.prompt_images(record, task.image_root, task.variant, step)


def pack_rounds(replies: Sequence[str]) -> str:
    """Pack the replies into one JSON text without "<", so that removing thinking tags cannot span several rounds."""
    return json.dumps({"ad2_rounds": list(replies)}, ensure_ascii=False).replace("<", "\\u003c")


def read_rounds(packed: str) -> str | list[str]:
    """Return the replies of all rounds; other text (of a failed request) is returned unchanged."""
    try:
        data = json.loads(packed)
        return [str(x) for x in data["ad2_rounds"]]
    except (ValueError, KeyError, TypeError):
        return packed
