"""What `ad2 serve` serves: a model without the driving stack, and the complete driver behind the name ad2-driver.

ad2-driver is fast system, slow system and the profile's post-processing. The text of a request is a JSON object, and so
is the text of the reply (docs/serve.md). Control between two decisions (when a decision takes effect and for how long,
coasting without one) is up to the client.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.agents.model_backend import ModelBackend, ModelQuestion
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.applied_control import verdict
from closedloop_plugin.interfaces.serve.batching import ServiceReply, ServiceRequest
from closedloop_plugin.interfaces.serve.requests import (
    ApiError,
    ChatCompletionRequest,
    CompletionSettings,
    parsed,
    pictures,
    wrong,
)
from lmms_eval_ad2.storage.identity import code_label

PROTOCOL = 1
FAR = 100_000.0  # m, m/s: bound of the numbers in a request
EPISODES = 1024  # episodes open at once in the agent; beyond it the oldest are ended


class ModelService:
    """Serves a ModelBackend under the model's own name."""

    def __init__(self, backend: ModelBackend) -> None:
        self.backend = backend
        self.name = str(backend.describe().get("model") or backend.name)
        self._numbers = itertools.count()

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """See ChatService.read. Requests with different generation settings are not batched together."""
        self._tuned(chat.settings)
        text = "\n\n".join(filter(None, (chat.system, "\n".join(chat.user.texts))))
        if not text.strip():
            raise wrong("messages", "a question as text")
        images = pictures(chat.user.urls, [f"image {i}" for i in range(1, len(chat.user.urls) + 1)])
        return ServiceRequest(
            chat.settings, (chat.settings, ModelQuestion(str(next(self._numbers)), text, tuple(images)))
        )

    def answer(self, payloads: Sequence[tuple[CompletionSettings, ModelQuestion]]) -> list[ServiceReply]:
        """See ChatService.answer."""
        replies = self._tuned(payloads[0][0]).ask([question for _, question in payloads])
        failed = [reply.error for reply in replies if (reply.error or "").startswith("generation_failed")]
        if 1 < len(replies) == len(failed):  # one exception failed the whole batch: RequestBatcher retries each alone
            raise RuntimeError(failed[0])
        answers = []
        for reply in replies:
            if reply.error is None:
                answers.append(ServiceReply(reply.text, "length" if reply.cut else "stop"))
            elif reply.error.startswith("refused"):  # content filter of the endpoint behind this one
                answers.append(ServiceReply("", "content_filter"))
            else:
                answers.append(ServiceReply(error=reply.error, failed=True))
        return answers

    def _tuned(self, settings: CompletionSettings) -> ModelBackend:
        """The backend with the settings of a request. ApiError if it cannot take them."""
        if settings == CompletionSettings():
            return self.backend
        tuned = getattr(self.backend, "tuned", None)
        if tuned is None:
            raise ApiError(400, f"{self.name} takes no max_tokens and no temperature", code="unsupported_value")
        return tuned(settings.max_tokens, settings.temperature)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError
    return text


Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-FAR, le=FAR)]
_EXPECTED = {
    "ad2_drive": f"{PROTOCOL}: the protocol version of this server",
    "episode": "a name of 1 to 200 printable characters",
    "command": f"one of {', '.join(RouteCommand)}",
    "tick": f"a whole number from 0 to {2**53}",
    "time_s": f"a number from 0 to {2.0**53:g}",
    "speed_limit": f"a number from 0 to {FAR:g}",
    **dict.fromkeys(("speed", "route_offset"), f"a number from {-FAR:g} to {FAR:g}"),
    **dict.fromkeys(("target", "target[]"), f"[metres forward, metres to the left], numbers from {-FAR:g} to {FAR:g}"),
    **dict.fromkeys(("cameras", "cameras[]"), "the names of the images, in their order"),
}


class DriverRequest(BaseModel):
    """The JSON object of a request to ad2-driver. Frame: x forward, y left, m; speeds in m/s."""

    ad2_drive: Literal[1]
    episode: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
    tick: int = Field(strict=True, ge=0, le=2**53)
    time_s: float = Field(strict=True, allow_inf_nan=False, ge=0.0, le=2.0**53)
    speed: Number
    command: RouteCommand
    target: tuple[Number, Number]
    speed_limit: Annotated[Number, Field(ge=0.0)] | None = None
    route_offset: Number | None = None
    cameras: list[str]


@dataclass(frozen=True)
class ServedTick:
    """The last tick of an episode, the control sent before it, and its own, which replaces that of an earlier try."""

    tick: int = -1
    before: Control | None = None
    control: Control | None = None


