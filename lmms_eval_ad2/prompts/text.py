"""Build the prompt text of a record (docs/prompts.md).

The answer formats are the published ones: AD2-Bench Table 4 (options, box), section 3.3 and appendix A.10 (points,
chains of thought); CODA-LM's red rectangle or normalised coordinates; AutoDrive-QA's options A to D. The wording is
ours and can be replaced (PromptSet).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from lmms_eval_ad2.core.coordinates import EXTENTS, Frame
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import ABSTAINING, SIDES, Form, Lang, ReasoningStep, Record, VisualPrompt
from lmms_eval_ad2.prompts.marks import MarkChoice, effective_mark, unit_coords
from lmms_eval_ad2.prompts.prompt_set import PromptSet, placeholders
from lmms_eval_ad2.prompts.views import CAMERAS, GRID, Layout, Views, is_mosaic, shown

__all__ = ["PromptSet", "build", "build_round", "can_ask", "effective_mark"]

_TAG = re.compile(r"<[A-Za-z]\w*,\s*CAM_[A-Z_]+,\s*-?[\d.]+,\s*-?[\d.]+>")
# A model's own image token inside a question would be counted as one more image.
_IMAGE_TOKEN = re.compile(r"<image>\s?")
_MCQ = ("autodrive_qa", "drivelm", "nuscenes_qa", "lingoqa")  # AutoDrive-QA and its sources
_OPEN_FORMS: tuple[Form, ...] = ("mc", "yesno", "count", "ocr", "chain")


def can_ask(record: Record, form: Form) -> bool:
    """Whether a record can be asked as `form`: its own form, mc with options, vqa with an answer, chain with steps.

    Options need a correct letter, unless the release has no answers (the challenge files of DriveLM).
    The correct option is the answer of a multiple-choice record that has no other, unless it is AD2-Bench's E or F.
    """
    if form == "mc":
        return bool(record.options and (record.letter or record.meta.get("unanswered")))
    if form == "chain":
        return bool(record.steps)
    if form == record.form:
        return True
    if form != "vqa" or record.form not in _OPEN_FORMS:
        return False
    right = record.right_option
    if record.form == "mc" and right is not None and "vqa" not in record.forms:
        return bool(right.text) and right.kind not in ABSTAINING
    return bool(record.answer)


def build(
    record: Record, *, lang: Lang = "en", form: Form | None = None, style: Literal["direct", "chain"] = "direct",
    coords: bool = False, prompts: PromptSet | None = None, mark: MarkChoice = "native", layout: Layout = "list",
    views: Views = "all", frame: Frame = "auto",
) -> str:  # fmt: skip
    """The complete text prompt of one turn.

    form: ask in this form instead of the record's own; style "chain": all steps, with tags, in one turn.
    coords: give marked regions as coordinates in the text, normalised to 0..1 (render the image with mark "none").
    mark, layout, views: as passed to `visual.render`, so that text and image agree.
    frame: coordinate frame in which points and boxes are to be answered; "auto" is pixels. "model_input" asks for
    pixels without naming the stored size, which is not the size that the model sees.
    Raises Ad2Error if the record cannot be asked in this way.
    """
    prompts = prompts or PromptSet.load()
    wanted: Form = "chain" if style == "chain" else form or record.form
    if not can_ask(record, wanted):
        raise Ad2Error(
            f"{record.id}: a record of form '{record.form}' cannot be asked as '{wanted}': it has no "
            + {"mc": "options with a correct letter", "chain": "steps"}.get(wanted, "free-text reference answer")
        )
    if coords and not record.mark.coords:
        raise Ad2Error(f"{record.id}: there is no marked region with coordinates; ask without coords")
    shown_mark = effective_mark(record, "coords" if coords else mark)
    if record.benchmark == "coda_lm" and wanted == "vqa":
        return _coda(record, lang, shown_mark, prompts)
    notes = [*_view_notes(record, lang, layout, views, prompts), *_tag_note(record, lang, prompts)]
    notes += _mark_note(record, lang, shown_mark, prompts)
    question = "\n".join([*notes, _plain(record.question.get(lang))])
    return _FORMS[wanted](record, lang, question, prompts, frame)


def build_round(
    record: Record, step: int, previous: Sequence[str], *, lang: Lang = "en", prompts: PromptSet | None = None,
    mark: MarkChoice = "native", layout: Layout = "list", views: Views = "all",
) -> str:  # fmt: skip
    """The prompt of step `step` (from 0) if a chain is asked over several rounds.

    previous: the model's answers to the `step` steps before; they are repeated in the text, and the images are shown
    again (AD2-Bench Fig. 4).
    """
    if not record.steps:
        raise Ad2Error(f"{record.id}: it has no steps, so it cannot be asked in rounds")
    if not 0 <= step < len(record.steps) or len(previous) < step:
        raise ValueError(f"step {step} of {len(record.steps)} with {len(previous)} previous answers")
    prompts = prompts or PromptSet.load()
    notes = _view_notes(record, lang, layout, views, prompts)
    notes += _mark_note(record, lang, effective_mark(record, mark, step), prompts)
    history = "".join(
        prompts.fill("round_history", lang, **_step(s, i, lang), answer=answer.strip()) + "\n"
        for i, (s, answer) in enumerate(zip(record.steps[:step], previous, strict=False), 1)
    )
    current = _step(record.steps[step], step + 1, lang)
    text = prompts.fill(
        "round", lang, question=_plain(record.question.get(lang)), history=history, i=current["i"],
        n=len(record.steps), name=current["name"], step=current["question"],
    )  # fmt: skip
    return "\n".join([*notes, text])


# --- forms ---


def _mc(record: Record, lang: Lang, question: str, prompts: PromptSet, frame: Frame) -> str:
    lines = "\n".join(f"({o.letter}) {_plain(o.text.get(lang))}" for o in record.options)
    key = "mcq" if record.benchmark in _MCQ else "mc"
    return prompts.fill(key, lang, question=question, options=lines, letters=_letters(record, lang))


def _free(record: Record, lang: Lang, question: str, prompts: PromptSet, frame: Frame) -> str:
    key = "mcq_vqa" if record.benchmark in _MCQ else f"vqa_{record.task}"
    return prompts.fill(key if key in prompts.texts["en"] else "vqa", lang, question=question)


def _typed(record: Record, lang: Lang, question: str, prompts: PromptSet, frame: Frame) -> str:
    return prompts.fill("side" if record.words == SIDES else record.form, lang, question=question)


def _spatial(record: Record, lang: Lang, question: str, prompts: PromptSet, frame: Frame) -> str:
    if frame in EXTENTS:
        frame_text = prompts.fill(f"frame_{frame}", lang)
    elif record.image_size is None or frame == "model_input":
        frame_text = prompts.fill("frame_pixel", lang)
    else:
        frame_text = prompts.fill("frame_pixel_size", lang, width=record.image_size[0], height=record.image_size[1])
    key = f"{record.form}_yx" if frame == "thousand_yx" else record.form
    return prompts.fill(key, lang, question=question, frame=frame_text)


def _chain(record: Record, lang: Lang, question: str, prompts: PromptSet, frame: Frame) -> str:
    rows = [_step(s, i, lang) for i, s in enumerate(record.steps, 1)]
    steps = "\n".join(prompts.fill("chain_step", lang, **r) for r in rows)
    tags = "\n".join(prompts.fill("chain_tag", lang, **r) for r in rows)
    return prompts.fill("chain", lang, question=question, n=len(rows), steps=steps, tags=tags)


_FORMS = {
    "mc": _mc, "vqa": _free, "yesno": _typed, "count": _typed, "ocr": _typed,
    "point": _spatial, "box": _spatial, "chain": _chain,
}  # fmt: skip


def _coda(record: Record, lang: Lang, mark: VisualPrompt, prompts: PromptSet) -> str:
    """CODA-LM's prompt: English, also for Chinese annotations, unless the data or the prompt file has Chinese."""
    question = _plain(record.question.get(lang)) or prompts.fill(f"coda_{record.task}_question", lang)
    if record.task != "region":
        return prompts.fill(f"coda_{record.task}", lang, question=question)
    if mark.kind == "text" and prompts.of("coda_region_coords", lang):
        return prompts.fill("coda_region_coords", lang, coords=_coords(record, mark), question=question)
    if record.mark.coords and mark.kind != "box" and "mark" not in placeholders(prompts.of("coda_region", lang) or ""):
        raise Ad2Error(
            f"{record.id}: the question of {prompts.name} has no place for {{mark}} (it is about a drawn rectangle, "
            "which this task does not show); ask this task with other prompts"
        )
    note = ""  # without a mark, the rectangle is already part of the released image (format llava)
    if mark.coords:
        coords = {"coords": _coords(record, mark)} if mark.kind == "text" else {}
        note = prompts.fill(f"coda_region_{mark.kind}", lang, **coords) + " "
    return prompts.fill("coda_region", lang, mark=note, question=question)


