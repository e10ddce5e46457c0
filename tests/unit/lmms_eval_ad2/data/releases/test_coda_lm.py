"""CODA-LM in its exact layout with real photos: boxes, languages, images of the Train split, counts, faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.coda_layout import annotation, write_layout

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Record, VisualPrompt
from lmms_eval_ad2.data.home import import_release, open_dataset, verify
from lmms_eval_ad2.data.releases import RELEASES, BadRow, OpenedRelease, coda_llava, coda_lm
from lmms_eval_ad2.data.releases.coda_lm import CLASS_OF, CLASSES

PHOTOS = "road_photos"


@pytest.fixture
def photos(data_dir: Path) -> Path:
    return data_dir / PHOTOS


def opened(root: Path, split: str = "mini", **options: str) -> OpenedRelease:
    return RELEASES["coda_lm"].open(root, split=split, images=None, options={"partial": "1", **options})


def test_both_languages_and_the_box(tmp_path: Path, photos: Path) -> None:
    records = {r.id: r for r in opened(write_layout(tmp_path, photos)).records() if isinstance(r, Record)}
    assert Counter(r.task for r in records.values()) == {"general": 3, "suggestion": 3, "region": 6}
    region = records["test_0002/region/2"]
    assert region.mark == VisualPrompt("box", ((10.5, 20.0, 110.5, 70.25),))
    assert region.answer == BilingualText("region 2 2 en", "region 2 2 zh")
    assert region.images == ("test/images/0002.jpg",)
    assert (region.image_size, region.cluster) == ((960, 540), "test_0002")
    assert region.meta == {"split": "mini", "object_key": "2", "category_name": "bus", "category": "vehicle"}
    assert records["test_0001/general"].answer == BilingualText("general 1 en", "general 1 zh")
    assert records["test_0003/suggestion"].answer == BilingualText("suggestion 3 en", "suggestion 3 zh")


def test_train_split_uses_val_images(tmp_path: Path, photos: Path) -> None:
    root = write_layout(tmp_path, photos, split="Train", n=1, chinese=False)
    (first, *_) = opened(root, "train").records()
    assert isinstance(first, Record)
    assert first.images == ("val/images/0001.jpg",)
    assert first.answer == BilingualText(en="general 1 en")


def test_the_class_map_has_every_category_once() -> None:
    assert len(CLASSES) == 7
    assert len(CLASS_OF) == sum(map(len, CLASSES.values())) == 8 + 8 + 2 + 1 + 1 + 2 + 22


def test_complete_mini_split_is_accepted_and_wrong_counts_refused(tmp_path: Path, photos: Path) -> None:
    """50 images and 93 regions, as in the release."""
    root = write_layout(tmp_path, photos, n=50, regions=2)
    for number in range(1, 8):  # 50 * 2 = 100 regions; the release's Mini has 93
        for folder, lang in (("CODA-LM", "en"), ("CODA-LM-chinese", "zh")):
            path = root / folder / "Mini" / f"test_{number:04d}.json"
            path.write_text(json.dumps(annotation(number, 1, lang)), encoding="utf-8")
    manifest = import_release("coda_lm", root, split="mini")
    assert manifest.counts["task"] == {"general": 50, "region": 93, "suggestion": 50}
    assert verify("coda_lm", "mini", images=True).ok

    path.write_text(json.dumps(annotation(7, 2, "zh")), encoding="utf-8")
    with pytest.raises(DataError, match=r"task region.*93 records in all.*94"):
        import_release("coda_lm", root, split="mini")
    assert import_release("coda_lm", root, split="mini", partial=True, name="mine").counts["task"]["region"] == 94
    assert open_dataset("coda_lm", "mini").n == 193  # the previous import is unchanged

    path.unlink()
    with pytest.raises(DataError, match=r"CODA-LM-chinese/Mini/\*\.json: expected 50 files, found 49"):
        import_release("coda_lm", root, split="mini")


def edit(path: Path, *keys: str, value: Any) -> None:
    data = json.loads(path.read_text("utf-8"))
    inner = data
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(data), encoding="utf-8")


BOX = ("region_perception", "1", "box")
FAULTS: list[tuple[tuple[str, ...], Any, str]] = [
    (("general_perception",), None, "general_perception"),
    (("general_perception", "description and explanation"), "", "general_perception.description and explanation"),
    (("driving_suggestion",), 3, "driving_suggestion"),
    (BOX, [1, 2, 3], "region_perception.1.box"),
    (BOX, [1, 2, 0, 4], "region_perception.1.box"),
    (BOX, [1, 2, "3", 4], "region_perception.1.box"),
    (BOX, [2000, 2, 30, 4], "region_perception.1.box"),
    (("region_perception", "1", "category_name"), "spaceship", "region_perception.1.category_name"),
    (
        ("region_perception", "1", "description and explanation"),
        None,
        "region_perception.1.description and explanation",
    ),
    (("region_perception", "1"), [1], "region_perception.1"),
    (("region_perception",), "none", "region_perception"),
]


@pytest.mark.parametrize(("keys", "value", "field"), FAULTS, ids=[f"{f[2]}-{i}" for i, f in enumerate(FAULTS)])
def test_faults_are_reported_with_their_field(
    tmp_path: Path, photos: Path, keys: tuple[str, ...], value: Any, field: str
) -> None:
    root = write_layout(tmp_path, photos, n=1, regions=1)
    path = root / "CODA-LM/Mini/test_0001.json"
    edit(path, *keys, value=value)
    bad = [item for item in opened(root).records() if isinstance(item, BadRow)]
    assert [(b.error.file, b.error.field) for b in bad] == [(path, field)]


def test_boxes_of_two_languages_must_agree(tmp_path: Path, photos: Path) -> None:
    root = write_layout(tmp_path, photos, n=1, regions=1)
    path = root / "CODA-LM-chinese/Mini/test_0001.json"
    edit(path, *BOX, value=[99, 20, 100, 50])
    bad = [item for item in opened(root).records() if isinstance(item, BadRow)]
    assert [(b.error.file, b.error.field) for b in bad] == [(path, "region_perception.1.box")]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": NaN}', "[" * 4000])
def test_a_broken_file_is_one_bad_row(tmp_path: Path, photos: Path, text: str) -> None:
    root = write_layout(tmp_path, photos, n=2, regions=1, chinese=False)
    (root / "CODA-LM/Mini/test_0001.json").write_text(text, encoding="utf-8")
    kinds = [type(item) for item in opened(root).records()]
    assert kinds == [BadRow, Record, Record, Record]


def test_missing_files_and_unknown_options_are_reported(tmp_path: Path, photos: Path) -> None:
    root = write_layout(tmp_path, photos, n=1)
    with pytest.raises(Ad2Error, match="no annotations at"):
        opened(root, "val")
    with pytest.raises(Ad2Error, match="no split 'dev'"):
        opened(root, "dev")
    with pytest.raises(Ad2Error, match="no format 'xml'"):
        opened(root, format="xml")
    (root / "test/images/0001.jpg").unlink()
    (bad,) = opened(root).records()
    assert isinstance(bad, BadRow)
    assert bad.error.field == "image"
    (root / "CODA-LM/Mini/val_0001.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"test_NNNN\.json"):
        opened(root)


REGION, SUGGESTION = "What is in the red rectangle?", "Which driving suggestions fit?"


def llava(path: Path, photo: Path, *turns: tuple[str, str], image: Any = None) -> Path:
    data = {"bytes": photo.read_bytes(), "path": None} if image is None else image
    rows = [
        {"id": str(i), "image": data, "conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": a}]}
        for i, (q, a) in enumerate(turns)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_llava_format(tmp_path: Path, photos: Path) -> None:
    turns = [
        ("<image>\n" + REGION, "a bus"),
        (SUGGESTION, "slow down"),
        ("What influences the ego car?", "影响"),
        ("Tell a joke.", "no"),
    ]
    photo = photos / "solidWhiteCurve.jpg"
    path = llava(tmp_path / "Mini-00000-of-00001.parquet", photo, *turns)
    with pytest.raises(DataError, match="three questions"):
        import_release("coda_lm", path, fmt="llava")
    manifest = import_release("coda_lm", path, fmt="llava", skip_bad=True)
    assert (manifest.split, manifest.bad_rows) == ("mini", 1)
    data = open_dataset("coda_lm", "mini")
    region, suggestion, general = data.records()
    assert [region.task, suggestion.task, general.task] == ["region", "suggestion", "general"]
    assert (region.question, general.answer) == (BilingualText(en=REGION), BilingualText(zh="影响"))
    assert region.image_size == (960, 540)
    assert region.meta["without"] == ["box", "category_name"]
    assert (data.image_root / region.images[0]).read_bytes() == photo.read_bytes()
    assert verify("coda_lm", "mini", images=True).ok


def snapshot(root: Path, photos: Path, chinese: list[tuple[str, str]], photo: str = "solidWhiteCurve.jpg") -> Path:
    for folder in ("English", "Chinese"):
        (root / folder).mkdir(parents=True)
    turns = [(REGION, "a bus"), (SUGGESTION, "slow down"), ("What influences the ego car?", "the bus")]
    llava(root / "English/Mini-00000-of-00001.parquet", photos / "solidWhiteCurve.jpg", *turns)
    llava(root / "Chinese/Mini-00000-of-00001.parquet", photos / photo, *chinese)
    return root


def test_a_llava_snapshot_merges_both_languages(tmp_path: Path, photos: Path) -> None:
    chinese = [(REGION, "公交车"), (SUGGESTION, "SUV"), ("What influences the ego car?", "影响"), (REGION, "卡车")]
    manifest = import_release("coda_lm", snapshot(tmp_path, photos, chinese), split="mini", fmt="llava")
    assert manifest.counts["task"] == {"general": 1, "region": 2, "suggestion": 1}
    answers = {r.id: r.answer for r in open_dataset("coda_lm", "mini").records()}
    assert answers == {
        "mini/0": BilingualText("a bus", "公交车"), "mini/1": BilingualText("slow down", "SUV"),
        "mini/2": BilingualText("the bus", "影响"), "mini/3": BilingualText(zh="卡车"),
    }  # fmt: skip


@pytest.mark.parametrize("other", ["image", "task"])
def test_rows_of_one_id_must_be_about_one_question(tmp_path: Path, photos: Path, other: str) -> None:
    question, photo = (REGION, "whiteCarLaneSwitch.jpg") if other == "image" else (SUGGESTION, "solidWhiteCurve.jpg")
    root = snapshot(tmp_path, photos, [(question, "公交车")], photo)
    with pytest.raises(DataError, match=r"English/Mini.*row 1: field 'id': expected the image and task of the Chinese"):
        import_release("coda_lm", root, split="mini", fmt="llava")


def test_files_beside_the_language_folders_are_refused(tmp_path: Path, photos: Path) -> None:
    root = snapshot(tmp_path, photos, [(REGION, "公交车")])
    llava(root / "mini.parquet", photos / "solidWhiteCurve.jpg", (REGION, "x"))
    with pytest.raises(Ad2Error, match=r"mini\.parquet is neither in English nor in Chinese"):
        import_release("coda_lm", root, split="mini", fmt="llava")


# --- time and weather ----------------------------------------------------------------------------------------------


def metadata(path: Path, *rows: dict[str, Any]) -> Path:
    images = [{"id": n, "width": 960.0, "height": 540.0, **row} for n, row in enumerate(rows)]
    path.write_text(json.dumps({"images": images, "annotations": [], "categories": []}), encoding="utf-8")
    return path


def test_time_and_weather_are_joined_by_file_name(tmp_path: Path, photos: Path) -> None:
    root = write_layout(tmp_path, photos, n=3, regions=1)
    rows = (
        {"file_name": "images/0001.jpg", "period": "Night", "weather": "rainy"},
        {"file_name": "0002.jpg", "period": None, "weather": ""}, {"file_name": "9999.jpg", "period": "daytime"},
    )  # fmt: skip
    file = metadata(tmp_path / "annotations.json", *rows)
    manifest = import_release("coda_lm", root, split="mini", partial=True, metadata=file)
    note = "time or weather: 1 of 3 images; 1 are not in the file; 1 have neither there"
    assert manifest.source["notes"] == [note]
    scenes = {r.id: r.scene for r in open_dataset("coda_lm", "mini").records() if r.task != "suggestion"}
    night = {"period": "night", "weather": "rainy"}
    assert scenes == {
        "test_0001/general": night, "test_0001/region/1": night, "test_0002/general": {}, "test_0002/region/1": {},
        "test_0003/general": {}, "test_0003/region/1": {},
    }  # fmt: skip
    again = import_release("coda_lm", root, split="mini", partial=True)
    assert "notes" not in again.source and again.sha256 != manifest.sha256


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"file_name": "0001.jpg"}], "expected images with period or weather, found '1 images without'"),
        ([{"file_name": "0001.jpg", "weather": "fog"}] * 2, "field 'images.file_name': expected one entry per image"),
        ([{"file_name": "0001.jpg", "weather": 3}], "field 'images.weather': expected a name"),
        ([{"file_name": "0001.jpg", "weather": "fog", "width": 1}], "expected an image of 960x540 in metadata"),
    ],
)
def test_wrong_metadata_are_one_error(tmp_path: Path, photos: Path, rows: list[Any], message: str) -> None:
    root = write_layout(tmp_path, photos, n=1, regions=1)
    with pytest.raises(DataError, match=message):
        import_release("coda_lm", root, split="mini", partial=True, metadata=metadata(tmp_path / "a.json", *rows))


def test_metadata_and_merged_rows_are_bounded(tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_layout(tmp_path, photos, n=1, regions=1)
    file = metadata(tmp_path / "a.json", *({"file_name": f"{n}.jpg", "weather": "fog"} for n in range(3)))
    monkeypatch.setattr(coda_lm, "MOST_IMAGES", 2)
    with pytest.raises(DataError, match="at most 2 images"):
        import_release("coda_lm", root, split="mini", partial=True, metadata=file)
    monkeypatch.setattr(coda_llava, "MOST_MERGED", 1000)
    with pytest.raises(Ad2Error, match="the Chinese rows have more than"):
        snapshot(tmp_path / "s", photos, [(REGION, "公"), (REGION, "卡")])
        import_release("coda_lm", tmp_path / "s", split="mini", fmt="llava")


def test_metadata_are_refused_where_they_cannot_be_joined(tmp_path: Path, photos: Path) -> None:
    file = metadata(tmp_path / "a.json", {"file_name": "0001.jpg", "weather": "fog"})
    with pytest.raises(Ad2Error, match="omit --config metadata"):
        import_release("coda_lm", llava(tmp_path / "mini.parquet", photos / "solidWhiteCurve.jpg", (REGION, "x")),
                       fmt="llava", metadata=file)  # fmt: skip
    with pytest.raises(Ad2Error, match="drivelm: metadata is for releases"):
        import_release("drivelm", tmp_path / "a.json", metadata=file)


def test_invalid_llava_files_are_reported(tmp_path: Path, photos: Path) -> None:
    photo = photos / "solidWhiteCurve.jpg"
    broken = llava(tmp_path / "test-0.parquet", photo, (REGION, "x"), image={"bytes": b"no image", "path": None})
    with pytest.raises(DataError, match="field 'image'"):
        import_release("coda_lm", broken, fmt="llava")
    with pytest.raises(Ad2Error, match="does not contain the split"):
        import_release("coda_lm", llava(tmp_path / "x.parquet", photo, (REGION, "x")), fmt="llava")
    (tmp_path / "val-1.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(Ad2Error, match="not a readable parquet"):
        import_release("coda_lm", tmp_path / "val-1.parquet", fmt="llava")
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "mini-2.parquet")
    with pytest.raises(DataError, match="field 'image': expected a column"):
        import_release("coda_lm", tmp_path / "mini-2.parquet", fmt="llava")
