"""Export tasks as a training file for ms-swift.

    OUT.jsonl            one row per turn (training_rows); written atomically, after the images
    OUT.training.json    names of its questions, scenes and images (storage/training_card.py), for `ad2 learn check` and
                         for the ad2_training.json of a model that is trained on it; replaced just before OUT.jsonl
    OUT.card.json        sources and settings of the file, the splits that the leak check compared, and the hashes of
                         the two files above; written last
    OUT.leaks.jsonl      only if questions leak: each of them, with the evaluated question
    OUT_images/          images with drawn marks (TrainingImages)

The same command on the same data writes the same bytes. A killed command leaves images, which the next one reuses, and
may leave newer files beside the card of an earlier export, which `check_row_file` recognises by their hashes.
"""

from __future__ import annotations

import array
import hashlib
import io
import json
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lmms_eval_ad2.core.coordinates import HINT
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record
from lmms_eval_ad2.core.version import __version__
from lmms_eval_ad2.data.export.leaks import (
    SCENE,
    ExportTask,
    HeldOutIndex,
    TrainingSetBuilder,
    held_out,
    refuse_evaluation,
)
from lmms_eval_ad2.data.export.selection import LeakReport, QuestionSelection, check, choose
from lmms_eval_ad2.data.home import Dataset, open_dataset
from lmms_eval_ad2.prompts import task_prompt, visual
from lmms_eval_ad2.prompts.marks import own_mark
from lmms_eval_ad2.prompts.media_tags import without_tags
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.scoring.reference_answers import chain, reference, written
from lmms_eval_ad2.scoring.sample import input_size
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import (
    atomic_write,
    atomic_write_bytes,
    atomic_write_json,
    file_sha256,
    remove_abandoned,
)
from lmms_eval_ad2.storage.training_card import write_set
from lmms_eval_ad2.storage.untrusted_json import load

