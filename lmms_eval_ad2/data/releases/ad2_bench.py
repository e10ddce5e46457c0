"""AD2-Bench in a schema of this project: the paper (section 3, A.1) describes the fields, but no release was found.

Coordinates may be in pixels or normalised to 0..1; records have pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.records import FORMS, MARKS, AnswerOption, BilingualText, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.data.releases.base import BenchmarkRelease, OpenedRelease
from lmms_eval_ad2.data.releases.stream import open_rows
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow, plain

SCHEMA = """\
SOURCE: a file of JSON lines, or one JSON array; one object per question.
Images: --images DIR (default: the folder of the file).

  id            string, unique
  image         path relative to the image folder (or images: a list of paths)
  image_size    [width, height] in pixels; needed where coords_frame is "normalised"
  dimension     perception_base | perception_advanced | relation | reasoning
  subtask       string: existence, existence_left_right, category, counting, location, detection,
                reference_detection, attribute, dense_caption, ocr, lane_line, motion, position, others,
                spatial, social, causal, occlusion, weather, night, region, occlusion_reasoning, cross_role,
                holistic, or any other name
  subtask_id    whole number or null (1 to 33 in the paper; others are kept)
  form          mc | vqa | yesno | count | point | box | ocr | chain
                a row of form vqa with options and letter has both forms
  question      "text" or {"en": "...", "zh": "..."}
  options       {"A": text, ..., "F": text} or null; E: none of the options matches, F: the target is not in the image
  letter        the correct option; may be omitted if answer is that letter or that option's text
  answer        mc, vqa, ocr: text | yesno: yes or no, or left or right | count: whole number | point: [x, y]
                box: [x_min, y_min, x_max, y_max] | both forms: the free-text reference; the option may be shorter
  coords_frame  pixel (default) | normalised (0..1 of width and height); applies to answer and prompt
  prompt        {"type": none | text | point | box, "coords": [[...], ...], "text": text} or null; text refers to the
                target in words
  scene         {"weather": "fog", "severity": light | moderate | severe, "tags": ["..."]} or null; each may be omitted;
                weathers of the paper: overcast, dawn, rainy, snowy, fog, night, sand; other words are kept
  cot           [{"step": text, "question": text, "answer": text, "subtask_id": number, "prompt": {...}}, ...]
                or null; the prompt of a step (as above) replaces the row's if the chain is asked in rounds

