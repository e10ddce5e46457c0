"""`ad2-driver`: fast system, slow system and the profile's post-processing behind one model name.

The text of a request is a JSON object, and so is the text of the reply (docs/serve.md). Control between two decisions
(when a decision takes effect and for how long, coasting without one) is up to the client.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import COAST, Control, Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.driver.agent import Agent, DecisionRequest
from closedloop_plugin.driver.interpreter import Interpreter
from closedloop_plugin.driver.interpreters.applied_control import verdict
from closedloop_plugin.interfaces.serve.api_error import ApiError, wrong
from closedloop_plugin.interfaces.serve.chat import ChatCompletionRequest, mapping_of, number, whole
from closedloop_plugin.interfaces.serve.pictures import pictures
from closedloop_plugin.interfaces.serve.service import ServiceReply, ServiceRequest
from lmms_eval_ad2.storage.code_state import code_label

PROTOCOL = 1
FAR = 100_000.0  # m, m/s: bound of the numbers in a request
EPISODES = 1024  # episodes open at once in the agent; beyond it the oldest are ended


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
        if len(chat.texts) != 1 or chat.system:
            raise wrong("messages", "images, then one text that holds the JSON object of ad2-driver")
        body = mapping_of(chat.texts[0], "ad2-driver: the text")
        if body.get("ad2_drive") != PROTOCOL:
            raise wrong("ad2_drive", f"{PROTOCOL}: the protocol version of this server", body.get("ad2_drive"))
        sent = dict(zip(_cameras(body, len(chat.urls)), chat.urls, strict=True))
        wanted = [camera.name for camera in self.agent.cameras]
        if missing := [name for name in wanted if name not in sent]:
            raise wrong("cameras", f"the driver's {', '.join(wanted)}; there is no {', '.join(missing)}")
        images = dict(zip(wanted, pictures([sent[name] for name in wanted], wanted), strict=True))
        return ServiceRequest("drive", _decision_request(body, images))

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


def _decision_request(body: Mapping[str, Any], images: Mapping[str, Any]) -> DecisionRequest:
    """Validate the JSON object of a request. Frame: x forward, y left, m; speeds in m/s."""
    episode, command = body.get("episode"), body.get("command")
    if not isinstance(episode, str) or not 0 < len(episode) <= 200 or not episode.isprintable():
        raise wrong("episode", "a name of 1 to 200 printable characters", episode)
    if not isinstance(command, str) or command not in set(RouteCommand):
        raise wrong("command", f"one of {', '.join(RouteCommand)}", command)
    target = body.get("target")
    if not isinstance(target, list) or len(target) != 2:
        raise wrong("target", "[metres forward, metres to the left]", target)
    forward, left = (number({"target": value}, "target", -FAR, FAR) for value in target)
    limit = {} if body.get("speed_limit") is None else {"speed_limit": number(body, "speed_limit", 0.0, FAR)}
    offset = None if body.get("route_offset") is None else number(body, "route_offset", -FAR, FAR)
    observation = Observation(
        tick=whole(body, "tick", 0, 2**53),
        time_s=number(body, "time_s", 0.0, 2.0**53),
        speed=number(body, "speed", -FAR, FAR),
        command=RouteCommand(command),
        target=(forward, left),
        images=images.__getitem__,
        route_offset=offset,
        **limit,
    )
    return DecisionRequest(episode, observation)


def _cameras(body: Mapping[str, Any], image_count: int) -> list[str]:
    names = body.get("cameras")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong("cameras", "the names of the images, in their order", names)
    if len(set(names)) != len(names) or len(names) != image_count:
        raise ApiError(400, f"cameras: {len(names)} names for {image_count} images, each once", param="cameras")
    return names
