"""Split of a set by scenes: no question lost, no scene in both parts, the share approximated by whole scenes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.mcq.split import split


def write(path: Path, clusters: list[str]) -> Path:
    path.write_text("".join(json.dumps({"id": f"q{i}", "cluster": c}) + "\n" for i, c in enumerate(clusters)), "utf-8")
    return path


def rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=20), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_question_is_kept_and_no_scene_is_in_both_parts(sizes: list[int], share: float, seed: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clusters = [f"drivelm:s{k}" for k, size in enumerate(sizes) for _ in range(size)]
        result = split(write(folder / "q.jsonl", clusters), folder, test=share, seed=seed)
        train, test = map(rows, result)
    assert sorted(r["id"] for r in train + test) == sorted(f"q{i}" for i in range(len(clusters)))
    assert train and test
    assert not {r["cluster"] for r in train} & {r["cluster"] for r in test}
    assert [len(train), len(test)] == [questions for questions, _ in result.values()]
    # The deviation is at most the size of the largest scene.
    assert abs(len(test) - share * len(clusters)) <= max(sizes)


def test_nuscenes_scenes_of_several_sources_stay_together(tmp_path: Path) -> None:
    clusters = ["drivelm:a", "nuscenes_qa:a", "drivelm:b", "nuscenes_qa:b", "lingoqa:c", "lingoqa:d"] * 5
    result = split(write(tmp_path / "q.jsonl", clusters), tmp_path, test=0.4)
    scenes = [{r["cluster"].split(":")[1] for r in rows(path)} for path in result]
    assert not scenes[0] & scenes[1]
    assert sum(n for _, n in result.values()) == 4


def test_the_same_seed_selects_the_same_scenes(tmp_path: Path) -> None:
    source = write(tmp_path / "q.jsonl", [f"x:{i // 3}" for i in range(60)])
    found = []
    for k, seed in enumerate((1, 1, 2)):
        _, test = split(source, tmp_path / f"{k}", test=0.3, seed=seed)
        found.append(rows(test))
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 18


def test_invalid_arguments_and_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(Ad2Error, match="between 0 and 1"):
        split(tmp_path / "q.jsonl", tmp_path, test=20)
    with pytest.raises(Ad2Error, match="1 scene"):
        split(write(tmp_path / "one.jsonl", ["a", "a"]), tmp_path, test=0.5)
    (tmp_path / "bad.jsonl").write_text('{"cluster": "a"}\n{"id": 1}\n', "utf-8")
    with pytest.raises(DataError, match=r"row 2.*cluster"):
        split(tmp_path / "bad.jsonl", tmp_path, test=0.5)
    with pytest.raises(Ad2Error, match="cannot read"):
        split(tmp_path / "absent.jsonl", tmp_path, test=0.5)
