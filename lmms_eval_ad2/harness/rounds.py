"""Chains of thought over several rounds: step k of all documents is generated together, to fill the model's batches.

lmms-eval's own loop (`_run_generate_until_agentic`) handles one document after the other. This loop follows the same
protocol for requests of our tasks and passes all others to the original.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.harness.hooks import visuals_of_round
from lmms_eval_ad2.harness.task_data import TASKS


@dataclass
class _Conversation:
    """The conversation about one document: the replies so far and the next prompt (`context`)."""

    request: Any
    context: str
    replies: list[str] = field(default_factory=list)
    info: Any = None
    done: bool = False


def wrap_agentic(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(lm: Any, requests: list[Any], agentic_trace_mode: str = "basic", response_cache: Any = None) -> list[str]:
        ours = [i for i, r in enumerate(requests) if r.args[5] in TASKS]
        others = sorted(set(range(len(requests))) - set(ours))
        outputs: dict[int, str] = dict(zip(ours, lock_step(lm, [requests[i] for i in ours]), strict=True))
        if others:
            rest = original(
                lm, [requests[i] for i in others], agentic_trace_mode=agentic_trace_mode, response_cache=response_cache
            )
            outputs.update(zip(others, rest, strict=True))
        return [outputs[i] for i in range(len(requests))]

    return run


def lock_step(lm: Any, requests: list[Any]) -> list[str]:
    """Return the last output of every document; all unfinished documents are generated together, step by step.

    A document ends after its own last step (hooks.round_to_text); their numbers of steps may differ.
    """
    conversations = [_Conversation(r, r.args[0]) for r in requests]
    step = 0
    while live := [t for t in conversations if not t.done]:
        answers = lm.generate_until([_instance(lm, t, step) for t in live])
        for conversation, answer in zip(live, answers, strict=True):
            _advance(lm, conversation, answer, step)
        step += 1
    return [t.replies[-1] if t.replies else "" for t in conversations]


def _advance(lm: Any, conversation: _Conversation, answer: Any, step: int) -> None:
    from lmms_eval.api.instance import unwrap_generation_output

    text, _ = unwrap_generation_output(answer)
    conversation.replies.append(str(text))
    _, _, _, to_text, doc_id, task, split = conversation.request.args
    doc = lm.task_dict[task][split][doc_id]
    _, following, done, replies, conversation.info = to_text(
        doc, previous_output=conversation.replies, round_idx=step + 1, previous_round_info=conversation.info
    )
    conversation.replies, conversation.done = list(replies), bool(done)
    conversation.context = conversation.context if following is None else following


def _instance(lm: Any, conversation: _Conversation, step: int) -> Any:
    """A generate_until request for one turn, in the format of the model (simple or chat).

    A simple model may use the image function of the first request for a whole batch; all its requests are of one step.
    """
    from lmms_eval.api.instance import Instance

    _, settings, _, _, doc_id, task, split = conversation.request.args
    gen, to_visual = copy.deepcopy(settings), functools.partial(visuals_of_round, step=step)
    gen.pop("max_agentic_steps", None)
    context = conversation.context
    metadata = {**(conversation.request.metadata or {}), "ad2_step": step}
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
