"""`ad2-driver`: fast system, slow system and the profile's post-processing behind one model name.

The request's words are a JSON object (docs/serve.md); so are the answer's. What the loop makes of an answer between
two ticks (how long it takes effect, coasting where there is none) is the caller's.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from closedloop_plugin.agents.base import Agent, DecisionRequest
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.core.state import Decision, InterpretedControl, Observation, RouteCommand
from closedloop_plugin.interpreters.applied_control import verdict
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.serve.api_error import ApiError, wrong
from closedloop_plugin.serve.chat import ChatCompletionRequest, mapping_of, number, whole
from closedloop_plugin.serve.pictures import pictures
from closedloop_plugin.serve.service import ServiceReply, ServiceRequest
from lmms_eval_ad2 import __version__

PROTOCOL = 1
FAR = 100_000.0  # m, m/s, s: beyond any drive
EPISODES = 1024  # that an agent may keep something of; the oldest are ended


class DriverService:
    """An agent that looks at no truth, with its interpreter (None where it gives controls itself)."""

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
        self._episodes: OrderedDict[str, int] = OrderedDict()  # name -> its last tick

    def describe(self) -> dict[str, Any]:
        """GET /v1/ad2/driver: from it a caller builds its sensors."""
        return {
            "ad2_drive": PROTOCOL,
            "agent": self.agent.describe(),
            "interpreter": self.interpreter.describe() if self.interpreter else None,
            "profile": self.profile.name,
            "policy": self.policy,
            "hz": self.profile.hz,
            "decision_hz": self.decision_hz,
            "cameras": [asdict(camera) for camera in self.agent.cameras],
            "version": __version__,
        }

    def read(self, chat: ChatCompletionRequest) -> ServiceRequest:
        """See Service.read. Pictures of cameras that nobody here looks through are not unpacked."""
        if len(chat.texts) != 1 or chat.system:
            raise wrong("messages", "images, then one text that holds the JSON object of ad2-driver")
        said = mapping_of(chat.texts[0], "ad2-driver: the text")
        if said.get("ad2_drive") != PROTOCOL:
            raise wrong("ad2_drive", f"{PROTOCOL}: the protocol that this server speaks", said.get("ad2_drive"))
        sent = dict(zip(_cameras(said, len(chat.urls)), chat.urls, strict=True))
        wanted = [camera.name for camera in self.agent.cameras]
        if lacking := [name for name in wanted if name not in sent]:
            raise wrong("cameras", f"the driver's {', '.join(wanted)}; there is no {', '.join(lacking)}")
        images = dict(zip(wanted, pictures([sent[name] for name in wanted], wanted), strict=True))
        return ServiceRequest("drive", _ask(said, images))

    def answer(self, asks: Sequence[DecisionRequest]) -> list[ServiceReply]:
        """See Service.answer."""
        for ask in asks:
            self._begin(ask)
        decisions = self.agent.decide(asks)
        broken = [d.error for d in decisions if "generation_failed" in (d.error or "")]
        if 1 < len(decisions) == len(broken):  # one exception was everybody's: then each is asked alone
            raise RuntimeError(broken[0])
        readings = self._readings(asks, decisions)
        return [self._done(a, d, r) for a, d, r in zip(asks, decisions, readings, strict=True)]

    def _begin(self, ask: DecisionRequest) -> None:
        """The agent hears of an episode with its first tick, and again where one starts anew."""
        tick = ask.observation.tick
        last = self._episodes.pop(ask.episode, None)
        if last is not None and tick < last:
            self.agent.end(ask.episode)
        if last is None or tick < last:
            digest = hashlib.sha256(f"{self.seed}:{ask.episode}".encode()).digest()
            self.agent.start(ask.episode, int.from_bytes(digest[:4], "big") >> 1)
        self._episodes[ask.episode] = tick
        if len(self._episodes) > EPISODES:
            self.agent.end(self._episodes.popitem(last=False)[0])

    def _readings(
        self, asks: Sequence[DecisionRequest], decisions: Sequence[Decision]
    ) -> list[InterpretedControl | None]:
        readings: list[InterpretedControl | None] = [None] * len(asks)
        worded = [i for i, d in enumerate(decisions) if d.error is None and d.control is None]
        if worded and self.interpreter is not None:
            made = self.interpreter.interpret([(asks[i], decisions[i]) for i in worded])
            for i, reading in zip(worded, made, strict=True):
                readings[i] = reading
        return readings

    def _done(self, ask: DecisionRequest, decision: Decision, reading: InterpretedControl | None) -> ServiceReply:
        control, error, unparsed = verdict(decision, reading, self.profile, ask.observation.speed)
        told = {
            "ad2_drive": PROTOCOL,
            "control": asdict(control) if control else None,
            "texts": dict(decision.texts),
            "raw": reading.raw if reading else "",
            "mode": reading.mode if reading else "",
            "error": error,
            "unparsed": unparsed,
            "latency_s": decision.latency_s + (reading.latency_s if reading else 0.0),
            "policy": self.policy,
        }
        return ServiceReply(json.dumps(told), failed=error is not None)


def _ask(said: Mapping[str, Any], images: Mapping[str, Any]) -> DecisionRequest:
    """The request as the agents know it."""
    episode, command = said.get("episode"), said.get("command")
    if not isinstance(episode, str) or not 0 < len(episode) <= 200 or not episode.isprintable():
        raise wrong("episode", "a name of 1 to 200 printable characters", episode)
    if not isinstance(command, str) or command not in set(RouteCommand):
        raise wrong("command", f"one of {', '.join(RouteCommand)}", command)
    target = said.get("target")
    if not isinstance(target, list) or len(target) != 2:
        raise wrong("target", "[metres forward, metres to the left]", target)
    forward, left = (number({"target": value}, "target", -FAR, FAR) for value in target)
    limit = {} if said.get("speed_limit") is None else {"speed_limit": number(said, "speed_limit", 0.0, FAR)}
    observation = Observation(
        whole(said, "tick", 0, 2**53),
        number(said, "time_s", 0.0, 2.0**53),
        number(said, "speed", -FAR, FAR),
        RouteCommand(command),
        (forward, left),
        images.__getitem__,
        **limit,
    )
    return DecisionRequest(episode, observation)


def _cameras(said: Mapping[str, Any], pictures_sent: int) -> list[str]:
    names = said.get("cameras")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong("cameras", "the names of the images, in their order", names)
    if len(set(names)) != len(names) or len(names) != pictures_sent:
        raise ApiError(400, f"cameras: {len(names)} names for {pictures_sent} images, each once", param="cameras")
    return names
