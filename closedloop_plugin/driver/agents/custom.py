"""Agents of other packages: `MODULE:CALLABLE`, or a name of the entry-point group `ad2.agents`; docs/agents.md.

The callable is called with `cameras` (tuple of Camera), `profile` (Profile), `seed` (int) and the texts after the comma
(`MODULE:CALLABLE,checkpoint=FILE`); it returns an Agent. With `local` True it is called once in every world process.
"""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from closedloop_plugin.core.camera import Camera
from closedloop_plugin.core.image_encoding import image_encodings
from closedloop_plugin.core.state import Decision
from closedloop_plugin.driver.agent import Agent, DecisionRequest, is_concurrent
from closedloop_plugin.driver.agents.driving_prompts import TASKS
from lmms_eval_ad2.core import plugins
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import one_line

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
    try:
        agent = factory(**settings, **arguments)
    except (Ad2Error, MemoryError):
        raise
    except (Exception, SystemExit) as exc:
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        error = Ad2Error(
            f"--agent {spec}: a fault of the driver: {type(exc).__name__}: {one_line(str(exc))} (in {place})"
        )
        error.exit_code = 3  # as if its first episodes had failed: nothing is wrong with the command
        raise error from exc
    return checked(agent, spec)


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
    except Exception as exc:  # of the module's own code
        raise Ad2Error(f"--agent {spec}: '{module}' cannot be imported ({type(exc).__name__}: {exc})") from exc
    if not callable(found):
        raise Ad2Error(f"--agent {spec}: {target} is no callable")
    return found


def checked(agent: Any, spec: str) -> Agent:
    """The agent, if it has what the runner reads; decisions are checked when they are made."""
    missing = [f"{name} ({kind.__name__})" for name, kind in ATTRIBUTES.items()
               if not isinstance(getattr(agent, name, None), kind)]  # fmt: skip
    missing += [f"{name}()" for name in METHODS if not callable(getattr(agent, name, None))]
    if not missing and not all(isinstance(camera, Camera) for camera in agent.cameras):
        missing = ["cameras (tuple of Camera)"]
    if missing:
        raise Ad2Error(f"--agent {spec}: the {type(agent).__name__} lacks {', '.join(missing)}: see docs/agents.md")
    return agent


class AgentWithTasks:
    """An own agent whose texts go through an interpreter: its description names the tasks that it answers.

    The ceiling beside its scores is that of these tasks, so that an answer to another one is an error.
    """

    def __init__(self, agent: Agent, tasks: Sequence[str]) -> None:
        self.agent, self.tasks = agent, tuple(tasks)
        self.name, self.privileged, self.local, self.cameras = agent.name, agent.privileged, agent.local, agent.cameras
        self.concurrent, self.encodings = is_concurrent(agent), image_encodings(agent)

    def start(self, episode: str, seed: int) -> None:
        self.agent.start(episode, seed)

    def end(self, episode: str) -> None:
        self.agent.end(episode)

    def describe(self) -> dict[str, Any]:
        """The agent's description with the tasks, which thereby are part of a run's identity."""
        return {**self.agent.describe(), "tasks": list(self.tasks)}

    def decide(self, requests: Sequence[DecisionRequest]) -> list[Decision]:
        """See Agent.decide."""
        return [self._checked(decision) for decision in self.agent.decide(requests)]

    def _checked(self, decision: Decision) -> Decision:
        others = [task for task in decision.texts if task in TASKS and task not in self.tasks]
        if not others or decision.control is not None or decision.error is not None:
            return decision
        named = f"--config tasks={','.join((*(t for t in self.tasks if t in decision.texts), *others))}"
        why = f"the agent answers {', '.join(others)}, and its tasks are {', '.join(self.tasks)}: give {named}"
        return replace(decision, error=why)
