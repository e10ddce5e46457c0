"""FactoryRecipe: an importable callable with arguments, to make an object in another process without pickling code."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error


@dataclass(frozen=True)
class FactoryRecipe:
    """`target`: "package.module:callable"; `make()` calls it with `kwargs`, overridden by its own arguments.

    `each`: additional arguments by worker, such as its simulator server; see `of`.
    """

    target: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    each: tuple[Mapping[str, Any], ...] = ()

    def of(self, worker: int) -> FactoryRecipe:
        """The recipe of one worker."""
        return FactoryRecipe(self.target, {**self.kwargs, **self.each[worker % len(self.each)]}) if self.each else self

    def server(self, worker: int) -> str:
        """The worker's own arguments (its server) as text for messages; "" if all workers are alike."""
        return " ".join(map(str, self.each[worker % len(self.each)].values())) if self.each else ""

    def make(self, **more: Any) -> Any:
        return self.maker()(**{**self.kwargs, **more})

    def maker(self) -> Any:
        """The callable. Raises Ad2Error if it cannot be imported."""
        module, _, name = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as exc:
            raise Ad2Error(f"{self.target!r} cannot be imported: {exc}") from exc