SCHEMA = "ad2-export/1"


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Settings of an export, see `ad2 export swift --help`. `limit`: questions per task. `images_out`: default
    OUT_images next to OUT."""

    out: Path
    split: str = "train"
    images_out: Path | None = None
    limit: int | None = None
    shuffle: bool = False
    seed: int = 0
    allow_shared_scenes: bool = False
    drop_leaks: bool = False


@dataclass(slots=True)
class TrainingCounts:
    """Rows and questions by task; `bad`: questions with unreadable images; `faults`: the first errors."""

    rows: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    faults: list[str] = field(default_factory=list)


def export(
    tasks: Sequence[ExportTask], tested: Mapping[str, Collection[str]], settings: ExportSettings
) -> dict[str, Any]:
    """Write the training file of `tasks` with its card, and return the card.

    `tested`: dataset -> the splits on which any task evaluates. Raises Ad2Error for an evaluation split, for data that
    are not imported, for leaking questions (unless `drop_leaks`), and if no question is left.
    """
    refuse_evaluation(tasks, settings.split, tested)
    names = list(dict.fromkeys(task.dataset for task in tasks))
    data = [open_dataset(name, settings.split) for name in names]
    chosen = [
        choose(one, [t for t in tasks if t.dataset == one.name], limit=settings.limit, shuffle=settings.shuffle,
               seed=settings.seed)
        for one in data
    ]  # fmt: skip
    held = HeldOutIndex(held_out(data))
    leaks = _without_leaks(chosen, held, settings)
    prompts = PromptSet.load()
    images = TrainingImages(settings.images_out or settings.out.with_name(f"{settings.out.stem}_images"))
    for folder in images.folder.glob("*/"):
        remove_abandoned(folder)  # of an earlier export that was killed
    training_set = TrainingSetBuilder()
    with _ordered(settings) as file:
        counts = _write(chosen, prompts, images, file, training_set)
        named = write_set(settings.out.parent, training_set.build(settings.out.stem), set_path(settings.out).name)
    card = {
        "schema": SCHEMA, "format": "ms-swift messages", "file": settings.out.name,
        "sha256": file_sha256(settings.out), "rows": sum(counts.rows.values()),
        "tasks": {t.name: _task_card(t, one, counts) for one in chosen for t in one.tasks},
        "pictures": {"original": len(images.original), "drawn": len(images.drawn), "encoding": JPEG,
                     "folder": str(images.folder) if images.drawn else None},
        "unreadable": {"questions": counts.bad, "first": counts.faults},
        "settings": {"split": settings.split, "limit": settings.limit, "shuffle": settings.shuffle,
                     "seed": settings.seed},
        "prompts": {"source": prompts.source, "sha256": prompts.sha256},
        "leak_check": _leak_card(held, leaks, data, settings),
        "training_set": {"file": named.name, "sha256": file_sha256(named)}, "version": __version__,
    }  # fmt: skip
    atomic_write_json(card_path(settings.out), card)
    return card


def card_path(out: Path) -> Path:
    return out.with_suffix(".card.json")


def set_path(out: Path) -> Path:
    return out.with_suffix(".training.json")


def leaks_path(out: Path) -> Path:
    return out.with_suffix(".leaks.jsonl")


def check_row_file(rows: Path) -> None:
    """Compare an exported file, and its OUT.training.json if there is one, with the hashes in its card.

    Does nothing if there is no card. Raises Ad2Error for a file that the card does not describe, as a killed export may
    leave, and DataError for a malformed card.
    """
    path = card_path(rows)
    if not path.is_file():
        return
    try:
        card = load(path)
        sha256 = {rows: card["sha256"]}
        if named := card.get("training_set"):
            sha256[set_path(rows)] = named["sha256"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as exc:
        raise DataError(path, None, "sha256", "the card of an export", str(exc), f"Export {rows.name} again.") from exc
    for file, expected in sha256.items():
        if file.is_file() and file_sha256(file) != expected:
            raise Ad2Error(f"{file} is not the file that {path} describes; export it again")


def _without_leaks(chosen: Sequence[QuestionSelection], held: HeldOutIndex, settings: ExportSettings) -> LeakReport:
    """Remove leaking questions from `chosen` if `drop_leaks`, else raise Ad2Error for them."""
    listing = leaks_path(settings.out)
    report, numbers = check(chosen, held, listing, allow_scenes=settings.allow_shared_scenes)
    if report.n and not settings.drop_leaks:
        total = sum(len(one.by_number) for one in chosen)
        raise Ad2Error(_refusal(report, total, listing))
    for one, leaking in zip(chosen, numbers, strict=True):
        for number in leaking:
            one.drop(number, "leak")
    if not any(one.by_number for one in chosen):
        raise Ad2Error(_nothing_left(chosen) + (f"\nThe leaks are listed in {listing}." if report.n else ""))
    return report


def _nothing_left(chosen: Sequence[QuestionSelection]) -> str:
    """Error message with the reasons why each task has no questions left."""
    lines = []
    for one in chosen:
        for task in one.tasks:
            reasons = ", ".join(f"{n} {code}" for code, n in sorted(one.left_out[task.name].items()))
            part = f"no record of part '{task.variant.part}'"
            lines.append(f"\n  {task.name}: {one.dataset.name}/{one.dataset.split}: {reasons or part}")
    return f"nothing to export:{''.join(lines)}"


def _refusal(report: LeakReport, total: int, listing: Path) -> str:
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(report.kinds.items()))
    lines = "".join(f"\n  {example}" for example in report.examples)
    advice = "--config drop_leaks=true leaves them out"
    if set(report.kinds) == {SCENE}:
        advice = "--config allow_shared_scenes=true trains on other images of evaluated scenes, " + advice
    return (
        f"leak check: {report.n} of {total} questions must not be trained on, their evidence is evaluated "
        f"({counts}):{lines}\nAll are listed in {listing}. Nothing was written; {advice}"
    )


def _write(
    chosen: Sequence[QuestionSelection], prompts: PromptSet, images: TrainingImages, file: TextIO,
    training_set: TrainingSetBuilder,
) -> TrainingCounts:  # fmt: skip
    counts = TrainingCounts()
    for one in chosen:
        for record, tasks in one.records("writing"):
            for task in tasks:
                try:
                    turns = training_turns(record, task.variant, prompts)
                    root, variant = one.dataset.image_root, task.variant
                    paths = [images.of(record, root, variant, number) for number in range(len(turns))]
                except DataError as exc:
                    counts.bad += 1
                    counts.faults += [str(exc)] if len(counts.faults) < 3 else []
                    continue
                training_set.add(record, one.dataset.image_root)
                for row in training_rows(record, task, turns, paths):
                    print(json.dumps(row, ensure_ascii=False), file=file)
                counts.rows[task.name] = counts.rows.get(task.name, 0) + len(turns)
                counts.questions[task.name] = counts.questions.get(task.name, 0) + 1
    if not counts.rows:
        raise Ad2Error(f"nothing could be written: {counts.faults[0]}")
    return counts


@contextmanager
def _ordered(settings: ExportSettings) -> Iterator[TextIO]:
    """Yield a handle whose lines are in OUT if the block succeeds, in random order (by the seed) if `shuffle`."""
    if not settings.shuffle:
        with atomic_write(settings.out) as file:
            yield file
        return
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryFile(dir=settings.out.parent) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as drawn,
    ):
        yield drawn
        drawn.flush()
        raw.seek(0)
        starts = array.array("q", [0])
        for line in raw:
            starts.append(starts[-1] + len(line))
        order = list(range(len(starts) - 1))
        random.Random(f"{settings.seed}:order").shuffle(order)
        with atomic_write(settings.out) as file:
            for number in order:
                raw.seek(starts[number])
                file.write(raw.readline().decode("utf-8"))


def _task_card(task: ExportTask, one: QuestionSelection, counts: TrainingCounts) -> dict[str, Any]:
    return {
        "dataset": one.dataset.name, "split": one.dataset.split, "sha256": one.dataset.sha256,
        "part": task.variant.part, "variant": task.variant.changes(),
        "questions": counts.questions.get(task.name, 0), "rows": counts.rows.get(task.name, 0),
        "left_out": dict(sorted(one.left_out[task.name].items())),
    }  # fmt: skip


def _leak_card(
    held: HeldOutIndex, report: LeakReport, data: Sequence[Dataset], settings: ExportSettings
) -> dict[str, Any]:
    compared = {(m.name, m.source.get("release", m.name)) for m in held.splits}
    known = {name for pair in compared for name in pair}
    alone = [d.name for d in data if not {d.name, d.manifest.source.get("release", d.name)} & known]
    return {
        "compared_with": [{"name": m.name, "split": m.split, "n": m.n, "sha256": m.sha256} for m in held.splits],
        "without_own_evaluation_split": alone, "dropped": dict(sorted(report.kinds.items())),
        "allowed": dict(sorted(report.allowed.items())), "allow_shared_scenes": settings.allow_shared_scenes,
    }  # fmt: skip


Turn = tuple[str, str]  # prompt, reference answer


def training_turns(record: Record, variant: TaskVariant, prompts: PromptSet) -> list[Turn]:
    """Prompts and reference answers of a question; empty if the record has no usable reference.

    A task that asks in rounds gives one turn per round, with the reference answers as those of the rounds before.
    """
    form, lang = variant.asked_form(record), variant.lang
    if form != "chain":
        value = reference(record, form, lang)
        if value is None:
            return []
        size = input_size(record, variant, None)
        if variant.frame == "model_input" and size is None and isinstance(value, tuple):
            raise Ad2Error(f"{record.id}: a training file in the frame model_input needs the size of the input: {HINT}")
        answer = written(value, form, lang, variant.frame, record.image_size, size)
        return [(task_prompt.prompt_text(record, variant, prompts), answer)]
    steps = [reference(record, form, lang, step) for step in range(len(record.steps))]
    answers = [str(step) for step in steps if step is not None]
    if not answers or len(answers) < len(steps):
        return []
    if not variant.rounds:
        return [(task_prompt.prompt_text(record, variant, prompts), chain(answers))]
    return [(task_prompt.round_text(record, variant, i, answers[:i], prompts), answers[i]) for i in range(len(answers))]


def training_rows(
    record: Record, task: ExportTask, turns: list[Turn], images: list[list[str]]
) -> Iterator[dict[str, Any]]:
    """Rows of ms-swift's format, one per turn; `images` has the paths of each turn.

        {"id": "ad2_mcq_planning:drivelm:...", "messages": [{"role": "user", "content": "<image>..."},
         {"role": "assistant", "content": "B"}], "images": ["/data/..."]}

    One `<image>` tag per image precedes the text, as in `--model ad2_swift`.
    """
    for number, ((question, answer), paths) in enumerate(zip(turns, images, strict=True)):
        rounds = f"#{number + 1}" if len(turns) > 1 else ""
        yield {
            "id": f"{task.name}:{record.id}{rounds}",
            "messages": [
                {"role": "user", "content": "<image>" * len(paths) + without_tags(question)},
                {"role": "assistant", "content": without_tags(answer)},
            ],
            "images": paths,
        }


# As for images sent to an endpoint; chroma subsampling would blur a red outline of two pixels.
JPEG: dict[str, Any] = {"format": "JPEG", "quality": 95, "subsampling": 0}


class TrainingImages:
    """The image files of a training file: the stored ones if nothing is drawn, else new files in a folder.

        DIR/<first 2 digits>/<sha256 of the file, 32 digits>.jpg

    Files are named by their content, so a repeated command reuses them and two exports may share a folder. `original`
    and `drawn` are sets of files, not of questions.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.original: set[Path] = set()
        self.drawn: set[Path] = set()
        self._plain: dict[tuple[Path, str], bool] = {}
        self._done: dict[tuple[Any, ...], list[str]] = {}

    def of(self, record: Record, image_root: Path, variant: TaskVariant, turn: int = 0) -> list[str]:
        """Absolute paths, in the order in which the model is shown them. Raises DataError for an unreadable image."""
        stored = task_prompt.stored_images(record, variant, turn)
        if stored is not None and all(self._is_plain(image_root, path) for path in stored):
            paths = [(image_root / path).absolute() for path in stored]
            self.original.update(paths)
            return [str(path) for path in paths]
        # Everything on which the drawn image depends: a frame with many questions is drawn once.
        own = own_mark(record, turn if variant.rounds else None)
        key = (image_root, record.images, own, record.benchmark, variant.mark, variant.coords, variant.layout,
               variant.views)  # fmt: skip
        if key not in self._done:
            images = task_prompt.prompt_images(record, image_root, variant, turn)
            self._done[key] = [str(self._write(image)) for image in images]
        return self._done[key]

    def _is_plain(self, root: Path, name: str) -> bool:
        """Whether every training program shows the file as the evaluation does."""
        if (root, name) not in self._plain:
            self._plain[root, name] = visual.is_plain(root, name)
        return self._plain[root, name]

    def _write(self, image: Any) -> Path:
        buffer = io.BytesIO()
        image.save(buffer, **JPEG)
        content = buffer.getvalue()
        name = hashlib.sha256(content).hexdigest()[:32]
        path = self.folder / name[:2] / f"{name}.jpg"
        if path not in self.drawn and not path.is_file():
            atomic_write_bytes(path, content, durable=False)
        self.drawn.add(path)
        return path
