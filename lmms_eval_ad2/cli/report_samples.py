"""`ad2 report RUN --sample ID` and `--wrong`: one sample with all about it, and the samples that lost points."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.printed import show

if TYPE_CHECKING:
    from lmms_eval_ad2.report.one_sample import RunSample


def print_sample(
    paths: Sequence[Path], sample: str, *, task: str | None, images: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Print the samples of this id in all tasks of all runs. Raises Ad2Error if there is none.

    images: folder for their pictures.
    """
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.report import one_sample

    found = one_sample.find(report.load(paths), sample, task)
    if as_json:
        _print_json({"samples": [one_sample.as_json(one) for one in found]})
    else:
        print("\n".join(one_sample.render(one) for one in found), end="")
    lines = (
        [line for number, one in enumerate(found, 1) for line in _write_pictures(one, images, number)] if images else []
    )
    for line in lines if not as_json else ():
        show(line)


def print_wrong(paths: Sequence[Path], *, task: str | None, limit: int, as_json: bool) -> None:
    """Print the samples that lost points, worst first."""
    from lmms_eval_ad2 import report
    from lmms_eval_ad2.report import lost_points

    found = lost_points.lost_points(report.load(paths), task, limit)
    if as_json:
        _print_json({"wrong": found.to_json()})
    else:
        print(lost_points.render(found, [str(path) for path in paths]), end="")


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=1))


def _write_pictures(found: RunSample, folder: Path, number: int) -> list[str]:
    """Write the pictures of a sample as PNG; a line for each file, or why there is none."""
    from lmms_eval_ad2.report.sample_pictures import LEGEND, pictures

    drawn = pictures(found.row, found.task)
    if drawn.trouble:
        return [f"no picture: {drawn.trouble}"]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{found.task.name}-{found.row['id']}")[:100]
    lines = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, image in enumerate(drawn.images):
            path = folder / f"{name}-{number}-{i + 1}.png"
            image.save(path)
            lines.append(f"picture: {path}" + (f" ({LEGEND})" if drawn.placed and not i else ""))
    except OSError as exc:
        raise Ad2Error(f"--images {folder}: cannot write: {exc.strerror or exc}") from exc
    return lines
