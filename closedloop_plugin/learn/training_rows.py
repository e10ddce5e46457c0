"""Rows of a training file from collected frames: the prompts of `ad2 drive run`, the answers of the expert's labels.

All rows of one frame are consecutive and share the field "group". The frames of rare actions are repeated with other
questions, each time as a group of its own. Frames whose label has a reason that the picture does not show have no
driving rows (collection.py).
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from closedloop_plugin.core.profiles import profile
from closedloop_plugin.core.state import Observation, RouteCommand
from closedloop_plugin.driver.agents.driving_prompts import DrivingPrompts
from closedloop_plugin.driver.prompts.texts import texts_of
from closedloop_plugin.learn import collection
from closedloop_plugin.learn.collection import reason_is_shown, shown_kind
from closedloop_plugin.learn.questions.kinds import RELATION
from closedloop_plugin.learn.seen_grid import seen_json
from closedloop_plugin.learn.training_file import CHOICE, DRIVING
from closedloop_plugin.learn.training_set import collection_set, read_questions
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_bounded
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.data.export.drives import DriveRowSettings
from lmms_eval_ad2.data.export.training import training_turns
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.scoring.derived_records import reordered
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.training_card import TrainingSet

SPEEDS = (0.3, 1.2, 2.5, 4.0)  # m/s, between the ranges of the balance
# Reasons of the label (its "kind") as the end of an answer.
BECAUSE = {
    "clear": "the way is clear",
    "speed_limit": "of the speed limit",
    "curve": "of the curve",
    "red_light": "the traffic light is not green",
    "stop_sign": "of the stop sign",
    "line_ahead": "the stop line is not reached yet",
    "vehicle_ahead": "of the vehicle ahead",
    "yield": "others have the right of way",
    "actor": "another road user comes into the way",
    "passing": "of the obstacle beside the car",
    "blocked": "the way is blocked",
}


class CollectedRows:
    """The DriveRowSource of folders of `ad2 drive collect`."""

    def takes(self, folder: Path) -> bool:
        return (folder / collection.FOLDER).is_dir()

    def rows(self, folders: Sequence[Path], settings: DriveRowSettings) -> Iterator[dict[str, Any]]:
        """See DriveRowSource. Two passes over the frames: to count actions, and to write rows."""
        counts = Counter(class_of(f) for folder in folders for _, f in frames_of(folder) if _is_asked(f, settings))
        most = max(counts.values(), default=0)
        writer = FrameRows(settings)
        for folder, times in zip(folders, settings.times or (1,) * len(folders), strict=True):
            asked, size = _questions(folder, settings), _picture_size(folder)
            for picture, frame in frames_of(folder):
                about = asked.get(picture.relative_to(folder).as_posix(), ())
                driving, repeats = _is_asked(frame, settings), 1
                if driving:
                    wanted = times * min((most / counts[class_of(frame)]) ** settings.balance, settings.repeat)
                    repeats = max(1, _rounded(wanted, f"{settings.seed}:{frame['id']}"))
                for number in range(repeats):
                    group = list(writer.group(picture, frame, about, number, driving))
                    if group and not number:
                        group[0]["seen"] = seen_json(frame, size)
                    yield from group

    def card(self, folders: Sequence[Path]) -> dict[str, Any]:
        """Frames of each folder by action, and by reason those whose picture does not show it."""
        found = {}
        for folder in folders:
            actions: Counter[str] = Counter()
            unseen: Counter[str] = Counter()
            for _, frame in frames_of(folder):
                actions[frame["label"]["action"]] += 1
                unseen[frame["label"]["reason"]["kind"]] += not reason_is_shown(frame)
            found[str(folder)] = {
                "actions": dict(actions.most_common()), "reason_not_shown": dict((+unseen).most_common())
            }  # fmt: skip
        return found

    def sets(self, folders: Sequence[Path]) -> list[TrainingSet]:
        """The training sets of the folders as they are now, with questions that were made after the drives."""
        return [collection_set(folder) for folder in folders]


SOURCE = CollectedRows()


class FrameRows:
    """Rows of single frames."""

    def __init__(self, settings: DriveRowSettings) -> None:
        self.settings = settings
        # The profile matters to questions with suffixes only, which are not asked here.
        self._prompter = DrivingPrompts(texts_of(settings.prompts), profile("bench2advlm"))
        self._texts = PromptSet.load()

    def group(
        self, picture: Path, frame: Mapping[str, Any], records: Sequence[Record], number: int, driving: bool
    ) -> Iterator[dict[str, Any]]:
        """The rows of a frame when it is written for the `number`-th time: driving rows, and some of `records`.

        Options of a repeated frame are in another order, so that their letters cannot be learned from the picture.
        """
        group = f"{frame['id']}#{number}" if number else str(frame["id"])
        if driving:
            yield from self._driving(picture, frame, group)
        for record in _drawn(records, self.settings, number):
            if number:
                record = _shuffled(record, f"{self.settings.seed}:{number}")
            turns = training_turns(record, TaskVariant(record.benchmark, record.task), self._texts)
            for step, (prompt, answer) in enumerate(turns):
                row = self._row(record.task, picture, group, prompt, answer, f"{frame['id']}:{record.id}#{step}")
                yield {**row, "kind": CHOICE} if record.options or record.task == RELATION else row

    def _driving(self, picture: Path, frame: Mapping[str, Any], group: str) -> Iterator[dict[str, Any]]:
        """One row for each of the settings' questions."""
        observation = observation_of(frame)
        answers = {"action": self._action(frame), "trajectory": frame["label"]["trajectory"]}
        for task in self.settings.asked:
            asked = self._prompter.question(task, observation)
            yield {**self._row(task, picture, group, asked, answers[task]), "kind": DRIVING}

    def _action(self, frame: Mapping[str, Any]) -> str:
        action = str(frame["label"]["action"])
        if not self.settings.reasons:
            return action
        return f"{action.rstrip('.')}, because {BECAUSE[shown_kind(frame)]}."

    def _row(self, task: str, picture: Path, group: str, prompt: str, answer: str, name: str = "") -> dict[str, Any]:
        return {
            "id": f"{task}:{name or group}",
            "group": group,
            "messages": [{"role": "user", "content": f"<image>{prompt}"}, {"role": "assistant", "content": answer}],
            "images": [str(picture.absolute())],
        }


