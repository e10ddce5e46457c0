"""Unread replies of drives for `ad2 report --unparsed`.

The records of episodes count them by reason, without their texts; a run that stopped after many in a row has these in a
file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lmms_eval_ad2.core.errors import DataError

if TYPE_CHECKING:
    from lmms_eval_ad2.report.unread import UnreadExample, UnreadReason

PREFIX = "unparsed: "  # of the keys of EpisodeRecord.counts
REASON = 60  # characters of a reason in these keys
LOGGED = 1000  # lines that are read; a run writes fewer
EXPECTED = "driving decision"


def unread(paths: Sequence[Path]) -> list[UnreadReason]:
    """The unread replies of run folders by reason, with the episodes that have most; official files have none."""
    from closedloop_plugin.report.results import is_drive_run, short_names

    named = zip(paths, short_names(paths), strict=True)
    return [found for path, name in named if is_drive_run(path) for found in _of_run(path, name)]


def _of_run(path: Path, name: str) -> list[UnreadReason]:
    from closedloop_plugin.runner.store import read_records
    from lmms_eval_ad2.report.unread import UnreadReason
    from lmms_eval_ad2.storage.identity import read_run

    suite = str(read_run(path)["identity"].get("suite"))
    records = {r.key: r for r in read_records(path)}  # the last of each episode
    asked = sum(r.counts.get("decisions", 0) for r in records.values())
    by_reason: dict[str, list[tuple[int, str]]] = {}
    for record in records.values():
        for key, n in record.counts.items():
            if key.startswith(PREFIX):
                episode = f"route {record.route_id}, repetition {record.repetition}"
                by_reason.setdefault(key.removeprefix(PREFIX), []).append((n, episode))
    logged = _logged(path)
    found = []
    for reason in {**by_reason, **logged}:
        # The episode in which a run stopped has no record.
        n = max(sum(n for n, _ in by_reason.get(reason, ())), len(logged.get(reason, ())))
        examples = _examples(by_reason.get(reason, ()), logged.get(reason, ()))
        found.append(UnreadReason(name, suite, reason, n, max(n, asked), examples))
    return found


def _logged(path: Path) -> dict[str, list[tuple[str, str]]]:
    """(episode, reply) of the replies after which the run stopped, by reason as in the records."""
    from closedloop_plugin.runner.early_stop import UNREAD_FILE
    from lmms_eval_ad2.report.unread import REPLY, shortened
    from lmms_eval_ad2.storage.untrusted_json import lines, parse

    found: dict[str, list[tuple[str, str]]] = {}
    if not (path / UNREAD_FILE).is_file():
        return found
    for number, line in islice(lines(path / UNREAD_FILE), LOGGED):
        try:
            row = parse(line)
            reason = str(row["reason"]).partition("\n")[0][:REASON]
            entry = str(row["episode"]), shortened(str(row["reply"]), REPLY)
        except (ValueError, KeyError, TypeError) as exc:
            raise DataError(path / UNREAD_FILE, number, "line", "an unread reply as one JSON object", str(exc)) from exc
        found.setdefault(reason, []).append(entry)
    return found


def _examples(
    episodes: Sequence[tuple[int, str]], replies: Sequence[tuple[str, str]]
) -> tuple[UnreadExample, ...]:  # fmt: skip
    """Logged replies, different ones first; without any, the episodes with most."""
    from lmms_eval_ad2.report.unread import EXAMPLES, ID, UnreadExample, shortened

    different = list({reply: (episode, reply) for episode, reply in reversed(replies)}.values())[::-1]
    found = [UnreadExample(shortened(id, ID), EXPECTED, text) for id, text in different[:EXAMPLES]]
    if found:
        return tuple(found)
    most = sorted(episodes, key=lambda one: (-one[0], one[1]))[:EXAMPLES]
    return tuple(UnreadExample(id, EXPECTED, f"{n} replies, not in the record") for n, id in most)
