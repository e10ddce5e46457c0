"""How to make a thing in another process: its importable name and its arguments. Never a pickled code object."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.errors import Ad2Error


@dataclass(frozen=True)
class FactoryRecipe:
    """`target` is "package.module:callable"; `make()` calls it with `kwargs` (and more, which win).

    `each`: arguments that differ by worker, such as the simulator server that is its own; see `of`.
    """

    target: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    each: tuple[Mapping[str, Any], ...] = ()

    def of(self, worker: int) -> FactoryRecipe:
        """What one worker makes."""
        return FactoryRecipe(self.target, {**self.kwargs, **self.each[worker % len(self.each)]}) if self.each else self

    def server(self, worker: int) -> str:
        """What tells one worker's world from the others', for a message; "" where all are alike."""
        return " ".join(map(str, self.each[worker % len(self.each)].values())) if self.each else ""

    def make(self, **more: Any) -> Any:
        module, _, name = self.target.partition(":")
        try:
            maker = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as exc:
            raise Ad2Error(f"{self.target!r} cannot be imported: {exc}") from exc
        return maker(**{**self.kwargs, **more})
