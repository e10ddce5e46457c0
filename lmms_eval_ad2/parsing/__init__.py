"""Parse a model's text into an Answer, or Unparsed with a reason. Never raises for any text, never guesses.

The last explicit verdict counts, if it is one of the offered answers; two that are both called the answer, differ, and
are not corrected contradict each other. English and Chinese, full-width and half-width
characters, Markdown, LaTeX and JSON are supported; text between thinking tags is ignored. Parsing takes time linear in
the length of the text; an answer of more than LONGEST characters is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmms_eval_ad2.core.coordinates import Frame
from lmms_eval_ad2.core.records import YES_NO, Answer, Form, Unparsed
from lmms_eval_ad2.parsing.attributed import without_attributed
from lmms_eval_ad2.parsing.chain import read_chain
from lmms_eval_ad2.parsing.count import read_count
from lmms_eval_ad2.parsing.free_text import read_ocr, read_vqa
from lmms_eval_ad2.parsing.geometry import read_box, read_point
from lmms_eval_ad2.parsing.json_answers import answer_in_json
from lmms_eval_ad2.parsing.native_forms import with_html_boxes
from lmms_eval_ad2.parsing.normalise import plain
from lmms_eval_ad2.parsing.option import read_option
from lmms_eval_ad2.parsing.presence import lacks_located
from lmms_eval_ad2.parsing.question_words import names_another
from lmms_eval_ad2.parsing.reasons import FAILURES, REASONS, failure_reason
from lmms_eval_ad2.parsing.refusals import asks_for_picture
from lmms_eval_ad2.parsing.wrappers import unwrap
from lmms_eval_ad2.parsing.yesno import read_yesno

LONGEST = 100_000  # characters of an answer, without its thoughts; a longer one is a loop, and takes seconds to read
# AD2-Bench section 3.2: marks of the answer to a question for a box.
_OUTPUT_TAG = re.compile(r"<\s?/?OUTPUT[ _]?(?:START|END)\s?>", re.IGNORECASE)

__all__ = ["FAILURES", "REASONS", "Frame", "failure_reason", "parse"]


def parse(
    text: str,
    form: Form,
    *,
    letters: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    image_size: tuple[int, int] | None = None,
    frame: Frame = "auto",
    model_input: tuple[int, int] | None = None,
    n_steps: int = 0,
    question: str = "",
    words: tuple[str, str] = YES_NO,
) -> Answer | Unparsed:
    """Parse `text` as an answer of `form`; the reasons of an Unparsed are listed in `REASONS`.

    mc: `letters` are those offered (default: those of `options`, else A to F); `options` maps a letter to its text, so
    that an option quoted verbatim can be recognised.
    point, box: pixels of the stored image, of (width, height) `image_size`. `frame` is the frame of the model's numbers
    (coordinates.Frame, see geometry.place); "model_input" needs `model_input`, the (width, height) of the image as the
    model sees it. Values outside the image are kept, with a note.
    chain: `n_steps` strings, see `read_chain`.
    `question` is used only to know what is asked for; `words`: the two answers of a yes/no question.
    """
    failed = failure_reason(text)
    if failed:
        return Unparsed(form, failed, text[:200])
    reply = _answer_within(text, form, question)
    if isinstance(reply, Unparsed):
        return reply
    match form:
        case "vqa":
            return read_vqa(reply)
        case "ocr":
            return read_ocr(reply, question)
        case "chain":
            return read_chain(reply, n_steps)
        case "point" | "box":
            reply = plain(with_html_boxes(reply))
            if lacks_located(reply, question):
                return Unparsed(form, "refusal", text[:200])
            if names_another(reply.lower(), question):
                return Unparsed(form, "no_verdict", text[:200])
            read = read_point if form == "point" else read_box
            return read(reply, image_size, frame, model_input, question)
    reply = plain(reply)
    if asks_for_picture(reply):
        return Unparsed(form, "refusal", text[:200])
    if form != "mc":
        reply = without_attributed(reply)
    match form:
        case "mc":
            return read_option(reply, letters or tuple(options or "ABCDEF"), options or {}, question)
        case "yesno":
            return read_yesno(reply, question, words)
        case "count":
            return read_count(reply, question)
    raise ValueError(f"unknown form {form!r}")


def _answer_within(text: str, form: Form, question: str) -> str | Unparsed:
    """The text of the answer: without wrappers, and in JSON the value that is called the answer."""
    reply, unfinished = unwrap(text)
    if not reply:
        return Unparsed(form, "unfinished_thought" if unfinished else "empty", text[:200])
    if len(reply) > LONGEST:
        return Unparsed(form, "too_long", reply[:200])
    if form in ("point", "box"):  # marks and JSON say what the numbers are
        return reply
    reply = _OUTPUT_TAG.sub(" ", reply).strip()
    inner = answer_in_json(reply, form, question) if form != "chain" else None
    reply = reply if inner is None else inner
    return reply if reply.strip() else Unparsed(form, "empty", text[:200])
