"""Split of a built set into training and test questions, with no scene in both.

Questions about one scene share its images, cars and weather, so that training on some of them leaks into the others.
DriveLM and NuScenes-QA are both based on nuScenes; a scene is therefore identified by its own name, without its source.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import atomic_write
from lmms_eval_ad2.storage.untrusted_json import parse


def split(source: Path, folder: Path, *, test: float, seed: int = 0) -> dict[Path, tuple[int, int]]:
    """Write FOLDER/train.jsonl and FOLDER/test.jsonl; lines and their order are unchanged.

    Returns the two paths with the numbers of questions and of scenes in each.

    test: share of the questions, approximated by whole scenes; the same seed selects the same scenes. Raises Ad2Error
    for a share outside 0 to 1 or a set of fewer than two scenes, DataError for a line that is not a question.
    """
    if not 0 < test < 1:
        raise Ad2Error(f"test {test:g}: expected a share between 0 and 1, such as 0.2")
    try:
        lines = source.read_text("utf-8").split("\n")  # not splitlines: texts may contain other line separators
    except (OSError, UnicodeDecodeError) as exc:
        raise Ad2Error(f"cannot read {source}: {exc}") from exc
    scenes: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.strip():
            scenes[_scene(line, source, number + 1)].append(number)
    if len(scenes) < 2:
        raise Ad2Error(f"{source}: {len(scenes)} scene(s); a split needs at least two")
    total = sum(map(len, scenes.values()))
    chosen = _chosen(scenes, test * total, seed)
    held = {number for name in chosen for number in scenes[name]}
    paths = folder / "train.jsonl", folder / "test.jsonl"
    for path, wanted in zip(paths, (False, True), strict=True):
        with atomic_write(path) as file:
            file.writelines(f"{line}\n" for i, line in enumerate(lines) if line.strip() and (i in held) == wanted)
    return {paths[0]: (total - len(held), len(scenes) - len(chosen)), paths[1]: (len(held), len(chosen))}


def _chosen(scenes: dict[str, list[int]], wanted: float, seed: int) -> set[str]:
    """Test scenes: in seeded order, each that brings the number of questions closer to `wanted`; not none, not all."""
    names = sorted(scenes)
    random.Random(f"split:{seed}").shuffle(names)
    chosen: set[str] = set()
    have = 0
    for name in names:
        size = len(scenes[name])
        if len(chosen) < len(names) - 1 and abs(have + size - wanted) < abs(have - wanted):
            chosen.add(name)
            have += size
    return chosen or {min(names, key=lambda name: len(scenes[name]))}


def _scene(line: str, source: Path, number: int) -> str:
    try:
        row = parse(line)
        cluster = row["cluster"]
    except (ValueError, KeyError, TypeError) as exc:
        raise DataError(source, number, "cluster", "a question of ad2 mcq build with its scene", str(exc)) from exc
    if not isinstance(cluster, str) or not cluster:
        raise DataError(source, number, "cluster", "the name of a scene", cluster)
    return cluster.split(":", 1)[-1]
