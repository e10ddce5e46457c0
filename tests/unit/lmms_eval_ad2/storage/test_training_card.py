"""Files that name training data: reading, checks of what others wrote, and where a model's are found."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.storage import training_card
from lmms_eval_ad2.storage.local_weights import local_weights
from lmms_eval_ad2.storage.training_card import (
    TrainedRoute,
    TrainingSet,
    card_file,
    cards_of,
    check_size,
    model_card,
    read_card,
    trained_text,
    write_card,
    write_set,
)

ROUTE = TrainedRoute(
    id="m0-1", town="Town01", scenario="HardBreakRoute", trigger=(1.0, 2.0, 0.5), points=((0.0, 0.0), (1.5, 2.0)),
    params={"distance": 30.0, "direction": "left", "frequency": (1.0, 2.0)},
)  # fmt: skip
SET = TrainingSet("made", routes=(ROUTE,), scenes=("w:s1",), questions=("w:q1",), texts=("ab" * 12,), images=("9:ab",))


def test_both_files_are_read_as_written(tmp_path: Path) -> None:
    one = read_card(write_set(tmp_path, SET))
    both = read_card(write_card(tmp_path, [SET, TrainingSet("second")], model="tiny", seed=3, version="1"))
    assert one.sets[0].routes == (ROUTE,) and one.sets[0].questions == SET.questions and len(one.sets[0].sha256) == 64
    assert [s.name for s in both.sets] == ["made", "second"] and (both.model, both.seed) == ("tiny", 3)
    assert both.sets[0] == one.sets[0] and both.about()["sets"] == ["made", "second"]
    assert len(both.sha256) == 64 != both.about()["sha256"] == both.sha256


def test_a_packed_card_is_read_like_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = write_card(tmp_path, [SET], model="tiny")
    written = plain.read_bytes()
    packed = tmp_path / "ad2_training.json.gz"
    packed.write_bytes(gzip.compress(written))
    plain.unlink()
    (card,) = cards_of(f"pretrained={tmp_path}")
    assert card.model == "tiny" and card.sets[0].routes == (ROUTE,)
    packed.write_bytes(gzip.compress(written)[:-20])
    with pytest.raises(DataError, match="not a complete gzip file"):
        read_card(packed)
    packed.write_bytes(b"{}")
    with pytest.raises(DataError, match="gzip"):
        read_card(packed)
    packed.write_bytes(gzip.compress(b" " * 3_000_000))
    monkeypatch.setattr(training_card, "MOST_BYTES", 1_000_000)
    with pytest.raises(DataError, match="more than 1,000,000 bytes"):
        read_card(packed)


def test_a_packed_card_and_one_that_was_written_later_are_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a packed model that was trained further."""
    plain, packed = tmp_path / "ad2_training.json", tmp_path / "ad2_training.json.gz"
    packed.write_bytes(gzip.compress(write_card(tmp_path, [SET], model="tiny", seed=1).read_bytes()))
    plain.unlink()
    old = read_card(packed)
    write_card(tmp_path, [TrainingSet("more", questions=("w:q2",))], model="tuned")
    found = read_card(card_file(tmp_path))
    assert [one.name for one in found.sets] == ["more", "made"] and (found.model, found.seed) == ("tuned", None)
    assert len(found.sha256) == 64 != found.sha256 != old.sha256
    assert found == read_card(plain) == read_card(packed) == model_card(tmp_path)
    assert cards_of(f"pretrained={tmp_path}") == [found]
    largest = max(len(plain.read_bytes()), len(gzip.decompress(packed.read_bytes())))
    with monkeypatch.context() as patch, pytest.raises(DataError, match=rf"at most {largest} bytes in .* and .*found"):
        patch.setattr(training_card, "MOST_BYTES", largest)
        read_card(plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [one.name for one in read_card(plain).sets] == ["more"], "two files of the same content"
    packed.write_bytes(b"{}")
    with pytest.raises(DataError, match=r"ad2_training\.json\.gz: field 'file'"):
        model_card(tmp_path)


def test_the_hash_of_a_set_is_that_of_its_content() -> None:
    renamed, other = TrainingSet("else", scenes=("w:s1",)), TrainingSet("else", scenes=("w:s2",))
    assert TrainingSet("made", scenes=("w:s1",)).to_dict()["sha256"] == renamed.to_dict()["sha256"]
    assert renamed.to_dict()["sha256"] != other.to_dict()["sha256"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "field 'file': expected JSON"),
        ("[]", "field 'schema': expected ad2-training/1, found 'list'"),
        ({"schema": "ad2-training/2"}, "found 'ad2-training/2'"),
        ({"name": 3}, "field 'name': expected Input should be a valid string, found 3"),
        ({"name": "x", "routes": [{"id": "1", "points": [[1, "a"]]}]}, "field 'routes.0.points.0.1'"),
        ({"name": "x", "routes": [{"id": "1", "points": [[1, 2, 3]]}]}, "field 'routes.0.points.0'"),
        ({"name": "x", "routes": [{"town": "T"}]}, "field 'routes.0.id': expected Field required"),
        ({"name": "x", "questions": {"a": 1}}, "field 'questions'"),
        ({"sets": [{"routes": []}]}, "field 'sets.0.name'"),
        ('{"schema": "ad2-training/1", "name": "x", "seed": NaN}', "NaN is not a JSON number"),
        ("[" * 100, "nested more than 64 levels"),
    ],
)
def test_a_malformed_file_is_one_error(content: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "ad2_training.json"
    known = {"schema": training_card.SCHEMA}
    file.write_text(content if isinstance(content, str) else json.dumps({**known, **content} if content else content))
    with pytest.raises(DataError, match=message.replace("[", r"\[")) as caught:
        read_card(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_above_the_bounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_set(tmp_path, SET)
    for name, most in (("MOST_BYTES", 100), ("MOST_VALUES", 10)):
        with monkeypatch.context() as patch, pytest.raises(DataError, match="more than"):
            patch.setattr(training_card, name, most)
            read_card(file)


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_card(tmp_path, [SET])
    before = file.read_bytes()
    check_size(file, [SET])
    monkeypatch.setattr(training_card, "MOST_BYTES", len(before) + 1000)
    for write in (lambda: write_card(tmp_path, [SET] * 9), lambda: check_size(file, [SET] * 9)):
        with pytest.raises(DataError, match=r"at most [\d,]+ bytes, found .*Train on fewer questions"):
            write()
    monkeypatch.setattr(training_card, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(training_card, "MOST_VALUES", 300)
    lines = TrainingSet("a", routes=(TrainedRoute(id="1", points=((0.0, 0.0),) * 400),))
    with pytest.raises(DataError, match="at most 300 values"):
        write_card(tmp_path, [lines])
    assert file.read_bytes() == before


def test_a_route_of_too_many_points_is_refused(tmp_path: Path) -> None:
    """The time and memory of a comparison grow with them."""
    most = training_card.MOST_POINTS
    routes = [TrainedRoute(id=str(n), points=((0.0, 1.0),) * n) for n in (most, most + 1)]
    assert len(read_card(write_set(tmp_path, TrainingSet("a", routes=(routes[0],)))).sets[0].routes[0].points) == most
    too_many = TrainingSet("a", routes=tuple(routes))
    for file, field in (
        (write_set(tmp_path, too_many), "routes.1.points"),
        (write_card(tmp_path, [SET, too_many]), "sets.1.routes.1.points"),
    ):
        with pytest.raises(
            DataError, match=f"{file.name}: field '{field}': expected at most 20,000 points, found .20,001"
        ):
            read_card(file)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"points": ((0.0, 0.0), (0.0, -1e308))}, "points"),
        ({"trigger": (1.0001e7, 0.0, 0.0)}, "trigger"),
        ({"params": {"speed": 1e8, "end_location": (0.0, 1e300, 0.0)}}, "params"),
    ],
)
def test_coordinates_that_would_overflow_are_refused(changes: dict[str, Any], field: str, tmp_path: Path) -> None:
    most = training_card.MOST_METRES
    fine = TrainedRoute(id="1", points=((-most, most),), trigger=(most, 0.0, 1.0), params={"speed": 1e8, "to": (most,)})
    assert read_card(write_set(tmp_path, TrainingSet("a", routes=(fine,)))).sets[0].routes == (fine,)
    file = write_set(tmp_path, TrainingSet("a", routes=(fine, TrainedRoute(id="2", **changes))))
    expected = f"field 'routes.1.{field}': expected coordinates of at most 10,000,000 m, found"
    with pytest.raises(DataError, match=expected):
        read_card(file)


