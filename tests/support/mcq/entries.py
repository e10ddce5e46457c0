"""Surveys of any size for tests, without files."""

from __future__ import annotations

from collections.abc import Mapping

from lmms_eval_ad2.mcq.sources import SourceSurvey, SurveyEntry
from lmms_eval_ad2.mcq.taxonomy import SUBTASKS

FRAME, SCENE = 5, 20  # questions of a frame, of a scene

# Approximate sizes of the releases; for LingoQA, of its training files.
REAL = {
    "drivelm": {"perception": 17_400, "prediction": 11_800, "planning": 8_600},
    "nuscenes_qa": {"perception": 8_333},
    "lingoqa": {"perception": 20_000, "prediction": 2_000, "planning": 18_000},
}


def survey_of(sizes: Mapping[str, Mapping[str, int]]) -> SourceSurvey:
    """A survey with this many questions by source and task, spread unevenly over the sub-tasks."""
    entries = []
    for at, (source, tasks) in enumerate(sizes.items()):
        number = 0
        for task, size in tasks.items():
            names = SUBTASKS[task]
            for i in range(size):
                name = names[(i * i) % len(names)]
                frame, scene = f"f{number // FRAME}", f"c{number // SCENE}"
                entries.append(SurveyEntry(source, at, number, f"{source}-{number}", task, name, frame, scene))
                number += 1
    return SourceSurvey(tuple(entries), tuple({"name": name} for name in sizes))