# --- parts ---


def _plain(text: str) -> str:
    return _IMAGE_TOKEN.sub("", text).strip()


def _step(step: ReasoningStep, number: int, lang: Lang) -> dict[str, object]:
    return {"i": number, "name": step.name.get(lang), "question": _plain(step.question.get(lang))}


def _letters(record: Record, lang: Lang) -> str:
    comma, last = (", ", " or ") if lang == "en" else ("、", "或")
    letters = [o.letter for o in record.options]
    return last.join([comma.join(letters[:-1]), letters[-1]]) if len(letters) > 1 else letters[0]


def _coords(record: Record, mark: VisualPrompt) -> str:
    rows = [", ".join(f"{v:.3f}" for v in c) for c in unit_coords(record, mark)]
    return ", ".join(f"[{r}]" if r.count(",") == 3 else f"<{r.replace(' ', '')}>" for r in rows)


def _mark_note(record: Record, lang: Lang, mark: VisualPrompt, prompts: PromptSet) -> list[str]:
    if mark.kind == "none":
        return []
    if mark.kind == "text" and mark.text:
        return [prompts.fill("mark_text", lang, text=_plain(mark.text.get(lang)))]
    n = len(mark.coords)
    if not n:
        return []
    shape = "box" if len(mark.coords[0]) == 4 else "point"
    key = f"mark_{shape}" if n == 1 else {"box": "mark_boxes", "point": "mark_points"}[shape]
    if mark.kind == "text":
        return [prompts.fill(f"{key}_coords", lang, coords=_coords(record, mark), n=n)]
    return [prompts.fill(key, lang, n=n)]


