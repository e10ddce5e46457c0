"""From tasks to a training file for ms-swift.

    OUT.jsonl         a row a turn (rows.py); appears whole, last but one
    OUT.card.json     what it was made of and what the leak check compared; written last
    OUT.leaks.jsonl   only where questions leak: each of them, and what it leaks from
    OUT_images/       drawn pictures (pictures.py)

The same command on the same data writes the same bytes. Killed, it leaves pictures only, and finds them again.
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

from lmms_eval_ad2 import __version__
from lmms_eval_ad2.data.home import Dataset, open_dataset
from lmms_eval_ad2.data.home.parts import file_sha256
from lmms_eval_ad2.errors import Ad2Error, DataError
from lmms_eval_ad2.export.leaks import SCENE, HeldOutIndex
from lmms_eval_ad2.export.selection import LeakReport, QuestionSelection, check, choose
from lmms_eval_ad2.export.splits import ExportTask, held_out, refuse_evaluation
from lmms_eval_ad2.prompts import task_prompt, visual
from lmms_eval_ad2.prompts.media_tags import without_tags
from lmms_eval_ad2.prompts.prompt_set import PromptSet
from lmms_eval_ad2.records import Record
from lmms_eval_ad2.scoring.reference_answers import chain, reference, written
from lmms_eval_ad2.scoring.variant import TaskVariant
from lmms_eval_ad2.storage.files import atomic_write, atomic_write_bytes, atomic_write_json

SCHEMA = "ad2-export/1"


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """`limit`: questions a task. `images_out`: default OUT_images beside OUT. See `ad2 export swift --help`."""

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
    """Rows and questions by task; `bad`: questions whose pictures could not be had, with the first few reasons."""

    rows: dict[str, int] = field(default_factory=dict)
    questions: dict[str, int] = field(default_factory=dict)
    bad: int = 0
    faults: list[str] = field(default_factory=list)


def export(
    tasks: Sequence[ExportTask], tested: Mapping[str, Collection[str]], settings: ExportSettings
) -> dict[str, Any]:
    """Write the training file of `tasks` with its card, and return the card.

    `tested`: dataset -> the splits that any task evaluates. Raises Ad2Error for a split that is there to evaluate, for
    data that are not imported, for questions that leak (unless they are to be dropped), and where nothing is left.
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
    found = _without_leaks(chosen, held, settings)
    prompts = PromptSet.load()
    pictures = TrainingImages(settings.images_out or settings.out.with_name(f"{settings.out.stem}_images"))
    with _ordered(settings) as file:
        written = _write(chosen, prompts, pictures, file)
    card = {
        "schema": SCHEMA, "format": "ms-swift messages", "file": settings.out.name,
        "sha256": file_sha256(settings.out), "rows": sum(written.rows.values()),
        "tasks": {t.name: _about(t, one, written) for one in chosen for t in one.tasks},
        "pictures": {"original": len(pictures.original), "drawn": len(pictures.drawn), "encoding": JPEG,
                     "folder": str(pictures.folder) if pictures.drawn else None},
        "unreadable": {"questions": written.bad, "first": written.faults},
        "settings": {"split": settings.split, "limit": settings.limit, "shuffle": settings.shuffle,
                     "seed": settings.seed},
        "prompts": {"source": prompts.source, "sha256": prompts.sha256},
        "leak_check": _checked(held, found, data, settings), "version": __version__,
    }  # fmt: skip
    atomic_write_json(card_path(settings.out), card)
    return card


def card_path(out: Path) -> Path:
    return out.with_suffix(".card.json")


def leaks_path(out: Path) -> Path:
    return out.with_suffix(".leaks.jsonl")


def _without_leaks(chosen: Sequence[QuestionSelection], held: HeldOutIndex, settings: ExportSettings) -> LeakReport:
    """Refuse what leaks, or take it out of `chosen` where that was asked for."""
    listing = leaks_path(settings.out)
    found, numbers = check(chosen, held, listing, allow_scenes=settings.allow_shared_scenes)
    if found.n and not settings.drop_leaks:
        total = sum(len(one.by_number) for one in chosen)
        raise Ad2Error(_refusal(found, total, listing))
    for one, leaking in zip(chosen, numbers, strict=True):
        for number in leaking:
            one.drop(number, "leak")
    if not any(one.by_number for one in chosen):
        raise Ad2Error(_empty(chosen) + (f"\nThe leaks are listed in {listing}." if found.n else ""))
    return found


def _empty(chosen: Sequence[QuestionSelection]) -> str:
    """Nothing is left: why, task by task."""
    lines = []
    for one in chosen:
        for task in one.tasks:
            why = ", ".join(f"{n} {code}" for code, n in sorted(one.left_out[task.name].items()))
            part = f"no record of part '{task.variant.part}'"
            lines.append(f"\n  {task.name}: {one.dataset.name}/{one.dataset.split}: {why or part}")
    return f"nothing to export:{''.join(lines)}"


def _refusal(found: LeakReport, total: int, listing: Path) -> str:
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(found.kinds.items()))
    lines = "".join(f"\n  {example}" for example in found.examples)
    advice = "--drop-leaks leaves them out"
    if set(found.kinds) == {SCENE}:
        advice = "--allow-shared-scenes trains on other pictures of evaluated scenes, " + advice
    return (
        f"leak check: {found.n} of {total} questions must not be trained on, their evidence is evaluated "
        f"({counts}):{lines}\nAll are listed in {listing}. Nothing was written; {advice}"
    )