def test_a_route_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """It is compared metre by metre."""
    routes = [TrainedRoute(id=str(x), points=((0.0, 0.0), (x, 0.0), (0.0, 0.0))) for x in (5e5, 5.1e5)]
    with pytest.raises(
        DataError, match=r"routes\.1\.points': expected a route of at most 1,000,000 m, found '1,020,000'"
    ):
        read_card(write_set(tmp_path, TrainingSet("a", routes=tuple(routes))))


def test_a_card_that_cannot_be_read_is_not_an_absent_one(tmp_path: Path) -> None:
    kinds = {
        "loop": lambda file: file.symlink_to(file.name),
        "dangling": lambda file: file.symlink_to("nowhere"),
        "fifo": os.mkfifo,
        "folder": Path.mkdir,
    }
    for kind, make in kinds.items():
        for name in ("ad2_training.json", "ad2_training.json.gz"):
            file = tmp_path / f"{kind} {name}" / name
            file.parent.mkdir()
            make(file)
            with pytest.raises(DataError) as caught:
                cards_of({"pretrained": str(file.parent)})
            assert str(caught.value).startswith(f"{file}: field 'file': ") and "\n" not in str(caught.value)
    assert model_card(tmp_path) is None and card_file(tmp_path) == tmp_path / "ad2_training.json"


def test_cards_are_found_in_the_folders_of_model_arguments(tmp_path: Path) -> None:
    model, plain = tmp_path / "model", tmp_path / "plain"
    for folder in (model, plain):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")
    before = local_weights(f"pretrained={model}")
    write_card(model, [SET], model="tiny")
    assert local_weights(f"pretrained={model}") == before, "the card has no effect on answers"
    for args in (f"pretrained={model},batch_size=1", f"mine:Policy,checkpoint={model}", {"pretrained": str(model)}):
        assert [card.model for card in cards_of(args)] == ["tiny"]
    assert cards_of(f"pretrained={plain}") == cards_of("pretrained=org/name") == cards_of("") == []
    (model / "ad2_training.json").write_text("{}")
    with pytest.raises(DataError, match=r"ad2_training\.json"):
        cards_of(f"pretrained={model}")


def test_text_of_a_share() -> None:
    assert trained_text({"same_id": 1, "same_geometry": 2}, 220, "routes") == (
        "trained on 3 of these 220 routes (same_geometry 2, same_id 1)"
    )
    assert trained_text({"of\nothers": 1}, 1, "routes") == "trained on 1 of these 1 routes (of\\nothers 1)"
