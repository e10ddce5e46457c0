"""Construct the Interviewee of `--agent` and the Fuser of `--fuser`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.driver.agents.make import BUILT_IN, MODELS, make_backend
from closedloop_plugin.driver.prompts.texts import PromptTexts
from closedloop_plugin.runner.assemble import DriverSetup
from closedloop_plugin.threats.base import Fuser, Interviewee
from closedloop_plugin.threats.fuser.model import ModelFuser
from closedloop_plugin.threats.fuser.rules import RulesFuser
from closedloop_plugin.threats.fuser.uniform import UniformFuser
from closedloop_plugin.threats.interview import ModelInterviewee, ObservedInterviewee
from lmms_eval_ad2.core.errors import Ad2Error

WITHOUT_MODEL: Mapping[str, Callable[[], Fuser]] = {"rules": RulesFuser, "uniform": UniformFuser}
ANSWER_TOKENS, SPEC_TOKENS = 512, 1024  # limits of an interview answer and of a spec (about 350 tokens)


def make_interviewee(
    agent_spec: str,
    *,
    driver: DriverSetup,
    texts: PromptTexts,
    cache: Path | None,
    seed: int,
    profile: Profile,
    cameras: Sequence[Camera],
) -> Interviewee:
    """A ModelInterviewee for a model, an ObservedInterviewee for a driver that does not use language.

    `driver`: that of the target's drives, made of the same `agent_spec`. `texts`: the prompts of "threats".
    """
    kind, colon, _ = agent_spec.strip().partition(":")
    if kind in MODELS and colon:
        backend = make_backend(with_token_limit(agent_spec, ANSWER_TOKENS), cache=cache, seed=seed)
        return ModelInterviewee(backend, texts, profile, cameras)
    return ObservedInterviewee(agent_spec.strip(), driver.agent)


def make_fuser(spec: str, *, texts: PromptTexts, cache: Path | None, seed: int, repairs: int = 3) -> Fuser:
    """Fuser of `rules`, `uniform`, `endpoint:...` or `lmms:...`. `texts`: the prompts of "threats".

    Raises Ad2Error for another `spec`.
    """
    kind, colon, _ = spec.strip().partition(":")
    if kind in WITHOUT_MODEL and not colon:
        return WITHOUT_MODEL[kind]()
    if kind not in MODELS or not colon:
        hint = "; a driver cannot fuse answers" if kind in BUILT_IN else ""
        raise Ad2Error(
            f"--fuser {spec}: expected rules, uniform, endpoint:MODEL@http://host:port/v1 or lmms:NAME,...{hint}"
        )
    return ModelFuser(make_backend(with_token_limit(spec, SPEC_TOKENS), cache=cache, seed=seed), texts, repairs)


def with_token_limit(spec: str, tokens: int) -> str:
    """The spec with a limit of `tokens` output tokens, unless it sets a limit itself."""
    option = "max_tokens" if spec.strip().startswith("endpoint:") else "max_new_tokens"
    return spec.strip() if f"{option}=" in spec else f"{spec.strip()},{option}={tokens}"