def class_of(frame: Mapping[str, Any]) -> tuple[str, int]:
    """The class of a frame in the balance: its action, and the range of its speed.

    Most frames of a slow car say to stop, since an expert starts quickly. If actions alone were balanced, the few in
    which a slow car has to go on would be outvoted, and a trained driver would never get going.
    """
    return frame["label"]["action"], bisect(SPEEDS, frame["speed"])


def _is_asked(frame: Mapping[str, Any], settings: DriveRowSettings) -> bool:
    return settings.unseen_reasons or reason_is_shown(frame)


def observation_of(frame: Mapping[str, Any]) -> Observation:
    """What the car knew at a collected frame, without its pictures."""
    return Observation(
        tick=frame["tick"], time_s=frame["time_s"], speed=frame["speed"], command=RouteCommand(frame["command"]),
        target=(frame["target"][0], frame["target"][1]), images=_no_images, speed_limit=frame["speed_limit"],
    )  # fmt: skip


def frames_of(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """(picture, frame) of all episodes of a collection, in the order of their names and of time.

    Raises DataError for a frame of which no rows can be made.
    """
    size = _picture_size(folder)
    for file in collection.frames_files(folder):
        for number, frame in collection.frames_of(file):
            try:
                _check(frame, size)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as exc:
                found = f"{type(exc).__name__}: {exc}"
                raise DataError(
                    file, number, "frame", "all fields of a collected frame", found, "Collect it again."
                ) from exc
            yield file.parent / frame["image"], frame


def _check(frame: Mapping[str, Any], size: tuple[int, int]) -> None:
    """Read all that rows are made of; raises what the functions that read it raise."""
    known = observation_of(frame)
    if not all(map(is_bounded, (known.time_s, known.speed, known.speed_limit, *known.target))):
        raise TypeError("time_s, speed, speed_limit and target are numbers")
    if frame["label"]["reason"]["kind"] not in BECAUSE:
        raise ValueError(f"no such reason: {frame['label']['reason']['kind']}")
    class_of(frame)
    reason_is_shown(frame)
    shown_kind(frame)
    seen_json(frame, size)


def _picture_size(folder: Path) -> tuple[int, int]:
    """Of the first picture; all of a collection have the same."""
    for file in collection.frames_files(folder):
        for number, frame in collection.frames_of(file):
            return collection.picture_size(file, number, frame)
    return 1, 1


def _no_images(name: str) -> Any:
    raise Ad2Error(f"a collected frame has no image {name}")


def _questions(folder: Path, settings: DriveRowSettings) -> dict[str, list[Record]]:
    """Picture -> the questions whose only picture it is."""
    file = folder / collection.QUESTIONS
    if not settings.questions:
        return {}
    if not file.is_file():
        raise Ad2Error(f"{file}: no such file; make the questions with: ad2 drive label {folder}")
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in read_questions(file):
        if len(record.images) == 1:
            found[record.images[0]].append(record)
    return found


def _drawn(records: Sequence[Record], settings: DriveRowSettings, number: int) -> list[Record]:
    """At most `settings.questions` of them, from as many tasks as possible, at random by seed and number.

    Most questions are of a few tasks (existence: nearly half), of which a model would learn little else.
    """
    order = sorted(records, key=lambda record: _share(f"{settings.seed}:{number}:{record.id}"))
    turns: Counter[str] = Counter()
    ranked = []
    for record in order:
        ranked.append((turns[record.task], record))
        turns[record.task] += 1
    return [record for _, record in sorted(ranked, key=lambda one: one[0])[: settings.questions]]


def _shuffled(record: Record, seed: str) -> Record:
    order = list(range(len(record.options)))
    random.Random(f"{seed}:{record.id}").shuffle(order)
    return reordered(record, order) if order else record


def _rounded(value: float, key: str) -> int:
    """`value` rounded up with the probability of its fraction; the same for the same key."""
    return int(value) + (_share(key) < value % 1)


def _share(key: str) -> float:
    """A number in [0, 1) that the key determines."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big") / 2**48
