"""The pictures of a sample as the model saw them; for points and boxes with the answer and the reference drawn.

`cards`: the worst samples of each task with their pictures, for the page, whose template escapes the texts.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.numbers import is_number
from lmms_eval_ad2.core.records import MarkKind, Record, VisualPrompt
from lmms_eval_ad2.prompts import visual
from lmms_eval_ad2.report import cell_text, sample_row
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows
from lmms_eval_ad2.report.sample_row import record_of
from lmms_eval_ad2.storage.saved_samples import read_record

if TYPE_CHECKING:
    from PIL import Image

ANSWER, REFERENCE = (29, 78, 216), (26, 127, 75)  # blue and green; the mark of a question is red
LEGEND = "blue: the answer, green: the reference"
_PLACED: dict[str, tuple[MarkKind, int]] = {"point": ("point", 2), "box": ("box", 4)}  # form -> mark, its numbers
FULL_MARKS = 100.0  # scores of samples are percentages
CARD_WIDTH = 480  # pixels, total width of a sample's images
MOST_PICTURES = 6  # images per sample
QUALITY = 78
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class SamplePictures:
    """The pictures of a sample; `trouble`: the reason if there are none. `placed`: answer or reference is drawn."""

    images: tuple[Image.Image, ...] = ()
    trouble: str = ""
    placed: bool = False


def pictures(row: Mapping[str, Any], task: TaskSummary) -> SamplePictures:
    """Render the images of a row of samples/<task>.jsonl; a failure is reported in `trouble`."""
    root = task.data.get("image_root")
    if not root:
        return SamplePictures(trouble="the run does not record the folder of its images")
    try:
        record = read_record(Path(f"{task.name}.jsonl"), str(row.get("id")), row)
    except DataError as exc:
        return SamplePictures(trouble=f"the record cannot be read: {exc}")
    if not record.images:
        return SamplePictures(trouble="the record has no image")
    try:
        drawn = visual.render(record, Path(str(root)), **_render_options(record, task))
        placed = _draw_answers(drawn[0], row, record)
    except (Ad2Error, TypeError, ValueError) as exc:
        return SamplePictures(trouble=str(exc))
    return SamplePictures(tuple(drawn), placed=placed)


def save(row: Mapping[str, Any], task: TaskSummary, folder: Path, number: int) -> list[str]:
    """Write the pictures of a sample as PNG; a line for each file, or why there is none. number: in the file names."""
    drawn = pictures(row, task)
    if drawn.trouble:
        return [f"no picture: {drawn.trouble}"]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{task.name}-{row['id']}")[:100]
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


def files(row: Mapping[str, Any], task: TaskSummary) -> list[Path]:
    """The paths of the images of a row, as far as the run records them."""
    names, root = record_of(row).get("images"), task.data.get("image_root")
    return [Path(str(root or ""), str(name)) for name in names] if isinstance(names, list) else []


def _render_options(record: Record, task: TaskSummary) -> dict[str, Any]:
    """Render options as for the model, except that several camera views become one mosaic."""
    variant = task.variant
    options: dict[str, Any] = {"views": variant.get("views", "all")}
    options["mark"] = "none" if variant.get("coords") else variant.get("mark", "native")
    if len(record.views) > 1 and options["views"] == "all":
        options["layout"] = "mosaic"
    return options


def _draw_answers(image: Image.Image, row: Mapping[str, Any], record: Record) -> bool:
    """Draw the reference, then the answer, of a point or box on the only image, in its pixels."""
    if row.get("form") not in _PLACED or len(record.images) != 1:
        return False
    kind, n = _PLACED[row["form"]]
    reference = [float(number) for number in _NUMBER.findall(record.answer.get("en"))]
    answer = row.get("answer")
    found = answer if isinstance(answer, list) and all(map(is_number, answer)) else []
    drawn = [(numbers, colour) for numbers, colour in ((reference, REFERENCE), (found, ANSWER)) if len(numbers) == n]
    for numbers, colour in drawn:
        # A point, or the ordered corners of a box, moved to the edge of the image where they lie outside.
        x, y = ([min(max(0.0, v), side - 1.0) for v in numbers[i::2]] for i, side in enumerate(image.size))
        inside = tuple(v for corner in zip(sorted(x), sorted(y), strict=True) for v in corner)
        visual.draw_mark(image, VisualPrompt(kind, (inside,)), colour=colour)
    return bool(drawn)


# --- worst samples ---


def cards(runs: Sequence[RunSummary], count: int) -> list[dict[str, Any]]:
    """Return the worst samples of every task of the models; of floors and ceilings only if there are no models."""
    if not count:
        return []
    shown = [run for run in runs if run.role == "run"] or list(runs)
    found = []
    for run in shown:
        for task in run.tasks.values():
            if task.open_ended or not (run.folder / "samples" / f"{task.name}.jsonl").exists():
                continue
            rows, n = worst(sample_rows(run, task.name), count)
            if rows:
                samples = [_sample(row, task) for row in rows]
                found.append({"run": run.name, "task": task.name, "n": n, "samples": samples})
    return found


def worst(rows: Iterable[Mapping[str, Any]], count: int = 4) -> tuple[list[Mapping[str, Any]], int]:
    """(the `count` rows with the lowest scores below full marks, the number of all rows); ties are broken by a hash of
    the id. Uses one pass, and holds `count` rows."""
    n = 0

    def below() -> Iterator[tuple[float, str, int, Mapping[str, Any]]]:
        nonlocal n
        for n, row in enumerate(rows, 1):
            score = row.get("score")
            if is_number(score) and score < FULL_MARKS:
                # Ties by hash, not by order: neighbouring rows often show the same image.
                yield -float(score), hashlib.sha256(str(row.get("id")).encode()).hexdigest(), n, row

    lowest = heapq.nlargest(count, below(), key=lambda entry: entry[:3])
    return [row for *_, row in lowest], n


def _sample(row: Mapping[str, Any], task: TaskSummary) -> dict[str, Any]:
    shown = pictures(row, task)
    width = CARD_WIDTH if len(shown.images) == 1 else CARD_WIDTH // 2
    return {
        "id": row.get("id"),
        "score": cell_text.number(row.get("score")),
        "status": row.get("status"),
        "reason": row.get("reason"),
        "subtask": row.get("subtask"),
        "question": sample_row.question(row),
        "options": sample_row.options(row),
        "raw": sample_row.replies(row),
        "answer": sample_row.read_as(row),
        "reference": sample_row.reference(row),
        "judge": list(sample_row.judged(row)),
        "images": [_jpeg(image, width) for image in shown.images[:MOST_PICTURES]],
        "legend": LEGEND if shown.placed else "",
        "trouble": shown.trouble,
    }


def _jpeg(image: Any, width: int) -> str:
    small = image.convert("RGB")
    small.thumbnail((width, 2 * width))
    buffer = io.BytesIO()
    # No chroma subsampling, which would blur thin red outlines.
    small.save(buffer, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
