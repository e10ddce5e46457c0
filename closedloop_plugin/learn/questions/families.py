"""All questions about a frame, by task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from closedloop_plugin.learn.questions.chain import chain
from closedloop_plugin.learn.questions.counting import counting
from closedloop_plugin.learn.questions.existence import existence
from closedloop_plugin.learn.questions.location import detection, location
from closedloop_plugin.learn.questions.perception import perception
from closedloop_plugin.learn.questions.planning import planning
from closedloop_plugin.learn.questions.prediction import prediction
from closedloop_plugin.learn.questions.relation import relation
from closedloop_plugin.learn.questions.seen_frame import SeenFrame
from closedloop_plugin.learn.questions.world_question import FrameQuestions, WorldQuestion

FAMILIES: Mapping[str, Callable[[FrameQuestions], Iterator[WorldQuestion]]] = {
    "existence": existence,
    "counting": counting,
    "location": location,
    "detection": detection,
    "relation": relation,
    "cot": chain,
    "perception": perception,
    "prediction": prediction,
    "planning": planning,
}


def questions_of(frames: Iterable[SeenFrame], seed: int) -> Iterator[WorldQuestion]:
    """Every question that can be asked about the frames of an episode, before balancing."""
    for frame in frames:
        asker = FrameQuestions(frame, seed)
        for family in FAMILIES.values():
            yield from family(asker)
