"""Agents of other packages: `MODULE:CALLABLE`, or a name of the entry-point group `ad2.agents`; docs/agents.md.

The callable is called with `cameras` (tuple of Camera), `profile` (Profile), `seed` (int) and the texts after the comma
(`MODULE:CALLABLE,checkpoint=FILE`); it returns an Agent. With `local` True it is called once in every world process.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from closedloop_plugin.agents.base import Agent
from closedloop_plugin.core.camera import Camera
from lmms_eval_ad2 import plugins
from lmms_eval_ad2.errors import Ad2Error

ATTRIBUTES = {"name": str, "privileged": bool, "local": bool, "cameras": tuple}
METHODS = ("start", "decide", "end", "describe")


def names() -> list[str]:
    """The names of the entry-point group."""
    return [entry.name for entry in plugins.declared(plugins.AGENTS)]


def make_custom(spec: str, **settings: Any) -> Agent | None:
    """The agent for `spec`; None if it has neither form. Raises Ad2Error, in one line, if it cannot be made."""
    target, *pairs = spec.strip().split(",")
    entry = next((e for e in plugins.declared(plugins.AGENTS) if e.name == target), None)
    if entry is None and ":" not in target:
        return None
    arguments = dict(_pair(pair, spec) for pair in pairs)
    factory = _imported(entry.value if entry else target, spec)
    try:
        inspect.signature(factory).bind(**settings, **arguments)
    except TypeError as exc:
        raise Ad2Error(f"--agent {spec}: it is called with {', '.join([*settings, *arguments])}, but: {exc}") from None
    return _checked(factory(**settings, **arguments), spec)


def _pair(text: str, spec: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip().isidentifier():
        raise Ad2Error(f"--agent {spec}: expected name=value after the comma, found '{text}'")
    return key.strip(), value.strip()


def _imported(target: str, spec: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as exc:
        raise Ad2Error(
            f"--agent {spec}: '{target}' cannot be imported ({exc}); a file agent.py in this folder is found with "
            "PYTHONPATH=."
        ) from None
    if not callable(found):
        raise Ad2Error(f"--agent {spec}: {target} is no callable")
    return found


def _checked(agent: Any, spec: str) -> Agent:
    """The agent, if it has what the runner reads; decisions are checked when they are made."""
    missing = [f"{name} ({kind.__name__})" for name, kind in ATTRIBUTES.items()
               if not isinstance(getattr(agent, name, None), kind)]  # fmt: skip
    missing += [f"{name}()" for name in METHODS if not callable(getattr(agent, name, None))]
    if not missing and not all(isinstance(camera, Camera) for camera in agent.cameras):
        missing = ["cameras (tuple of Camera)"]
    if missing:
        raise Ad2Error(f"--agent {spec}: the {type(agent).__name__} lacks {', '.join(missing)}: see docs/agents.md")
    return agent
