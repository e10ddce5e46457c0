"""Continuous Numerical Generation (Bench2ADVLM section 3.1): the slow system writes the three numbers itself."""

from __future__ import annotations

from closedloop_plugin.agents.asking import Backend
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.interpreters.backend import ModelInterpreter
from closedloop_plugin.interpreters.describe import Describer
from closedloop_plugin.interpreters.reading import read_cng
from closedloop_plugin.prompts.texts import Texts


def cng(backend: Backend, texts: Texts, profile: Profile, describer: Describer | None = None) -> ModelInterpreter:
    """throttle and brake in [0, 1], steer in [-1, 1]."""
    return ModelInterpreter("cng", backend, read_cng, texts, profile, describer=describer)