class DriverService:
    """A non-privileged agent with its interpreter (None for an agent that returns controls itself)."""

    name = "ad2-driver"

    def __init__(
        self,
        agent: Agent,
        interpreter: Interpreter | None,
        profile: Profile,
        *,
        policy: str = "official",
        decision_hz: float | None = None,
        seed: int = 0,
    ) -> None:
        self.agent, self.interpreter, self.profile, self.policy = agent, interpreter, profile, policy
        self.decision_hz, self.seed = decision_hz or profile.decision_hz, seed
        self._episodes: OrderedDict[str, ServedTick] = OrderedDict()  # the one that asked last at the end

    def describe(self) -> dict[str, Any]:
        """The body of GET /v1/ad2/driver, from which a client configures its sensors."""
        return {
            "ad2_drive": PROTOCOL,
            "agent": self.agent.describe(),
            "interpreter": self.interpreter.describe() if self.interpreter else None,
            "profile": self.profile.name,
            "policy": self.policy,
            "hz": self.profile.hz,
            "decision_hz": self.decision_hz,
            "cameras": [asdict(camera) for camera in self.agent.cameras],
            "version": code_label(),
        }

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """See ChatService.read. Images of cameras that the agent does not use are not decoded."""
        texts, urls = chat.user.texts, chat.user.urls
        if len(texts) != 1 or chat.system:
            raise wrong("messages", "images, then one text that holds the JSON object of ad2-driver")
        asked = parsed(texts[0], "ad2-driver: the text", DriverRequest, _EXPECTED)
        if len(set(asked.cameras)) != len(asked.cameras) or len(asked.cameras) != len(urls):
            raise ApiError(
                400, f"cameras: {len(asked.cameras)} names for {len(urls)} images, each once", param="cameras"
            )
        sent = dict(zip(asked.cameras, urls, strict=True))
        wanted = [camera.name for camera in self.agent.cameras]
        if missing := [name for name in wanted if name not in sent]:
            raise wrong("cameras", f"the driver's {', '.join(wanted)}; there is no {', '.join(missing)}")
        images = dict(zip(wanted, pictures([sent[name] for name in wanted], wanted), strict=True))
        observation = Observation(
            tick=asked.tick, time_s=asked.time_s, speed=asked.speed, command=asked.command, target=asked.target,
            images=images.__getitem__, route_offset=asked.route_offset,
            **({} if asked.speed_limit is None else {"speed_limit": asked.speed_limit}),
        )  # fmt: skip
        return ServiceRequest("drive", DecisionRequest(asked.episode, observation))

    def answer(self, requests: Sequence[DecisionRequest]) -> list[ServiceReply]:
        """See ChatService.answer."""
        requests = [self._tracked(request) for request in requests]
        decisions = self.agent.decide(requests)
        failed = [d.error for d in decisions if "generation_failed" in (d.error or "")]
        if 1 < len(decisions) == len(failed):  # one exception failed the whole batch: RequestBatcher retries each alone
            raise RuntimeError(failed[0])
        interpreted = self._interpret(requests, decisions)
        return [self._reply(*parts) for parts in zip(requests, decisions, interpreted, strict=True)]

    def _tracked(self, request: DecisionRequest) -> DecisionRequest:
        """The request with the control that was sent before its tick; a repeated request does not see its first try.

        An episode is started in the agent at its first request, and again if its tick goes back.
        """
        tick = request.observation.tick
        last = self._episodes.pop(request.episode, ServedTick())
        if tick < last.tick:
            self.agent.end(request.episode)
        if last.tick < 0 or tick < last.tick:
            digest = hashlib.sha256(f"{self.seed}:{request.episode}".encode()).digest()
            self.agent.start(request.episode, int.from_bytes(digest[:4], "big") >> 1)
            last = ServedTick()
        applied = last.before if tick == last.tick else last.control
        self._episodes[request.episode] = ServedTick(tick, before=applied, control=applied)
        if len(self._episodes) > EPISODES:
            self.agent.end(self._episodes.popitem(last=False)[0])
        return replace(request, applied=applied)

    def _interpret(
        self, requests: Sequence[DecisionRequest], decisions: Sequence[Decision]
    ) -> list[InterpretedControl | None]:
        """Interpret the decisions that are text; None for controls and errors."""
        interpreted: list[InterpretedControl | None] = [None] * len(requests)
        textual = [i for i, d in enumerate(decisions) if d.error is None and d.control is None]
        if textual and self.interpreter is not None:
            found = self.interpreter.interpret([(requests[i], decisions[i]) for i in textual])
            for i, control in zip(textual, found, strict=True):
                interpreted[i] = control
        return interpreted

    def _reply(
        self, request: DecisionRequest, decision: Decision, interpreted: InterpretedControl | None
    ) -> ServiceReply:
        control, error, unparsed = verdict(decision, interpreted, self.profile, request.observation.speed)
        if request.episode in self._episodes:
            served = self._episodes[request.episode]
            self._episodes[request.episode] = replace(served, control=control or COAST)
        reply = {
            "ad2_drive": PROTOCOL,
            "control": asdict(control) if control else None,
            "texts": dict(decision.texts),
            "raw": interpreted.raw if interpreted else "",
            "mode": interpreted.mode if interpreted else "",
            "error": error,
            "unparsed": unparsed,
            "latency_s": decision.latency_s + (interpreted.latency_s if interpreted else 0.0),
            "policy": self.policy,
        }
        return ServiceReply(json.dumps(reply), failed=error is not None)
