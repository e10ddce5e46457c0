"""Chains of thought over several rounds: all documents take step k together, so that a model's batch is full.

lmms-eval's own loop (`_run_generate_until_agentic`) plays one document after the other. This one
speaks the same protocol for requests of our tasks and hands everything else to the original.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.harness.task_data import TASKS


@dataclass
class _Conversation:
    """One document's conversation: what was said, and what is asked next."""

    request: Any
    context: str
    said: list[str] = field(default_factory=list)
    info: Any = None
    done: bool = False


def wrap_agentic(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(lm: Any, requests: list[Any], agentic_trace_mode: str = "basic", response_cache: Any = None) -> list[str]:
        mine = [i for i, r in enumerate(requests) if r.args[5] in TASKS]
        theirs = sorted(set(range(len(requests))) - set(mine))
        said: dict[int, str] = dict(zip(mine, lock_step(lm, [requests[i] for i in mine]), strict=True))
        if theirs:
            asked = [requests[i] for i in theirs]
            rest = original(lm, asked, agentic_trace_mode=agentic_trace_mode, response_cache=response_cache)
            said.update(zip(theirs, rest, strict=True))
        return [said[i] for i in range(len(requests))]

    return run


def lock_step(lm: Any, requests: list[Any]) -> list[str]:
    """The last output of every document; all live documents are asked together, step by step.

    A document ends by itself after its last step (hooks.round_to_text), however many it has.
    """
    talks = [_Conversation(r, r.args[0]) for r in requests]
    step = 0
    while live := [t for t in talks if not t.done]:
        answers = lm.generate_until([_instance(lm, t, step) for t in live])
        for talk, answer in zip(live, answers, strict=True):
            _advance(lm, talk, answer, step)
        step += 1
    return [t.said[-1] if t.said else "" for t in talks]


def _advance(lm: Any, talk: _Conversation, answer: Any, step: int) -> None:
    from lmms_eval.api.instance import unwrap_generation_output

    text, _ = unwrap_generation_output(answer)
    talk.said.append(str(text))
    _, _, _, to_text, doc_id, task, split = talk.request.args
    doc = lm.task_dict[task][split][doc_id]
    _, following, done, said, talk.info = to_text(
        doc, previous_output=talk.said, round_idx=step + 1, previous_round_info=talk.info
    )
    talk.said, talk.done = list(said), bool(done)
    talk.context = talk.context if following is None else following


def _instance(lm: Any, talk: _Conversation, step: int) -> Any:
    """A plain generate_until request for one turn, in the shape of the model's kind."""
    from lmms_eval.api.instance import Instance

    _, settings, to_visual, _, doc_id, task, split = talk.request.args
    gen = copy.deepcopy(settings)
    gen.pop("max_agentic_steps", None)
    context = talk.context
    metadata = {**(talk.request.metadata or {}), "ad2_step": step}
    if getattr(lm, "is_simple", False):
        arguments: tuple[Any, ...] = (context, gen, to_visual, doc_id, task, split)
    else:

        def messages(doc: Any) -> list[dict[str, Any]]:
            content = [{"type": "image", "url": image} for image in to_visual(doc)]
            return [{"role": "user", "content": [*content, {"type": "text", "text": context}]}]

        arguments = (context, messages, gen, doc_id, task, split)
    return Instance(
        request_type="generate_until", arguments=arguments, idx=0, metadata=metadata, task_name=task, doc_id=doc_id
    )
