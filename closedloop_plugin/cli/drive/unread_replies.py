"""Unread replies of drives for `ad2 report --unparsed`: the records count them by reason, without their texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval_ad2.report.unread import UnreadReplies

PREFIX = "unparsed: "  # of the keys of EpisodeRecord.counts


def unread(paths: Sequence[Path]) -> list[UnreadReplies]:
    """The unread replies of run folders by reason, with the episodes that have most; official files have none."""
    from closedloop_plugin.cli.drive.results import is_drive_run, short_names

    named = zip(paths, short_names(paths), strict=True)
    return [found for path, name in named if is_drive_run(path) for found in _of_run(path, name)]


def _of_run(path: Path, name: str) -> list[UnreadReplies]:
    from closedloop_plugin.runner.store import read_records
    from lmms_eval_ad2.report.unread import EXAMPLES, UnreadExample, UnreadReplies
    from lmms_eval_ad2.storage.identity import read_run

    suite = str(read_run(path)["identity"].get("suite"))
    records = {(r.route_id, r.repetition): r for r in read_records(path)}  # the last of each episode
    asked = sum(r.counts.get("decisions", 0) for r in records.values())
    by_reason: dict[str, list[tuple[int, str]]] = {}
    for (route, repetition), record in records.items():
        for key, n in record.counts.items():
            if key.startswith(PREFIX):
                episode = f"route {route}, repetition {repetition}"
                by_reason.setdefault(key.removeprefix(PREFIX), []).append((n, episode))
    found = []
    for reason, episodes in by_reason.items():
        most = sorted(episodes, key=lambda one: (-one[0], one[1]))[:EXAMPLES]
        examples = tuple(UnreadExample(id, "driving decision", f"{n} replies, not in the record") for n, id in most)
        found.append(UnreadReplies(name, suite, reason, sum(n for n, _ in episodes), asked, examples))
    return found
