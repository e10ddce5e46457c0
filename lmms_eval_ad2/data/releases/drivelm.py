"""DriveLM-nuScenes (OpenDriveLab/DriveLM, `challenge/`): question graphs over key frames with six cameras.

Ids are those of the challenge: `<scene>_<frame>_<index>`. The index counts perception, prediction, planning and
behavior questions in that order, including empty questions, which do not become records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import AnswerOption, BilingualText, Form, Record
from lmms_eval_ad2.data.drivelm_text import read_options, read_tags
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.base import (
    CAMERAS,
    SIZE,
    BadRow,
    BenchmarkRelease,
    Item,
    OmittedRow,
    OpenedRelease,
    camera_path,
    existing,
    image_folder,
    six_cameras,
)
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow

SCHEMA = """\
SOURCE: v1_1_train_nus.json, v1_1_val_nus_q_only.json, test_eval.json or a file of that form:
  {scene: {"key_frames": {frame: {
      "QA": {"perception": [...], "prediction": [...], "planning": [...], "behavior": [...]},   item: {"Q", "A", "tag"?}
      "image_paths": {"CAM_FRONT": "../nuscenes/samples/CAM_FRONT/....jpg", ... six cameras},
      "key_object_infos": {"<c1,CAM_BACK,1088.3,497.5>": {"Category", "Status", "Visual_description", "2d_bbox"}}}}}}
or the conversation form of the challenge (test_llama.json): [{"id", "image": [six paths], "conversations"}, ...];
it does not distinguish perception from planning, so its task is "all".

Images: --images DIR, the folder that contains samples/ (default: searched for next to SOURCE).
--split: train, val, test or another name (default: from the file name).

