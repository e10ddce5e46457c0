"""From `--interpreter` and `--mode` to an Interpreter.

    rules
    endpoint:MODEL@http://host:port/v1[,...] | lmms:NAME[,...]      with --mode cng or dcs

`--describer offline | endpoint:... | lmms:...` makes the slow system one that reads a description instead of seeing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as File

from closedloop_plugin.agents.make import make_backend
from closedloop_plugin.core.profiles import Profile
from closedloop_plugin.interpreters.base import Interpreter
from closedloop_plugin.interpreters.cng import cng
from closedloop_plugin.interpreters.dcs import dcs
from closedloop_plugin.interpreters.describe import Describer, ModelDescriber, OfflineDescriber
from closedloop_plugin.interpreters.hybrid import TASK, Hybrid
from closedloop_plugin.interpreters.rules import Rules
from closedloop_plugin.prompts.texts import Texts, texts_of
from lmms_eval_ad2.errors import Ad2Error

MODES = ("cng", "dcs", "rules", "hybrid")


def make_interpreter(
    spec: str,
    mode: str,
    profile: Profile,
    *,
    describer: str | None = None,
    prompts: Texts | File | str | None = None,
    cache: File | None = None,
    seed: int = 0,
) -> Interpreter:
    """One slow system; Ad2Error says in one line what is wrong. For mode "hybrid" see make_hybrid."""
    spec = spec.strip()
    if mode not in MODES:
        raise Ad2Error(f"no mode '{mode}'; known: {', '.join(MODES)}")
    if mode == "hybrid":
        raise Ad2Error("mode hybrid takes two interpreters: --interpreter A --interpreter2 B")
    if spec == "rules":
        return Rules(profile)
    if mode == "rules":
        raise Ad2Error(f"mode rules has no model, so '{spec}' has no part in it; take --mode cng or dcs for it")
    if not spec.startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no interpreter '{spec}'; known: rules, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")
    texts = texts_of(prompts)
    build = cng if mode == "cng" else dcs
    seen = _describer(describer, texts, cache, seed)
    return build(make_backend(spec, cache=cache, seed=seed), texts, profile, seen)


def make_hybrid(first: Interpreter, second: Interpreter) -> Hybrid:
    """`second` speaks where the fast system sees a threat; that one must be asked the task "threat"."""
    return Hybrid(first, second)


def tasks_for(interpreter: Interpreter, tasks: Sequence[str]) -> tuple[str, ...]:
    """`tasks` with what this interpreter needs to be asked of the fast system."""
    needed = (TASK,) if interpreter.mode == "hybrid" else ()
    return tuple(dict.fromkeys((*tasks, *needed)))


def _describer(spec: str | None, texts: Texts, cache: File | None, seed: int) -> Describer | None:
    if spec is None:
        return None
    if spec.strip() == "offline":
        return OfflineDescriber()
    if not spec.strip().startswith(("endpoint:", "lmms:")):
        raise Ad2Error(f"no describer '{spec}'; known: offline, endpoint:MODEL@http://host:port/v1, lmms:NAME,...")
    return ModelDescriber(make_backend(spec, cache=cache, seed=seed), texts)
