"""The six cameras of nuScenes, used by DriveLM and NuScenes-QA: order, image size and file names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

CAMERAS = ("CAM_FRONT", "CAM_FRONT_LEFT", "CAM_FRONT_RIGHT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
SIZE = (1600, 900)  # width, height of every camera image, pixels
# DriveLM's paths are relative to its own folders; the part that identifies the file begins at samples/.
_PREFIX = re.compile(r"(?:\./|\.\./nuscenes/|data/nuscenes/|nuscenes/)?(samples|sweeps)/")


def camera_path(row: UntrustedRow, field: str, value: Any) -> str:
    """Convert an annotated path to "samples/CAM_FRONT/....jpg"; raises DataError for an unsafe one."""
    text = value if isinstance(value, str) else ""
    prefix = _PREFIX.match(text)
    return row.image(field, text[prefix.start(1) :] if prefix else value)


def six_cameras(row: UntrustedRow, paths: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(images, views), front camera first; raises DataError if a camera is missing or unknown."""
    unknown = sorted(set(paths) - set(CAMERAS))
    if unknown:
        raise row.fail("image_paths", f"the cameras {', '.join(CAMERAS)}", unknown[0])
    missing = [camera for camera in CAMERAS if camera not in paths]
    if missing:
        raise row.fail("image_paths", "a path for each of the six cameras", f"none for {', '.join(missing)}")
    return tuple(camera_path(row, f"image_paths.{camera}", paths[camera]) for camera in CAMERAS), CAMERAS