A question with lettered options becomes form mc (its options are removed from the question's text), one answered by
Yes or No form yesno, all others vqa. Empty questions are left out and counted. Without answers, records can be asked
but not scored (meta.unanswered).
"""

LAYERS = ("perception", "prediction", "planning", "behavior")
TAGS = {0: "accuracy", 1: "judged", 2: "language", 3: "match"}
_YES_NO = re.compile(r"(yes|no)\s*\.?", re.IGNORECASE)
_LEAD_IN = re.compile(r"\s*(?:please\s+)?(?:select|choose)[^.?!]*options?[^:]*:\s*\Z", re.IGNORECASE)
_SPLITS = ("train", "val", "test")


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    path = existing(source, "annotation file")
    if path.is_dir():
        raise Ad2Error(f"{path} is a folder: name the JSON file (see: ad2 data list drivelm --layout)")
    split = split or next((name for name in _SPLITS if name in path.stem.lower().split("_")), None)
    if not split:
        raise Ad2Error(f"drivelm: the file name {path.name} does not contain the split: give --split")
    folder = path.parent
    root = image_folder(images, [folder, folder / "images", folder / "nuscenes", folder.parent / "nuscenes"], "samples")
    read = _conversations if stream.first_token(path) == "[" else _graphs
    return OpenedRelease(split, root, lambda: read(path), [path])


def _graphs(path: Path) -> Iterator[Item]:
    for scene, data in stream.pairs(path):
        try:
            frames = UntrustedRow(data, path, scene).inner("key_frames")
            if frames is None:
                raise DataError(path, scene, "key_frames", "an object {...}")
        except DataError as exc:
            yield BadRow(exc)
            continue
        for frame, content in frames.data.items():
            yield from _frame(path, scene, frame, content)


def _frame(path: Path, scene: str, frame: str, content: Any) -> Iterator[Item]:
    try:
        row = UntrustedRow(content, path, f"{scene}/{frame}")
        paths, graph = row.inner("image_paths"), row.inner("QA")
        if paths is None or graph is None:
            raise row.fail("QA" if paths else "image_paths", "an object {...}")
        images, views = six_cameras(row, paths.data)
        unknown = sorted(set(graph.data) - set(LAYERS))
        if unknown:
            raise graph.fail(str(unknown[0]), f"one of {', '.join(LAYERS)}")
        infos = row.inner("key_object_infos")
        questions = [(layer, item) for layer in LAYERS for item in graph.listing(layer, required=False)]
    except DataError as exc:
        yield BadRow(exc)
        return
    objects = dict(infos.data) if infos else {}
    for index, (layer, item) in enumerate(questions):
        try:
            inner = UntrustedRow(item, path, f"{scene}/{frame}", f"QA[{index}].")
            question, answer = inner.string("Q", ""), inner.string("A", "")
            if not question:
                yield OmittedRow("empty question")
                continue
            tags = _tags(inner)
            meta: dict[str, Any] = {"scene": scene, "frame": frame, "index": index, "tag": tags}
            meta["objects"] = _objects(question, answer, objects)
            subtask = TAGS[tags[0]] if tags else layer
            yield _record(
                row=inner,
                name=f"{scene}_{frame}_{index}",
                task=layer,
                subtask=subtask,
                question=question,
                answer=answer,
                images=images,
                views=views,
                scene=scene,
                meta=meta,
            )
        except DataError as exc:
            yield BadRow(exc)


def _conversations(path: Path) -> Iterator[Item]:
    for number, data in enumerate(stream.items(path, "item"), 1):
        try:
            row = UntrustedRow(data, path, number)
            turns = {turn.string("from"): turn.string("value", "") for turn in row.inners("conversations")}
            question = turns.get("human", "").replace("<image>", "").strip()
            if not question:
                yield OmittedRow("empty question")
                continue
            images = tuple(camera_path(row, "image", value) for value in row.listing("image"))
            views = tuple(
                next((part for part in reversed(image.split("/")) if part in CAMERAS), "") for image in images
            )
            if set(views) != set(CAMERAS):
                raise row.fail("image", "one image of each of the six cameras", list(views))
            name = row.string("id")
            answer = turns.get("gpt", "")
            meta = {"objects": _objects(question, answer, {})}
            yield _record(
                row=row,
                name=name,
                task="all",
                subtask="all",
                question=question,
                answer=answer,
                images=images,
                views=views,
                scene=name.split("_")[0],
                meta=meta,
            )
        except DataError as exc:
            yield BadRow(exc)


def _record(
    row: UntrustedRow,
    name: str,
    task: str,
    subtask: str,
    question: str,
    answer: str,
    images: tuple[str, ...],
    views: tuple[str, ...],
    scene: str,
    meta: dict[str, Any],
) -> Record:
    form: Form = "vqa"
    letter, reference = "", answer
    options = read_options(question)
    if options:
        form = "mc"
        meta["question_raw"] = question
        question = _stem(question, options)
        letter = _letter(row, options, answer) if answer else ""
        reference = options.get(letter, "")
    elif _YES_NO.fullmatch(answer):
        form, reference = "yesno", answer.rstrip(". ").lower()
        meta["answer_raw"] = answer
    if not answer:
        meta["unanswered"] = True
    return Record(
        id=name,
        benchmark="drivelm",
        task=task,
        subtask=subtask,
        form=form,
        images=images,
        question=BilingualText(en=question),
        answer=BilingualText(en=reference),
        letter=letter,
        views=views,
        image_size=SIZE,
        cluster=scene,
        meta=meta,
        options=tuple(
            AnswerOption(a, BilingualText(en=b), "correct" if a == letter else "distractor") for a, b in options.items()
        ),
    )


def _stem(question: str, options: Mapping[str, str]) -> str:
    """The question without its options and the sentence that introduces them."""
    first = re.escape(options["A"])
    start = max((m.start() for m in re.finditer(rf"\(?A[.):]\s+{first}", question)), default=len(question))
    head = question[:start]
    return _LEAD_IN.sub("", head).strip() or question


def _letter(row: UntrustedRow, options: Mapping[str, str], answer: str) -> str:
    """The letter of the answer, given by letter ("B", "B.", "B. Going ahead.") or by the option's text."""
    bare = answer.strip().rstrip(".")
    if bare in options:
        return bare
    same = [a for a, text in options.items() if answer in (text, f"{a}. {text}", f"{a}) {text}")]
    if len(same) != 1:
        raise row.fail("A", f"one of the question's options ({', '.join(options)})", answer)
    return same[0]


def _tags(row: UntrustedRow) -> list[int]:
    tags = row.listing("tag", required=False)
    if not all(type(tag) is int and tag in TAGS for tag in tags):
        raise row.fail("tag", f"a list of {', '.join(map(str, TAGS))}", tags)
    return tags


def _objects(question: str, answer: str, infos: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects tagged in question and answer, each once; x, y in pixels of the camera's 1600x900 image."""
    known = {tag: info for key, info in infos.items() for tag in read_tags(str(key)) if isinstance(info, Mapping)}
    found: dict[Any, dict[str, Any]] = {}
    for where, text in (("question", question), ("answer", answer)):
        for tag in read_tags(text):
            entry = found.setdefault(tag, {**tag._asdict(), "in": []})
            if where not in entry["in"]:
                entry["in"].append(where)
            if tag in known:
                entry["info"] = dict(known[tag])
    return list(found.values())


RELEASE = BenchmarkRelease("drivelm", "DriveLM-nuScenes (OpenDriveLab/DriveLM)", SCHEMA, open_release)