def _write(
    chosen: Sequence[QuestionSelection], prompts: PromptSet, pictures: TrainingImages, file: TextIO
) -> TrainingCounts:
    written = TrainingCounts()
    for one in chosen:
        for record, tasks in one.records("writing"):
            for task in tasks:
                try:
                    images = pictures.of(record, one.dataset.image_root, task.variant)
                except DataError as exc:
                    written.bad += 1
                    written.faults += [str(exc)] if len(written.faults) < 3 else []
                    continue
                said = training_turns(record, task.variant, prompts)
                for row in training_rows(record, task, said, images):
                    print(json.dumps(row, ensure_ascii=False), file=file)
                written.rows[task.name] = written.rows.get(task.name, 0) + len(said)
                written.questions[task.name] = written.questions.get(task.name, 0) + 1
    if not written.rows:
        raise Ad2Error(f"nothing could be written: {written.faults[0]}")
    return written


@contextmanager
def _ordered(settings: ExportSettings) -> Iterator[TextIO]:
    """A handle whose lines stand at OUT when the block ends well, in an order drawn by the seed if that is asked."""
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


def _about(task: ExportTask, one: QuestionSelection, written: TrainingCounts) -> dict[str, Any]:
    return {
        "dataset": one.dataset.name, "split": one.dataset.split, "sha256": one.dataset.sha256,
        "part": task.variant.part, "variant": task.variant.changes(),
        "questions": written.questions.get(task.name, 0), "rows": written.rows.get(task.name, 0),
        "left_out": dict(sorted(one.left_out[task.name].items())),
    }  # fmt: skip


def _checked(
    held: HeldOutIndex, found: LeakReport, data: Sequence[Dataset], settings: ExportSettings
) -> dict[str, Any]:
    compared = {(m.name, m.source.get("release", m.name)) for m in held.splits}
    known = {name for pair in compared for name in pair}
    alone = [d.name for d in data if not {d.name, d.manifest.source.get("release", d.name)} & known]
    return {
        "compared_with": [{"name": m.name, "split": m.split, "n": m.n, "sha256": m.sha256} for m in held.splits],
        "without_own_evaluation_split": alone, "dropped": dict(sorted(found.kinds.items())),
        "allowed": dict(sorted(found.allowed.items())), "allow_shared_scenes": settings.allow_shared_scenes,
    }  # fmt: skip


# One question -> rows of ms-swift's training format: what the model is asked in evaluation, and the right answer.
#
# {"id": "ad2_mcq_planning:drivelm:...", "messages": [{"role": "user", "content": "<image>..."},
# {"role": "assistant", "content": "B"}], "images": ["/data/..."]}
#
# One `<image>` an image, before the text, as `--model ad2_swift` asks. A task that asks in rounds gives a row a round,
# with the reference answers as those to the rounds before.
Turn = tuple[str, str]  # what is asked, what is right


def training_turns(record: Record, variant: TaskVariant, prompts: PromptSet) -> list[Turn]:
    """The question's turns, each asked on its own; empty where the record has no readable reference."""
    form, lang = variant.asked_form(record.form), variant.lang
    if form != "chain":
        value = reference(record, form, lang)
        if value is None:
            return []
        answer = written(value, form, lang, variant.frame, record.image_size)
        return [(task_prompt.words(record, variant, prompts), answer)]
    steps = [reference(record, form, lang, step) for step in range(len(record.steps))]
    said = [str(step) for step in steps if step is not None]
    if not said or len(said) < len(steps):
        return []
    if not variant.rounds:
        return [(task_prompt.words(record, variant, prompts), chain(said))]
    return [(task_prompt.round_words(record, variant, i, said[:i], prompts), said[i]) for i in range(len(said))]


def training_rows(
    record: Record, task: ExportTask, asked_and_right: list[Turn], images: list[str]
) -> Iterator[dict[str, Any]]:
    for number, (question, answer) in enumerate(asked_and_right):
        rounds = f"#{number + 1}" if len(asked_and_right) > 1 else ""
        yield {
            "id": f"{task.name}:{record.id}{rounds}",
            "messages": [
                {"role": "user", "content": "<image>" * len(images) + without_tags(question)},
                {"role": "assistant", "content": without_tags(answer)},
            ],
            "images": images,
        }


# The picture files of a training file: the originals where nothing is drawn, else drawn once into a folder.
#
# DIR/<first 2 digits>/<sha256 of the file, 32 digits>.jpg    JPEG, quality 95, no chroma subsampling
#
# A file is named by its content: the same command finds what it drew before, and two exports may share a folder.
# As models behind an endpoint are sent their images; subsampling would blur a red outline of two pixels.
JPEG: dict[str, Any] = {"format": "JPEG", "quality": 95, "subsampling": 0}


class TrainingImages:
    """`original` and `drawn` count files, not questions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.original: set[Path] = set()
        self.drawn: set[Path] = set()
        self._turned: dict[Path, bool] = {}
        self._done: dict[tuple[Any, ...], list[str]] = {}

    def of(self, record: Record, image_root: Path, variant: TaskVariant) -> list[str]:
        """Absolute paths, in the order in which the model is shown them. DataError where an image is not whole."""
        stored = task_prompt.untouched(record, variant)
        if stored is not None:
            paths = [(image_root / path).absolute() for path in stored]
            if not any(self._is_turned(path) for path in paths):
                self.original.update(paths)
                return [str(path) for path in paths]
        # What the picture depends on: a frame that is asked about many times is drawn once.
        key = (image_root, record.images, record.mark, record.benchmark, variant.mark, variant.coords, variant.layout,
               variant.views)  # fmt: skip
        if key not in self._done:
            self._done[key] = [str(self._write(image)) for image in task_prompt.pictures(record, image_root, variant)]
        return self._done[key]

    def _is_turned(self, path: Path) -> bool:
        """Evaluation shows pixels as stored; who trains may turn a file that says so in its header."""
        if path not in self._turned:
            self._turned[path] = visual.is_turned(path)
        return self._turned[path]

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
