"""The worst samples of each task: image, question, answer, reference, score. The template escapes the text."""

from __future__ import annotations

import base64
import hashlib
import heapq
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.prompts import visual
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.report import cell_text
from lmms_eval_ad2.report.runs import RunSummary, TaskSummary, sample_rows


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
            best = worst(sample_rows(run, task.name), count)
            if best.rows:
                found.append({"run": run.name, "task": task.name, "n": best.n, "samples": _samples(task, best)})
    return found


def _samples(task: TaskSummary, best: WorstSamples) -> list[dict[str, Any]]:
    samples = []
    for row in best.rows:
        shown = pictures(row, task)
        samples.append({
            "id": row.get("id"),
            "score": cell_text.number(row.get("score")),
            "status": row.get("status"),
            "reason": row.get("reason"),
            "subtask": row.get("subtask"),
            "question": _question(row),
            "options": _options(row),
            "raw": [str(x) for x in row["raw"]] if isinstance(row.get("raw"), list) else [str(row.get("raw", ""))],
            "answer": _read_as(row),
            "reference": _reference(row),
            "judge": _marks(row),
            "images": shown.images,
            "trouble": shown.trouble,
        })  # fmt: skip
    return samples


def _read_as(row: Mapping[str, Any]) -> str | None:
    """The parsed answer; None if there is none, or if it equals the raw text."""
    answer = row.get("answer")
    return None if answer is None or answer == row.get("raw") else plain(answer)


def _marks(row: Mapping[str, Any]) -> str:
    """The judge's marks by rubric and part: "ad2_sacs 0: 7, ad2_sacs 1: 4"."""
    marks = []
    for entry in row.get("judge") or ():
        if isinstance(entry, Mapping):
            part = "" if entry.get("part") in (None, "0") and len(row["judge"]) == 1 else f" {entry.get('part')}"
            score = entry.get("score")
            mark = f"{score:.3g}" if isinstance(score, int | float) else entry.get("reason")
            marks.append(f"{entry.get('rubric')}{part}: {mark}")
    return ", ".join(marks)


def _record(row: Mapping[str, Any]) -> Mapping[str, Any]:
    record = row.get("record")
    return record if isinstance(record, Mapping) else {}


def _in(text: Any, lang: str) -> str:
    """A text of a record in the language of the task, else in the other one."""
    if not isinstance(text, Mapping):
        return str(text or "")
    return str(text.get(lang) or text.get("en") or text.get("zh") or "")


def _question(row: Mapping[str, Any]) -> str:
    return _in(_record(row).get("question"), str(row.get("lang", "en"))) or str(row.get("prompt", ""))


def _options(row: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    lang = str(row.get("lang", "en"))
    options = _record(row).get("options") if row.get("form") == "mc" else None
    return [
        (str(o.get("letter", "")), _in(o.get("text"), lang), str(o.get("kind", "")))
        for o in (options or ()) if isinstance(o, Mapping)
    ]  # fmt: skip


def _reference(row: Mapping[str, Any]) -> str:
    record, lang = _record(row), str(row.get("lang", "en"))
    if row.get("form") == "mc":
        return str(record.get("letter", ""))
    if row.get("form") == "chain":
        steps = [s for s in record.get("steps") or () if isinstance(s, Mapping)]
        return "\n".join(f"{i}. {_in(s.get('answer'), lang)}" for i, s in enumerate(steps, 1))
    return _in(record.get("answer"), lang)


def plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


FULL_MARKS = 100.0  # scores of samples are percentages


@dataclass(frozen=True, slots=True)
class WorstSamples:
    """The worst scored rows of a task, worst first, and the number of all rows."""

    rows: tuple[Mapping[str, Any], ...]
    n: int


def worst(rows: Iterable[Mapping[str, Any]], count: int = 4) -> WorstSamples:
    """Return the `count` rows with the lowest scores below full marks; ties are broken by a hash of the id.

    Uses one pass and a heap of `count` rows.
    """
    heap: list[tuple[float, str, int, Mapping[str, Any]]] = []
    n = 0
    for n, row in enumerate(rows, 1):
        score = row.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or score >= FULL_MARKS:
            continue
        # Ties by hash, not by order: neighbouring rows often show the same image.
        spread = hashlib.sha256(str(row.get("id")).encode()).hexdigest()
        entry = (-float(score), spread, n, row)
        if len(heap) < count:
            heapq.heappush(heap, entry)
        elif count:
            heapq.heappushpop(heap, entry)
    return WorstSamples(tuple(row for *_, row in sorted(heap, key=lambda e: e[:3], reverse=True)), n)


WIDTH = 480  # pixels, total width of a sample's images
MOST = 6  # images per sample
QUALITY = 78


@dataclass(frozen=True, slots=True)
class SampleImages:
    """Images of a sample as data URLs; `trouble`: the reason if there are none."""

    images: tuple[str, ...] = ()
    trouble: str = ""


def pictures(row: Mapping[str, Any], task: TaskSummary) -> SampleImages:
    """Render the images of a row of samples/<task>.jsonl as small JPEGs; a failure is reported in `trouble`."""
    root = task.data.get("image_root")
    if not root:
        return SampleImages(trouble="the run does not record the folder of its images")
    try:
        record = Record.from_dict(row["record"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
        return SampleImages(trouble=f"the record cannot be read ({type(exc).__name__}: {exc})")
    try:
        drawn = visual.render(record, Path(str(root)), **_render_options(record, task))
    except (Ad2Error, TypeError, ValueError) as exc:
        return SampleImages(trouble=str(exc))
    width = WIDTH if len(drawn) == 1 else WIDTH // 2
    return SampleImages(tuple(_jpeg(image, width) for image in drawn[:MOST]))


def _render_options(record: Record, task: TaskSummary) -> dict[str, Any]:
    """Render options as for the model, except that several camera views become one mosaic."""
    variant = task.variant
    options: dict[str, Any] = {"views": variant.get("views", "all")}
    options["mark"] = "none" if variant.get("coords") else variant.get("mark", "native")
    if len(record.views) > 1 and options["views"] == "all":
        options["layout"] = "mosaic"
    return options


def _jpeg(image: Any, width: int) -> str:
    small = image.convert("RGB")
    small.thumbnail((width, 2 * width))
    buffer = io.BytesIO()
    # No chroma subsampling, which would blur thin red outlines.
    small.save(buffer, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
