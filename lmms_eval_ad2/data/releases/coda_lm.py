"""CODA-LM as released by DLUT-LYZ/CODA-LM: one JSON file per image and language (English, Chinese).

Note that the Train split uses CODA's *val* images, and the three other splits its test images. Boxes (x, y, width,
height) are converted to (x_min, y_min, x_max, y_max), both in pixels of the full image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import BilingualText, Record, VisualPrompt
from lmms_eval_ad2.data.releases import coda_llava, stream
from lmms_eval_ad2.data.releases.base import BadRow, BenchmarkRelease, Item, OpenedRelease, existing, size_of, size_text
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

# Time of day and weather of CODA's images, from the COCO file of its annotations (CODA-LM section 3.1).
#
#     {"images": [{"file_name": "0001.jpg", "width": 1920, "height": 1080, "period": "daytime", "weather": "clear"}]}
#
# CODA-LM's files do not have them. The keys `period` and `weather` are those of SODA10M, from which most images of
# CODA's second version are; an image may lack them.

KEYS = ("period", "weather")
MOST_IMAGES = 200_000  # images; they are in memory together
_LONGEST = 40  # characters of a value: a name, as "dawn&dusk"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class ImageConditions:
    """An image's `scene` (the values that it has, in lower case), and its (width, height) if the file states it."""

    scene: Mapping[str, str]
    size: tuple[int, int] | None


def read_metadata(path: Path) -> dict[str, ImageConditions]:
    """The conditions of the images by file name, without folders.

    Raises DataError for a malformed row, for two rows of one name, and if no image has a period or weather.
    """
    found: dict[str, ImageConditions] = {}
    for number, data in enumerate(stream.items(path, "images.item"), 1):
        row = UntrustedRow(data, path, number, "images.")
        name = row.string("file_name").rsplit("/", 1)[-1]
        if len(found) == MOST_IMAGES or len(name) > _LONGEST_NAME:
            raise row.fail(
                "file_name", f"at most {MOST_IMAGES:,} images, names of at most {_LONGEST_NAME} characters", name[:80]
            )
        if name in found:
            raise row.fail("file_name", "one entry per image", name)
        scene = {key: value for key in KEYS if (value := _value(row, key))}
        found[name] = ImageConditions(scene, _size(row))
    if not any(one.scene for one in found.values()):
        raise DataError(path, None, "images", f"images with {' or '.join(KEYS)}", f"{len(found)} images without")
    return found


def joined_note(names: Sequence[str], conditions: Mapping[str, ImageConditions]) -> str:
    """How many of the images `names` have a period or weather, and why the others have none."""
    known = [conditions[name] for name in names if name in conditions]
    matched, absent = sum(bool(one.scene) for one in known), len(names) - len(known)
    reasons = {"are not in the file": absent, "have neither there": len(known) - matched}
    without = [f"{number} {text}" for text, number in reasons.items() if number]
    return f"time or weather: {matched} of {len(names)} images" + "".join(f"; {text}" for text in without)


def _size(row: UntrustedRow) -> tuple[int, int] | None:
    values = [row.get("width"), row.get("height")]
    if None in values:
        return None
    width, height = row.numbers("width, height", values, 2)
    return int(width), int(height)


