"""Time of day and weather of CODA's images, from the COCO file of its annotations (CODA-LM section 3.1).

    {"images": [{"file_name": "0001.jpg", "width": 1920, "height": 1080, "period": "daytime", "weather": "clear"}, ...]}

CODA-LM's files do not have them. The keys `period` and `weather` are those of SODA10M, from which most images of CODA's
second version are; an image may lack them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

KEYS = ("period", "weather")
MOST = 200_000  # images; they are in memory together
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
        if len(found) == MOST or len(name) > _LONGEST_NAME:
            raise row.fail(
                "file_name", f"at most {MOST:,} images, names of at most {_LONGEST_NAME} characters", name[:80]
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