A row with cot gives two records: the question itself, and a chain of thought (task cot, "#cot" appended to the id).
A row of form chain gives only the chain.
A task asks a row with both forms in the form that suits its sub-task: perception and relation as mc; dense_caption,
others and reasoning as vqa. The tasks ad2x_*_mc and ad2x_*_vqa ask the form that they name.
"""

DIMENSIONS = ("perception_base", "perception_advanced", "relation", "reasoning")
FIELDS = (
    "id", "image", "images", "image_size", "dimension", "subtask", "subtask_id", "form", "question", "options",
    "letter", "answer", "coords_frame", "prompt", "scene", "cot", "meta",
)  # fmt: skip
SEVERITIES = ("light", "moderate", "severe")
_KINDS = {"E": "none_matches", "F": "absent"}
_YES_NO = {"yes": "yes", "no": "no", "是": "yes", "否": "no", "true": "yes", "false": "no"}
_SIDES = {
    "left": "left",
    "right": "right",
    "左": "left",
    "右": "right",
    "左侧": "left",
    "右侧": "right",
    "左边": "left",
    "右边": "right",
}
_COORDS = {"point": 2, "box": 4}


def open_release(source: Path, *, split: str | None, images: Path | None, options: Mapping[str, str]) -> OpenedRelease:
    return open_rows(source, split, images, records_of)


def records_of(row: UntrustedRow) -> list[Record]:
    """The record of a row, and its chain of thought as a second record."""
    row.only(FIELDS)
    form: Any = row.choice("form", FORMS)
    steps = tuple(_step(row, inner, number) for number, inner in enumerate(row.inners("cot"), 1))
    if form == "chain" and not steps:
        raise row.fail("cot", "at least one step for form chain", row.get("cot"))
    options = _options(row)
    answer, letter = _answer(row, form, options)
    images = row.image_list()
    record = Record(
        id=row.string("id"), benchmark="ad2_bench", task=row.choice("dimension", DIMENSIONS),
        subtask=row.string("subtask"), form=form, images=images, question=row.text("question"), answer=answer,
        letter=letter, options=_with_kinds(options, letter), mark=_mark(row, row) or VisualPrompt(),
        image_size=row.size("image_size"), subtask_id=row.integer("subtask_id"), cluster=images[0], scene=_scene(row),
        meta=dict(meta.data) if (meta := row.inner("meta")) else {},
    )  # fmt: skip
    if not steps:
        return [record]
    name = record.id if form == "chain" else f"{record.id}#cot"
    # The final answer of a chain: the reference as text, or the canonical text of a typed answer.
    final = next((o.text for o in record.options if o.letter == record.letter), record.answer)
    chain = dataclasses.replace(
        record, id=name, task="cot", form="chain", steps=steps, answer=final, options=(), letter=""
    )
    return [chain] if form == "chain" else [record, chain]


def _step(row: UntrustedRow, inner: UntrustedRow, number: int) -> ReasoningStep:
    inner.only(("step", "question", "answer", "subtask_id", "prompt"))
    step = inner.get("step")
    given = BilingualText(str(step)) if type(step) is int else inner.text("step", required=False)
    mark = _mark(row, inner)
    name = given or BilingualText(f"step {number}", f"步骤{number}")
    return ReasoningStep(name, inner.text("question"), inner.text("answer"), inner.integer("subtask_id"), mark)


def _options(row: UntrustedRow) -> dict[str, BilingualText]:
    inner = row.inner("options")
    if inner is None:
        return {}
    letters = sorted(inner.data)
    if letters != [chr(ord("A") + i) for i in range(len(letters))] or not 2 <= len(letters) <= 6:
        raise row.fail("options", "letters A, B, ... without a gap, two to six", letters)
    return {letter: inner.text(letter) for letter in letters}


def _with_kinds(options: Mapping[str, BilingualText], letter: str) -> tuple[AnswerOption, ...]:
    return tuple(
        AnswerOption(name, text, _KINDS.get(name, "correct" if name == letter else "distractor"))
        for name, text in options.items()
    )


def _answer(row: UntrustedRow, form: str, options: Mapping[str, BilingualText]) -> tuple[BilingualText, str]:
    """The reference answer and the correct letter ("" without options)."""
    if options:
        return _chosen(row, form, options)
    if form == "mc":
        raise row.fail("options", "options for form mc", row.get("options"))
    if row.get("letter"):
        raise row.fail("letter", "no letter without options", row.get("letter"))
    return _typed(row, form), ""


def _chosen(row: UntrustedRow, form: str, options: Mapping[str, BilingualText]) -> tuple[BilingualText, str]:
    given = row.string("letter", "")
    if given and given not in options:
        raise row.fail("letter", f"one of {', '.join(options)}", given)
    if form not in ("mc", "vqa"):
        answer = _typed(row, form)
        if not given:
            raise row.fail("letter", f"the letter of the correct option (form {form} with options)", None)
        return answer, given
    answer = row.text("answer", required=not given)
    if not answer:
        if form == "vqa" and given in _KINDS:
            raise row.fail("answer", f"an answer to the open question, which option {given} is not", None)
        return options[given], given
    named = answer.en if answer.en in options and not answer.zh else ""
    same = [letter for letter, text in options.items() if _agree(text, answer)]
    letter = given or named or (same[0] if len(same) == 1 else "")
    if not letter:
        raise row.fail(
            "letter", "the correct letter, or an answer that is one option's letter or text", answer.get("en")
        )
    if named and named != letter:
        raise row.fail("letter", f"the letter that answer names ('{named}')", letter)
    if same and letter not in same:
        raise row.fail("letter", f"the letter of the option that answer repeats ({', '.join(same)})", letter)
    return (options[letter] if named else answer), letter


def _agree(a: BilingualText, b: BilingualText) -> bool:
    """Whether two texts are equal, ignoring case, in every language that both have (at least one)."""
    both = [(x, y) for x, y in ((a.en, b.en), (a.zh, b.zh)) if x and y]
    return bool(both) and all(x.casefold() == y.casefold() for x, y in both)


def _typed(row: UntrustedRow, form: str) -> BilingualText:
    value = row.get("answer")
    if form == "yesno":
        word = str(value).lower() if isinstance(value, bool) else row.text("answer").get("en").lower().rstrip(".。")
        if word not in _YES_NO and word not in _SIDES:
            raise row.fail("answer", "yes or no, or left or right", value)
        return BilingualText(en=_YES_NO.get(word) or _SIDES[word])
    if form == "count":
        number = value if type(value) is int else row.text("answer").get("en")
        if not (str(number).isascii() and str(number).isdigit() and len(str(number)) <= 9):
            raise row.fail("answer", "a whole number, 0 or more", value)
        return BilingualText(en=str(int(number)))
    if form in _COORDS:
        coords = _pixels(row, "answer", value, _COORDS[form])
        shown = [plain(number) for number in coords]
        return BilingualText(en=f"<{','.join(shown)}>" if form == "point" else f"[{', '.join(shown)}]")
    return row.text("answer", required=form != "chain")


def _pixels(row: UntrustedRow, field: str, value: Any, length: int) -> tuple[float, ...]:
    """A point or box in pixels of the image; raises DataError for one outside it, or a box without area."""
    coords = row.numbers(field, value, length)
    size = row.size("image_size")
    if row.choice("coords_frame", ("pixel", "normalised"), "pixel") == "normalised":
        if size is None:
            raise row.fail("image_size", "[width, height], since coords_frame is normalised")
        if not all(0 <= number <= 1 for number in coords):
            raise row.fail(field, "numbers from 0 to 1 (coords_frame: normalised)", value)
        coords = tuple(round(number * size[i % 2], 2) for i, number in enumerate(coords))
    if size is not None and not all(0 <= number <= size[i % 2] for i, number in enumerate(coords)):
        raise row.fail(field, f"pixels inside the image of {size[0]}x{size[1]}", value)
    if any(number < 0 for number in coords):
        raise row.fail(field, "pixels, 0 or more", value)
    if length == 4 and not (coords[0] < coords[2] and coords[1] < coords[3]):
        raise row.fail(field, "a box with x_min < x_max and y_min < y_max", value)
    return coords


def _mark(row: UntrustedRow, part: UntrustedRow) -> VisualPrompt | None:
    """The visual prompt of `part`, which is the row or one of its steps; None if it has none."""
    prompt = part.inner("prompt")
    if prompt is None:
        return None
    prompt.only(("type", "coords", "text"))
    kind: Any = prompt.choice("type", MARKS, "none")
    values = prompt.listing("coords", required=kind in _COORDS)
    if values and kind not in _COORDS:
        raise prompt.fail("coords", f"no coordinates for type {kind}", values)
    coords = tuple(_pixels(row, f"{prompt.prefix}coords", value, _COORDS[kind]) for value in values)
    return VisualPrompt(kind, coords, prompt.text("text", required=False))


def _scene(row: UntrustedRow) -> dict[str, Any]:
    scene = row.inner("scene")
    if scene is None:
        return {}
    scene.only(("weather", "severity", "tags"))
    return {
        "weather": scene.string("weather", ""),
        "severity": scene.choice("severity", SEVERITIES, ""),
        "tags": list(scene.strings("tags")),
    }


RELEASE = BenchmarkRelease(
    "ad2_bench", "AD2-Bench (local data in our schema; no public release was found)", SCHEMA, open_release
)