def _value(row: UntrustedRow, key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not (isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()):
        raise row.fail(key, f"a name of at most {_LONGEST} characters, or null", value)
    return value.strip().lower()


SCHEMA = """\
Format raw (default). SOURCE: the folder with
  val/images/*.jpg, test/images/*.jpg              the images of CODA2022 (or give their parent: --images DIR)
  CODA-LM/{Train,Val,Test,Mini}/*.json             English, one file per image: val_0001.json (Train), test_0001.json
  CODA-LM-chinese/{Train,Val,Test,Mini}/*.json     Chinese, optional; merged with the English
and in each file
  general_perception["description and explanation"]   the reference of task general
  driving_suggestion                                  the reference of task suggestion
  region_perception[key] = {"description and explanation", "box": [x, y, width, height], "category_name"}
Images by split: Train 4884, Val 4384, Test 500, Mini 50; regions: Test 1123, Mini 93. Other numbers are refused
unless --partial is given. --split test (default), val, train or mini.

--config metadata=FILE: the COCO file of CODA's annotations of the same images (val or test), with
  images: [{"file_name": "0001.jpg", "width", "height", "period": "night", "weather": "rainy"}, ...]
It is joined by file name; period and weather become the scene of the records. An image may lack them.

Format llava (--config format=llava). SOURCE: a parquet file of KaiChen1998/coda-lm-llava-format, or a folder of them,
with the columns id, image (encoded bytes) and conversations ([{from: human | gpt, value}]). In a folder with English/
and Chinese/, rows with the same id become one record with both answers. The images are written to the data home. This
format has no boxes and no categories, so region scores by class cannot be computed.
"""

IMAGES = {"train": 4884, "val": 4384, "test": 500, "mini": 50}
REGIONS = {"test": 1123, "mini": 93}

CLASSES: dict[str, tuple[str, ...]] = {
    "vehicle": (
        "car", "truck", "tram", "tricycle", "bus", "trailer", "construction_vehicle", "recreational_vehicle",
    ),
    "vru": ("pedestrian", "cyclist", "bicycle", "moped", "motorcycle", "stroller", "wheelchair", "cart"),
    "traffic_sign": ("warning_sign", "traffic_sign"),
    "traffic_light": ("traffic_light",),
    "traffic_cone": ("traffic_cone",),
    "barrier": ("barrier", "bollard"),
    "miscellaneous": (
        "dog", "cat", "sentry_box", "traffic_box", "traffic_island", "debris", "suitcace", "suitcase", "dustbin",
        "concrete_block", "machinery", "chair", "phone_booth", "basket", "cardboard", "carton", "garbage",
        "garbage_bag", "plastic_bag", "stone", "tire", "misc",
    ),
}  # fmt: skip
CLASS_OF = {category: name for name, categories in CLASSES.items() for category in categories}

# The files of the release have answers only. These questions describe their meaning; the prompts have their own words.
QUESTIONS = {
    "general": BilingualText(en="What in this scene matters for driving, and why?"),
    "suggestion": BilingualText(en="How should the ego vehicle drive here?"),
    "region": BilingualText(en="What is the marked object, and how does it affect the ego vehicle?"),
}
TEXT = "description and explanation"
BOX_SLACK = 1.0  # pixels by which the two languages' boxes may differ


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    if RELEASE.format_of(options) == "llava":
        return coda_llava.open_release(source, split=split, images=images, options=options)
    split = (split or "test").lower()
    if split not in IMAGES:
        raise Ad2Error(f"coda_lm: no split '{split}'; splits: {', '.join(IMAGES)}")
    root = existing(source, "folder of CODA-LM")
    image_root = existing(images, "--images").resolve() if images else root
    english = _annotations(root / "CODA-LM" / split.capitalize())
    chinese = _annotations(root / "CODA-LM-chinese" / split.capitalize())
    if not english and not chinese:
        raise Ad2Error(
            f"coda_lm: no annotations at {root}/CODA-LM/{split.capitalize()}/*.json "
            "(see: ad2 data list coda_lm --layout)"
        )
    partial = bool(options.get("partial"))
    names = sorted(set(english) | set(chinese))
    _check_names(root, split, names, english, chinese, partial)
    expected = {"general": IMAGES[split], "suggestion": IMAGES[split]}
    if split in REGIONS:
        expected["region"] = REGIONS[split]

    metadata = Path(options["metadata"]) if "metadata" in options else None
    conditions = read_metadata(metadata) if metadata else {}

    def records() -> Iterator[Item]:
        for name in names:
            frame = _Frame(name, split, english.get(name), chinese.get(name), image_root)
            frame.conditions = conditions.get(Path(frame.image).name)
            yield from frame.items()

    files = [*english.values(), *chinese.values(), *([metadata] if metadata else [])]
    images_of = [f"{name.split('_', 1)[1]}.jpg" for name in names]
    notes = (joined_note(images_of, conditions),) if metadata else ()
    return OpenedRelease(split, image_root, records, files, {} if partial else expected, notes)


def _annotations(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def _check_names(
    root: Path, split: str, names: list[str], english: dict[str, Path], chinese: dict[str, Path], partial: bool
) -> None:
    """Refuse an incomplete split before the first record is read."""
    prefix = "val_" if split == "train" else "test_"
    for name in names:
        if not (name.startswith(prefix) and name.removeprefix(prefix).isalnum()):
            raise DataError(
                english.get(name, chinese.get(name)), None, "", f"the name {prefix}NNNN.json", f"{name}.json"
            )
    if partial:
        return
    hint = "Fetch the whole release, or import an incomplete one with --partial."
    folders = {"CODA-LM": english, "CODA-LM-chinese": chinese}
    for folder, found in folders.items():
        if found and len(found) != IMAGES[split]:
            where = root / folder / split.capitalize()
            raise DataError(where / "*.json", None, "", f"{IMAGES[split]} files", len(found), hint)


class _Frame:
    """One image with its annotations in the available languages."""

    def __init__(self, name: str, split: str, english: Path | None, chinese: Path | None, image_root: Path) -> None:
        self.name, self.split = name, split
        self.paths = {lang: path for lang, path in (("en", english), ("zh", chinese)) if path is not None}
        folder, stem = name.split("_", 1)
        self.image = f"{folder}/images/{stem}.jpg"
        self.image_root = image_root
        self.rows: dict[str, UntrustedRow] = {}
        self.size = (0, 0)
        self.conditions: ImageConditions | None = None

    def items(self) -> Iterator[Item]:
        """The records of tasks general, suggestion and region; a fault affects only its own record."""
        try:
            self.rows = {lang: UntrustedRow(stream.load_json(path), path, None) for lang, path in self.paths.items()}
            self.size = self._image_size()
            self._check_conditions()
            regions = self._regions()
        except DataError as exc:
            yield BadRow(exc)
            return
        for task, read in (("general", self._general), ("suggestion", self._suggestion)):
            try:
                yield self._record(task, read())
            except DataError as exc:
                yield BadRow(exc)
        for key, rows in regions.items():
            try:
                yield self._region(key, rows)
            except DataError as exc:
                yield BadRow(exc)

    def _image_size(self) -> tuple[int, int]:
        try:
            return size_of(self.image_root, self.image)
        except OSError as exc:
            file = next(iter(self.paths.values()))
            raise DataError(
                file,
                None,
                "image",
                f"an image at {self.image_root / self.image}",
                f"{exc}",
                "Give its folder: --images DIR.",
            ) from exc

    def _check_conditions(self) -> None:
        """Images of CODA's val and test sets have the same names, so their sizes are compared."""
        stated = self.conditions.size if self.conditions else None
        if stated not in (None, self.size):
            file = next(iter(self.paths.values()))
            hint = f"Give CODA's annotations of its {self.name.split('_')[0]} images: --config metadata=FILE."
            expected = f"an image of {size_text(self.image_root, self.image)} in metadata"
            raise DataError(file, None, self.image, expected, stated, hint)

    def _general(self) -> BilingualText:
        found = {}
        for lang, row in self.rows.items():
            inner = row.inner("general_perception")
            if inner is None:
                raise row.fail("general_perception", "an object {...}")
            found[lang] = inner.string(TEXT)
        return BilingualText(**found)

    def _suggestion(self) -> BilingualText:
        return BilingualText(**{lang: row.string("driving_suggestion") for lang, row in self.rows.items()})

    def _regions(self) -> dict[str, dict[str, UntrustedRow]]:
        """Object key -> language -> annotation, in the order of the release."""
        regions: dict[str, dict[str, UntrustedRow]] = {}
        for lang, row in self.rows.items():
            inner = row.inner("region_perception")
            for key in inner.data if inner else ():
                found = inner.inner(key) if inner else None
                if found is not None:
                    regions.setdefault(key, {})[lang] = found
        return regions

    def _region(self, key: str, rows: dict[str, UntrustedRow]) -> Record:
        first = next(iter(rows.values()))
        box, category = _box(first, self.size), first.string("category_name")
        for row in rows.values():
            if any(abs(a - b) > BOX_SLACK for a, b in zip(_box(row, self.size), box, strict=True)):
                raise row.fail("box", f"the same box in both languages, {list(box)}", row.get("box"))
        if category not in CLASS_OF:
            known = ", ".join(CLASS_OF)
            raise first.fail("category_name", "a category of the class map", category, f"Known: {known}.")
        answer = BilingualText(**{lang: row.string(TEXT) for lang, row in rows.items()})
        meta = {"object_key": key, "category_name": category, "category": CLASS_OF[category]}
        return self._record("region", answer, f"/{key}", VisualPrompt("box", (box,)), meta)

    def _record(
        self,
        task: str,
        answer: BilingualText,
        suffix: str = "",
        mark: VisualPrompt | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Record:
        return Record(
            id=f"{self.name}/{task}{suffix}",
            benchmark="coda_lm",
            task=task,
            subtask=task,
            form="vqa",
            images=(self.image,),
            question=QUESTIONS[task],
            answer=answer,
            mark=mark or VisualPrompt(),
            image_size=self.size,
            cluster=self.name,
            scene=dict(self.conditions.scene) if self.conditions else {},
            meta={"split": self.split, **(meta or {})},
        )


def _box(row: UntrustedRow, size: tuple[int, int]) -> tuple[float, ...]:
    """[x, y, width, height] -> (x_min, y_min, x_max, y_max); raises DataError for a box outside the image.

    A box that extends beyond the border is kept as annotated, so that it is drawn as by the official script.
    """
    x, y, width, height = row.numbers("box", row.get("box"), 4)
    if width <= 0 or height <= 0:
        raise row.fail("box", "[x, y, width, height] with width and height above 0", row.get("box"))
    right, bottom = round(x + width, 4), round(y + height, 4)
    if x >= size[0] or y >= size[1] or right <= 0 or bottom <= 0:
        raise row.fail("box", f"a box that meets the image of {size[0]}x{size[1]}", row.get("box"))
    return x, y, right, bottom


RELEASE = BenchmarkRelease(
    "coda_lm", "CODA-LM (DLUT-LYZ/CODA-LM)", SCHEMA, open_release, ("raw", "llava"), metadata=True
)