def _tag_note(record: Record, lang: Lang, prompts: PromptSet) -> list[str]:
    texts = [record.question.get(lang), *(o.text.get(lang) for o in record.options)]
    found = next((m[0] for t in texts if (m := _TAG.search(t))), None)
    if found is None:
        return []
    if record.image_size is None:
        size = prompts.fill("drivelm_size_unknown", lang)
    else:
        size = prompts.fill("drivelm_size", lang, width=record.image_size[0], height=record.image_size[1])
    return [prompts.fill("drivelm_tags", lang, tag=found, size=size)]


def _view_notes(record: Record, lang: Lang, layout: Layout, views: Views, prompts: PromptSet) -> list[str]:
    """Lines that describe the images; none for the single image of AD2-Bench and CODA-LM."""
    pairs = shown(record, views)
    names = [v for v, _ in pairs]
    if not pairs:
        raise DataError(record.benchmark, record.id, "images", "at least one image", record.images)
    if len(pairs) == 1:
        known = names[0] in CAMERAS
        return [prompts.fill("view_single", lang, view=prompts.fill(f"view_{names[0]}", lang))] if known else []
    # With the nuScenes name of the camera, which object tags and options use.
    labels = {v: f"{prompts.fill(f'view_{v}', lang)} (CAM_{v.upper()})" if v in CAMERAS else v for v in names}
    comma = ", " if lang == "en" else "、"
    if is_mosaic(pairs, layout):
        upper, lower = (comma.join(labels.get(c, "-") for c in row) for row in GRID)
        return [prompts.fill("views_mosaic", lang, upper=upper, lower=lower)]
    if not all(names):
        return [prompts.fill("views_unnamed", lang, n=len(pairs))]
    key = "views_list" if CAMERAS.issuperset(names) else "views_frames"
    return [prompts.fill(key, lang, n=len(pairs), views=comma.join(labels[v] for v in names))]
