"""Interpreters by their command-line specification (`--interpreter`, `--mode`), and HybridInterpreter.

    rules
    endpoint:MODEL@http://host:port/v1[,...] | lmms:NAME[,...]      with --mode cng or dcs

With `describer` none, offline, endpoint:... or lmms:... the slow system gets a description, or nothing, instead of
the image.

Hybrid mode switching (Bench2ADVLM section 5): the fast system's answer to the threat question selects the slow system.
The paper's text takes LLaVA (behaviour quality) "for risky cases and LLaMA otherwise", but its "(i.e., yes/no for
LLaMA/LLaVA)" states the reverse. Implemented as in the sentence: yes -> second, no -> first. An answer that is neither
is treated as "otherwise" and marked in the mode of its InterpretedControl, so that records count such ticks.

The readers of replies are imported by the first that needs one: their patterns take most of a second to compile, which
a run of the expert need not spend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from closedloop_plugin.core.image_encoding import common_encodings, image_encodings, image_for
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Control, Decision, InterpretedControl, Observation
from closedloop_plugin.driver.agent import DecisionRequest, is_concurrent
from closedloop_plugin.driver.agents.driving_prompts import situation, top_speed
from closedloop_plugin.driver.agents.make import make_backend
from closedloop_plugin.driver.agents.model_backend import (
    ModelBackend,
    ModelQuestion,
    ModelReply,
    PromptHashes,
    encoding_of,
    fenced,
    harmless,
)
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.describers import (
    FRONT,
    ModelDescriber,
    NoDescriber,
    OfflineDescriber,
    SceneDescriber,
)
from closedloop_plugin.driver.interpreters.parsing.controls import UnreadableReply, read_cng, read_dcs
from closedloop_plugin.driver.interpreters.parsing.fine_grained import mentions_speed
from closedloop_plugin.driver.prompts.texts import PromptTexts, texts_of
from lmms_eval_ad2.core.errors import Ad2Error

# ModelInterpreter: a model as slow system. The fast system's texts enter its prompt, its reply is parsed to a control.
#
# A vision-language model gets the front image; with a describer the model gets a description of it instead.

SITUATIONS = ("none", "speed", "full")  # what the prompt says besides the words and the image
NOT_FOR_CONTROL = ("threat",)  # selects the slow system in hybrid mode; not a driving command


class ModelInterpreter:
    """`read(reply, adapted)`: the Control, see read_cng; raises UnreadableReply. `choices`: further placeholders of the
    mode's prompt. `official`: numbers are adapted as in the public code, and counted; else such a reply is unread.
    `situation`: one of SITUATIONS; None: the profile's."""

    local = False

    def __init__(
        self,
        mode: str,
        backend: ModelBackend,
        read: Callable[[str, list[str] | None], Control],
        texts: PromptTexts,
        profile: Profile,
        *,
        describer: SceneDescriber | None = None,
        choices: dict[str, str] | None = None,
        official: bool = False,
        situation: str | None = None,
    ) -> None:
        self.mode, self.backend, self.texts, self.profile = mode, backend, texts, profile
        self.describer = describer
        self.name = f"{mode}:{backend.name}"
        self.concurrent = is_concurrent(backend) and (describer is None or is_concurrent(describer))
        self.encoding, seen = encoding_of(backend)
        self.encodings = seen if describer is None else image_encodings(describer)
        self._read, self._choices, self._official = read, choices or {}, official
        self.situation = profile.situation if situation is None else situation

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret. The model is not called for a decision without text, or without description."""
        controls: dict[int, InterpretedControl] = {
            i: InterpretedControl(None, "", reason, self.mode)
            for i, (_, d) in enumerate(items)
            if (reason := _nothing_to_interpret(d))
        }
        remaining = [i for i in range(len(items)) if i not in controls]
        scenes = self._scenes([items[i][0] for i in remaining])
        questions: list[tuple[int, ModelQuestion, float]] = []  # with the seconds of its description
        for i, scene in zip(remaining, scenes, strict=True):
            if scene.error is not None:
                controls[i] = InterpretedControl(
                    None, scene.error, "no_description", self.mode, scene.seconds, fault=scene.fault
                )
            else:
                questions.append((i, self._question(i, *items[i], scene.text), scene.seconds))
        replies = self.backend.ask([q for _, q, _ in questions]) if questions else []
        hashes = PromptHashes()
        described = dict(zip(remaining, scenes, strict=True))
        for (i, question, seconds), reply in zip(questions, replies, strict=True):
            own = hashes.usage([question], [described[i], reply])
            controls[i] = replace(self._interpreted(reply, seconds), usage=own)
        return [controls[i] for i in range(len(items))]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            **self.backend.describe(),
            "sees": "words" if self.describer else "front camera",
            **({"description": self.describer.describe()} if self.describer else {}),
            "profile": self.profile.name,
            "situation": self.situation,
            "prompts": self.texts.source,
            "prompts_sha256": self.texts.sha256,
        }

    def prompt(self, observation: Observation, decision: Decision, description: str = "") -> str:
        """The prompt of one question; texts of the fast system are fenced in it."""
        texts = {task: text for task, text in decision.texts.items() if task not in NOT_FOR_CONTROL and text.strip()}
        note = ""
        if any(mentions_speed(text) for text in texts.values()):
            top = f"{top_speed(self.profile, observation):g}"
            note = "\n" + self.texts.fill("suffix_note", top=top)
        scene = self.texts.fill("scene_image")
        if self.describer:
            scene = self.texts.fill("scene_words", description=harmless(description))
        return self.texts.fill(
            self.mode,
            situation=self._told(observation),
            scene=scene,
            words="\n\n".join(fenced(task, text) for task, text in texts.items()),
            suffix_note=note,
            **self._choices,
        )

    def _told(self, observation: Observation) -> str:
        """The situation in a line of its own, or nothing."""
        if self.situation == "full":
            return f"\n{situation(self.texts, observation)}"
        if self.situation == "speed":
            return "\n" + self.texts.fill("situation_speed", speed=f"{observation.speed:.1f}")
        return ""

    def _scenes(self, requests: Sequence[DecisionRequest]) -> list[ModelReply]:
        without = ModelReply(tokens_in=0, tokens_out=0)  # no request
        return self.describer.describe_views(requests) if self.describer else [without] * len(requests)

    def _question(self, number: int, request: DecisionRequest, decision: Decision, description: str) -> ModelQuestion:
        key = f"{number}|{request.episode}|{request.observation.tick}|{self.mode}"
        images = () if self.describer else (image_for(request.observation.images, FRONT, self.encoding),)
        return ModelQuestion(key, self.prompt(request.observation, decision, description), images)

    def _interpreted(self, reply: ModelReply, before_s: float) -> InterpretedControl:
        seconds = before_s + reply.seconds
        if reply.error is not None:
            reason = f"no_reply {reply.error.split(':')[0]}"
            return InterpretedControl(None, reply.error, reason, self.mode, seconds, fault=reply.fault)
        if reply.cut:
            return InterpretedControl(None, reply.text, "truncated", self.mode, seconds)
        adapted: list[str] | None = [] if self._official else None
        try:
            control = self._read(reply.text, adapted)
            return InterpretedControl(control, reply.text, None, self.mode, seconds, tuple(adapted or ()))
        except UnreadableReply as exc:
            return InterpretedControl(None, reply.text, str(exc), self.mode, seconds)


def _nothing_to_interpret(decision: Decision) -> str | None:
    if decision.error is not None:
        return "agent_error"
    commands = (text for task, text in decision.texts.items() if task not in NOT_FOR_CONTROL)
    return None if any(text.strip() for text in commands) else "no_answer"


def model_interpreter(
    mode: Literal["cng", "dcs"],
    backend: ModelBackend,
    texts: PromptTexts,
    profile: Profile,
    describer: SceneDescriber | None = None,
    *,
    official: bool = False,
    situation: str | None = None,
) -> ModelInterpreter:
    """The slow system of a mode of Bench2ADVLM section 3.1.

    cng, Continuous Numerical Generation: the model writes the control as numbers. dcs, Discrete Classification
    Selection: it chooses from the profile's sets.
    """

    def read_choice(reply: str, adapted: list[str] | None) -> Control:
        return read_dcs(reply, profile, adapted)

    names = ("throttle_set", "steer_set", "brake_set") if mode == "dcs" else ()
    return ModelInterpreter(
        mode,
        backend,
        read_choice if mode == "dcs" else read_cng,
        texts,
        profile,
        describer=describer,
        choices={name: ", ".join(f"{value:g}" for value in getattr(profile, name)) for name in names},
        official=official,
        situation=situation,
    )


MODES = ("cng", "dcs", "rules", "hybrid")
TASK = "threat"  # of the agent, required for hybrid mode


def make_interpreter(
    spec: str,
    mode: str,
    profile: Profile,
    *,
    describer: str | None = None,
    prompts: PromptTexts | Path | str | None = None,
    cache: Path | None = None,
    seed: int = 0,
    official: bool = False,
    situation: str | None = None,
    make_model: Callable[..., ModelBackend] | None = None,
) -> Interpreter:
    """The interpreter for `spec` and `mode`. Raises Ad2Error, in one line. For mode "hybrid" see HybridInterpreter.

    `official`, `situation`: see ModelInterpreter. `make_model`: of its models; None: make_backend.
    """
    spec = spec.strip()
    if mode not in MODES:
        raise Ad2Error(f"no mode '{mode}'; known: {', '.join(MODES)}")
    if mode == "hybrid":
        raise Ad2Error("mode hybrid takes two interpreters: --interpreter A --config interpreter2=B")
    if spec == "rules":
        from closedloop_plugin.driver.interpreters.rules import RuleInterpreter

        return RuleInterpreter(profile)
    if mode == "rules":
        raise Ad2Error(f"mode rules uses no model, so '{spec}' is not allowed; use --mode cng or dcs with it")
    if not spec.startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no interpreter '{spec}'; known: rules, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")

    texts = texts_of(prompts)
    model_of = make_model or make_backend
    seen = _describer(describer, texts, lambda spec: model_of(spec, cache=cache, seed=seed))
    backend = model_of(spec, cache=cache, seed=seed)
    kind: Literal["cng", "dcs"] = "cng" if mode == "cng" else "dcs"
    return model_interpreter(kind, backend, texts, profile, seen, official=official, situation=situation)


def tasks_for(interpreter: Interpreter, tasks: Sequence[str]) -> tuple[str, ...]:
    """`tasks` and those that this interpreter needs from the fast system."""
    needed = (TASK,) if interpreter.mode == "hybrid" else ()
    return tuple(dict.fromkeys((*tasks, *needed)))


def _describer(
    spec: str | None, texts: PromptTexts, make_model: Callable[[str], ModelBackend]
) -> SceneDescriber | None:
    if spec is None:
        return None
    if spec.strip() == "offline":
        return OfflineDescriber()
    if spec.strip() == "none":
        return NoDescriber()
    if not spec.strip().startswith(("endpoint:", "lmms:")):
        raise Ad2Error(
            f"no describer '{spec}'; known: none, offline, endpoint:MODEL@http://host:port/v1, lmms:NAME,..."
        )
    return ModelDescriber(make_model(spec), texts)


class HybridInterpreter:
    """Uses `second` if the fast system sees a threat, else `first`."""

    mode = "hybrid"

    def __init__(self, first: Interpreter, second: Interpreter) -> None:
        self.first, self.second = first, second
        self.local = first.local and second.local
        self.concurrent = is_concurrent(first) and is_concurrent(second)
        self.encodings = common_encodings((first, second))
        self.name = f"hybrid:{first.name}|{second.name}"

    def interpret(self, items: Sequence[tuple[DecisionRequest, Decision]]) -> list[InterpretedControl]:
        """See Interpreter.interpret. Each of the two is called at most once, with its items."""
        threats = [threat(decision) for _, decision in items]
        controls: dict[int, InterpretedControl] = {}
        for system, chosen in ((self.first, False), (self.second, True)):
            own = [i for i, seen in enumerate(threats) if (seen is True) == chosen]
            for i, control in zip(own, system.interpret([items[i] for i in own]) if own else [], strict=True):
                controls[i] = _named(control, system.name, threats[i])
        return [controls[i] for i in range(len(items))]

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": self.mode,
            "no_threat": self.first.describe(),
            "threat": self.second.describe(),
        }


def threat(decision: Decision) -> bool | None:
    """The fast system's answer to the threat question; None if it cannot be parsed."""
    from lmms_eval_ad2.parsing import parse

    answer = getattr(parse(decision.texts.get(TASK, ""), "yesno"), "value", None)
    return {"yes": True, "no": False}.get(str(answer))


def _named(control: InterpretedControl, name: str, seen: bool | None) -> InterpretedControl:
    mode = name if seen is not None else f"{name} (threat unread)"
    return replace(control, mode=mode)
