"""The functions that our YAMLs name. A doc is a row of the data home plus `ad2_task` (harness/data.py)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval_ad2.harness.task_data import TASKS, LoadedTask
from lmms_eval_ad2.prompts import task_prompt, text
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.sample import reference_text

METRIC = "ad2"  # the one per-sample metric; harness/judging.py turns it into the columns of a task


@functools.lru_cache(maxsize=1024)
def _parse(row: str) -> Record:
    return Record.from_json(row)


def open_doc(doc: Mapping[str, Any]) -> tuple[Record, LoadedTask]:
    return _parse(doc["record"]), TASKS[doc["ad2_task"]]


@functools.cache
def prompts() -> text.PromptSet:
    """The prompt texts of this run (AD2_PROMPTS overlays the packaged ones)."""
    return text.PromptSet.load()


def prompt_of(record: Record, task: LoadedTask) -> str:
    """The text of the first turn."""
    return task_prompt.prompt_text(record, task.variant, prompts())


def round_of(record: Record, task: LoadedTask, step: int, said: Sequence[str]) -> str:
    """The text of one turn when asked in rounds; `step` counts from 0."""
    return task_prompt.round_text(record, task.variant, step, said, prompts())


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    return prompt_of(*open_doc(doc))


def doc_to_visual(doc: Mapping[str, Any]) -> list[Any]:
    record, task = open_doc(doc)
    return task_prompt.prompt_images(record, task.image_root, task.variant)


def doc_to_target(doc: Mapping[str, Any]) -> str:
    record, task = open_doc(doc)
    if task.variant.asked_form(record.form) == "mc":
        return record.letter
    return reference_text(record, task.variant.lang)


def process_results(doc: Mapping[str, Any], results: Sequence[Any]) -> dict[str, Any]:
    """Hand the answer on with its row: reading and scoring happen once all answers are known (harness/judging.py)."""
    raw = results[0] if results else ""
    return {METRIC: {"row": doc["ad2_row"], "raw": raw if isinstance(raw, str) else str(raw)}}


def aggregate(items: Sequence[Any]) -> None:
    """lmms-eval wants a name in the YAML; harness/judging.py aggregates all columns of a task at once."""
    return


# --- step by step over several rounds (output_type generate_until_agentic) ---


def round_to_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None, previous_output: Sequence[str] | None = None,
    round_idx: int | None = None, previous_round_info: Any = None,
) -> Any:  # fmt: skip
    """lmms-eval's protocol: without outputs the first prompt; afterwards (visuals, text, terminal, outputs, info).

    The images of the first turn are shown again in every later one (AD2-Bench Fig. 4).
    """
    if previous_output is None or round_idx is None:
        return doc_to_text(doc)
    record, task = open_doc(doc)
    said = list(previous_output)
    if round_idx >= len(record.steps):
        # The stock loop keeps the last output only, and only if it looks like JSON.
        return None, None, True, [*said[:-1], pack_rounds(said)], {"rounds": round_idx}
    return None, round_of(record, task, round_idx, said), False, said, {"rounds": round_idx}


def pack_rounds(said: Sequence[str]) -> str:
    """One JSON text without "<": stripping of thinking tags must not reach from one round into another."""
    return json.dumps({"ad2_rounds": list(said)}, ensure_ascii=False).replace("<", "\\u003c")


def read_rounds(packed: str) -> str | list[str]:
    """The answers of all rounds; text of another shape (a failed request) is handed on as it is."""
    try:
        data = json.loads(packed)
        return [str(x) for x in data["ad2_rounds"]]
    except (ValueError, KeyError, TypeError):
        return packed
