"""What fusers without a model share: the form of an attempt, and the step from chosen words and numbers to a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from closedloop_plugin.threats.base import ThreatRequest
from closedloop_plugin.threats.site import ThreatSite, fit
from closedloop_plugin.threats.spec import ThreatSpec
from closedloop_plugin.threats.spec_text import sentence
from closedloop_plugin.threats.transcript import FuserExchange, ThreatAttempt


class OfflineFuser:
    """Base class: one attempt per request, from `spec`; deterministic for ThreatRequest.seed."""

    name = ""
    version = 0

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}

    def make(self, requests: Sequence[ThreatRequest]) -> list[ThreatAttempt]:
        """See Fuser.make."""
        return [self._attempt(request) for request in requests]

    def _attempt(self, request: ThreatRequest) -> ThreatAttempt:
        attempt = ThreatAttempt(number=request.number, seed=request.seed, fuser=self.describe())
        made = self.spec(request, Random(request.seed))
        if made is None:
            return attempt.model_copy(update={"refused": "the route has no room for any threat of the vocabulary"})
        spec, choice = made
        exchange = FuserExchange(purpose="fuse", prompt=choice, reply=spec.why)
        return attempt.model_copy(update={"spec": spec, "description": spec.description, "exchanges": [exchange]})

    def spec(self, request: ThreatRequest, rng: Random) -> tuple[ThreatSpec, str] | None:
        """(spec, from how many threats it was chosen); None if the route has no room for any."""
        raise NotImplementedError


def complete(fields: Mapping[str, Any], site: ThreatSite) -> ThreatSpec:
    """The spec of all fields but the description. It fits the site by construction, which is asserted."""
    plain = ThreatSpec(**{**fields, "description": "-"})
    problems = fit(plain, site)
    if problems:
        raise AssertionError(f"route {site.route}: {problems[0]}")
    text = f"{sentence(plain)} It tests the {plain.weakness.value}."
    return plain.model_copy(update={"description": text})
