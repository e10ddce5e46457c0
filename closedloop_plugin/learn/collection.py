"""Collections: folders of `ad2 drive collect`, drive runs whose recorder is a FrameCollector.

DIR/routes.xml            the made routes
DIR/frames/*/...          pictures and frames, see frame_collector.py
DIR/questions.jsonl       of `ad2 drive label`
DIR/training_set.json     what a model that is trained on the folder has seen
DIR/run.json, episodes.jsonl, ...      as of every run, see runner/store.py

The expert knows all of the scene, a model only what the front camera shows. A car that comes from behind makes the
expert wait, the picture is that of a free road: from such frames a model learns to stand on free roads. What nobody
could see in the picture is therefore not asked (`reason_is_shown`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.storage.files import open_regular
from lmms_eval_ad2.storage.image_files import path_fault
from lmms_eval_ad2.storage.shown_image import read_header
from lmms_eval_ad2.storage.untrusted_json import parse

ROUTES, FOLDER, QUESTIONS = "routes.xml", "frames", "questions.jsonl"
FRAMES_FILE = "frames.jsonl"
CAMERA = "front"
LONGEST_LINE = 4 << 20  # bytes of a frame


def frames_files(folder: Path) -> list[Path]:
    """The frames files of a collection, one per finished episode, by name. Raises Ad2Error if there is none."""
    files = sorted((folder / FOLDER).glob(f"*/{FRAMES_FILE}"))
    if not files:
        raise Ad2Error(f"{folder}: no collected frames ({FOLDER}/*/{FRAMES_FILE}); make some with: ad2 drive collect")
    return files


def episode_file(folder: Path, key: str) -> Path:
    """The frames file of an episode; it exists once the episode is finished. key: <route>_rep<k>."""
    return folder / FOLDER / key / FRAMES_FILE


def frames_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, frame) of an episode in order of time.

    Of each frame, "image" is the name of a file in the same folder, and "label" has the texts "action" and "trajectory"
    and a "reason" of a "kind". Raises DataError for any other line.
    """
    with open_regular(file) as handle:
        for number, line in enumerate(iter(lambda: handle.readline(LONGEST_LINE + 1), b""), 1):
            if len(line) > LONGEST_LINE:
                raise DataError(file, number, "line", f"at most {LONGEST_LINE >> 20} MiB", f"{len(line)} bytes or more")
            try:
                row = parse(line)
            except ValueError as exc:
                raise DataError(file, number, "line", "one JSON object", str(exc), "Collect it again.") from exc
            if fault := _frame_fault(row):
                raise DataError(file, number, *fault, "Collect it again.")
            yield number, row


def picture_size(file: Path, number: int, frame: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of the picture of a frame of `frames_of(file)`, px. Raises DataError if it cannot be read."""
    try:
        return read_header(file.parent / frame["image"]).size
    except OSError as exc:
        raise DataError(file, number, "image", "a picture in the same folder", frame["image"], str(exc)) from exc


def frame_count(files: Sequence[Path]) -> int:
    """Number of frames, without reading their values."""
    total = 0
    for file in files:
        with file.open("rb") as lines:
            total += sum(1 for _ in lines)
    return total


def _frame_fault(row: Any) -> tuple[str, str, Any] | None:
    """The first violated condition of a frame, as (field, expected, found), or None."""
    if not isinstance(row, dict):
        return "line", "one JSON object", type(row).__name__
    if not _is_text(row.get("id")):
        return "id", "a text", row.get("id")
    name, label = row.get("image"), row.get("label")
    if path_fault(name) or PurePosixPath(str(name)).name != name:
        return "image", "the name of a picture in the same folder", name
    if not isinstance(label, dict):
        return "label", "an object", label
    for key in ("action", "trajectory"):
        if not _is_text(label.get(key)):
            return f"label.{key}", "a text", label.get(key)
    reason = label.get("reason")
    if not isinstance(reason, dict) or not isinstance(reason.get("kind"), str):
        return "label.reason", 'an object with the text "kind"', reason
    return None


def _is_text(value: Any) -> bool:
    """Whether it is one line that can be written and asked about, without tags of prompts."""
    return isinstance(value, str) and bool(value) and value.isprintable() and "<" not in value


MOVES_M_S = 0.5
LEAST_PIXELS = 6  # of an actor; fewer than for a question about it (`shown`), as a part of a car is a reason
FREE = frozenset({"clear", "speed_limit", "curve", "passing", "line_ahead"})  # no one is waited for


def reason_is_shown(frame: Mapping[str, Any]) -> bool:
    """False if the reason of the label is an actor, a signal or a sign that the picture does not show.

    A wait for a gap names no actor: then any moving object in the picture is a reason.
    """
    kind, actor = frame["label"]["reason"]["kind"], frame["label"]["reason"]["actor"]
    if kind in FREE:
        return True
    if kind in ("red_light", "stop_sign"):
        return any(_holds(signal, kind) for signal in frame["signals"])
    shown = [each for each in frame["objects"] if each["pixels"] >= LEAST_PIXELS]
    if actor is not None:
        return any(each["id"] == actor for each in shown)
    return kind != "yield" or any(each["speed"] > MOVES_M_S for each in shown)


def shown_kind(frame: Mapping[str, Any]) -> str:
    """The kind of the reason as the picture tells it: the way to a line is clear until its light or sign is seen."""
    kind = str(frame["label"]["reason"]["kind"])
    lines = (_holds(each, held) for each in frame["signals"] for held in ("red_light", "stop_sign"))
    return "clear" if kind == "line_ahead" and not any(lines) else kind


def _holds(signal: Mapping[str, Any], kind: str) -> bool:
    """Whether it is one of the route's that the picture shows; of a light, also its colour."""
    if not signal["on_route"] or (signal["control"] == "signal") != (kind == "red_light"):
        return False
    return bool(signal["state_pixels"] > 0 if kind == "red_light" else signal["shown"])
