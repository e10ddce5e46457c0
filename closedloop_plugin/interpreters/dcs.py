"""Discrete Classification Selection (Bench2ADVLM section 3.1): the slow system chooses from the profile's sets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from closedloop_plugin.agents.asking import Backend
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.interpreters.backend import ModelInterpreter
from closedloop_plugin.interpreters.describe import Describer
from closedloop_plugin.interpreters.reading import read_dcs
from closedloop_plugin.prompts.texts import Texts


def dcs(backend: Backend, texts: Texts, profile: Profile, describer: Describer | None = None) -> ModelInterpreter:
    """The sets stand in the prompt; a value outside them is no choice."""
    choices = {
        "throttle_set": _listed(profile.throttle_set),
        "steer_set": _listed(profile.steer_set),
        "brake_set": _listed(profile.brake_set),
    }
    read = partial(read_dcs, profile=profile)
    return ModelInterpreter("dcs", backend, read, texts, profile, describer=describer, choices=choices)


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{v:g}" for v in values)
