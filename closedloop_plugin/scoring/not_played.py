"""The line on scenarios without which routes were driven: of types without a program, or that fit no generated road."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lmms_eval_ad2.report.table import few

MOST_REASONS = 8


def not_played_note(by_route: Mapping[str, Mapping[str, str]]) -> str:
    """Counts by reason. by_route: reasons by route id and scenario; "" if all scenarios were played."""
    routes = [route for route, left in by_route.items() if left]
    if not routes:
        return ""
    reasons = Counter(reason for left in by_route.values() for reason in left.values())
    listed = [f"{reason}: {count}" for reason, count in reasons.most_common(MOST_REASONS)]
    more = [f"{len(reasons) - MOST_REASONS} more reasons"] if len(reasons) > MOST_REASONS else []
    return (
        f"{len(routes)} route(s) driven without a scenario of theirs, {sum(reasons.values())} scenario(s) in all "
        f"({few(routes, 5)}): {'; '.join(listed + more)}"
    )
