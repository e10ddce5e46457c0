"""Why Scenic rejects scenes and simulations: it reports only that it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closedloop_plugin.worlds.base import InvalidScene

_LAST: list[BaseException] = []  # why the last simulation was rejected


@contextmanager
def counted_rejections(scenario: Any, program: Path, tries: int) -> Iterator[None]:
    """Raise InvalidScene with the requirement that most samples violate, if no scene is found."""
    from scenic.core.distributions import RejectionException

    counts: Counter[str] = Counter()
    checker = scenario.checker
    check = checker.checkRequirements

    def counting(sample: Any) -> Any:
        rejection = check(sample)
        if rejection is not None:
            counts[" ".join(str(rejection).split())] += 1
        return rejection

    checker.checkRequirements = counting
    try:
        yield
    except RejectionException as exc:
        if not counts:
            raise
        reason, count = counts.most_common(1)[0]
        raise InvalidScene(
            f"{program.name}: no scene found in {tries} tries: {count} of {counts.total()} rejected by: {reason}"
        ) from exc
    finally:
        del checker.checkRequirements


def remember_rejections() -> None:
    """Let Scenic's simulator store why it rejects a simulation."""
    import scenic.core.simulators as simulators

    own = simulators.optionallyDebugRejection

    def remembering(exc: BaseException) -> None:
        _LAST[:] = [exc]
        own(exc)

    simulators.optionallyDebugRejection = remembering


def rejection_of_simulation() -> str:
    """Why the last simulation was rejected; empty if it is not known."""
    return " ".join(str(_LAST.pop()).split()) if _LAST else ""
