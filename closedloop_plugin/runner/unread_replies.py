"""UnreadReplies: the last replies of models in a row, over all worlds of a run, that gave no control."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from closedloop_plugin.driver.agent import DecisionRequest
from closedloop_plugin.runner.decisions import DecisionResponse
from lmms_eval_ad2.storage.files import atomic_write

KEPT = 100  # replies in a row, for the file
TEXT = 4000  # characters of a text
SAMPLES, SHOWN = 3, 80  # in an error message: replies, characters of each


@dataclass(frozen=True)
class UnreadReply:
    """A reply that gave no control. `texts`: answers of the fast system; `reply`: the text that could not be read."""

    episode: str
    time_s: float  # of the simulation
    reason: str
    mode: str
    reply: str
    texts: Mapping[str, str]

    def command(self, profile: str, policy: str) -> str:
        """The command that reads such a reply as the run does."""
        if self.mode in ("cng", "dcs"):
            how = f" --interpreter {self.mode}" + (" --policy strict" if policy == "strict" else "")
        else:
            how = " --task trajectory" if self.reply and self.reply == self.texts.get("trajectory") else ""
        return f"ad2 drive read{how} --profile {profile} TEXT"

    def __str__(self) -> str:
        line = " ".join(self.reply.split())
        shown = line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."
        return f"{self.episode} at {self.time_s:.1f} s {shown!r} ({' '.join(self.reason.split())[:SHOWN]})"


def unread_reply(request: DecisionRequest, response: DecisionResponse) -> UnreadReply | None:
    """The reply of a response, if it is unread. Long texts are cut."""
    interpreted, why = response.interpreted, response.unread
    if interpreted is None or why is None:
        return None
    return UnreadReply(
        episode=request.episode,
        time_s=request.observation.time_s,
        reason=why[:TEXT],
        mode=interpreted.mode,
        reply=(interpreted.raw or " | ".join(response.decision.texts.values()))[:TEXT],
        texts={task: text[:TEXT] for task, text in response.decision.texts.items()},
    )


@dataclass
class UnreadReplies:
    """Counts unread replies until one is read."""

    count: int = 0
    _kept: list[UnreadReply] = field(default_factory=list)

    def add(self, reply: UnreadReply | None) -> None:
        """Add the next reply of any world; None: it was read."""
        if reply is None:
            self.count = 0
            self._kept.clear()
            return
        self.count += 1
        if len(self._kept) < KEPT:
            self._kept.append(reply)

    def samples(self) -> list[UnreadReply]:
        """Up to three of them, in order; of equal texts others only if there are no more."""
        different = {reply.reply: i for i, reply in reversed(list(enumerate(self._kept)))}
        first = sorted(different.values())
        others = [i for i in range(len(self._kept)) if i not in first]
        return [self._kept[i] for i in sorted([*first, *others][:SAMPLES])]

    def write(self, file: Path) -> int:
        """Write one JSON object per reply, the first ones of the row; return their number."""
        with atomic_write(file, errors="backslashreplace") as out:
            out.writelines(json.dumps(asdict(reply), ensure_ascii=False) + "\n" for reply in self._kept)
        return len(self._kept)
