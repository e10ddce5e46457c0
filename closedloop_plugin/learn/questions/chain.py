"""Chains of thought: what matters, what happens next, what the car should do (AD2-Bench section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

from closedloop_plugin.learn.questions.actions import action_text
from closedloop_plugin.learn.questions.evidence import evidence_of
from closedloop_plugin.learn.questions.words import text
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion, situation
from lmms_eval_ad2.core.records import ReasoningStep

TASK = "cot"
ASKED = text("What should the car do?", "我们的车应该怎么做？")
STEPS = (
    (text("see", "观察"), text("What matters most?", "什么最重要？")),
    (text("predict", "预测"), text("What happens next?", "接下来会发生什么？")),
    (text("act", "行动"), ASKED),
)


def chain(asker: FrameQuestions) -> Iterator[WorldQuestion]:
    """At most one chain: only if the picture shows the reason, and each step has a clear answer."""
    frame, evidence = asker.frame, evidence_of(asker.frame)
    action = action_text(frame.action)
    if evidence is None or evidence.next is None or action is None:
        return
    about = situation(frame)
    answers = (evidence.seen, evidence.next, action)
    yield asker.ask(
        TASK, task=TASK, subtask=TASK, form="chain",
        question=text(f"{about.en} {ASKED.en}", f"{about.zh}{ASKED.zh}"), answer=action, group=TASK,
        value=evidence.kind, truth={"reason": frame.reason, "actor": evidence.shown or None},
        steps=[ReasoningStep(name, asked, told) for (name, asked), told in zip(STEPS, answers, strict=True)],
    )  # fmt: skip
