"""Parses the specification given with --llm and creates the maker of distractors."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.llm.model import LanguageModel, read_model
from lmms_eval_ad2.llm.settings import one_of
from lmms_eval_ad2.mcq.base import KINDS, SELECTED, DistractorMaker
from lmms_eval_ad2.prompts.views import Views

RULES = "rules"
MAX_TOKENS = 2048  # of one reply: enough for twelve options with their reasons
_MOST = {"n": 24, "rounds": 10}


def make_maker(
    spec: str,
    *,
    kind: str = "all",
    n: int = 6,
    rounds: int = 3,
    threshold: int = 4,
    seed: int = 0,
    prompts: Path | None = None,
    evaluator: str | None = None,
    cache: Path | None = None,
    views: Views = "asked",
    progress: bool = True,
) -> DistractorMaker:
    """Create the maker named by `spec`: "rules", or a language model in the syntax of llm/model.py.

    kind: all five error categories, one of them, or naive (first proposals: no review, refinement or threshold; Table 8
    compares its correctness). n: proposals per category. rounds: maximum number of refinements while the evaluation is
    below `threshold` (1 to 5); after them the question is rejected as ambiguous. seed: of the rules, and of requests
    if the spec names none. prompts: a YAML file of prompt texts (role_prompts.py). evaluator: another model for the
    evaluations. cache: a sqlite file of replies. views: cameras whose pictures are shown: those "asked" about, "front",
    or "all".
    Raises Ad2Error for unknown, out-of-range or conflicting arguments.
    """
    one_of(kind, KINDS, "kind of distractors")
    one_of(views, get_args(Views), "views")
    for name, value, low, high in (
        ("n", n, SELECTED, _MOST["n"]), ("rounds", rounds, 0, _MOST["rounds"]), ("threshold", threshold, 1, 5),
    ):  # fmt: skip
        if not low <= value <= high:
            raise Ad2Error(f"{name}: expected a whole number from {low} to {high}, found {value}")
    if spec.strip() == RULES:
        return _rules(kind, seed, prompts, evaluator)
    from lmms_eval_ad2.mcq.makers.llm_maker import LLMMaker
    from lmms_eval_ad2.mcq.role_prompts import McqPromptTexts
    from lmms_eval_ad2.mcq.stages import MakerSettings

    return LLMMaker(
        _model(spec, "--llm", seed),
        MakerSettings(kind, n, rounds, threshold),
        McqPromptTexts.load(prompts),
        cache=cache,
        views=views,
        progress=progress,
        evaluator=_model(evaluator, "--evaluator", seed) if evaluator else None,
    )


def _model(spec: str, owner: str, seed: int) -> LanguageModel:
    if spec.strip() == RULES:
        raise Ad2Error(f"{owner}: rules cannot evaluate; name a model, e.g. openai:model=NAME,base_url=http://host/v1")
    also = (RULES,) if owner == "--llm" else ()
    return read_model(spec, owner=owner, max_tokens=MAX_TOKENS, seed=seed, also=also)


def _rules(kind: str, seed: int, prompts: Path | None, evaluator: str | None) -> DistractorMaker:
    from lmms_eval_ad2.mcq.makers.rules_maker import RulesMaker

    if evaluator and evaluator.strip() != RULES:
        raise Ad2Error(
            "--llm rules makes its distractors without a model, and none of them is evaluated; "
            "rate the finished file with `ad2 mcq check --evaluator ...`"
        )
    if prompts is not None:
        raise Ad2Error("--prompts changes what a language model is asked; --llm rules asks none")
    return RulesMaker(kind=kind, seed=seed)
