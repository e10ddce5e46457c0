"""`ad2 eval --dry-run`: what the run would ask and what is missing, without loading a model.

The imports of a run are tried in a subprocess (import_probe.py), while the questions are counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.harness.run_plan import TaskPlan
    from lmms_eval_ad2.harness.task_selection import TaskSelection

CHARACTERS_PER_TOKEN = 4  # of English text, for the estimate of the judge's cost
ITEMS_BUILT = 4_000  # prompts of the judge that are built to count those without a cached reply


def run(model: str, model_args: str, out: Path, words: Sequence[str], tasks: str) -> int:
    """Print the plan, then every problem on a line of its own; 0 if the run could start, else 2.

    `words`: lmms-eval's command line for this run.
    """
    from lmms_eval_ad2.cli import lmms
    from lmms_eval_ad2.core.import_probe import ImportProbe
    from lmms_eval_ad2.harness import host_options, run_checks

    if unusable := run_checks.option_faults(host_options.parse(words)):
        return _end(unusable)  # without a limit there is nothing to plan
    probe = ImportProbe()
    from lmms_eval_ad2.harness.run_plan import HostOptions, RunPlanner, folder_of
    from lmms_eval_ad2.harness.task_selection import select

    host, selection = HostOptions.parse(words), select(tasks, lmms.include_path(words))
    ours, simple = selection.on_records, host.force_simple
    faults = run_checks.faults(
        model, model_args, str(out), force_simple=simple, ours=ours, device=lmms.value_of(words, "--device")
    )
    folder = folder_of(out, model, model_args, host)
    readable = _is_right(run_checks.check_prompts) and _is_right(lambda: run_checks.check_output(str(out)))
    planner = RunPlanner(host, folder if readable else None)
    plans = planner.plan([task for task in selection.tasks.values() if task.settings])
    faults += [*selection.faults, *(fault for plan in plans for fault in _faults(plan))]
    for line in selection.left_out:
        show(line, file=sys.stderr)
    _print_tasks(plans, selection)
    show(f"model: {_model(model, model_args, simple)}")
    show(f"folder: {folder}")
    if ours and readable and _is_right(run_checks.check_judge):
        show(f"judge: {_judge(plans, folder, host.repeats)}")
    report = probe.report()
    if report.torch:
        print(f"torch: {report.torch}")
    return _end([*faults, *([report.problem()] if report.fault else [])])


def _end(faults: Sequence[str]) -> int:
    for fault in faults:
        show(f"error: {fault}", file=sys.stderr)
    print("the run can start" if not faults else f"the run cannot start: {len(faults)} to correct, see above")
    return 2 if faults else 0


def _is_right(check: Any) -> bool:
    try:
        check()
    except Ad2Error:
        return False
    return True


def _model(name: str, model_args: str, force_simple: bool) -> str:
    """The model, its arguments without secrets, and what was found of what it needs."""
    from lmms_eval_ad2.harness import model_requirements
    from lmms_eval_ad2.harness.run_identity import redact
    from lmms_eval_ad2.storage.local_weights import pairs

    text = f"{name}, {redacted}" if (redacted := redact(model_args)) else name
    if model_requirements.faults(name, model_args, force_simple):
        return text
    wrapper = model_requirements.find_wrapper(name, force_simple)
    keys = model_requirements.key_variables(wrapper.model_id, pairs(model_args))
    return f"{text}: {wrapper.class_path}, libraries installed" + (f", {' or '.join(keys)} set" if keys else "")


def _faults(plan: TaskPlan) -> list[str]:
    if plan.fault:
        return [plan.fault]
    if not plan.missing:
        return []
    task, share = plan.task, "" if plan.read == plan.questions else f" (of {plan.read} questions read)"
    return [
        f"task {task.name}: {len(plan.missing)} of {plan.images} images{share} are missing, e.g. {plan.missing[0]}: "
        f"ad2 data verify {task.dataset} --split {task.split} --images DIR"
    ]


def _print_tasks(plans: Sequence[TaskPlan], selection: TaskSelection) -> None:
    """One row per task: questions, images, answers of an earlier run, and requests to come."""
    from lmms_eval_ad2.harness.run_plan import CERTAINTIES
    from lmms_eval_ad2.report.table import Table

    rows = [_row(plan) for plan in plans if not plan.fault]
    if len(rows) > 1:
        sums = [str(sum(getattr(p, name) for p in plans)) for name in ("questions", "answered", "requests")]
        worst = max((plan.certainty for plan in plans), key=CERTAINTIES.index)
        rows.append(("all", "", sums[0], "", sums[1], worst + sums[2]))
    if rows:
        headers = ("task", "data", "questions", "images present", "answered", "requests to come")
        print(Table(headers, rows, "llrlrr").plain())
    for plan in plans:
        for note in plan.notes:
            show(f"{plan.task.name}: {note}")
    for task in selection.tasks.values():
        if not task.settings:
            show(f"{task.name}: data ready ({task.dataset}); the number of requests depends on the drive")
    for name in selection.others:
        show(f"{name}: no task of this package, not checked")


def _row(plan: TaskPlan) -> tuple[str, ...]:
    sampled = "" if plan.read == plan.questions else f" ({plan.read} questions read)"
    return (
        plan.task.name, f"{plan.task.dataset}/{plan.task.split}", str(plan.questions),
        f"{plan.images - len(plan.missing)} of {plan.images}{sampled}", str(plan.answered),
        plan.certainty + str(plan.requests),
    )  # fmt: skip


def _judge(plans: Sequence[TaskPlan], folder: Path, replies: int) -> str:
    """The judge, its requests to come, and their cost if its settings have prices. `replies`: to each question."""
    from lmms_eval_ad2.harness.run_plan import sample
    from lmms_eval_ad2.judge import backend_of, make_judge

    items = replies * sum(plan.scaled(len(plan.judge_items)) for plan in plans)
    backend = backend_of(None)
    if backend != "openai":
        return f"{backend}, {items} texts to rate, no requests"
    judge: Any = make_judge(None, cache=folder / "judge.sqlite")
    if judge.images:
        return f"{judge.label} at {judge.endpoint.base_url}, at most {items * judge.repeats} requests with images"
    share = min(1.0, ITEMS_BUILT / max(1, sum(len(plan.judge_items) for plan in plans)))
    requests = characters = 0
    for plan in plans:
        built = sample(plan.judge_items, share)
        unsent = judge.unsent([replace(item, repetition=k) for item in built for k in range(judge.repeats)])
        if len(built) == plan.scaled(len(plan.judge_items)):
            unsent = list(dict(unsent).items())  # all are known, and so are equal ones
        factor = replies * plan.scaled(len(plan.judge_items)) / max(1, len(built))
        requests += math.ceil(len(unsent) * factor)
        characters += round(sum(len(m["content"]) for _, body in unsent for m in body["messages"]) * factor)
    certainty = "at most" if share == 1 and all(plan.read == plan.questions for plan in plans) else "about"
    text = f"{judge.label} at {judge.endpoint.base_url}, {certainty} {requests} requests for {items} texts to rate"
    return f"{text}; {_cost(judge, requests, characters // CHARACTERS_PER_TOKEN)}"


def _cost(judge: Any, requests: int, prompt_tokens: int) -> str:
    if judge.price is None:
        return "cost unknown: its settings have no price_prompt and price_completion"
    if judge.official_wording:  # its requests have no limit of tokens
        return f"cost {judge.price.cost(prompt_tokens, 0):.2f} (about {prompt_tokens} prompt tokens) and the replies"
    reply_tokens = requests * judge.sampling.max_tokens
    least, most = judge.price.cost(prompt_tokens, 0), judge.price.cost(prompt_tokens, reply_tokens)
    return f"cost {least:.2f} to {most:.2f} (about {prompt_tokens} prompt tokens, at most {reply_tokens} in replies)"
