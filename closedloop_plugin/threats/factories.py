"""From `--agent` to a Interviewee, and from `--fuser` to a Fuser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from closedloop_plugin.agents.make import BUILT_IN, MODELS, make_agent, make_backend
from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.prompts.texts import PromptTexts
from closedloop_plugin.threats.base import Fuser, Interviewee
from closedloop_plugin.threats.fuser.model import ModelFuser
from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.interviewees.model import ModelInterviewee
from closedloop_plugin.threats.interviewees.observed import ObservedInterviewee
from lmms_eval_ad2.errors import Ad2Error

RULES = "rules"
TOLD_TOKENS, FUSED_TOKENS = 512, 1024  # an answer in the interview; a spec is about 350 tokens


def make_teller(
    agent_spec: str, *, texts: PromptTexts, cache: Path | None, seed: int, profile: Profile, cameras: Sequence[Camera]
) -> Interviewee:
    """A model is interviewed; a driver without words is observed. `texts`: of the book "threats". Ad2Error says in one
    line what is wrong with `agent_spec`."""
    kind, colon, _ = agent_spec.strip().partition(":")
    if kind in MODELS and colon:
        backend = make_backend(with_room(agent_spec, TOLD_TOKENS), cache=cache, seed=seed)
        return ModelInterviewee(backend, texts, profile, cameras)
    agent = make_agent(agent_spec, profile=profile)  # Ad2Error for all that is no driver
    return ObservedInterviewee(agent_spec.strip(), agent)


def make_fuser(spec: str, *, texts: PromptTexts, cache: Path | None, seed: int, repairs: int = 3) -> Fuser:
    """`rules`, `endpoint:...` or `lmms:...`; Ad2Error for everything else. `texts`: of the book "threats"."""
    kind, colon, _ = spec.strip().partition(":")
    if kind == RULES and not colon:
        return RulesFuser()
    if kind not in MODELS or not colon:
        hint = "; a driver cannot fuse answers" if kind in BUILT_IN else ""
        raise Ad2Error(f"--fuser {spec}: expected rules, endpoint:MODEL@http://host:port/v1 or lmms:NAME,...{hint}")
    return ModelFuser(make_backend(with_room(spec, FUSED_TOKENS), cache=cache, seed=seed), texts, repairs)


def with_room(spec: str, tokens: int) -> str:
    """The spec with room for a long answer, where the user said nothing of that."""
    option = "max_tokens" if spec.strip().startswith("endpoint:") else "max_new_tokens"
    return spec.strip() if f"{option}=" in spec else f"{spec.strip()},{option}={tokens}"
