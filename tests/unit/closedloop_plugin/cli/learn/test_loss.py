"""`ad2 learn loss`: how many routes of the rows a model was trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.closedloop.run_folders import DEMO

from closedloop_plugin.cli.learn.loss import trained_on
from closedloop_plugin.learn.contamination import trained_route
from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage.training_card import TrainedRoute, TrainingSet, write_card

KNOWN, CLEAN = (
    replace(trained_route(route), id="m0-000001", suite=f"routes{i}", town=f"Town{i}")
    for i, route in enumerate(DEMO.routes[:2])
)


def rows(file: Path, *routes: TrainedRoute) -> Path:
    """An exported file whose rows are of these routes."""
    file.touch()
    write_card(file.parent, [TrainingSet(file.stem, routes=routes)], name=f"{file.stem}.training.json")
    return file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    write_card(tmp_path / "model", [TrainingSet("made", routes=(KNOWN,))])
    return tmp_path / "model"


def test_routes_of_several_files_with_equal_ids_are_different_ones(model: Path, tmp_path: Path) -> None:
    a, b = rows(tmp_path / "a.jsonl", KNOWN), rows(tmp_path / "b.jsonl", CLEAN)
    for files, expected in (((a,), (1, 1)), ((b,), (1, 0)), ((a, b), (2, 1)), ((b, a), (2, 1))):
        assert trained_on(model, files) == dict(zip(("routes", "trained_on"), expected, strict=True)), files


def test_a_route_of_several_files_is_counted_once(model: Path, tmp_path: Path) -> None:
    a, b = rows(tmp_path / "a.jsonl", KNOWN, CLEAN), rows(tmp_path / "b.jsonl", CLEAN)
    assert trained_on(model, (a, b)) == {"routes": 2, "trained_on": 1}


def test_routes_without_a_card_are_not_known(model: Path, tmp_path: Path) -> None:
    not_known = {"routes": None, "trained_on": None}
    a = rows(tmp_path / "a.jsonl", KNOWN)
    (tmp_path / "b.jsonl").touch()
    assert trained_on(model, (a, tmp_path / "b.jsonl")) == trained_on(tmp_path, (a,)) == not_known
    (model / "ad2_training.json").unlink()
    (model / "ad2_training.json").mkdir()
    with pytest.raises(DataError, match=r"ad2_training\.json: field 'file'"):
        trained_on(model, (a,))
